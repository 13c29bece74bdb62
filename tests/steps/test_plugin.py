"""A model from another package works like a model of Millstream."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from millstream.config import plugins
from millstream.steps.checks import check_model
from millstream.steps.classify import Classify

PLUGIN = Path(__file__).parents[1] / "plugin"

LABELS = "abbbcabbcb" * 4
RECORDS = pa.table(
    {
        "_rank": [0] * 40,
        "_offset": range(40),
        "_time": range(40),
        "text": ["long" * (1 + "abc".index(label)) + "!" * (index % 2) for index, label in enumerate(LABELS)],
        "label": [*LABELS],
    }
)


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Put the plug-in on the path, as an installation would; processes that the tests start find the plug-in too."""
    monkeypatch.syspath_prepend(str(PLUGIN))
    plugins.registered.cache_clear()
    plugins.load.cache_clear()
    yield
    plugins.registered.cache_clear()
    plugins.load.cache_clear()


def test_a_config_selects_the_plug_in_model_by_its_type() -> None:
    step = Classify.model_validate({"model": {"type": "lengths", "batch_size": 4}}).build(RECORDS.schema)
    assert step.process(RECORDS).records["predicted"].to_pylist()[7:] == [*LABELS[7:]]


def test_the_plug_in_model_passes_the_battery() -> None:
    check_model(Classify.model_validate({"model": {"type": "lengths", "batch_size": 4}}).model, RECORDS)
