"""Naive Bayes over counted features, computed here with the formulas of scikit-learn.

The `partial_fit` of scikit-learn computes the log-probabilities of all dimensions after every mini-batch, which takes
milliseconds for mini-batches of any size. The models of this file keep only the counts, and compute the logarithms of
the few dimensions that the next records have. The results are the same to the bit, in a fraction of the time; the
tests compare them with the results of scikit-learn.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from millstream.steps.contracts import Array, State
from millstream_models.chances import chances_of
from millstream_models.features import FEATURES, Counted, compacted, dimensions_of

__all__ = ["ComplementNB", "MultinomialNB"]


class _NaiveBayesConfig(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    extra: ClassVar[str] = "sklearn"  # SciPy's sparse rows
    batch_size: int = Field(
        default=256,
        ge=1,
        description="The model learns from this many records at a time.",
        json_schema_extra={"keeps_state": True},
    )
    alpha: float = Field(
        default=1.0,
        gt=0,
        description="Added to every count, so that no probability is 0.",
        json_schema_extra={"keeps_state": True},
    )


class ComplementNB(_NaiveBayesConfig):
    """Complement naive Bayes: judges a class by the words of all other classes. The first choice for uneven classes.

    >>> from millstream_models.features import features_field
    >>> field = features_field(3)
    >>> model = ComplementNB().build(pa.schema([field]))
    >>> one = lambda index: [{"index": index, "count": 1.0}]
    >>> rows = model.prepare(pa.array([one(0), one(2)], field.type))
    >>> model.learn(rows, np.array([0, 1]), classes=2)
    >>> model.predict(rows)[0].tolist()
    [0, 1]
    """

    type: Literal["complement_nb"] = "complement_nb"

    def build(self, records: pa.Schema) -> _NaiveBayes:
        return _Complement(dimensions_of(records), self.alpha)


class MultinomialNB(_NaiveBayesConfig):
    """Multinomial naive Bayes: judges a class by its own words and by how common it is.

    >>> from millstream_models.features import features_field
    >>> field = features_field(3)
    >>> model = MultinomialNB(alpha=0.5).build(pa.schema([field]))
    >>> one = lambda index: [{"index": index, "count": 1.0}]
    >>> rows = model.prepare(pa.array([one(0), one(2)], field.type))
    >>> model.learn(rows, np.array([0, 1]), classes=2)
    >>> model.predict(rows)[1].round(2).tolist()
    [0.75, 0.75]
    """

    type: Literal["multinomial_nb"] = "multinomial_nb"

    def build(self, records: pa.Schema) -> _NaiveBayes:
        return _Multinomial(dimensions_of(records), self.alpha)


class _NaiveBayes(ABC):
    """Counts by dimension and class; `scores` computes the joint log-likelihood of each class from them."""

    reads = FEATURES

    def __init__(self, dimensions: int, alpha: float) -> None:
        self._dimensions = dimensions
        self._alpha = alpha
        self._counts: Array
        self._totals: Array  # of counts, by class
        self._records: Array  # by class
        self.restore({})

    def prepare(self, column: pa.Array) -> Any:
        return Counted.of(column, self._dimensions)

    def predict(self, inputs: Any) -> tuple[Array, Array]:
        scores = self.scores(inputs)
        best = scores.argmax(axis=1)
        scores -= scores.max(axis=1, keepdims=True)
        return best, 1 / np.exp(scores).sum(axis=1)

    def chances(self, inputs: Any) -> Array:
        return chances_of(self.scores(inputs))

    @abstractmethod
    def scores(self, inputs: Any) -> Array:
        """The joint log-likelihood of each row and class, up to a number that is the same for all classes."""

    def learn(self, inputs: Any, labels: Array, classes: int) -> None:
        if classes > self._counts.shape[1]:
            new = classes - self._counts.shape[1]
            self._counts = np.hstack([self._counts, np.zeros((self._dimensions, new))])
            self._totals, self._records = np.pad(self._totals, (0, new)), np.pad(self._records, (0, new))
        each = np.repeat(labels, np.diff(inputs.indptr))
        np.add.at(self._counts.reshape(-1), inputs.indices.astype(np.int64) * classes + each, inputs.data)
        self._totals += np.bincount(each, inputs.data, classes)
        self._records += np.bincount(labels, minlength=classes)

    def save(self) -> State:
        return {"counts": self._counts.copy(), "totals": self._totals.copy(), "records": self._records.copy()}

    def restore(self, state: State) -> None:
        self._counts = np.array(state.get("counts", np.zeros((self._dimensions, 0))))
        self._totals = np.array(state.get("totals", np.zeros(0)))
        self._records = np.array(state.get("records", np.zeros(0)))


class _Complement(_NaiveBayes):
    def scores(self, inputs: Any) -> Array:
        dimensions, rows = compacted(inputs)
        counts = self._counts[dimensions]
        others = counts.sum(axis=1, keepdims=True) + self._alpha - counts
        all_others = self._totals.sum() - self._totals + self._alpha * self._dimensions
        scores: Array = rows @ -np.log(others / all_others)
        return scores


class _Multinomial(_NaiveBayes):
    def scores(self, inputs: Any) -> Array:
        dimensions, rows = compacted(inputs)
        logs = np.log(self._counts[dimensions] + self._alpha)
        logs -= np.log(self._totals + self._alpha * self._dimensions)
        scores: Array = rows @ logs
        scores += np.log(self._records) - np.log(self._records.sum())
        return scores
