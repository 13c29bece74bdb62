"""Messages about wrong values in a config name the key that is to be changed, in the words of the config."""

from __future__ import annotations

from pathlib import Path

import pytest

from millstream.config.load import load_config
from millstream.errors import ConfigError

CONFIG = """\
name: wrong
source: {type: generator}
pipeline:
  steps:
    - {STEP}
engine: {type: local}
"""
TOP = "{type: top_k, of: label, window: {type: sliding, size: 1h, slide: SLIDE}}"
JOIN = "{type: join, from: [a, b], by: id"
POPULARITY = "{type: popularity, window: {type: count, size: 5}, half_life: 2h}"


def refused(folder: Path, text: str) -> str:
    path = folder / "wrong.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as error:
        load_config(path)
    return str(error.value).removeprefix(f"{path}:")


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (TOP.replace("SLIDE", "2h"), "window.slide: `slide` 2h is longer than `size`; records would be in no window"),
        (TOP.replace("SLIDE", "1us"), "window.slide: a record would belong to 3,600,000,000 windows, and"),
        (POPULARITY, "half_life: `half_life` is for tumbling windows, and these are count"),
        (f"{JOIN}}}", "a join has either `within`, a duration, or `window`"),
        (f"{JOIN}, within: 999999999d}}", 'within: "999999999d" is not allowed; at most 26687997d'),
        ("{type: popularity, of: [id]}", "of: a list is not text"),
        ("{type: dedupe, by: {id: id}}", "by: a mapping is not text; or a mapping is not a list"),
        ("{type: dedupe, by: []}", "by: a list is not text; or it must not be empty"),
        ("{type: map, from: []}", "from: it must not be empty"),
        (
            "{type: map, from: {stream: source}}",
            "from: only the second stream of a `join` takes a mapping, with `to: all`; write the name alone: `source`",
        ),
        (f"{JOIN.replace('b]', '{stream: b}]')}}}", "from.1: only the second stream of a `join` takes a mapping"),
    ],
)
def test_a_wrong_option_of_a_step_is_named_with_the_remedy(tmp_path: Path, step: str, message: str) -> None:
    found = refused(tmp_path, CONFIG.replace("{STEP}", step))
    place = "pipeline.steps.0: " if message.startswith("a join") else "pipeline.steps.0."
    assert f"5 {place}{message}" in found
    assert "a mapping is not allowed" not in found


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            '{from: "models:/news"}',
            '"models:/news" is not allowed; write models:/NAME/NUMBER, with the number of a ver',
        ),
        ('{from: "models:/news/1", alpha: 0.5}', "5 pipeline.steps.0.model.alpha: unknown key; one of from"),
        (
            '{from: "models:/news/1", type: softmax}',
            "5 pipeline.steps.0.model.from: a model has either `from`, an address in a registry, or `type`",
        ),
    ],
)
def test_a_wrong_address_of_a_registered_model_and_options_beside_it(tmp_path: Path, model: str, message: str) -> None:
    assert message in refused(tmp_path, CONFIG.replace("{STEP}", f"{{type: classify, model: {model}}}"))


def test_steps_at_the_top_of_a_config_belong_below_pipeline(tmp_path: Path) -> None:
    found = refused(tmp_path, "name: old\nsource: {type: generator}\nsteps:\n  - {type: classify}\n")
    assert found == "3 steps: unknown key here; write it below `pipeline:`, as `pipeline.steps`"
