"""The work of the hand-written contenders: hash the words, predict, learn in mini-batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.sparse import vstack

from millstream.steps.contracts import Array, State
from millstream_models.features import FEATURES, features_field, to_csr
from millstream_models.hashed_text import HashedText
from millstream_models.naive_bayes import ComplementNB

__all__ = ["MiniBatchLearner"]

_DIMENSIONS, _BATCH_SIZE = 65_536, 256
"""The same as in the measured pipeline, kit.pipeline.CLASSIFY."""


class MiniBatchLearner:
    """The features and the model of the measured pipelines, in the mini-batches of the step `classify`.

    >>> learner = MiniBatchLearner()
    >>> classes, probability = learner.take(["a goal", "a train", "a goal"], ["sport", "travel", "sport"])
    >>> classes.tolist(), learner.names, learner.correct
    ([-1, 0, 0], ['sport', 'travel'], 1)
    """

    def __init__(self) -> None:
        self._features = HashedText(dimensions=_DIMENSIONS).build(pa.schema([("text", pa.string())]))
        self._model = ComplementNB(batch_size=_BATCH_SIZE).build(pa.schema([features_field(_DIMENSIONS)]))
        self._codes: dict[str, int] = {}
        self._batch: list[tuple[Any, Array]] = []
        self._waiting = self._batches = self._known = 0
        self.correct = 0

    @property
    def names(self) -> list[str]:
        """The names of the classes."""
        return list(self._codes)

    def take(self, texts: Sequence[str], labels: Sequence[str]) -> tuple[Array, Array]:
        """The class and probability of each text, -1 if no class was known; then learn the labels."""
        table = self._features.process(pa.table({"text": pa.array(texts, pa.string())})).records
        inputs = to_csr(table[FEATURES].combine_chunks(), _DIMENSIONS)
        codes = np.array([self._codes.setdefault(label, len(self._codes)) for label in labels], np.int64)
        classes, probability = np.full(len(texts), -1, np.int64), np.zeros(len(texts))
        start = 0
        while start < len(texts):
            size = min(1 << min(self._batches, 30), _BATCH_SIZE)
            stop = min(len(texts), start + size - self._waiting)
            if self._known:
                classes[start:stop], probability[start:stop] = self._model.predict(inputs[start:stop])
            self._batch.append((inputs[start:stop], codes[start:stop]))
            self._waiting += stop - start
            if self._waiting == size:
                self._learn()
            start = stop
        self.correct += int(np.count_nonzero(classes == codes))
        return classes, probability

    def save(self) -> State:
        """The model's parameters."""
        return self._model.save()

    def _learn(self) -> None:
        inputs = self._batch[0][0] if len(self._batch) == 1 else vstack([part for part, _ in self._batch], "csr")
        labels = np.concatenate([part for _, part in self._batch])
        self._known = max(self._known, int(labels.max()) + 1)
        self._model.learn(inputs, labels, self._known)
        self._batch, self._waiting, self._batches = [], 0, self._batches + 1
