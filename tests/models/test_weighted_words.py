"""Weighted words: features of the words and weights that another step has computed."""

from __future__ import annotations

import json
import random

import pyarrow as pa
import pytest

from millstream.errors import ConfigError, StepFailed
from millstream.steps.checks import check_step
from millstream_models.features import dimensions_of, to_csr
from millstream_models.hashed_text import HashedText
from millstream_models.weighted_words import WeightedWords

WORDS = ["tide", "sea", "wind", "sail", "ebb", "Écume"]


def records(*weights: str | None) -> pa.Table:
    position = {"_rank": [0] * len(weights), "_offset": range(7, 7 + len(weights)), "_time": [0] * len(weights)}
    return pa.table({**position, "weights": pa.array(weights, pa.string())})


def weighed(*weights: str | None, dimensions: int = 65536) -> pa.Table:
    some = records(*weights)
    return WeightedWords(dimensions=dimensions).build(some.schema).process(some).records


def test_counts_as_weights_give_the_features_of_hashed_text() -> None:
    dice = random.Random(2)
    texts = [" ".join(dice.choice(WORDS) for _ in range(9)) for _ in range(20)]
    counts = [json.dumps({word: text.split().count(word) for word in text.split()}) for text in texts]
    table = pa.table({"text": texts})
    hashed = HashedText(dimensions=4).build(table.schema).process(table).records  # several words have one number
    found, expected = (
        to_csr(each["features"].combine_chunks(), 4) for each in (weighed(*counts, dimensions=4), hashed)
    )
    assert (found != expected).nnz == 0 and found.sum() == 20 * 9
    assert dimensions_of(weighed(*counts, dimensions=4).schema) == 4


def test_no_weights_no_words_and_no_text_give_no_features() -> None:
    assert weighed("{}", '{"*": 2, "": 1}', None)["features"].to_pylist() == [[], [], []]
    assert weighed().schema.field("features").equals(weighed("{}").schema.field("features"), True)


@pytest.mark.parametrize("text", ["tide 2", "[1]", '{"tide": "2"}', '{"tide": true}'])
def test_a_text_that_is_no_object_of_numbers_stops_the_run_at_its_record(text: str) -> None:
    with pytest.raises(StepFailed, match="not a JSON object with a number for each word; correct") as failed:
        weighed("{}", text)
    assert (failed.value.rank, failed.value.offset) == (0, 8)


def test_a_field_that_is_missing_and_features_that_are_there_already_are_refused() -> None:
    with pytest.raises(ConfigError, match="weighted_words, `weights`: the records have no column 'weight' here"):
        WeightedWords(weights="weight").build(records().schema)
    with pytest.raises(ConfigError, match="weighted_words makes the column 'features', which is there already"):
        WeightedWords().build(weighed().schema)


def test_weighted_words_pass_the_battery() -> None:
    dice = random.Random(3)
    texts = [json.dumps({word: dice.random() for word in dice.sample(WORDS, dice.randrange(5))}) for _ in range(40)]
    check_step(WeightedWords(dimensions=4), records(*texts, None))
