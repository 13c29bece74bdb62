"""What a step makes of a part of an epoch has its place in the whole, or is refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

from millstream.engines.workers.exchange import gather, in_place, scatter
from millstream.errors import StepFailed
from millstream.steps.chain import EpochInProgress


def epoch(*offsets: int) -> pa.Table:
    keys = [f"key {offset % 3}" for offset in offsets]
    columns = [pa.array([0] * len(offsets), pa.int32()), pa.array(offsets, pa.int64()), pa.array(keys, pa.string())]
    return pa.table(columns, ["_rank", "_offset", "key"])


def test_an_epoch_that_is_dealt_and_gathered_is_what_it_was_though_steps_do_not_pass_on_their_places() -> None:
    whole = epoch(*range(40))
    parts = scatter(EpochInProgress(0, whole, {}, {}, {}), "key", 3)
    for part in parts:
        part.records = in_place(part.records.select(whole.column_names), part.records)
    assert gather(parts).records == whole


def test_records_that_a_step_leaves_out_are_left_out() -> None:
    (part,) = scatter(EpochInProgress(0, epoch(5, 6, 7, 8), {}, {}, {}), "key", 1)
    part.records = in_place(epoch(6, 8), part.records)
    assert gather([part]).records == epoch(6, 8)


@pytest.mark.parametrize("made", [(9,), (5, 4), (1,), (7, 5)], ids=["later", "earlier", "before all", "out of order"])
def test_rows_without_a_place_are_refused(made: tuple[int, ...]) -> None:
    (part,) = scatter(EpochInProgress(0, epoch(5, 6, 7), {}, {}, {}), "key", 1)
    with pytest.raises(StepFailed, match="not those of records that it was given, in their order"):
        in_place(epoch(*made), part.records)


def test_rows_of_an_epoch_without_records_are_refused() -> None:
    (part,) = scatter(EpochInProgress(0, epoch(), {}, {}, {}), "key", 1)
    with pytest.raises(StepFailed):
        in_place(epoch(1), part.records)
