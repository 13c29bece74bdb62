"""Text as counts of hashed words: no vocabulary to learn, so no state."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, ConfigDict, Field, field_validator

from millstream.compiled.later_imports import import_at_start
from millstream.errors import ConfigError
from millstream.records import is_text
from millstream.steps.contracts import Array, Result, Scope, Step, Traits
from millstream.steps.stateless import StatelessStep
from millstream_models.compiled.letters import letters
from millstream_models.features import FEATURES, Counted, features_field, to_arrow

__all__ = ["HashedText"]

_LONGEST = 10  # words in a row
_MOST_BYTES = 2**31 - 1  # of text in one array with offsets of 32 bits


class HashedText(BaseModel):
    """Counts the words of `text` in the new column `features`; the number of a word is a hash of the word.

    A word is two or more letters, digits or underscores in a row, in lower case. A text's words come in the order in
    which they first occur.

    >>> records = pa.table({"text": ["tide after tide"]})
    >>> step = HashedText(dimensions=1024).build(records.schema)
    >>> step.process(records).records["features"].to_pylist()
    [[{'index': 105, 'count': 2.0}, {'index': 933, 'count': 1.0}]]
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["hashed_text"] = "hashed_text"
    dimensions: int = Field(
        default=65536, ge=1, le=2**31 - 1, description="The number of different hashes; with more, fewer words collide."
    )
    ngrams: tuple[int, int] = Field(
        default=(1, 1), description="The least and most words of an n-gram; [1, 2] counts single words and pairs."
    )
    hash: Literal["fast", "murmur3"] = Field(
        default="fast",
        description="The hash of a word: `murmur3` is that of scikit-learn, so that features can be exchanged.",
    )

    @field_validator("ngrams")
    @classmethod
    def _ascending(cls, ngrams: tuple[int, int]) -> tuple[int, int]:
        if not 1 <= ngrams[0] <= ngrams[1] <= _LONGEST:
            message = (
                f"{list(ngrams)} is not [least, most] with 1 <= least <= most <= {_LONGEST}; [1, 1] is single words"
            )
            raise ValueError(message)
        return ngrams

    def build(self, records: pa.Schema) -> Step:
        self.check_text(records)
        if FEATURES in records.names:
            message = f"hashed_text makes the column {FEATURES!r}, which is there already; leave one of the two out"
            raise ConfigError(message)
        import_at_start("millstream_models.compiled.words")
        return _HashingStep(self, records)

    def check_text(self, records: pa.Schema) -> None:
        """Refuse records without a text whose words can be counted."""
        if "text" not in records.names:
            message = f"hashed_text reads the column 'text', but there are only {', '.join(records.names)}"
            raise ConfigError(f"{message}; name the field that holds text in the source's `fields: {{text: ...}}`")
        kind = records.field("text").type
        if not (is_text(kind) or pa.types.is_string_view(kind)):
            raise ConfigError(
                f"hashed_text reads text, but the column 'text' is {kind}; a `map` step can make text of it"
            )

    def count(self, texts: pa.Array) -> Counted:
        """The counted words of each text; a missing text has none.

        >>> HashedText(dimensions=8).count(pa.array(["tide after tide", None])).indptr.tolist()
        [0, 2, 2]
        """
        if not len(texts):  # as when a pipeline is built: without records, nothing needs to be compiled
            return Counted(np.zeros(1, np.int32), np.zeros(0, np.int32), np.zeros(0, np.float32), (0, self.dimensions))
        from millstream_models.compiled.words import FAST, MURMUR3, count_words

        if not (pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type)):
            texts = texts.cast(pa.string())  # other types have another layout in memory
        if texts.null_count:
            texts = pc.fill_null(texts, "")
        _, edges, data = texts.buffers()
        wide = np.int64 if pa.types.is_large_string(texts.type) else np.int32
        memory: Array = np.frombuffer(data if data is not None else b"", np.uint8)
        memory.flags.writeable = False  # the function is compiled for read-only arrays, as most of Arrow's are
        indptr, indices, counts = count_words(
            np.frombuffer(edges, wide)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64),
            memory,
            *letters(),
            self.dimensions,
            *self.ngrams,
            MURMUR3 if self.hash == "murmur3" else FAST,
        )
        return Counted(indptr, indices, counts, (len(texts), self.dimensions))


class _HashingStep(StatelessStep):
    traits = Traits(Scope.STATELESS, ordered=False, idempotent=True, only_adds=True)

    def __init__(self, config: HashedText, records: pa.Schema) -> None:
        self._config = config
        self._field = features_field(config.dimensions)
        super().__init__(records.append(self._field))

    def process(self, records: pa.Table) -> Result:
        texts = records["text"]
        if texts.nbytes > _MOST_BYTES:
            texts = texts.cast(pa.large_string())
        features = to_arrow(self._config.count(texts.combine_chunks()))
        return Result(records.append_column(self._field, features))
