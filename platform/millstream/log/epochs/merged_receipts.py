"""Merged receipts: one line of the epoch log for the receipts of up to 1,000 consecutive epochs.

A merged receipt has `[first, last]` as `receipt`, the sums of the counts and digests, and the last `watermarks`. In
addition it has `rows`, for each output the first and the last epoch that made rows, and `each`, the numbers of records
as pairs of a number and of how many consecutive epochs have it.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from millstream.digests import Digest
from millstream.log.epochs.epoch import Epoch, NewModel, SinkAdded, SinkRemoved, Swap
from millstream.log.journal import Entry

__all__ = ["merge_receipts"]

_MOST = 1000
_LAST = ("watermarks", "held_by", "rounds")
"""The keys of a receipt of which the value of the last epoch counts; `rounds` only where there is a cycle."""
_MARKS = (b'"sink', b'"model"', b'"swap"')
"""Parts of the lines of epochs with these events, which cost less to find than the events."""
_NO_SUMS = frozenset({"receipt", "attempt", *_LAST})


def merge_receipts(entries: Sequence[Entry], boundaries: Collection[int]) -> Iterator[Entry | None]:
    """Merge the first receipts of epochs; other lines stay as they are, and None is a pause.

    No merged receipt passes an epoch of `boundaries`, or a multiple of 1,000: these may become the base. None passes
    the beginning or the end of a sink, which gets only some of the rows, or an epoch with which a model changes.
    """
    boundaries = {*boundaries, *_before_events(entries)}
    kept: list[Entry] = []
    group: list[tuple[Entry, dict[str, Any]]] = []
    for number, entry in enumerate(entries):
        if number % 100 == 0:
            yield None
        line = json.loads(entry.payload) if entry.payload.startswith(b'{"receipt"') else {}
        if line.get("attempt") != 1:
            kept.append(entry)
            continue
        if group and not _continues(group[-1][1], line, boundaries):
            kept.append(_merged(group))
            group = []
        group.append((entry, line))
    if group:
        kept.append(_merged(group))
    yield from sorted(kept, key=lambda entry: entry.index)


def _before_events(entries: Sequence[Entry]) -> Iterator[int]:
    """The epochs just before those with which a sink begins or ends, or the model of a step changes."""
    for entry in entries:
        if entry.payload.startswith(b'{"epoch"') and any(mark in entry.payload for mark in _MARKS):
            epoch = Epoch.from_line(json.loads(entry.payload))
            if any(isinstance(event, SinkAdded | SinkRemoved | NewModel | Swap) for event in epoch.events):
                yield epoch.number - 1


def _continues(before: Mapping[str, Any], line: Mapping[str, Any], boundaries: Collection[int]) -> bool:
    epoch: int = before["receipt"]
    return line["receipt"] == epoch + 1 and line["receipt"] % _MOST != 0 and epoch not in boundaries


def _merged(group: Sequence[tuple[Entry, dict[str, Any]]]) -> Entry:
    if len(group) == 1:
        return group[0][0]
    lines = [line for _, line in group]
    rows: dict[str, list[int]] = {}
    for line in lines:
        for output in line["outputs"]:
            rows.setdefault(output, [line["receipt"], 0])[1] = line["receipt"]
    merged = {
        **_sum([{key: value for key, value in line.items() if key not in _NO_SUMS} for line in lines]),
        **{key: lines[-1][key] for key in _LAST if key in lines[-1]},
        "receipt": [lines[0]["receipt"], lines[-1]["receipt"]],
        "attempt": 1,
        "rows": rows,
        "each": [[records, len(list(same))] for records, same in itertools.groupby(line["records"] for line in lines)],
    }
    payload = json.dumps({key: merged[key] for key in [*lines[0], "rows", "each"]}, separators=(",", ":")).encode()
    return Entry(group[-1][0].index, -1, payload)


def _sum(values: Sequence[Any]) -> Any:
    """The sum of counts, of pairs of a count and the lanes of a digest, or of objects with such values."""
    if isinstance(values[0], dict):
        keys = dict.fromkeys(itertools.chain.from_iterable(values))
        return {key: _sum([value[key] for value in values if key in value]) for key in keys}
    if isinstance(values[0], list):
        both = sum(itertools.starmap(Digest.of, values), Digest())
        return [both.count, both.lanes]
    return sum(values)
