"""The configs of filter and map: the functions that they name, and their options."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from support.record_functions import Define, build_filter, build_map, not_bad, shout

from millstream.errors import ConfigError
from millstream.steps.functions import Map


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("rules:chosn", "rules has no 'chosn'; did you mean `chosen`?"),
        ("rules:Box.opn", "rules.Box has no 'opn'; did you mean `open`?"),
        ("rules:zzz", "rules has no 'zzz'; check the spelling in rules"),
        ("rules:number", "rules:number is not a function but 3 (int)"),
        (
            "no_such_package.rules:f",
            "there is no module 'no_such_package'; install its package, run the command in its",
        ),
        ("json.no_such:f", "there is no module 'json.no_such'"),
    ],
)
def test_a_function_that_does_not_exist_is_refused_with_the_most_similar_name(
    function: str, message: str, define: Define
) -> None:
    define(not_bad)
    sys.modules["rules"].__dict__.update(number=3, Box=type("Box", (), {"open": len}))
    with pytest.raises(ConfigError) as refused:
        build_filter(function=function, name="clean")
    assert str(refused.value).startswith("step 'clean', `function`: ")
    assert message in str(refused.value)


def test_a_module_that_fails_to_import_is_refused_with_the_error_of_the_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_rules.py").write_text("import no_such_thing\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=r"broken_rules cannot be imported: ModuleNotFoundError: .*no_such_thing"):
        build_filter(function="broken_rules:f")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"function": "rules.chosen"}, "package.module:name"),
        ({"function": "rules:"}, "package.module:name"),
        ({"function": "rules:f", "adds": ["_x"]}, "'_x' cannot be a field"),
        ({"function": "rules:f", "adds": ["x", "x"]}, "'x' is listed twice"),
        ({"function": "rules:f", "on_error": "skip"}, "'fail' or 'reject'"),
        ({"function": "rules:f", "per": "row"}, "'record' or 'batch'"),
    ],
)
def test_a_wrong_config_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as wrong:
        Map.model_validate(options)
    assert message in str(wrong.value)


def test_a_map_may_not_add_a_field_that_exists(define: Define) -> None:
    with pytest.raises(ConfigError, match="have a field 'label' already; remove it from `adds` to replace that field"):
        build_map(function=define(shout), adds=["label"])
