"""Words with weights, which other steps have computed, as features."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Literal

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from millstream.compiled.later_imports import import_at_start
from millstream.errors import ConfigError
from millstream.records import record_failed
from millstream.steps.column_checks import check_text_column
from millstream.steps.contracts import Result, Scope, Step, Traits
from millstream.steps.stateless import StatelessStep
from millstream_models.features import FEATURES, Counted, features_field, to_arrow
from millstream_models.hashed_text import HashedText

__all__ = ["WeightedWords"]


class WeightedWords(BaseModel):
    """Makes the column `features` of words and their weights: a JSON object in a text field, made by another step.

    A word has the number that `hashed_text` gives it. The weights of two words with one number are added. A missing
    text has no features.

    >>> records = pa.table({"_rank": [0], "_offset": [0], "weights": ['{"tide": 0.5, "after": 2}']})
    >>> step = WeightedWords(dimensions=1024).build(records.schema)
    >>> step.process(records).records["features"].to_pylist()
    [[{'index': 105, 'count': 0.5}, {'index': 933, 'count': 2.0}]]
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["weighted_words"] = "weighted_words"
    weights: str = Field(default="weights", description='The text field with the weights: {"tide": 0.5, "after": 2}.')
    dimensions: int = Field(
        default=65536, ge=1, le=2**31 - 1, description="The number of different hashes; with more, fewer words collide."
    )

    def build(self, records: pa.Schema) -> Step:
        check_text_column("weighted_words, `weights`", self.weights, records, "weights")
        if FEATURES in records.names:
            message = f"weighted_words makes the column {FEATURES!r}, which is there already; leave one of the two out"
            raise ConfigError(message)
        import_at_start("millstream_models.compiled.words")
        return _WeighingStep(self, records)


class _WeighingStep(StatelessStep):
    traits = Traits(Scope.STATELESS, ordered=False, idempotent=True)

    def __init__(self, config: WeightedWords, records: pa.Schema) -> None:
        self._config = config
        self._words = HashedText(dimensions=config.dimensions)
        self._field = features_field(config.dimensions)
        super().__init__(records.append(self._field))

    def process(self, records: pa.Table) -> Result:
        texts = records[self._config.weights].to_pylist()
        weights = [self._read(text, records, row) for row, text in enumerate(texts)]
        return Result(records.append_column(self._field, to_arrow(self._features(weights))))

    def _features(self, weights: list[Mapping[str, float]]) -> Counted:
        dimensions = self._config.dimensions
        counted = self._words.count(pa.array([word for each in weights for word in each], pa.string()))
        sizes = np.diff(counted.indptr)  # one for each word; a text that is no word has none
        values = np.fromiter((value for each in weights for value in each.values()), np.float64, len(sizes))
        rows = np.repeat(np.arange(len(weights)), [len(each) for each in weights])
        cells, places = np.unique(np.repeat(rows, sizes) * dimensions + counted.indices, return_inverse=True)
        added = np.bincount(places, np.repeat(values, sizes) * counted.data, len(cells)).astype(np.float32)
        edges = np.searchsorted(cells, np.arange(len(weights) + 1) * dimensions)
        return Counted(edges.astype(np.int32), (cells % dimensions).astype(np.int32), added, (len(weights), dimensions))

    def _read(self, text: str | None, records: pa.Table, row: int) -> Mapping[str, float]:
        try:
            found = {} if text is None else json.loads(text)
        except ValueError:
            found = None
        if not isinstance(found, dict) or not all(type(value) in (int, float) for value in found.values()):
            message = f"weighted_words: {text!r} is not a JSON object with a number for each word"
            hint = f"correct the step that makes the field {self._config.weights!r}"
            raise record_failed(f"{message}; {hint}", records, row)
        return found
