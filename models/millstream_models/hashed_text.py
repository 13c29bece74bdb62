"""Text as counts of hashed words: no vocabulary to learn, so no state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, field_validator

from millstream.errors import ConfigError
from millstream.steps.contracts import Output, Result, Scope, State, Step, Traits
from millstream_models.features import FEATURES, features_field, to_arrow

__all__ = ["HashedText"]


class HashedText(BaseModel):
    """Counts the words of `text`, each under a number that is a hash of it, in the new column `features`.

    >>> records = pa.table({"text": ["tide after tide"]})
    >>> step = HashedText(dimensions=1024).build(records.schema)
    >>> step.process(records).records["features"].to_pylist()
    [[{'index': 9, 'count': 1.0}, {'index': 570, 'count': 2.0}]]
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["hashed_text"] = "hashed_text"
    dimensions: int = Field(
        default=65536, ge=1, le=2**31 - 1, description="How many numbers words are hashed to; more collide less."
    )
    ngrams: tuple[int, int] = Field(
        default=(1, 1), description="The least and most words in a row that count together; [1, 2] is words and pairs."
    )

    @field_validator("ngrams")
    @classmethod
    def _ascending(cls, ngrams: tuple[int, int]) -> tuple[int, int]:
        if not 1 <= ngrams[0] <= ngrams[1]:
            message = f"{list(ngrams)} is not [least, most] with 1 <= least <= most; [1, 1] counts single words"
            raise ValueError(message)
        return ngrams

    def build(self, records: pa.Schema) -> Step:
        if "text" not in records.names:
            message = f"hashed_text reads the column 'text', but there are only {', '.join(records.names)}"
            raise ConfigError(f"{message}; name the field that holds text in the source's `fields: {{text: ...}}`")
        if FEATURES in records.names:
            message = f"hashed_text makes the column {FEATURES!r}, which is there already; leave one of the two out"
            raise ConfigError(message)
        return _Hashing(self.dimensions, self.ngrams, records)


class _Hashing:
    traits = Traits(Scope.STATELESS, ordered=False, idempotent=True, only_adds=True)
    outputs: Sequence[Output] = ()

    def __init__(self, dimensions: int, ngrams: tuple[int, int], records: pa.Schema) -> None:
        import numpy as np
        from sklearn.feature_extraction import FeatureHasher
        from sklearn.feature_extraction.text import HashingVectorizer

        self._field = features_field(dimensions)
        self._no_records = records.append(self._field).empty_table()
        # HashingVectorizer makes these two anew for every batch, which costs more than hashing a few texts.
        self._words = HashingVectorizer(ngram_range=ngrams).build_analyzer()
        # Signed or normalised counts would make naive Bayes refuse them, or depend on the order of its records.
        self._hasher = FeatureHasher(dimensions, input_type="string", dtype=np.float32, alternate_sign=False)

    def process(self, records: pa.Table) -> Result:
        texts = [text or "" for text in records["text"].to_pylist()]
        if not texts:
            return Result(records.append_column(self._field, pa.array([], self._field.type)))
        features = to_arrow(self._hasher.transform(map(self._words, texts)))
        return Result(records.append_column(self._field, features))

    def ended(self, substream: Any) -> Result:
        return Result(self._no_records)

    def save(self) -> State:
        return {}

    def restore(self, state: State) -> None:
        pass
