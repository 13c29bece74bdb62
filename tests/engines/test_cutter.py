"""The events that the cutter writes with the cuts: the beginnings of partitions, and records removed before a read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from millstream.engines.backpressure import Backpressure
from millstream.engines.cutter import LogCutter, ReplayCutter
from millstream.errors import Contradiction, Truncated
from millstream.log.contracts import Partition
from millstream.log.epochs import Added, Epoch, EpochLog, EpochReader, Idle, PartitionName, Skipped


@dataclass
class Topics:
    """A log whose partitions appear, grow and lose their first records; a run reads it from the latest record on."""

    spans: dict[str, tuple[int, int]] = field(default_factory=dict)
    goes_on: bool = False
    current: bool = True
    questions: int = 0
    """The number of calls of `is_current` and `ended`."""
    fields: tuple[str, ...] = ("text",)

    def partitions(self) -> list[Partition]:
        return [Partition(name) for name in self.spans]

    def beginning(self, partition: str, *, joined: bool = False) -> int:
        return self.spans[partition][0 if joined else 1]

    def resume(self, partition: str, wanted: int) -> int:
        first = self.spans[partition][0]
        if wanted < first and not self.goes_on:
            raise Truncated(partition)
        return max(wanted, first)

    def end(self, partition: str) -> int:
        return self.spans[partition][1]

    def is_current(self, partition: str) -> bool:
        self.questions += 1
        return self.current

    def ended(self, partition: str) -> bool:
        self.questions += 1
        return False

    def identity(self, partition: str, upto: int) -> str:
        return partition

    def read(self, partition: str, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        return iter(())

    def close(self) -> None:
        pass


def cutter(
    log: Topics,
    folder: Path,
    *,
    until_idle: bool = False,
    idle: Mapping[str, int] | None = None,
    wall_clock: Callable[[], int] = lambda: 0,
) -> LogCutter:
    epochs = EpochLog(folder)
    try:
        return LogCutter(
            {"source": log},
            epochs,
            Backpressure(100),
            max_records=100,
            max_wait=0.0,
            until_idle=until_idle,
            idle=idle or {},
            wall_clock=wall_clock,
        )
    except BaseException:
        epochs.close()  # the traceback would keep it open
        raise


def cut_all(made: LogCutter, seconds: int = 3) -> list[Epoch]:
    epochs = [made.cut(float(now)) for now in range(seconds)]
    made.epoch_log.close()
    return [epoch for epoch in epochs if epoch is not None]


def test_the_beginning_of_a_partition_is_decided_once_before_there_is_a_record_to_read(tmp_path: Path) -> None:
    log = Topics({"a": (0, 50)})
    assert cut_all(cutter(log, tmp_path)) == [Epoch(0, {}, (Added(PartitionName("source", "a", 0), 50),))]
    log.spans["a"] = (0, 70)
    assert cut_all(cutter(log, tmp_path)) == [Epoch(1, {0: (50, 70)})]


def test_a_run_that_ends_when_idle_remembers_its_beginning(tmp_path: Path) -> None:
    log = Topics({"a": (0, 50)})
    assert [epoch.number for epoch in cut_all(cutter(log, tmp_path, until_idle=True))] == [0]
    log.spans["a"] = (0, 70)
    assert [epoch.cut for epoch in cut_all(cutter(log, tmp_path, until_idle=True))] == [{0: (50, 70)}]


def test_a_run_remembers_its_beginning_also_in_an_empty_partition(tmp_path: Path) -> None:
    log = Topics({"a": (0, 0)})
    assert [epoch.cut for epoch in cut_all(cutter(log, tmp_path, until_idle=True))] == [{}]
    assert cut_all(cutter(log, tmp_path, until_idle=True)) == []
    log.spans["a"] = (0, 10)
    assert [epoch.cut for epoch in cut_all(cutter(log, tmp_path, until_idle=True))] == [{0: (0, 10)}]


def test_a_partition_that_joins_is_read_from_its_first_record(tmp_path: Path) -> None:
    log = Topics({"a": (0, 50)})
    made = cutter(log, tmp_path)
    made.cut(0.0)
    log.spans["b"] = (3, 8)
    epochs = cut_all(made)
    assert (Added(PartitionName("source", "b", 1), 3),) in [epoch.events for epoch in epochs]
    assert {1: (3, 8)} in [epoch.cut for epoch in epochs]


def test_the_first_partition_of_a_source_that_had_none_has_joined(tmp_path: Path) -> None:
    log = Topics()
    made = cutter(log, tmp_path)
    assert made.cut(0.0) is None
    log.spans["a"] = (2, 8)
    assert [epoch.cut for epoch in cut_all(made)] == [{0: (2, 8)}]


def test_without_a_wait_epochs_are_small_while_it_is_quiet_and_grow_while_the_engine_is_busy(tmp_path: Path) -> None:
    log = Topics({"a": (0, 0)})
    made = cutter(log, tmp_path)
    cuts = []
    for end, finished in ((0, -1), (1, 0), (2, 1), (3, 1), (4, 1), (9, 1), (10, 2), (10, 3)):
        log.spans["a"] = (0, end)
        made.backpressure.release(finished)
        epoch = made.cut(0.0)
        cuts.append(epoch.cut if epoch is not None else None)
    assert cuts == [{}, {0: (0, 1)}, {0: (1, 2)}, {0: (2, 3)}, None, None, {0: (3, 10)}, None]
    log.spans["a"] = (0, 500)  # full epochs are cut although the engine is busy
    epoch = made.cut(0.0)
    assert epoch is not None and epoch.cut == {0: (10, 110)}
    made.epoch_log.close()


def test_a_replay_refuses_removed_records(tmp_path: Path) -> None:
    log = Topics({"a": (0, 0)}, goes_on=True)
    made = cutter(log, tmp_path / "one")
    made.cut(0.0)
    log.spans["a"] = (0, 20)
    cut_all(made)
    log.spans["a"] = (5, 20)
    replayed = EpochLog(tmp_path / "replayed")
    replay = ReplayCutter({"source": log}, replayed, Backpressure(100), EpochLog(tmp_path / "one").reader())
    assert replay.cut(0.0) == Epoch(0, {}, (Added(PartitionName("source", "a", 0), 0),))
    with pytest.raises(Truncated, match="source/a: the replay needs offset 0, but the source now begins at 5"):
        replay.cut(1.0)


def test_records_removed_before_a_read_are_an_event_and_a_replay_repeats_the_event(tmp_path: Path) -> None:
    log = Topics({"a": (0, 50)})
    cut_all(cutter(log, tmp_path / "one"))
    log.spans["a"] = (60, 70)
    with pytest.raises(Truncated):
        cutter(log, tmp_path / "one")
    log.goes_on = True
    later = cut_all(cutter(log, tmp_path / "one"))
    assert later == [Epoch(1, {0: (60, 70)}, (Skipped(0, 60),))]
    replayed = EpochLog(tmp_path / "replayed")
    replay = ReplayCutter({"source": log}, replayed, Backpressure(100), EpochLog(tmp_path / "one").reader())
    assert [replay.cut(0.0), replay.cut(1.0)][1:] == later
    assert replayed.totals.positions == {0: 70}


MINUTE = {"source": 60_000_000}


def events_at(made: LogCutter, *times: float) -> list[tuple[object, ...]]:
    """The events without partitions that appear, of the epochs that are cut at these times."""
    found: list[tuple[object, ...]] = []
    for now in times:
        epoch = made.cut(now)
        if epoch is not None:
            made.backpressure.release(epoch.number)
            found.append(tuple(event for event in epoch.events if not isinstance(event, Added)))
    return found


def test_a_partition_that_is_read_and_silent_for_a_minute_is_idle_in_an_epoch_without_records(tmp_path: Path) -> None:
    log = Topics({"a": (0, 50), "b": (0, 50)})
    made = cutter(log, tmp_path, idle=MINUTE)
    made.cut(0.0)
    log.spans = {"a": (0, 60), "b": (0, 60)}
    assert events_at(made, 1.0, 25.0, 50.0) == [()]
    log.spans["b"] = (0, 61)
    assert events_at(made, 60.5, 61.0) == [(), (Idle(0),)]
    assert events_at(made, 90.0, 120.0, 121.0) == [(Idle(1),)]
    assert events_at(made, 300.0) == []
    log.spans["a"] = (0, 61)
    assert events_at(made, 301.0, 330.0, 360.0, 361.0) == [(), (Idle(0),)]
    assert made.epoch_log.totals.idle == {0, 1}
    made.epoch_log.close()


def test_a_time_without_a_look_makes_no_partition_idle(tmp_path: Path) -> None:
    log = Topics({"a": (0, 50)})
    made = cutter(log, tmp_path, idle=MINUTE)
    made.cut(0.0)
    log.spans["a"] = (0, 60)
    assert events_at(made, 1.0, 9000.0, 9001.0) == [()]
    log.spans["a"] = (0, 70)
    assert events_at(made, 9002.0) == [()]
    made.epoch_log.close()


def test_a_time_without_an_answer_makes_no_partition_idle(tmp_path: Path) -> None:
    log = Topics({"a": (0, 50), "b": (0, 50)})
    made = cutter(log, tmp_path, idle=MINUTE)
    made.cut(0.0)
    log.spans = {"a": (0, 60), "b": (0, 60)}
    assert events_at(made, 1.0, 25.0) == [()]
    log.current = False  # the server is away, and `end` returns the last offsets that it reported
    assert events_at(made, 50.0, 75.0, 100.0, 900.0) == []
    log.current = True
    log.spans["a"] = (0, 90)  # the producers of one partition are faster
    assert events_at(made, 901.0, 925.0) == [()]
    log.spans["b"] = (0, 90)
    assert events_at(made, 926.0, 956.0) == [()]
    assert events_at(made, 986.0) == [(Idle(0), Idle(1))]
    made.epoch_log.close()


def test_records_between_two_looks_interrupt_a_silence(tmp_path: Path) -> None:
    log = Topics({"a": (0, 50)})
    made = cutter(log, tmp_path, idle=MINUTE)
    made.cut(0.0)
    log.spans["a"] = (0, 60)
    assert events_at(made, 1.0, 31.0) == [()]
    log.spans["a"] = (0, 70)
    assert events_at(made, 31.125, 61.0, 91.0) == [()]  # the look at 31.125 is not due, and the cut is
    assert events_at(made, 91.25) == [(Idle(0),)]
    log.spans["a"] = (0, 80)
    assert events_at(made, 91.375) == [()]  # and is not idle at once
    made.epoch_log.close()


def test_only_some_cuts_look_at_all_partitions(tmp_path: Path) -> None:
    log = Topics({str(number): (0, 50) for number in range(100)})
    made = cutter(log, tmp_path, idle=MINUTE)
    made.cut(0.0)
    log.questions = 0
    for turn in range(1, 10):
        log.spans["0"] = (0, 50 + turn)
        assert events_at(made, turn / 64) == [()]
    assert log.questions == 9  # whether the partition that was cut has ended
    made.cut(0.25)
    assert log.questions == 9 + 100 + 1
    made.epoch_log.close()


def test_a_partition_that_appears_empty_is_idle_at_once(tmp_path: Path) -> None:
    log = Topics({"a": (0, 0), "b": (0, 50)})
    made = cutter(log, tmp_path, idle=MINUTE)
    assert events_at(made, 0.0) == [(Idle(0), Idle(1))]  # the source is read from its latest record on
    log.spans["c"] = (3, 8)
    assert events_at(made, 1.0) == [()]
    made.epoch_log.close()


def test_a_partition_is_idle_at_once_where_a_bounded_run_has_read_it(tmp_path: Path) -> None:
    log = Topics({"a": (0, 0), "b": (0, 0)})

    def events_of_a_start(*times: float) -> list[tuple[object, ...]]:
        made = cutter(log, tmp_path, until_idle=True, idle=MINUTE)
        found = events_at(made, *times)
        made.epoch_log.close()
        return found

    assert events_of_a_start(0.0, 0.0) == [(Idle(0), Idle(1))]
    log.spans = {"a": (0, 10), "b": (0, 150)}
    assert events_of_a_start(0.0, 0.0) == [(Idle(0),), (Idle(1),)]
    assert events_of_a_start(0.0) == []


def test_without_the_option_no_partition_is_ever_idle(tmp_path: Path) -> None:
    log = Topics({"a": (0, 0), "b": (0, 10)})
    assert events_at(cutter(log, tmp_path / "bounded", until_idle=True), 0.0, 0.0) == [()]
    assert events_at(cutter(log, tmp_path / "followed"), 0.0, 1.0, 9000.0, 18000.0, 27000.0) == [()]


def test_idle_partitions_outlive_a_start_and_the_silence_does_not(tmp_path: Path) -> None:
    log = Topics({"a": (0, 50), "b": (0, 50)})
    made = cutter(log, tmp_path, idle=MINUTE)
    made.cut(0.0)
    log.spans["a"] = (0, 60)
    made.cut(1.0)
    made.epoch_log.close()
    again = cutter(log, tmp_path, idle=MINUTE)
    assert again.epoch_log.totals.idle == EpochReader(tmp_path).totals().idle == {1}
    assert events_at(again, 100.0, 130.0, 159.0, 160.0) == [(Idle(0),)]
    again.epoch_log.close()


def test_the_clock_of_epochs_never_goes_back(tmp_path: Path) -> None:
    times = iter([50, 40])
    log = Topics({"a": (0, 0)})
    made = cutter(log, tmp_path / "one", wall_clock=lambda: next(times))
    made.cut(0.0)
    made.epoch_log.close()
    log.spans["a"] = (0, 10)
    again = cutter(log, tmp_path / "one", wall_clock=lambda: next(times))
    again.cut(0.0)
    again.epoch_log.close()
    assert [epoch.at for epoch in EpochReader(tmp_path / "one").epochs()] == [50, 50]


def test_a_clock_that_was_set_back_is_a_warning_once_in_a_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log, minute = Topics({"a": (0, 0)}), 60_000_000
    for clocks, warnings in (([9 * minute, 8 * minute], 0), ([8 * minute - 1, 0], 1)):
        times = iter(clocks)
        made = cutter(log, tmp_path, wall_clock=lambda times=times: next(times))  # type: ignore[misc]
        for now in (0.0, 1.0):
            log.spans["a"] = (0, log.spans["a"][1] + 10)
            assert made.cut(now) is not None
        made.epoch_log.close()
        assert len(caplog.messages) == warnings
    assert caplog.messages[0].startswith(
        "the clock is at 1970-01-01T00:07:59.999999Z, and the last epoch was cut at 1970-01-01T00:09:00Z"
    )


def test_a_replay_has_the_clock_and_the_idle_partitions_of_the_original(tmp_path: Path) -> None:
    log = Topics({"a": (0, 0), "b": (0, 0)})
    cut_all(cutter(log, tmp_path / "one", idle=MINUTE, wall_clock=lambda: 50))
    replayed = EpochLog(tmp_path / "replayed")
    replay = ReplayCutter({"source": log}, replayed, Backpressure(100), EpochReader(tmp_path / "one"))
    assert replay.cut(0.0) == next(EpochReader(tmp_path / "one").epochs())
    assert (replayed.totals.at, replayed.totals.idle) == (50, {0, 1})
    replayed.close()
    for run, end, clock in (("one", 10, 60), ("replayed", 10, 70), ("one", 20, 65)):
        log.spans["a"] = (0, end)
        cut_all(cutter(log, tmp_path / run, wall_clock=lambda clock=clock: clock))  # type: ignore[misc]
    replayed = EpochLog(tmp_path / "replayed")
    with pytest.raises(Contradiction, match="the cuts in this run directory differ"):
        ReplayCutter({"source": log}, replayed, Backpressure(100), EpochReader(tmp_path / "one")).cut(0.0)
    replayed.close()
