"""A stream that goes to all owners of keys: a hot key is shared, and the results are those of one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.shared_runs import SharedRun, Steps, alone, epochs, graph, same
from support.user_functions import __name__ as functions

from millstream.engines.workers.legs import legs_of

SPREAD = "millstream_pipelines.label_propagation"
GROUP = {"type": "map", "name": "group", "from": "source", "function": f"{functions}:group", "adds": ["group"]}
NEWS = {"type": "filter", "name": "news", "from": "group", "function": f"{functions}:news"}
PAIRS = {"type": "join", "name": "pairs", "from": ["group", {"stream": "news", "to": "all"}], "by": "group",
         "within": "500ms", "how": "left"}  # fmt: skip
BAYES = {"type": "classify", "model": {"type": "naive_bayes", "features": {}}}
HOT: Steps = [GROUP, NEWS, PAIRS, BAYES]
CHILDREN: Steps = [
    {"type": "flat_map", "name": "words", "function": f"{functions}:words", "adds": ["word"]},
    {"type": "filter", "name": "news", "function": f"{functions}:news"},
    {**PAIRS, "from": ["words", {"stream": "news", "to": "all"}], "by": ["author", "word"], "within": "3s"},
    {"type": "dedupe", "by": ["author", "label"], "within": "1s"},
]
"""Left records that are children, behind another keyed step, and a keyed step behind the join."""
ROWS: Steps = [
    {"type": "popularity", "name": "counts", "of": "label", "by": "author", "emit": {"early": "1s"},
     "window": {"type": "tumbling", "size": "3s", "lateness": "1s"}},
    {"type": "filter", "name": "news", "from": "source", "function": f"{functions}:news"},
    {**PAIRS, "from": ["counts.topics", {"stream": "news", "to": "all"}], "by": "author", "within": "5s"},
    {"type": "per_key", "name": "seen", "from": "pairs", "key": "author", "function": f"{functions}:rows"},
]  # fmt: skip
"""Left records that are rows of windows, which come at a boundary."""


CYCLE: Steps = [
    {"type": "map", "name": "known", "function": f"{functions}:identify", "adds": ["id"]},
    {"type": "flat_map", "name": "split", "function": f"{SPREAD}:words", "adds": ["word", "hops", "news"]},
    {"type": "per_key", "name": "notes", "from": ["split", "shared"], "key": "id", "children": True,
     "function": f"{SPREAD}:document"},
    {"type": "per_key", "name": "shared", "from": "notes", "key": "word", "children": True,
     "function": f"{SPREAD}:word"},
    {**PAIRS, "from": ["notes", {"stream": "split", "to": "all"}], "by": "word", "within": "1s"},
    {"type": "per_key", "name": "count", "from": "pairs", "key": "word", "function": f"{functions}:count",
     "on_error": "reject"},
]  # fmt: skip
"""Left records from several rounds of a cycle, of which some have one position."""
GRAPHS = {"hot": HOT, "children": CHILDREN, "rows": ROWS, "cycle": CYCLE}


@pytest.mark.parametrize("steps", GRAPHS.values(), ids=GRAPHS)
def test_any_number_of_readers_gives_the_results_of_one_process(steps: Steps, tmp_path: Path) -> None:
    golden, outcome = alone(steps, tmp_path)
    for readers in (1, 2, 3):
        run = SharedRun(steps, tmp_path, readers, readers)
        same(run.process(epochs()), golden)
        found = run.finish()
        assert (found.models, found.digest) == (outcome.models, outcome.digest)
    totals = {name: sum(each.rows[name].num_rows for each in golden) for name in golden[0].rows}
    assert totals["unmatched"] > 5 and totals["rejects"] > 0, totals
    assert sum(each.receipt.streams["pairs"].count for each in golden) > 40


@pytest.mark.parametrize("steps", GRAPHS.values(), ids=GRAPHS)
def test_restarted_readers_continue_with_all_records_of_the_second_stream(steps: Steps, tmp_path: Path) -> None:
    golden, outcome = alone(steps, tmp_path)
    run = SharedRun(steps, tmp_path, seed=3)
    same(run.process(epochs()[:3]), golden[:3])
    run.restart(checkpointed=2)
    same(run.process(epochs()[3:5]), golden[3:5])
    run.restart(checkpointed=4, readers=3)
    same(run.process(epochs()[5:]), golden[5:])
    assert run.finish().digest == outcome.digest


def shares(run: SharedRun, step: str) -> list[int]:
    return [run.pool.work[role, step].records for role in run.pool.names[:-1]]


@pytest.mark.parametrize("readers", [2, 3])
def test_a_hot_key_is_shared_by_all_readers_only_if_the_other_stream_goes_to_all(tmp_path: Path, readers: int) -> None:
    by_key: Steps = [GROUP, NEWS, {**PAIRS, "from": ["group", "news"]}, BAYES]
    found = {}
    for seed, steps in enumerate((HOT, by_key)):
        run = SharedRun(steps, tmp_path, seed, readers)
        run.process(epochs())
        found[steps is HOT] = shares(run, "pairs")
    hot, spread = found[False], found[True]
    assert min(hot) < 0.6 * sum(hot) / readers and max(hot) > max(spread)
    assert min(spread) > 0.6 * sum(spread) / readers  # of two readers each has 30 % at least
    copies = sum(spread) - sum(hot)
    assert copies % (readers - 1) == 0 and copies // (readers - 1) < 0.2 * sum(hot)  # the news, once more to each


def test_the_edge_divides_one_stream_by_position_and_copies_the_other(tmp_path: Path) -> None:
    made = graph(HOT, tmp_path)
    [pairs] = [leg for leg in legs_of(made).all if leg.to_all]
    assert (pairs.to_all, [node.name for node in pairs.steps]) == ("news", ["pairs"])
    run = SharedRun(HOT, tmp_path, seed=1)
    run.process(epochs())
    parts = [part for part in run.pool.parts if pairs.index in part.tables]
    rows = [(part.epoch, part.tables[pairs.index]) for part in parts]
    for epoch in range(len(epochs())):
        one, other = (tables for of, tables in rows if of == epoch)
        assert one["news"].equals(other["news"]) and one["news"].num_rows
        assert {*offsets(one["group"])}.isdisjoint(offsets(other["group"]))


def offsets(records: Any) -> list[tuple[int, int]]:
    return list(zip(records["_rank"].to_pylist(), records["_offset"].to_pylist(), strict=True))


def test_a_right_record_that_is_left_out_is_one_row(tmp_path: Path) -> None:
    """Every reader gets the record, and the owner of its key reports it."""
    golden, _ = alone(HOT, tmp_path)
    run = SharedRun(HOT, tmp_path, 1, 3)
    made = run.process(epochs())
    rejects = [row for each in made for row in each.rows["rejects"].to_pylist() if row["step"] == "pairs"]
    assert len(rejects) > len({(row["_partition"], row["_offset"]) for row in rejects})  # of both streams
    assert rejects == [row for each in golden for row in each.rows["rejects"].to_pylist() if row["step"] == "pairs"]
