"""The epoch boundary of the processor: watermarks of steps, and epochs that are lost to the state."""

from __future__ import annotations

import pyarrow as pa

from millstream.config.pipeline import NamedStep
from millstream.config.sources import SourceTime
from millstream.log.epochs import Added, Ended, Epoch, Event, Idle, PartitionName
from millstream.log.ranges import records_schema
from millstream.steps.functions import Filter
from millstream.steps.graph import build_graph
from millstream.steps.popularity import Popularity
from millstream.steps.processor import EpochProcessor, EpochResult
from millstream.substreams.windows import CountWindow, TumblingWindow

FIELDS = ["text", "label", "time"]
ADDED = tuple(Added(PartitionName("news", name, number)) for number, name in enumerate("ab"))


def processor(by: str | None = None) -> EpochProcessor:
    steps = [
        NamedStep("before", Filter(function="support.user_functions:short")),
        NamedStep("count", Popularity(of="label", window=TumblingWindow(size="10us", lateness="3us"), by=by)),
        NamedStep("after", Filter(function="support.user_functions:short")),
    ]
    made = EpochProcessor(build_graph(steps, FIELDS, {"news": SourceTime(ahead=5)}))
    made.restore({}, [])
    return made


def epoch(number: int, times: dict[int, int], *events: Event, at: int = 10**6) -> tuple[Epoch, pa.Table]:
    """An epoch with one record of each of these partitions."""
    rows = [
        {"_rank": rank, "_offset": number, "_time": time, "text": "a", "label": "sport"} for rank, time in times.items()
    ]
    records = pa.Table.from_pylist(rows, records_schema(["text", "label"]))
    return Epoch(number, {rank: (number, number + 1) for rank in times}, events, at), records


def process(made: EpochProcessor, number: int, times: dict[int, int], *events: Event, at: int = 10**6) -> EpochResult:
    return made.process(*epoch(number, times, *events, at=at))


def test_a_step_with_lateness_holds_the_watermark_back_for_the_steps_after_it() -> None:
    made = processor()
    first = process(made, 0, {0: 24, 1: 50}, *ADDED).receipt
    assert (first.watermarks, first.held_by) == ({"before": 24, "count": 21, "after": 21}, 0)
    last = process(made, 1, {}, Ended(0), Ended(1)).receipt
    assert (last.watermarks, last.held_by) == ({"before": None, "count": None, "after": None}, None)


def test_before_the_first_watermark_a_receipt_has_none() -> None:
    receipt = process(processor(), 0, {0: 24}, *ADDED).receipt
    assert (receipt.watermarks, receipt.held_by) == ({}, 1)


def test_a_record_ahead_of_its_epochs_clock_is_a_reject_and_moves_no_watermark() -> None:
    made = processor()
    result = process(made, 0, {0: 24, 1: 45}, *ADDED, at=39)
    assert result.rows["rejects"]["reason"].to_pylist() == ["its time is more than 5us ahead of the clock (`ahead`)"]
    assert result.rows["rejects"]["step"].to_pylist() == ["source"]
    assert (result.receipt.records, result.receipt.watermarks["before"]) == (2, 24)
    assert process(made, 1, {1: 45}, at=40).rows["rejects"].num_rows == 0


def test_a_cut_without_records_leaves_a_partition_idle() -> None:
    made = processor()
    process(made, 0, {0: 20, 1: 10}, *ADDED, Idle(1))
    markers = Epoch(1, {0: (1, 2), 1: (1, 3)}, (), 10**6)  # offsets of transactions, and a record in one partition
    receipt = made.process(markers, epoch(1, {0: 50})[1]).receipt
    assert (receipt.watermarks["before"], receipt.held_by) == (50, 0)
    receipt = process(made, 2, {0: 90, 1: 60}).receipt
    assert (receipt.watermarks["before"], receipt.held_by) == (60, 1)


def test_an_epoch_that_is_lost_adds_its_partitions_and_keeps_its_idle_ones() -> None:
    made = processor()
    made.skip(epoch(0, {0: 20}, *ADDED, Idle(1))[0])
    assert process(made, 1, {0: 24}).receipt.watermarks["before"] == 24
    made.skip(epoch(2, {1: 7})[0])  # partition 1 is back, and its time is lost
    held = process(made, 3, {0: 90}).receipt
    assert (held.watermarks["before"], held.held_by) == (24, 1)
    assert process(made, 4, {}, Idle(1)).receipt.watermarks["before"] == 90


def test_a_restored_step_by_key_knows_the_time_although_no_key_has_it() -> None:
    made = processor(by="text")
    process(made, 0, {0: 24, 1: 50}, *ADDED)
    process(made, 1, {0: 90, 1: 90})
    restored = processor(by="text")
    restored.restore(made.save(), [event.partition for event in ADDED])
    expected, found = (each for each in (process(each, 2, {0: 9, 1: 90}) for each in (made, restored)))
    assert expected.rows["late"].num_rows == 1
    assert found.receipt == expected.receipt


def test_a_count_window_closes_with_what_it_has_when_all_sources_have_ended() -> None:
    steps = [NamedStep("count", Popularity(of="label", window=CountWindow(size=10)))]
    made = EpochProcessor(build_graph(steps, FIELDS))
    made.restore({}, [])
    assert not process(made, 0, {0: 24, 1: 50}, *ADDED).rows["topics"].num_rows
    assert not process(made, 1, {0: 60}, Ended(0)).rows["topics"].num_rows
    assert process(made, 2, {}, Ended(1)).rows["topics"]["count"].to_pylist() == [3]
