"""The conditions of a config: rate, size of epochs, window, learner."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from millstream.config.load import read_config
from millstream.errors import ConfigError
from millstream.guarantees.delivery import Delivery
from millstream.study.advice import advise
from millstream.study.conditions import MONTH, Conditions, conditions_of
from millstream.study.label_sample import NoSample

GENERATED = {"type": "generator", "records": 2000}
TOPIC = {"type": "kafka", "bootstrap": "127.0.0.1:9", "topic": "t"}
STEADY = {"engine": {"type": "local", "epoch": {"max_records": 500}}}


def conditions(folder: Path, source: dict[str, Any] = GENERATED, **changes: Any) -> Conditions:
    given = {name: changes.pop(name, None) for name in ("failures_per_month", "records_per_second")}
    config = {"name": "p", "source": source, "pipeline": {"use": "text_topics"}, **STEADY, **changes}
    return conditions_of(read_config(config, folder, "p.yaml"), **given)


def test_records_that_are_all_there_make_full_epochs_at_the_rate_of_their_times(tmp_path: Path) -> None:
    found = conditions(tmp_path)
    assert (found.epoch_records, found.waiting) == (500, 0)
    assert (round(found.records_per_second, 2), found.rate_from) == (1.0, "the records' times")
    assert found.records_per_month == pytest.approx(MONTH, rel=0.01)
    assert found.failures_per_month == 4


def test_a_stream_makes_epochs_of_the_records_that_arrive_meanwhile(tmp_path: Path) -> None:
    slow, fast, flood = (
        conditions(tmp_path, TOPIC, records_per_second=rate, engine={"type": "spark"}) for rate in (1, 1000, 1e7)
    )
    assert slow.epoch_records == 1 and slow.waiting > 0.9
    assert 50 < fast.epoch_records < 200 and fast.waiting < 0.3
    assert flood.epoch_records == 5000 and flood.waiting == 0
    assert isinstance(slow.sample, NoSample)


def test_the_rate_is_the_given_one_or_that_of_the_source(tmp_path: Path) -> None:
    rated = {**GENERATED, "rate": 50}
    assert (conditions(tmp_path, rated).records_per_second, conditions(tmp_path, rated).rate_from) == (
        50,
        "the source's rate",
    )
    assert conditions(tmp_path, rated, records_per_second=7).records_per_second == 7
    assert conditions(tmp_path, TOPIC).rate_from == "assumed"


def test_the_window_is_that_of_the_popularity_or_an_hour(tmp_path: Path) -> None:
    def windowed(popularity: object) -> Conditions:
        return conditions(tmp_path, pipeline={"use": "text_topics", "popularity": popularity}, records_per_second=2)

    counted = windowed({"window": {"type": "count", "size": 700}, "threshold": 0.3}).window
    assert (counted.name, counted.records, counted.threshold) == ("window of 700 records", 700, 0.3)
    assert windowed({"window": {"type": "tumbling", "size": "30m"}}).window.records == 3600
    hour = windowed(None).window
    assert (hour.name, hour.records, hour.threshold) == ("hour", 7200, None)


def test_a_pipeline_without_a_model_has_no_learner_and_no_labels(tmp_path: Path) -> None:
    found = conditions(tmp_path, pipeline={"steps": [{"type": "hashed_text"}]})
    assert found.learner is None
    assert isinstance(found.sample, NoSample) and "no model" in found.sample.reason
    advice = advise(found)
    assert advice.of(Delivery.AT_LEAST_ONCE).rows.month is None and advice.deff is None


def test_a_wrong_config_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no"):
        conditions(tmp_path, {"type": "files", "path": "absent.jsonl"})


def test_a_step_that_is_not_deterministic_makes_exactly_once_impossible(tmp_path: Path) -> None:
    step = {"type": "map", "function": "os.path:basename", "deterministic": False}
    steps = {"steps": [step, {"type": "classify", "model": {"type": "majority"}}]}
    found = conditions(tmp_path, pipeline=steps, guarantee={"delivery": "at_least_once"})
    once = advise(found).of(Delivery.EXACTLY_ONCE)
    assert once.impossible == "step 'map' is not deterministic"


def test_too_many_failures_are_not_predicted(tmp_path: Path) -> None:
    few, many = (
        advise(conditions(tmp_path, failures_per_month=count)).of(Delivery.AT_LEAST_ONCE).rows for count in (10, 10_000)
    )
    assert few.month is not None and few.bound < 0.01
    assert many.month is None and many.bound == 1


def test_labels_of_a_part_of_the_records_count_that_part_of_each_span(tmp_path: Path) -> None:
    """Half of the labels: half of the counted records, so a larger error of a share, by about the root of two."""
    every, half = (
        advise(conditions(tmp_path, {"type": "generator", "records": 20_000, "unlabelled": part}))
        .of(Delivery.AT_LEAST_ONCE)
        .rows.month
        for part in (0.0, 0.5)
    )
    assert every is not None and half is not None
    assert 1.1 < half.rms / every.rms < 1.6
