"""Rows that a step makes of a part of an epoch get their position in the whole epoch, or are refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

from millstream.engines.workers.exchange import gather, scatter, with_order
from millstream.errors import StepFailed
from millstream.steps.chain import EpochInProgress


def epoch(*offsets: int) -> pa.Table:
    keys = [f"key {offset % 3}" for offset in offsets]
    columns = [pa.array([0] * len(offsets), pa.int32()), pa.array(offsets, pa.int64()), pa.array(keys, pa.string())]
    return pa.table(columns, ["_rank", "_offset", "key"])


def dealt(records: pa.Table, owners: int) -> list[EpochInProgress]:
    """The parts of an epoch whose records are the input of the step `follow`."""
    whole = EpochInProgress(0, None, {}, {}, {}, merged={"follow": records})
    return scatter(whole, "follow", ["key"], 64, owners)


def followed(part: EpochInProgress, made: pa.Table) -> EpochInProgress:
    """The part after the step `follow`, which made these records."""
    part.tables = {"follow": with_order(made, part.merged.pop("follow"))}
    return part


def test_scatter_and_gather_give_the_same_epoch_though_steps_do_not_pass_on_positions() -> None:
    whole = epoch(*range(40))
    parts = [followed(part, part.merged["follow"].select(whole.column_names)) for part in dealt(whole, 3)]
    assert gather(parts).tables == {"follow": whole}


def test_records_that_a_step_drops_are_not_in_the_gathered_epoch() -> None:
    (part,) = dealt(epoch(5, 6, 7, 8), 1)
    assert gather([followed(part, epoch(6, 8))]).tables == {"follow": epoch(6, 8)}


@pytest.mark.parametrize("made", [(9,), (5, 4), (1,), (7, 5)], ids=["later", "earlier", "before all", "out of order"])
def test_rows_that_match_no_record_in_order_are_refused(made: tuple[int, ...]) -> None:
    (part,) = dealt(epoch(5, 6, 7), 1)
    with pytest.raises(StepFailed, match="not those of records that it was given, in their order"):
        followed(part, epoch(*made))


def test_rows_of_an_epoch_without_records_are_refused() -> None:
    (part,) = dealt(epoch(), 1)
    with pytest.raises(StepFailed):
        followed(part, epoch(1))
