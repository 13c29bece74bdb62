"""Rows that a step makes of a part of an epoch get their position in the whole epoch, or are refused."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from millstream.engines.workers.exchange import ORDER, gather, scatter, with_order
from millstream.errors import StepFailed
from millstream.steps.chain import EpochInProgress
from millstream.steps.child_changes import ChildChanges
from millstream.steps.child_paths import with_child_paths
from millstream.steps.field_changes import Change, FieldChanges


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


def test_children_are_gathered_with_their_siblings_in_the_order_of_their_records() -> None:
    whole = epoch(*range(20))
    changes: list[list[Change]] = [[{}] * (offset % 3) for offset in range(20)]
    made = ChildChanges(FieldChanges("follow", whole.schema, ())).made(whole, changes)
    parts = []
    for part in dealt(whole, 3):
        keys = part.merged["follow"]["key"]
        of_part = made.filter(pc.is_in(made["key"], keys.combine_chunks()))
        part.tables = {"follow": with_order(of_part, part.merged.pop("follow"), children=True)}
        parts.append(part)
    assert gather(parts).tables == {"follow": made} and made.num_rows == 20 - 1


def test_children_of_children_are_found_by_the_path_of_their_record() -> None:
    siblings = with_child_paths(epoch(5, 5, 6), np.array([0, 1, 0])).append_column(ORDER, pa.array([0, 1, 2]))
    taken = siblings.take(pa.array([1, 1, 2])).drop_columns([ORDER])
    made = with_child_paths(taken, np.array([0, 1, 0]))
    assert with_order(made, siblings, children=True)[ORDER].to_pylist() == [1, 1, 2]
    with pytest.raises(StepFailed, match="not those of records that it was given, in their order"):
        with_order(made, siblings)
