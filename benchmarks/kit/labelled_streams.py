"""Streams of two labels for one learner and another: seeded texts, and the vectors that the texts stand for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.arrays import Array
from millstream_models.hashed_text import HashedText

__all__ = ["NAMES", "LabelledStream", "labelled_stream"]

NAMES = ("words", "numbers")
_LABELS = ("no", "yes")
_WORDS, _LENGTH, _HASHES = 200, 10, 256
_NUMBERS = 10


@dataclass(frozen=True)
class LabelledStream:
    """Records in order. `step` makes the features of `texts`; `vectors` are the same features and a constant 1."""

    texts: list[str]
    labels: Array
    vectors: Array
    step: Mapping[str, Any]

    def part(self, start: int, stop: int) -> LabelledStream:
        return LabelledStream(
            self.texts[start:stop], self.labels[start:stop], self.vectors[start:stop], dict(self.step)
        )

    def scaled(self) -> Array:
        """The vectors with features of length 1, which Millstream's kernels learn from; the constant stays 1."""
        lengths = np.linalg.norm(self.vectors[:, :-1], axis=1, keepdims=True)
        return np.column_stack([self.vectors[:, :-1] / lengths, self.vectors[:, -1]])

    def write_json_lines(self, path: Path) -> Path:
        """Write one object with `text` and `label` for each record."""
        rows = zip(self.texts, self.labels.tolist(), strict=True)
        path.write_text("".join(json.dumps({"text": text, "label": _LABELS[label]}) + "\n" for text, label in rows))
        return path

    def write_sparse(self, path: Path) -> Path:
        """Write a line for each record: its label, and the values of its vector that are not 0, each as index:value."""
        with path.open("w") as file:
            for label, vector in zip(self.labels.tolist(), self.vectors, strict=True):
                pairs = (f" {index}:{float(vector[index])!r}" for index in np.flatnonzero(vector).tolist())
                file.write(f"{label}{''.join(pairs)}\n")
        return path


def labelled_stream(name: str, seed: int, records: int) -> LabelledStream:
    """The first records of a stream; its words or its weights, and so its difficulty, differ from seed to seed."""
    rng = np.random.default_rng([seed, NAMES.index(name)])
    return _words(rng, records) if name == "words" else _numbers(rng, records)


def _words(rng: np.random.Generator, records: int) -> LabelledStream:
    """Texts of ten words; six of ten come from all texts alike, the others from the label's own words."""
    shared, *own = rng.dirichlet(np.ones(_WORDS), 3)
    labels = rng.integers(0, 2, records)
    chances = 0.6 * shared + 0.4 * np.array(own)[labels]
    drawn = (chances.cumsum(1)[:, None, :] < rng.random((records, _LENGTH, 1))).sum(2).clip(0, _WORDS - 1)
    texts = [" ".join(f"word{number}" for number in row) for row in drawn.tolist()]
    step = HashedText(dimensions=_HASHES)
    counted = step.count(pa.array(texts))
    vectors = np.zeros((records, _HASHES + 1))
    vectors[np.repeat(np.arange(records), np.diff(counted.indptr)), counted.indices] = counted.data
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors[:, -1] = 1
    return LabelledStream(texts, labels, vectors, step.model_dump(mode="json"))


def _numbers(rng: np.random.Generator, records: int) -> LabelledStream:
    """Ten normal numbers, and a label by a logistic model of them."""
    weights = rng.normal(size=_NUMBERS)
    numbers = np.round(rng.normal(size=(records, _NUMBERS)), 4)
    labels = (rng.random(records) < 1 / (1 + np.exp(-numbers @ weights))).astype(np.int64)
    texts = [" ".join(map(str, row)) for row in numbers.tolist()]
    vectors = np.column_stack([numbers, np.ones(records)])
    step = {"type": "benchmarks.contenders.number_features:NumberFeatures", "dimensions": _NUMBERS}
    return LabelledStream(texts, labels, vectors, step)
