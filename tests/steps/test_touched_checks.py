"""The battery takes a state that knows what was touched of it, and finds one that does not tell all of it."""

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
        "text": [f"{text} {place % 9}" for place, text in enumerate(TEXTS)],
        "label": LABELS,
    }
)


@pytest.mark.parametrize("block", [1, 4])
def test_a_model_that_says_what_it_touched_passes(block: int) -> None:
    check_model(CountedWords(block=block), RECORDS)


def test_a_model_that_does_not_say_of_a_row_that_it_was_touched_is_found() -> None:
    with pytest.raises(AssertionError, match="goes on differently once saved; 'model/counts' in the state"):
        check_model(CountedWords(flags=False), RECORDS)
