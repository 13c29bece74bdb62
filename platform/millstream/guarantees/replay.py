"""The check of replayed epochs: the receipt of a replay is compared with the receipt of the first attempt."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from millstream.digests import Digest
from millstream.errors import AlteredLog, DifferentReplay
from millstream.log.epochs import EpochReceipt

__all__ = ["compare_replay"]


def compare_replay(
    first: EpochReceipt, again: EpochReceipt, *, outputs: bool, other_sinks: Collection[str] = ()
) -> None:
    """Refuse a replay whose inputs differ; with `outputs`, also a replay whose steps or outputs differ.

    Without exactly_once, the model may have learned more since the first attempt, so outputs may differ. The outputs in
    `other_sinks` are compared only if both attempts made them: their sinks were added or removed since.
    """
    where = f"epoch {again.epoch} differs on its replay"
    for source in sorted(first.inputs.keys() | again.inputs.keys()):
        was, now = first.inputs.get(source, Digest()), again.inputs.get(source, Digest())
        if was != now:
            other_content = f"the {now.count} records have other content"
            detail = other_content if was.count == now.count else f"{was.count} records became {now.count}"
            message = f"{where}: in the source '{source}' {detail}; the log was altered since"
            raise AlteredLog(message)
    if outputs:
        _compare_made(where, "step", first.streams, again.streams)
        one_sided = (first.outputs.keys() ^ again.outputs.keys()) & set(other_sinks)
        before, after = ({n: d for n, d in each.outputs.items() if n not in one_sided} for each in (first, again))
        _compare_made(where, "output", before, after)
        if (first.watermarks, first.held_by) != (again.watermarks, again.held_by):
            message = f"{where}: the watermark was {dict(first.watermarks)} and is {dict(again.watermarks)}"
            raise DifferentReplay(message)


def _compare_made(where: str, kind: str, first: Mapping[str, object], again: Mapping[str, object]) -> None:
    for name in [*again, *first]:
        if first.get(name) != again.get(name):
            message = (
                f"{where}: {kind} '{name}' gave another result for the same records; if it draws at random or "
                "reads a clock, mend it, or say `deterministic: false` and choose another delivery; "
                "then start over with --fresh"
            )
            raise DifferentReplay(message)
