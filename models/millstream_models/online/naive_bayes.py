"""Naive Bayes that learns record by record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pyarrow as pa
from pydantic import Field

from millstream.compiled.later_imports import import_at_start
from millstream.errors import StepFailed
from millstream.steps.contracts import Array, Delta, State
from millstream_models.features import Counted
from millstream_models.online.learner import Learner, OnlineModel

__all__ = ["NaiveBayes"]


class NaiveBayes(OnlineModel):
    """Naive Bayes over counted words: the first choice. It learns from few records, and has nothing to tune.

    Multinomial, which judges a class by its own words; or complement, which judges it by the words of all others,
    better where some classes are rare. A class's unseen words are smoothed over the dimensions that have been seen.

    >>> from millstream_models.hashed_text import HashedText
    >>> model = NaiveBayes(features=HashedText(dimensions=64)).build(pa.schema([("text", pa.string())]))
    >>> rows = model.prepare(pa.array(["a late goal", "the night train", "the late train"]))
    >>> model.predict_then_learn(rows, np.array([0, 1, -1]), known=0)[0].tolist()
    [-1, 0, 1]
    """

    type: Literal["naive_bayes"] = "naive_bayes"
    complement: bool = Field(default=False, description="Whether a class is judged by the words of all other classes.")
    alpha: float = Field(
        default=0.1,
        ge=1e-6,
        le=1000,
        description="Added to every count, so that no probability is 0.",
        json_schema_extra={"keeps_state": True},
    )
    half_life: float | None = Field(
        default=None,
        ge=1,
        le=1_000_000,
        description="After so many labelled records, a record has half its weight; null: all records count alike.",
    )

    def build(self, records: pa.Schema) -> Learner:
        import_at_start("millstream_models.compiled.naive_bayes")
        return _NaiveBayes(self, records)


class _NaiveBayes(Learner):
    def __init__(self, config: NaiveBayes, records: pa.Schema) -> None:
        self._config, self._records = config, records
        # A count in float32 stops growing at 2^24, an int32 does not. With a half-life, counts never become so large.
        self.kind = np.int32 if config.half_life is None else np.float32
        self._growth = 1.0 if config.half_life is None else 2 ** (1 / config.half_life)
        super().__init__(config, records)

    def check(self, rows: Counted) -> None:
        super().check(rows)
        if not len(rows.data):  # as when a pipeline is built: nothing compiled is needed
            return
        if not (rows.data.min() >= 1 and (rows.data == np.trunc(rows.data)).all()):
            wrong = rows.data[(rows.data < 1) | (rows.data != np.trunc(rows.data))][0]
            message = f"naive_bayes counts words, and {wrong} is no count; softmax and ftrl take any numbers"
            raise StepFailed(message)
        from millstream_models.compiled.naive_bayes import MOST

        if rows.data.sum(dtype=np.float64) >= MOST:
            words = np.diff(np.concatenate(([0.0], np.cumsum(rows.data, dtype=np.float64)))[rows.indptr])
            if (words >= MOST).any():
                message = f"naive_bayes counts up to {MOST:,} words in a text, and there is one of {words.max():,.0f}"
                raise StepFailed(message)

    @property
    def adds_up(self) -> bool:
        """With a half-life, the weight of a record depends on those after it."""
        return self._config.half_life is None

    def delta(self, inputs: Counted, labels: Array, classes: int) -> Delta:
        alone = _NaiveBayes(self._config, self._records)
        labelled = np.flatnonzero(labels >= 0)
        alone.learn(inputs if len(labelled) == len(labels) else inputs[labelled], labels[labelled], classes)
        rows = np.flatnonzero(alone.table.any(axis=1))
        return {
            "rows": rows,
            "counts": alone.table[rows, :classes].astype(np.int64),
            "totals": alone._totals[:, :classes].astype(np.int64),
        }

    def merge(self, deltas: Sequence[Delta], classes: int) -> None:
        from millstream_models.compiled.naive_bayes import MOST

        self.make_room(classes)
        sums = self.table.astype(np.int64)
        for delta in deltas:
            width = delta["counts"].shape[1]
            sums[delta["rows"], :width] += delta["counts"]
            self._totals[:, :width] += delta["totals"]
            self.dirty[delta["rows"]] = 1
        if sums.max(initial=0) >= MOST:
            message = (
                f"a word was counted {sums.max():,} times, and counts of {MOST:,} are halved, which does not add up"
            )
            raise StepFailed(f"{message}; train with `--how sequential`")
        self.table[:] = sums
        self._numbers[0] = np.count_nonzero(sums.any(axis=1))
        self.known = max(self.known, classes)

    def numbers(self) -> State:
        return {"totals": self._totals.copy(), "numbers": self._numbers.copy()}

    def begin(self, state: State) -> None:
        self._totals: Array = np.array(state.get("totals", np.zeros((2, self.width))))
        # The number of dimensions with counts, and the weight of a record.
        self._numbers: Array = np.array(state.get("numbers", [0.0, 1.0]))

    def grow(self, width: int) -> None:
        self._totals = np.pad(self._totals, ((0, 0), (0, width - self._totals.shape[1])))

    def fill_chances(self, inputs: tuple[Array, Array, Array], found: Array) -> None:
        from millstream_models.compiled.naive_bayes import all_chances

        config = self._config
        all_chances(*inputs, self.table, self._totals, self._numbers, config.alpha, config.complement, found)

    def take(
        self, inputs: tuple[Array, Array, Array], labels: Array, *, predict: bool, best: Array, probability: Array
    ) -> None:
        from millstream_models.compiled.naive_bayes import take

        take(
            *inputs,
            labels,
            self.known,
            self.table,
            self.dirty,
            self._totals,
            self._numbers,
            self._config.alpha,
            self._growth,
            self._config.complement,
            predict,
            best,
            probability,
        )
