"""The check of replayed epochs: the receipt of a replay is compared with the receipt of the first attempt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from millstream.errors import AlteredLog, DifferentReplay
from millstream.log.epochs import EpochReceipt, PartitionName

__all__ = ["compare_replay"]


def compare_replay(
    first: EpochReceipt, again: EpochReceipt, partitions: Sequence[PartitionName], *, outputs: bool
) -> None:
    """Refuse a replay whose inputs differ; with `outputs`, also a replay whose steps or outputs differ.

    Without exactly_once, the model may have learned more since the first attempt, so outputs may differ.
    """
    where = f"epoch {again.epoch} differs on its replay"
    for rank in sorted(first.inputs.keys() | again.inputs.keys()):
        if first.inputs.get(rank) != again.inputs.get(rank):
            partition = partitions[rank]
            was, now = first.inputs.get(rank, (0, ""))[0], again.inputs.get(rank, (0, ""))[0]
            detail = f"{was} records became {now}" if was != now else f"the {now} records have other content"
            message = f"{where}: in {partition.source}/{partition.name} {detail}; the log was altered since"
            raise AlteredLog(message)
    if outputs:
        _compare_made(where, "step", first.steps, again.steps)
        _compare_made(where, "output", first.outputs, again.outputs)
        if (first.watermarks, first.held_by) != (again.watermarks, again.held_by):
            message = f"{where}: the watermark was {dict(first.watermarks)} and is {dict(again.watermarks)}"
            raise DifferentReplay(message)


def _compare_made(where: str, kind: str, first: Mapping[str, object], again: Mapping[str, object]) -> None:
    for name in [*again, *first]:
        if first.get(name) != again.get(name):
            message = (
                f"{where}: {kind} '{name}' gave another result for the same records; if it draws at random or "
                "reads a clock, say `deterministic: false` and choose another delivery"
            )
            raise DifferentReplay(message)
