"""FTRL-proximal that learns record by record."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pyarrow as pa
from pydantic import Field

from millstream.compiled.later_imports import import_at_start
from millstream.steps.contracts import Array, State
from millstream_models.chances import of_length_one
from millstream_models.online.learner import Learner, OnlineModel

__all__ = ["FTRL"]


class FTRL(OnlineModel):
    """Logistic regression by FTRL-proximal: as `softmax`, but words with little evidence keep a weight of exactly 0.

    >>> import numpy as np
    >>> from millstream_models.hashed_text import HashedText
    >>> model = FTRL(features=HashedText(dimensions=64)).build(pa.schema([("text", pa.string())]))
    >>> rows = model.prepare(pa.array(["a late goal", "the night train", "the late train"]))
    >>> model.predict_then_learn(rows, np.array([0, 1, -1]), known=0)[0].tolist()
    [-1, 0, 1]
    """

    type: Literal["ftrl"] = "ftrl"
    alpha: float = Field(default=1.0, ge=1e-6, le=1e6, description="The length of the steps.")
    beta: float = Field(default=0.1, ge=0, description="The greater, the later the steps of a weight become shorter.")
    l1: float = Field(default=0.0, ge=0, description="How much evidence a word needs before its weight is not 0.")
    l2: float = Field(default=0.0, ge=0, description="How strongly all weights are pulled towards 0.")

    def build(self, records: pa.Schema) -> Learner:
        import_at_start("millstream_models.compiled.softmax")
        return _FTRL(self, records)


class _FTRL(Learner):
    parts = 2
    more_rows = 1
    remedy = "lower its `alpha`"

    def __init__(self, config: FTRL, records: pa.Schema) -> None:
        self._config = config
        super().__init__(config, records)

    def numbers(self) -> State:
        return {}

    def begin(self, state: State) -> None:
        pass

    def grow(self, width: int) -> None:
        pass

    def scores(self, indices: Array, counts: Array) -> Array:
        rows = np.append(indices, self.table.shape[0] - 1)  # the last row is that of the bias
        z, root = (self.table[rows, part : part + self.known].astype(np.float64) for part in (0, self.width))
        beyond, config = np.abs(z) - self._config.l1, self._config
        steps = (root + config.beta) / config.alpha + config.l2
        weights = np.divide(-np.copysign(beyond, z), steps, out=np.zeros_like(z), where=(beyond > 0) & (steps > 0))
        return np.asarray(np.append(of_length_one(counts), 1.0) @ weights)

    def take(
        self, inputs: tuple[Array, Array, Array], labels: Array, *, predict: bool, best: Array, probability: Array
    ) -> None:
        from millstream_models.compiled.softmax import take_ftrl

        take_ftrl(
            *inputs,
            labels,
            self.known,
            self.table,
            self.dirty,
            self.width,
            self._config.alpha,
            self._config.beta,
            self._config.l1,
            self._config.l2,
            predict,
            best,
            probability,
        )
