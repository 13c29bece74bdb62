"""The advice for a config predicts the share bias of fifty runs of that config with crashes at random moments."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from support.crashed_runs import CrashedRun
from support.label_streams import blocks, iid, markov

from millstream.arrays import Array
from millstream.config.load import load_config
from millstream.guarantees.delivery import Delivery, Point
from millstream.study.advice import Advice, advise
from millstream.study.conditions import MONTH, conditions_of
from millstream.study.crash_spans import EPOCH_TIME
from millstream.study.label_sample import LabelSample
from millstream.study.labels import Labels
from millstream.study.share_bias import Spans

RECORDS, RUNS = 40_000, 50
STREAMS: dict[str, Callable[[], Labels]] = {
    "deff 1": lambda: iid(RECORDS, 11),
    "deff 19": lambda: markov(RECORDS, 12, same=0.9),
    "deff 199": lambda: markov(RECORDS, 13, same=0.99),
    "blocks": lambda: blocks(RECORDS, 14, size=1000, main=0.7),
}
INTERVALS = {"always": (1, 1), "rare": (4, 4), "checkpoints first": (1, 8)}
FEWEST_EVENTS = 40
"""Fifty runs say little about an effect that fewer failures than this have in all of them together."""
EQUAL_TIMES = dict.fromkeys(Point, 1.0)
CONFIG = """\
name: burst
source: {type: files, path: labels.jsonl}
pipeline: {use: text_topics, popularity: {window: {type: count, size: 2000}}}
engine: {type: local, epoch: {max_records: 200}}
"""


@pytest.fixture(scope="module", params=STREAMS)
def source(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A config, and in its folder the file of labelled records that it reads, of a known burstiness."""
    return written(STREAMS[request.param](), tmp_path_factory.mktemp("labels"))


def written(labels: Labels, folder: Path) -> Path:
    lines = [json.dumps({"text": "word", "label": labels.names[code]}) for code in labels.codes]
    (folder / "labels.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "pipeline.yaml").write_text(CONFIG)
    return folder / "pipeline.yaml"


def advice_of(source: Path, checkpoint_every: int, commit_every: int, failures: int) -> Advice:
    """The advice for a month of which this file has all records."""
    intervals = [f"guarantee.checkpoint_every={checkpoint_every}", f"guarantee.commit_every={commit_every}"]
    loaded = load_config(source, ["guarantee.delivery=at_least_once", *intervals])
    return advise(conditions_of(loaded, failures, RECORDS / MONTH))


def measured(advice: Advice, delivery: Delivery, times: Mapping[Point, float], runs: int) -> tuple[float, float]:
    """The root mean square of the share bias over runs of the config: in its rows, and in its model."""
    conditions = advice.conditions
    assert isinstance(conditions.sample, LabelSample) and conditions.sample.whole
    commit_every = 1 if delivery is Delivery.AT_MOST_ONCE else conditions.commit_every
    intervals = (conditions.checkpoint_every, commit_every)
    run = CrashedRun(conditions.sample.labels, delivery, *intervals, conditions.epoch_records, times)
    rng, failures = np.random.default_rng(7), int(conditions.failures_per_month)
    rows, state = zip(*(run.biases(failures, rng) for _ in range(runs)), strict=True)
    return rms(rows), rms(state)


def rms(values: Sequence[Array]) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


@pytest.mark.parametrize("failures", [2, 8])
@pytest.mark.parametrize("intervals", INTERVALS.values(), ids=INTERVALS)
def test_advice_predicts_the_share_bias_of_fifty_runs(source: Path, intervals: tuple[int, int], failures: int) -> None:
    advice = advice_of(source, *intervals, failures)
    compared = 0
    for delivery in (Delivery.AT_LEAST_ONCE, Delivery.AT_MOST_ONCE):
        found = measured(advice, delivery, EPOCH_TIME, RUNS)
        predicted = advice.of(delivery)
        for effect, value in zip((predicted.rows, predicted.state), found, strict=True):
            if RUNS * failures * _chance(effect.spans) >= FEWEST_EVENTS:
                assert effect.month is not None and 0.75 < effect.month.rms / value < 1.25, delivery
                compared += 1
    assert compared >= 3


def test_an_effect_that_few_failures_have_shows_in_more_runs(tmp_path: Path) -> None:
    """A crash between a checkpoint and its commit, about one of forty: the model is trained twice on four epochs."""
    advice = advice_of(written(STREAMS["deff 19"](), tmp_path), 4, 4, 8)
    effect = advice.of(Delivery.AT_LEAST_ONCE).state
    assert _chance(effect.spans) < 0.03 and effect.month is not None
    _, value = measured(advice, Delivery.AT_LEAST_ONCE, EPOCH_TIME, 2000)
    assert effect.month.rms / value == pytest.approx(1.0, abs=0.25)


def test_advice_depends_little_on_the_parts_of_an_epochs_time(source: Path) -> None:
    """With longer intervals the moment within an epoch matters little, so a slower disk or model changes little."""
    advice = advice_of(source, 8, 8, 8)
    rows = measured(advice, Delivery.AT_LEAST_ONCE, EQUAL_TIMES, RUNS)[0]
    state = measured(advice, Delivery.AT_MOST_ONCE, EQUAL_TIMES, RUNS)[1]
    repeated, lost = advice.of(Delivery.AT_LEAST_ONCE).rows.month, advice.of(Delivery.AT_MOST_ONCE).state.month
    assert repeated is not None and lost is not None
    assert repeated.rms / rows == pytest.approx(1.0, abs=0.25)
    assert lost.rms / state == pytest.approx(1.0, abs=0.25)


def test_the_probability_of_a_flip_is_that_of_runs(tmp_path: Path) -> None:
    """The label that is nearest to the threshold of 10 % has deff 19, so it crosses the threshold in some runs."""
    advice = advice_of(written(STREAMS["deff 19"](), tmp_path), 8, 8, 12)
    sample, found = advice.conditions.sample, advice.of(Delivery.AT_LEAST_ONCE).flip
    assert isinstance(sample, LabelSample) and found is not None and found.probability is not None
    shares = sample.labels.shares
    label = int(np.argmin(np.abs(shares - 0.1)))
    run = CrashedRun(sample.labels, Delivery.AT_LEAST_ONCE, 8, 8, 200, EPOCH_TIME)
    rng = np.random.default_rng(8)
    after = np.array([shares[label] + run.biases(12, rng)[0][label] for _ in range(600)])
    crossed = float(np.mean((after >= 0.1) != (shares[label] >= 0.1)))
    assert crossed > 0.02
    assert found.probability == pytest.approx(crossed, abs=0.05)


def test_a_flip_by_one_short_span_of_a_bursty_stream_is_not_predicted(tmp_path: Path) -> None:
    found = advice_of(written(STREAMS["deff 19"](), tmp_path), 1, 1, 1).of(Delivery.AT_LEAST_ONCE).flip
    assert found is not None and found.probability is None
    assert "a single short span of a bursty stream" in found.refusal


def _chance(spans: Spans) -> float:
    """The probability that a failure has an effect."""
    return sum(weight for length, weight in zip(spans.lengths, spans.weights, strict=True) if length)
