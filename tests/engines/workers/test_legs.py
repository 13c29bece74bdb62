"""Graphs among several readers: the legs, the shares of each reader, and the same results in any order of messages."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.held_records import __name__ as held_records
from support.shared_runs import SharedRun, Steps, alone, epochs, graph, same
from support.user_functions import __name__ as functions

from millstream.config.pipeline import CycleLimits
from millstream.engines.recovery import StepsFailed
from millstream.engines.workers.legs import Place, legs_of
from millstream.errors import StepFailed

WORDS = {"type": "flat_map", "name": "words", "function": f"{functions}:words", "adds": ["word"]}
FOLLOW = {"type": "per_key", "function": f"{functions}:follow", "adds": ["before"], "on_error": "reject"}
COUNT = {"type": "per_key", "function": f"{functions}:count", "on_error": "reject"}
BAYES = {"type": "classify", "model": {"type": "naive_bayes", "features": {}}}
SESSION = {"type": "session", "gap": "3s", "lateness": "100ms"}
FORK: Steps = [
    {**WORDS},
    {**FOLLOW, "name": "authors", "from": "source", "key": "author"},
    {**COUNT, "name": "count", "from": "words", "key": "word"},
    {"type": "map", "name": "clip", "from": "authors", "function": f"{functions}:clip", "adds": ["first"]},
    {**BAYES, "name": "of_words", "from": "count"},
    {**BAYES, "name": "of_texts", "from": "clip"},
]
JOIN: Steps = [
    {**WORDS},
    {"type": "filter", "name": "short", "from": "source", "function": f"{functions}:short"},
    {"type": "map", "name": "clip", "from": "short", "function": f"{functions}:clip", "adds": ["first"]},
    {"type": "join", "name": "both", "from": ["words", "clip"], "by": "author", "within": "1s", "how": "outer"},
    {**BAYES},
]
WINDOWS: Steps = [
    {"type": "popularity", "name": "sessions", "of": "label", "by": "author", "window": SESSION,
     "emit": {"early": "3s"}},
    {"type": "per_key", "name": "rows", "from": "sessions.topics", "key": "topic", "function": f"{functions}:rows"},
    {"type": "top_k", "name": "top", "from": "rows", "of": "topic", "k": 2, "counters": 4,
     "window": {"type": "count", "size": 25}},
]  # fmt: skip
IN_A_ROW: Steps = [
    {**FOLLOW, "name": "authors", "key": "author"},
    {**WORDS},
    {**COUNT, "name": "count", "key": "word", "ended": f"{functions}:close", "idle": "2s", "makes": ["words", "of"]},
    {**BAYES},
]
MIXED: Steps = [
    {**WORDS},
    {"type": "dedupe", "name": "first", "from": "words", "by": ["author", "word"], "within": "5s"},
    {**BAYES, "name": "bayes", "from": ["first", "first.repeated"]},
    {**FOLLOW, "name": "again", "from": "bayes", "key": "author"},
    {"type": "popularity", "name": "popular", "from": "again", "of": "label", "by": "word",
     "window": {"type": "tumbling", "size": "2s"}},
    {**COUNT, "name": "ends", "from": ["words", "first"], "key": "author"},
    {**BAYES, "name": "at_end", "from": "ends"},
]  # fmt: skip
SPREAD = "millstream_pipelines.label_propagation"
CYCLE: Steps = [
    {"type": "map", "name": "known", "function": f"{functions}:identify", "adds": ["id"]},
    {"type": "flat_map", "name": "split", "function": f"{SPREAD}:words", "adds": ["word", "hops", "news"]},
    {"type": "per_key", "name": "notes", "from": ["split", "shared"], "key": "id", "children": True,
     "function": f"{SPREAD}:document"},
    {"type": "map", "name": "passed", "from": "notes", "function": f"{functions}:unchanged"},
    {"type": "per_key", "name": "shared", "from": "passed", "key": "word", "children": True,
     "function": f"{SPREAD}:word"},
    {"type": "filter", "name": "labels", "from": "notes", "function": f"{SPREAD}:is_news"},
    {**COUNT, "name": "count", "from": ["notes", "split"], "key": "id"},
    {**BAYES},
]  # fmt: skip
LOOP: Steps = [
    *CYCLE[:-2],
    {"type": "per_key", "name": "loop", "from": ["labels", "loop"], "key": "id", "children": True,
     "function": f"{functions}:count_down"},
    {**COUNT, "name": "count", "from": ["loop", "notes"], "key": "id"},
    {**BAYES},
]  # fmt: skip
BACK_AND_INSIDE: Steps = [
    *CYCLE[:2],
    {"type": "map", "name": "start", "function": f"{functions}:start"},
    {"type": "per_key", "name": "first", "from": ["start", "second"], "key": "id", "children": True,
     "function": f"{functions}:count_down"},
    {"type": "per_key", "name": "second", "from": ["first", "rest"], "key": "word", "children": True,
     "function": f"{functions}:count_down"},
    {"type": "filter", "name": "rest", "from": "first", "function": f"{functions}:short"},
    {**COUNT, "name": "count", "from": "second", "key": "id"},
]  # fmt: skip
TWO_CYCLES: Steps = [
    *CYCLE[:-2],
    {"type": "per_key", "name": "again", "from": ["notes", "again"], "key": "word", "children": True,
     "function": f"{functions}:fail_later", "on_error": "reject"},
    {**COUNT, "name": "count", "from": "again", "key": "label"},
]  # fmt: skip
BEHIND_A_CYCLE: Steps = [
    *CYCLE[:-2],
    {"type": "filter", "name": "short", "from": "known", "function": f"{functions}:short"},
    {"type": "join", "name": "both", "from": ["notes", "short"], "by": "author", "within": "1us", "how": "left"},
    {"type": "flat_map", "name": "twice", "from": "both.unmatched", "function": f"{functions}:twice", "adds": ["half"]},
    {**COUNT, "name": "count", "key": "id"},
]  # fmt: skip
UNMATCHED: Steps = [
    {**WORDS},
    {"type": "filter", "name": "short", "from": "source", "function": f"{functions}:short"},
    {"type": "join", "name": "both", "from": ["words", "short"], "by": "author", "within": "1us", "how": "left"},
    {"type": "flat_map", "name": "twice", "from": "both.unmatched", "function": f"{functions}:twice", "adds": ["half"]},
    {**COUNT, "name": "count", "key": "half"},
]  # fmt: skip
"""Children of records that come at a boundary, of which many have the same time."""
COUNTS: Steps = [
    {"type": "popularity", "name": "counts", "of": "label", "by": "author", "window": {"type": "count", "size": 3}},
    {"type": "popularity", "name": "others", "from": "source", "of": "label", "by": "author",
     "window": {"type": "count", "size": 5}},
    {"type": "dedupe", "name": "first", "from": "counts.topics", "by": ["author", "topic"], "within": "2s"},
    {"type": "join", "name": "both", "from": ["first", "others.topics"], "by": "author", "within": "1s"},
]  # fmt: skip
"""Rows of windows of several keys with one number."""
COUNTS_BY_WORD: Steps = [
    {**WORDS},
    {"type": "top_k", "name": "top", "of": "author", "by": ["word", "label"], "k": 2, "counters": 2,
     "emit": {"early": "3s"}, "window": {"type": "count", "size": 7}},
    {"type": "popularity", "name": "again", "from": "top.top", "of": "value", "by": "word",
     "window": {"type": "count", "size": 2}},
]  # fmt: skip
"""Windows of siblings with several keys, and windows that close at a boundary with the rows of others."""
HELD: Steps = [
    {**WORDS},
    {**COUNT, "name": "count", "from": "words", "key": "word"},
    {"type": f"{held_records}:Held", "name": "once", "from": "words", "by": "author"},
    {"type": f"{held_records}:Held", "name": "again", "by": "word"},
    {"type": "flat_map", "name": "twice", "from": "once.held", "function": f"{functions}:twice", "adds": ["half"]},
    {**BAYES, "from": "again"},
]  # fmt: skip
"""Steps that pass records on at a boundary, of which one gets records there and passes some of them on at once."""
AT_LAST: Steps = [
    {**WORDS},
    {**COUNT, "name": "count", "key": "word", "ended": f"{functions}:close", "makes": ["words", "of"]},
    {"type": "popularity", "from": "count.ended", "of": "words", "by": "of",
     "window": {"type": "tumbling", "size": "2s"}},
]  # fmt: skip
"""Rows that only the end of all sources makes, with the times of the last records of their keys."""
GRAPHS = {
    "cycle": CYCLE,
    "loop": LOOP,
    "fork": FORK,
    "join": JOIN,
    "windows": WINDOWS,
    "counts_by_word": COUNTS_BY_WORD,
    "in_a_row": IN_A_ROW,
    "mixed": MIXED,
}
SMALL = {
    "back_and_inside": BACK_AND_INSIDE,
    "two_cycles": TWO_CYCLES,
    "behind_a_cycle": BEHIND_A_CYCLE,
    "unmatched": UNMATCHED,
    "held": HELD,
    "at_last": AT_LAST,
    "counts": COUNTS,
}
"""Graphs of which few things happen to each record."""


@pytest.mark.parametrize("steps", GRAPHS.values(), ids=GRAPHS)
def test_any_order_of_messages_gives_the_results_of_one_process(steps: Steps, tmp_path: Path) -> None:
    golden, outcome = alone(steps, tmp_path)
    for seed, readers in enumerate((1, 2, 2, 2, 3)):
        run = SharedRun(steps, tmp_path, seed, readers)
        same(run.process(epochs()), golden)
        found = run.finish()
        assert (found.models, found.digest) == (outcome.models, outcome.digest)
    totals = {name: sum(each.rows[name].num_rows for each in golden) for name in golden[0].rows}
    assert all(totals.values()), totals


@pytest.mark.parametrize("steps", SMALL.values(), ids=SMALL)
def test_the_rows_of_small_graphs_are_in_the_order_of_one_process(steps: Steps, tmp_path: Path) -> None:
    golden, outcome = alone(steps, tmp_path)
    totals = {name: sum(each.rows[name].num_rows for each in golden) for name in golden[0].rows}
    assert all(totals.values()), totals
    rounds = {name: max(each.receipt.rounds[name] for each in golden) for name in golden[0].receipt.rounds}
    assert all(most > 1 for most in rounds.values()), rounds
    for readers in (1, 2, 3):
        run = SharedRun(steps, tmp_path, readers, readers)
        same(run.process(epochs()), golden)
        assert run.finish().digest == outcome.digest


def test_rows_that_a_keyed_step_makes_in_another_order_than_its_records_are_refused(tmp_path: Path) -> None:
    run = SharedRun([{"type": f"{held_records}:Backwards", "name": "backwards"}], tmp_path, seed=1)
    with pytest.raises(StepsFailed, match="step 'backwards' failed in epoch 0: it made rows that are not in the order"):
        run.process(epochs())


@pytest.mark.parametrize("steps", GRAPHS.values(), ids=GRAPHS)
def test_readers_share_the_keys_and_records_of_every_keyed_step(steps: Steps, tmp_path: Path) -> None:
    run = SharedRun(steps, tmp_path, seed=1)
    run.process(epochs())
    keyed = [node.name for node in graph(steps, tmp_path).steps if node.traits.key_fields]
    assert len(keyed) >= 1
    for name in keyed:
        shares = [run.pool.work[role, name] for role in run.pool.names[:-1]]
        assert min(work.records for work in shares) >= 0.3 * sum(work.records for work in shares) > 30
        assert min(len(work.keys) for work in shares) >= 0.3 * sum(len(work.keys) for work in shares) > 0
        assert not shares[0].keys & shares[1].keys
        assert ("sequencer", name) in run.pool.work and not run.pool.work["sequencer", name].records


@pytest.mark.parametrize("steps", GRAPHS.values(), ids=GRAPHS)
def test_restarted_roles_find_the_same_records_late(steps: Steps, tmp_path: Path) -> None:
    golden, outcome = alone(steps, tmp_path)
    run = SharedRun(steps, tmp_path, seed=3)
    same(run.process(epochs()[:4]), golden[:4])
    run.restart(checkpointed=3)
    same(run.process(epochs()[4:]), golden[4:])
    assert run.finish().digest == outcome.digest


def test_a_cycle_of_keyed_steps_has_a_leg_for_each_and_takes_several_rounds(tmp_path: Path) -> None:
    legs = legs_of(graph(CYCLE, tmp_path)).all
    assert [(leg.place, [node.name for node in leg.steps], leg.cycle) for leg in legs] == [
        (Place.READ, ["known", "split"], ""),
        (Place.KEYED, ["notes", "passed", "labels"], "notes"),
        (Place.KEYED, ["shared"], "notes"),
        (Place.KEYED, ["count"], ""),
        (Place.ONE, ["classify"], ""),
    ]
    assert [node.name for node in legs[1].in_cycle] == ["notes", "passed"]
    made, _ = alone(CYCLE, tmp_path)
    assert max(each.receipt.rounds["notes"] for each in made) > 2
    assert max(each.receipt.rounds["loop"] for each in alone(LOOP, tmp_path)[0]) > 2
    assert max(each.receipt.rounds["first"] for each in alone(BACK_AND_INSIDE, tmp_path)[0]) > 2


def test_a_step_without_state_whose_records_are_sent_back_runs_in_the_readers(tmp_path: Path) -> None:
    steps = [*CYCLE[:2], {**CYCLE[2], "from": ["split", "again"]}, CYCLE[4] | {"from": "notes"}]
    steps += [{"type": "map", "name": "again", "from": "shared", "function": f"{functions}:unchanged"}]
    legs = legs_of(graph(steps, tmp_path)).all
    assert [(leg.place, [node.name for node in leg.steps]) for leg in legs] == [
        (Place.READ, ["known", "split"]),
        (Place.KEYED, ["notes"]),
        (Place.KEYED, ["shared", "again"]),
    ]
    golden, _ = alone(steps, tmp_path)
    assert max(each.receipt.rounds["notes"] for each in golden) > 2
    run = SharedRun(steps, tmp_path, seed=2)
    same(run.process(epochs()), golden)
    assert all(run.pool.work[role, "again"].records > 30 for role in run.pool.names[:-1])


WAITING = {"type": "dedupe", "name": "first", "from": "split", "by": ["id", "word"], "within": "5s"}


@pytest.mark.parametrize(
    "steps",
    [
        [*CYCLE[:2], WAITING, {**CYCLE[2], "from": ["first", "shared"]}, *CYCLE[3:]],
        [*CYCLE[:2], {**CYCLE[3], "name": "in", "from": ["split", "shared"]}, {**CYCLE[2], "from": "in"}, *CYCLE[3:]],
    ],
    ids=["behind a step that waits for ends", "with a step without state that reads a back edge"],
)
def test_every_other_cycle_runs_in_the_sequencer(steps: Steps, tmp_path: Path) -> None:
    [leg] = [leg for leg in legs_of(graph(steps, tmp_path)).one if "notes" in [node.name for node in leg.steps]]
    assert {"notes", "passed", "shared"} <= {node.name for node in leg.steps} and not leg.cycle
    golden, outcome = alone(steps, tmp_path)
    run = SharedRun(steps, tmp_path, seed=2)
    same(run.process(epochs()), golden)
    assert run.finish().digest == outcome.digest


@pytest.mark.parametrize("steps", [CYCLE, LOOP], ids=["cycle", "loop"])
@pytest.mark.parametrize(
    ("limits", "found"),
    [
        (CycleLimits(rounds=2), "has not ended after 2 rounds"),
        (CycleLimits(sent_back=44), "has sent back 45 records in 1 round, and 44 are allowed"),
        (CycleLimits(sent_back=203), "has sent back 204 records in 2 rounds, and 203 are allowed"),
    ],
    ids=["rounds", "records of a round", "records of several rounds"],
)
def test_a_cycle_beyond_a_limit_is_the_same_error_as_in_one_process(
    steps: Steps, limits: CycleLimits, found: str, tmp_path: Path
) -> None:
    messages = []
    shared = SharedRun(steps, tmp_path, seed=1, limits=limits)
    for process in (lambda: alone(steps, tmp_path, limits), lambda: shared.process(epochs())):
        with pytest.raises((StepFailed, StepsFailed)) as error:
            process()
        messages.append(str(error.value))
    assert messages[0] == messages[1]
    expected = f"the cycle of 'notes', 'passed', 'shared' {found}: the record source/part"
    assert messages[0].startswith(expected)


def test_a_leg_has_a_keyed_step_and_the_steps_without_state_that_read_only_it(tmp_path: Path) -> None:
    legs = legs_of(graph(MIXED, tmp_path)).all
    assert [(leg.place, [node.name for node in leg.steps]) for leg in legs] == [
        (Place.READ, ["words"]),
        (Place.KEYED, ["first"]),
        (Place.KEYED, ["ends"]),
        (Place.ONE, ["bayes", "at_end"]),
        (Place.KEYED, ["again"]),
        (Place.KEYED, ["popular"]),
    ]
    assert [leg.phases for leg in legs] == [1, 2, 2, 2, 2, 2]
