"""The comparison of a history with the run whose cuts it has: by the digests that the run's receipts have."""

from __future__ import annotations

from collections.abc import Mapping

from millstream.digests import Digest
from millstream.errors import DifferentReplay
from millstream.log.epochs import EpochReader

__all__ = ["check_with_run"]


def check_with_run(run: EpochReader, epochs: int, made: Mapping[str, Digest]) -> bool:
    """Refuse digests that differ from those of the run; false if its receipts do not cover exactly these epochs.

    `made` has the digest of each step's records, or of each source's.
    """
    found: dict[str, Digest] = {}
    covered = 0
    for receipt in run.receipts():
        if receipt.attempt == 1 and receipt.last < epochs:
            covered += len(receipt.counts)
            for name, digest in [*receipt.streams.items(), *receipt.inputs.items()]:
                found[name] = found.get(name, Digest()) + digest
    if covered != epochs:
        return False
    for name in made:
        if (was := found.get(name, Digest())) != made[name]:
            message = (
                f"{name!r} gave {was} in the run and {made[name]} here, for the same cuts: the code or the libraries "
                "changed since, or a step is not deterministic"
            )
            raise DifferentReplay(message)
    return True
