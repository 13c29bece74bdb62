"""Steps that find late records: a processor that was restored knows the watermark."""

from __future__ import annotations

import pyarrow as pa

from millstream.config.pipeline import NamedStep
from millstream.config.sources import SourceTime
from millstream.log.epochs import Added, Epoch, Idle, PartitionName
from millstream.log.ranges import records_schema
from millstream.steps.graph import build_graph
from millstream.steps.join import Join
from millstream.steps.processor import EpochProcessor

NAMES = [PartitionName(source, "a", 0) for source in ("left", "right")]


def processor() -> EpochProcessor:
    join = NamedStep("both", Join.model_validate({"by": "id", "within": "10us"}), reads=("left", "right"))
    sources = {name: SourceTime(fields=("id", "time")) for name in ("left", "right")}
    return EpochProcessor(build_graph([join], ["id"], sources, ["both"]))


def epoch(number: int, times: dict[int, int]) -> tuple[Epoch, pa.Table]:
    rows = [{"_rank": rank, "_offset": number, "_time": time, "id": "a"} for rank, time in times.items()]
    events = tuple(map(Added, NAMES)) if number == 0 else (Idle(0),)
    cut = {rank: (number, number + 1) for rank in times}
    return Epoch(number, cut, events, 10**6), pa.Table.from_pylist(rows, records_schema(["id"]))


def test_a_record_is_late_after_a_restart_as_it_was_before() -> None:
    made, restarted = processor(), processor()
    made.restore({}, [])
    made.process(*epoch(0, {0: 50, 1: 52}))
    restarted.restore(made.save(), NAMES)
    for each in (made, restarted):
        result = each.process(*epoch(1, {1: 45}))
        assert (result.rows["late"].num_rows, result.rows["both"].num_rows) == (1, 0)
