"""The checks of models find a model that does not flag all dirty rows of its state."""

from __future__ import annotations

import pyarrow as pa
import pytest
from support.steps_counted_words import CountedWords

from millstream.steps.checks import check_model

TEXTS = ["high tide", "low tide", "ebb and flow", "rain tomorrow", "snow tomorrow", "no rain at all"] * 6
LABELS = ["sea", "sea", "sea", "weather", "weather", "news"] * 6
RECORDS = pa.table(
    {
        "_rank": pa.array([0] * len(TEXTS), pa.int32()),
        "_offset": range(len(TEXTS)),
        "_time": range(len(TEXTS)),
        "text": [f"{text} {index % 9}" for index, text in enumerate(TEXTS)],
        "label": LABELS,
    }
)


@pytest.mark.parametrize("size", [1, 4])
def test_a_model_that_flags_its_dirty_rows_passes(size: int) -> None:
    check_model(CountedWords(batch_size=size), RECORDS)


def test_a_model_that_does_not_flag_a_dirty_row_is_found() -> None:
    with pytest.raises(AssertionError, match="gives other results after `save`; 'model/counts' in the state"):
        check_model(CountedWords(flags=False), RECORDS)
