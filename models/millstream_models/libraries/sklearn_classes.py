"""A classifier of scikit-learn by its name, over hashed features."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field

from millstream.errors import StepFailed
from millstream.steps.contracts import Array
from millstream_models.features import FEATURES, dimensions_of, features_field, to_csr
from millstream_models.libraries.library_config import LibraryConfig
from millstream_models.libraries.library_model import LibraryModel

__all__ = ["ScikitLearn"]

_TRIAL_DIMENSIONS = 400


class ScikitLearn(LibraryConfig):
    """A classifier of scikit-learn with `partial_fit`, which learns from the column `features`.

    `partial_fit` needs the number of classes in advance, so `classes` limits the number of labels. Labels that have not
    appeared yet are never predicted.

    >>> model = ScikitLearn.model_validate({"class": "naive_bayes.MultinomialNB"}).build(pa.schema([features_field(3)]))
    >>> one = lambda index: [{"index": index, "count": 1.0}]
    >>> rows = model.prepare(pa.array([one(0), one(2)], features_field(3).type))
    >>> model.learn(rows, np.array([0, 1]), classes=2)
    >>> model.predict(rows)[0].tolist()
    [0, 1]
    """

    extra: ClassVar[str] = "sklearn"
    library: ClassVar[str] = "sklearn"
    type: Literal["scikit_learn"] = "scikit_learn"
    batch_size: int = Field(default=256, ge=1, description="The model learns from this many records at a time.")
    classes: int = Field(default=16, ge=2, le=10_000, description="The most labels that the stream may have.")

    @classmethod
    def problem_of(cls, kind: Any) -> str | None:
        from sklearn.base import ClassifierMixin

        if issubclass(kind, ClassifierMixin) and hasattr(kind, "partial_fit"):
            return None
        return f"{kind.__name__} does not learn online; choose a classifier of scikit-learn with `partial_fit`"

    def new_model(self, records: pa.Schema | None) -> LibraryModel:
        dimensions = _TRIAL_DIMENSIONS if records is None else dimensions_of(records)
        return _ScikitLearnModel(self.new_object, dimensions, self.classes)


class _ScikitLearnModel(LibraryModel):
    reads = FEATURES

    def __init__(self, make: Callable[[], Any], dimensions: int, room: int) -> None:
        self._dimensions = dimensions
        self._room = room
        super().__init__(make)

    def prepare(self, column: pa.Array) -> Any:
        return to_csr(column, self._dimensions)

    def chances(self, inputs: Any) -> Array:
        found = self._all_chances(inputs)[:, : self._classes]
        sums = found.sum(axis=1, keepdims=True)
        chances: Array = np.divide(found, sums, out=np.zeros_like(found), where=sums > 0)
        return chances

    def _all_chances(self, inputs: Any) -> Array:
        """The probabilities of the class; without them, those of its margins, one class against the rest."""
        if hasattr(self._object, "predict_proba"):
            found: Array = self._object.predict_proba(inputs)
            return found
        margins = self._object.decision_function(inputs)
        if margins.ndim == 1:
            margins = np.column_stack([-margins, margins])
        return np.asarray(1 / (1 + np.exp(np.minimum(-margins, 700))))

    def learn_rows(self, inputs: Any, labels: Array) -> None:
        if self._classes > self._room:
            message = (
                f"the stream has more than {self._room} labels, and scikit-learn's classes need their number in advance"
            )
            raise StepFailed(f"{message}; set `classes` of the model to as many as may come, and start with --fresh")
        if len(labels):
            self._object.partial_fit(inputs, labels, classes=np.arange(self._room))

    def trial_column(self, words: list[list[int]]) -> pa.Array:
        rows = [[{"index": index, "count": float(count)} for index, count in Counter(each).items()] for each in words]
        return pa.array(rows, features_field(self._dimensions).type)
