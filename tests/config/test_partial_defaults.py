"""A config may change a part of a default: a mapping without `type` is merged over it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from millstream.config.load import load_config, read_config
from millstream.errors import ConfigError

LEAST = """\
name: least
source: {type: files, path: news.jsonl}
pipeline: {use: text_topics}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "least.yaml"
    path.write_text(LEAST)
    return path


def pipeline(config: Path, *sets: str) -> dict[str, Any]:
    loaded = load_config(config, sets)
    assert read_config(loaded.resolved(), loaded.folder, "config.yaml").config == loaded.config
    resolved: dict[str, Any] = loaded.resolved()["pipeline"]
    return resolved


def test_one_option_of_a_default_is_changed_and_the_others_stay(config: Path) -> None:
    changed = pipeline(
        config,
        "pipeline.model.alpha=0.5",
        "pipeline.features.dimensions=4096",
        "pipeline.popularity={threshold: .2}",
        "pipeline.popularity.window.size=2h",
    )
    assert (changed["model"]["type"], changed["model"]["alpha"]) == ("naive_bayes", 0.5)
    assert (changed["features"]["type"], changed["features"]["dimensions"]) == ("hashed_text", 4096)
    assert changed["popularity"]["threshold"] == 0.2
    assert changed["popularity"]["window"] == {"type": "tumbling", "size": "2h", "lateness": "10m"}


def test_options_of_options_are_changed_too(config: Path) -> None:
    assert pipeline(config, "pipeline.model.features.dimensions=1024")["model"]["features"]["dimensions"] == 1024


def test_a_mapping_with_a_type_is_complete(config: Path) -> None:
    window = pipeline(config, "pipeline.popularity={window: {type: tumbling, size: 2h}}")["popularity"]["window"]
    assert window["lateness"] == "0s"  # the default of the type, not of the pipeline
    assert pipeline(config, "pipeline.model={type: sgd, alpha: 0.5}")["model"]["batch_size"] == 256


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("pipeline.model.alfa=1", r"pipeline\.model\.alfa: unknown key; did you mean `alpha`\?"),
        ("pipeline.features.dimension=1", r"pipeline\.features\.dimension: unknown key; did you mean `dimensions`\?"),
        ("pipeline.model.alpha=-1", r"pipeline\.model\.alpha: -1 is not allowed"),
        ("pipeline.popularity.window.sise=1h", r"popularity\.window\.sise: unknown key; did you mean `size`\?"),
        ("pipeline.features=null", "features: null is not a mapping with options of hashed_text; leave `features` out"),
        ("pipeline.model=alpha", r"pipeline\.model: a model is a mapping with `type`, one of "),
    ],
)
def test_a_wrong_option_is_reported_as_one_of_the_default(config: Path, assignment: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(config, [assignment])


@pytest.mark.parametrize("value", ["true", "news", "[]"])
def test_a_wrong_value_of_mlflow_is_refused_with_both_right_forms(config: Path, value: str) -> None:
    with pytest.raises(
        ConfigError, match=r"mlflow: .* is not allowed; false, or a mapping with `experiment` or `model`"
    ):
        load_config(config, [f"mlflow={value}"])
