"""Hashed text: counts of words, the same on every machine and without state."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError
from sklearn.feature_extraction.text import HashingVectorizer

from millstream.errors import ConfigError
from millstream.steps.checks import check_step
from millstream_models.features import to_csr
from millstream_models.hashed_text import HashedText


def hashed(texts: list[str | None], **options: Any) -> pa.Table:
    records = pa.table({"text": pa.array(texts, pa.string())})
    return HashedText(**{"dimensions": 256, **options}).build(records.schema).process(records).records


@pytest.mark.parametrize("ngrams", [(1, 1), (1, 2), (2, 3)])
def test_with_murmur3_the_counts_are_those_of_scikit_learn(
    texts: Callable[..., pa.Table], ngrams: tuple[int, int]
) -> None:
    some = texts(40)["text"].to_pylist()
    expected = HashingVectorizer(n_features=256, alternate_sign=False, norm=None, ngram_range=ngrams).transform(some)
    found = to_csr(hashed(some, ngrams=ngrams, hash="murmur3")["features"].combine_chunks(), 256)
    assert (found != expected).nnz == 0


def test_a_text_that_is_missing_or_has_no_words_has_no_features() -> None:
    assert hashed([None, "", "a ! b"])["features"].to_pylist() == [[], [], []]


def test_the_columns_of_a_full_and_an_empty_batch_have_the_number_of_dimensions() -> None:
    for texts in (["high tide"], []):
        assert hashed([*texts], dimensions=99).schema.field("features").metadata == {b"dimensions": b"99"}


def test_it_can_go_to_another_process_as_config_and_as_step() -> None:
    records = pa.table({"text": ["high tide"]})
    config = pickle.loads(pickle.dumps(HashedText(dimensions=64)))  # noqa: S301
    step = pickle.loads(pickle.dumps(config.build(records.schema)))  # noqa: S301
    assert step.process(records).records.equals(hashed(["high tide"], dimensions=64))


def test_records_without_text_are_refused() -> None:
    with pytest.raises(ConfigError, match="reads the column 'text', but there are only body, label"):
        HashedText().build(pa.schema([("body", pa.string()), ("label", pa.string())]))


def test_a_column_features_that_exists_already_is_refused() -> None:
    with pytest.raises(ConfigError, match="'features', which is there already"):
        HashedText().build(hashed(["high tide"]).schema)


@pytest.mark.parametrize("ngrams", [[2, 1], [0, 1], [1, 11]])
def test_ngrams_that_do_not_ascend_are_refused(ngrams: list[int]) -> None:
    with pytest.raises(ValidationError, match=r"is not \[least, most\]"):
        HashedText.model_validate({"ngrams": ngrams})


def test_it_passes_the_battery(texts: Callable[..., pa.Table]) -> None:
    check_step(HashedText(dimensions=128), texts(30), skip=["another_process_changes_nothing"])


@pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())])
def test_text_may_have_any_layout_in_memory(kind: pa.DataType) -> None:
    records = pa.table({"text": pa.array(["high tide", None, "low tide"]).cast(kind)})
    step = HashedText(dimensions=256).build(records.schema)
    assert step.process(records).records["features"].equals(hashed(["high tide", None, "low tide"])["features"])


def test_a_column_that_is_not_text_is_refused() -> None:
    with pytest.raises(ConfigError, match="hashed_text reads text, but the column 'text' is int64"):
        HashedText().build(pa.schema([("text", pa.int64())]))
