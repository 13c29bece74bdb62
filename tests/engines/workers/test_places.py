"""Rows that a step makes of a part of an epoch get their place in the whole epoch, or are refused."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from millstream.engines.workers.places import ORDER, Places, in_order, without_order
from millstream.errors import StepFailed
from millstream.steps.child_paths import with_child_paths
from millstream.steps.sibling_order import in_sibling_order


def epoch(*offsets: int) -> pa.Table:
    columns = [pa.array([0] * len(offsets), pa.int32()), *[pa.array(offsets, pa.int64())] * 2]
    return pa.table(columns, ["_rank", "_offset", "_time"])


def ordered(records: pa.Table, *places: int) -> pa.Table:
    return records.append_column(ORDER, pa.array(places, pa.int64()))


def test_records_that_a_step_drops_have_no_place() -> None:
    places = Places([ordered(epoch(5, 6, 7, 8), 0, 3, 4, 9)])
    assert places.with_order(epoch(6, 8))[ORDER].to_pylist() == [3, 9]


def test_children_have_the_place_of_their_record_also_if_that_was_a_child() -> None:
    siblings = with_child_paths(epoch(5, 5, 6), np.array([0, 1, 0]))
    places = Places([ordered(siblings, 2, 2, 4)])
    made = with_child_paths(siblings.take(pa.array([1, 1, 2])), np.array([0, 1, 0]))
    assert places.with_order(made)[ORDER].to_pylist() == [2, 2, 4]


def test_records_of_several_inputs_have_one_order() -> None:
    places = Places([ordered(epoch(7, 9), 2, 5), ordered(epoch(1, 7), 0, 2)])
    assert places.of(epoch(1, 7, 9)).tolist() == [0, 2, 5]
    assert places.order.places(epoch(9, 1)).tolist() == [5, 0]


@pytest.mark.parametrize("made", [(9,), (1,), (5, 4)], ids=["later", "before all", "between"])
def test_rows_of_other_records_are_refused(made: tuple[int, ...]) -> None:
    places = Places([ordered(epoch(2, 5, 7), 0, 1, 2)])
    with pytest.raises(StepFailed, match="not made of records that it was given"):
        places.of(epoch(*made))


def test_rows_of_another_partition_are_refused() -> None:
    with pytest.raises(StepFailed, match="not made of records that it was given"):
        Places([ordered(epoch(2), 0)]).of(pa.table({"_rank": [1], "_offset": [2]}))


def test_rows_of_an_epoch_without_records_are_refused() -> None:
    with pytest.raises(StepFailed):
        Places([ordered(epoch())]).of(epoch(1))


def test_rows_in_another_order_are_refused() -> None:
    places = Places([ordered(epoch(5, 6, 7), 0, 1, 2)])
    with pytest.raises(StepFailed, match="not in the order of the records"):
        places.with_order(epoch(7, 5))


def test_siblings_in_another_order_are_refused() -> None:
    places = Places([ordered(epoch(5, 6), 0, 1)])
    made = with_child_paths(epoch(5, 5, 6), np.array([1, 0, 0]))
    with pytest.raises(StepFailed, match="not in the order of the records"):
        places.with_order(made)


@pytest.mark.parametrize("children", [False, True])
def test_the_records_of_all_senders_are_put_in_order(children: bool) -> None:
    whole = ordered(epoch(3, 3, 4, 8, 8, 9), 0, 0, 1, 2, 2, 5)
    if children:
        whole = ordered(with_child_paths(epoch(3, 3, 4, 8, 8, 9), np.array([0, 1, 0, 0, 1, 0])), 0, 0, 1, 2, 2, 5)
    shares = [whole.take(pa.array(rows)) for rows in ([2, 3], [0, 1, 5], [4])]
    assert without_order(in_order(shares)) == without_order(whole)


def test_later_rounds_of_a_cycle_come_behind_all_records_of_earlier_rounds() -> None:
    first, again = b"\0\0\0\1", b"\0\0\0\0\x80\0\0\1"
    whole = epoch(5, 6, 5).append_column("_path", pa.array([first, first, again], pa.binary()))
    places = Places([ordered(epoch(5, 6), 0, 1)])
    made = places.with_order(whole)
    assert places.of(made).tolist() == Places([made]).of(made).tolist() == [0, 1, 1 << 40]
    assert without_order(in_order([made.slice(1), made.slice(0, 1)])) == whole
    with pytest.raises(StepFailed, match="not in the order of the records"):
        places.with_order(whole.take(pa.array([2, 0, 1])))


def test_rows_of_windows_with_one_number_are_no_siblings() -> None:
    times, paths = [4, 5, 5], [b'["b"]', b'["b"]0', b'["a"]']
    columns = {"_rank": [-2] * 3, "_offset": [7] * 3, "_time": times, "_path": pa.array(paths, pa.binary())}
    made = in_sibling_order(pa.table(columns))
    assert made["_path"].to_pylist() == [paths[0], paths[2], paths[1]]


def test_siblings_of_several_rounds_stay_in_the_order_of_rounds() -> None:
    paths = [b"\0\0\0\2", b"\0\0\0\1", b"\0\0\0\0\x80\0\0\1"]
    made = epoch(5, 5, 5).append_column("_path", pa.array(paths, pa.binary()))
    assert in_sibling_order(made)["_path"].to_pylist() == [paths[1], paths[0], paths[2]]
