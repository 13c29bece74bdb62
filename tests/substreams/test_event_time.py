"""The watermark: the partitions that count, and the times that count."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

from millstream.substreams import Watermark
from millstream.substreams.event_time import EventTime, latest_times, reject_ahead


@dataclass(frozen=True)
class Boundary:
    """An epoch: new partitions (True: its source has times), greatest times by rank, idle and ended partitions."""

    latest: Mapping[int, int | None] = field(default_factory=dict)
    joined: Sequence[bool] = ()
    idle: Sequence[int] = ()
    ended: Sequence[int] = ()


def after(*epochs: Boundary) -> tuple[list[Watermark | None], int | None]:
    """The watermark after each epoch, and the partition that holds the last one; saved and restored in between."""
    clock, partitions, holder = EventTime(), 0, None
    found: list[Watermark | None] = []
    for epoch in epochs:
        for timed in epoch.joined:
            clock.join(partitions, timed=timed)
            partitions += 1
        clock.observe(epoch.latest)
        clock = EventTime.restore(clock.save())
        clock.boundary(epoch.ended, epoch.idle)
        holder = clock.holder
        clock = EventTime.restore(clock.save())
        found.append(clock.watermark)
    return found, holder


TWO = (True, True)
HOLDS = [
    ("the least counts", [Boundary({0: 50, 1: 20}, TWO)], 20, 1),
    ("nothing was cut of one yet", [Boundary({0: 50}, TWO)], None, 1),
    ("idle without a record", [Boundary({0: 50}, TWO, idle=[1])], 50, 0),
    ("records without a time", [Boundary({0: 50, 1: None}, TWO)], 50, 0),
    ("a source without times", [Boundary({0: 50, 1: None}, (True, False))], 50, 0),
    ("a source without times, unread", [Boundary({0: 50}, (True, False))], 50, 0),
    ("ended before a record", [Boundary({0: 50}, TWO, ended=[1])], 50, 0),
    ("idle", [Boundary({0: 50, 1: 20}, TWO), Boundary({0: 70}, idle=[1])], 70, 0),
    ("idle and back", [Boundary({0: 50, 1: 20}, TWO), Boundary({0: 70}, idle=[1]), Boundary({0: 90, 1: 80})], 80, 1),
    ("back with old records", [Boundary({0: 50, 1: 20}, TWO, idle=[1]), Boundary({0: 90, 1: 30})], 50, 1),
    ("idle in the epoch of its records", [Boundary({0: 50, 1: 20}, TWO, idle=[0])], 20, 1),
    ("all idle", [Boundary({0: 50, 1: 20}, TWO, idle=[0, 1])], 50, None),
    ("one idle, one ended", [Boundary({0: 50, 1: 70}, TWO, idle=[0], ended=[1])], 70, None),
    ("none has a time", [Boundary({0: None, 1: None}, TWO)], None, None),
    ("a new partition", [Boundary({0: 50}, (True,)), Boundary({0: 90}, (True,))], 50, 1),
    ("a time at last", [Boundary({0: 50, 1: None}, TWO), Boundary({0: 60, 1: 10})], 50, 1),
]


@pytest.mark.parametrize(("epochs", "time", "holder"), [case[1:] for case in HOLDS], ids=[case[0] for case in HOLDS])
def test_a_watermark_waits_for_the_partitions_that_count(
    epochs: list[Boundary], time: int | None, holder: int | None
) -> None:
    found, held_by = after(*epochs)
    assert (found[-1], held_by) == (None if time is None else Watermark(time), holder)


def test_time_ends_with_the_last_partition_that_may_have_times() -> None:
    assert after(Boundary({0: 50}, (True, False), ended=[0])) == ([Watermark(None)], None)
    assert after(Boundary({}, (False,), ended=[0])) == ([Watermark(None)], None)
    assert after(Boundary({}, (False,)), Boundary({}, (True,), ended=[0])) == ([None, None], 1)
    assert after(Boundary({0: 50}, TWO, ended=[0], idle=[1]))[0] == [Watermark(50)]
    assert after(Boundary({}, ()))[0] == [None]


def test_a_watermark_never_falls() -> None:
    dice = random.Random(1)
    for _ in range(200):
        epochs = [Boundary({}, (*TWO, True))]
        for _ in range(12):
            ranks = [rank for rank in range(3) if dice.random() < 0.5]
            times = {rank: dice.choice([None, dice.randrange(100)]) for rank in ranks}
            epochs.append(Boundary(times, idle=[rank for rank in range(3) if dice.random() < 0.3]))
        found = [watermark.time for watermark in after(*epochs)[0] if watermark is not None]
        risen = [time for time in found if time is not None]
        assert len(risen) == len(found)
        assert risen == sorted(risen)


def test_only_records_that_are_ahead_of_their_own_source_are_rejects() -> None:
    reject = pa.array([None, None, "no text", None, None], pa.string())
    records = pa.table({"_rank": [0, 1, 1, 1, 0], "_time": [100, 100, None, 21, None], "_reject": reject})
    latest, ahead = latest_times(records), {0: None, 1: 10}
    assert reject_ahead(records, latest, 11, ahead)["_reject"].to_pylist() == [
        None,
        "its time is more than 10us ahead of the clock (`ahead`)",
        "no text",
        None,
        None,
    ]
    assert reject_ahead(records, latest, 90, ahead) is records
    assert reject_ahead(records.slice(0, 0), {}, 0, ahead).num_rows == 0
