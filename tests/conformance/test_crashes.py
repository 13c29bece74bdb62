"""The promise of each delivery, for every pipeline, with a crash at every point, on every engine.

With exactly_once, the digests of model, state and outputs equal those of a golden run. With the other deliveries, the
records trained twice or lost, and the rows repeated or missing, are exactly those that `effects` returns.
"""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from support.brokers import SharedBroker
from support.engines import ENGINES, Engines
from support.golden import GoldenRuns
from support.pipelines import assert_promise, results
from support.suite import CHECKPOINT_EVERY, PIPELINES, POINTS, Case, all_cases, covering_cases, parameters
from support.topics import seen

from millstream.guarantees.delivery import Delivery


@pytest.mark.parametrize("case", parameters())
def test_a_crash_leaves_what_the_delivery_promises(
    golden_runs: GoldenRuns, engines: Engines, case: Case, request: pytest.FixtureRequest
) -> None:
    golden = golden_runs[case.pipeline]
    pipeline = golden.on(engines, case.engine_name, delivery=case.delivery, checkpoint_every=case.checkpoint_every)
    name = str(case).replace("@", "-")
    pipeline.crash(name, case.point)
    if case.delivery is not Delivery.EXACTLY_ONCE:
        assert_promise(pipeline, name, [case.point], golden.run, PIPELINES[case.pipeline].of_state)
        return
    assert results(pipeline.run(name)) == results(golden.summary)
    if PIPELINES[case.pipeline].topics:
        broker: SharedBroker = request.getfixturevalue("broker")
        rows = seen(broker.bootstrap, pipeline.sinks["predictions"]["topic"].replace("{run}", name))
        counted = Counter((row["_partition"], row["_offset"]) for row in rows)
        assert len(counted) == golden.summary.delivered["predictions"] and set(counted.values()) == {1}


def test_the_covering_cases_have_every_pair_and_exactly_once_for_every_pipeline_on_every_engine() -> None:
    covered = [(c.pipeline, c.delivery, c.engine_name, c.point, c.checkpoint_every) for c in covering_cases()]
    factors = (PIPELINES, Delivery, ENGINES, POINTS, CHECKPOINT_EVERY)
    for one, other in itertools.combinations(range(len(factors)), 2):
        pairs = {(case[one], case[other]) for case in covered}
        assert pairs == set(itertools.product(factors[one], factors[other]))
    with_results = {(case[0], case[2]) for case in covered if case[1] is Delivery.EXACTLY_ONCE}
    assert with_results == set(itertools.product(PIPELINES, ENGINES))
    assert set(covering_cases()) <= set(all_cases()) and len(covered) < len(all_cases()) / 10


def test_the_matrix_has_every_combination_of_four_factors_and_half_of_those_of_five() -> None:
    cases = [(c.pipeline, c.delivery, c.engine_name, c.point, c.checkpoint_every) for c in all_cases()]
    factors = (PIPELINES, Delivery, ENGINES, POINTS, CHECKPOINT_EVERY)
    for four in itertools.combinations(range(len(factors)), 4):
        found = {tuple(case[factor] for factor in four) for case in cases}
        assert found == set(itertools.product(*(factors[factor] for factor in four)))
    assert len(cases) == len(set(cases)) == len(list(itertools.product(*factors))) / 2
