"""A classifier of River by its name, over the words of a text."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field

from millstream.steps.contracts import Array
from millstream_models.libraries.library_config import LibraryConfig
from millstream_models.libraries.library_model import LibraryModel

__all__ = ["River"]


class River(LibraryConfig):
    """A classifier of River, which learns from the counts of the words of `text`, as `BagOfWords` finds them.

    A class for two labels learns one label against the others (`multiclass.OneVsRestClassifier`).

    >>> model = River.model_validate({"class": "naive_bayes.BernoulliNB"}).build(pa.schema([("text", pa.string())]))
    >>> rows = model.prepare(pa.array(["a late goal", "the night train"]))
    >>> model.learn(rows, np.array([0, 1]), classes=2)
    >>> model.predict(rows)[0].tolist()
    [0, 1]
    """

    reads: ClassVar[str] = "text"
    extra: ClassVar[str] = "river"
    library: ClassVar[str] = "river"
    type: Literal["river"] = "river"
    batch_size: int = Field(default=1, ge=1, description="The model learns from this many records at a time.")

    @classmethod
    def problem_of(cls, kind: Any) -> str | None:
        from river.base import Classifier

        if issubclass(kind, Classifier):
            return None
        return f"{kind.__name__} is not a classifier of River; choose one with `learn_one` and `predict_proba_one`"

    def new_model(self, records: pa.Schema | None) -> LibraryModel:
        return _RiverModel(self._new_classifier)

    def _new_classifier(self) -> Any:
        from river.multiclass import OneVsRestClassifier

        made = self.new_object()
        return made if made._multiclass else OneVsRestClassifier(made)


class _RiverModel(LibraryModel):
    reads = River.reads

    def prepare(self, column: pa.Array) -> Array:
        from river.feature_extraction import BagOfWords

        words: Any = BagOfWords().transform_one
        return np.fromiter((words(text or "") for text in column.to_pylist()), np.object_, len(column))

    def chances(self, inputs: Array) -> Array:
        found = np.zeros((len(inputs), max(self._classes, 1)))
        for row, words in enumerate(inputs):
            for label, chance in self._object.predict_proba_one(words).items():
                if label < self._classes:
                    found[row, label] = chance
        return found

    def learn_rows(self, inputs: Array, labels: Array) -> None:
        for words, label in zip(inputs, labels.tolist(), strict=True):
            self._object.learn_one(words, label)

    def trial_column(self, words: list[list[int]]) -> pa.Array:
        return pa.array([" ".join(f"word{each}" for each in document) for document in words], pa.string())
