"""FTRL-proximal that learns record by record."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np
import pyarrow as pa
from pydantic import Field

from millstream.compiled.later_imports import import_at_start
from millstream.steps.contracts import Array, State
from millstream_models.averages import Averages
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

    def average(self, replicas: Iterable[tuple[State, int]], classes: int) -> None:
        self.make_room(classes)
        self.take_average(_WeightRows(self.table, self._config), replicas)
        self.known = max(self.known, classes)

    def numbers(self) -> State:
        return {}

    def begin(self, state: State) -> None:
        pass

    def grow(self, width: int) -> None:
        pass

    def fill_chances(self, inputs: tuple[Array, Array, Array], found: Array) -> None:
        from millstream_models.compiled.softmax import ftrl_chances

        config = self._config
        ftrl_chances(*inputs, self.table, self.width, config.alpha, config.beta, config.l1, config.l2, found)

    def without_optimiser(self, state: State) -> State | None:
        """Return a state with the same weights, and without squared gradients: z is set so that the weights stay.

        None if `beta` and `l2` are 0: a weight is then z divided by its squared gradients, and nothing without them.
        """
        config = self._config
        first = config.beta / config.alpha + config.l2
        if not first:
            return None
        table = np.array(state["table"])
        z, roots = np.hsplit(table, self.parts)
        beyond = np.maximum(np.abs(z) - config.l1, 0)
        kept = beyond * first / (roots / config.alpha + first)
        z[:] = np.where(beyond > 0, np.copysign(kept + config.l1, z), z)
        roots[:] = 0
        return {**state, "table": table}

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


class _WeightRows(Averages):
    """Rows of z and roots, of which the weights are averaged, and the squared gradients added.

    z is then set to give these weights. The part of z that is no weight because of `l1` has a mean of its own.
    """

    def __init__(self, start: Array, config: FTRL) -> None:
        self._l1, self._alpha, self._first = config.l1, config.alpha, config.beta / config.alpha + config.l2
        super().__init__(start)

    def split(self, rows: Array) -> tuple[Array, Array]:
        z, roots = np.hsplit(rows.astype(np.float64), 2)
        evidence = np.clip(z, -self._l1, self._l1)
        divisor = roots / self._alpha + self._first
        weights = np.divide(evidence - z, divisor, out=np.zeros_like(z), where=divisor > 0)
        return np.hstack([weights, evidence]), np.square(roots)

    def join(self, means: Array, sums: Array) -> Array:
        weights, evidence = np.hsplit(means, 2)
        roots = np.sqrt(sums)
        beyond = np.copysign(np.abs(weights) * (roots / self._alpha + self._first) + self._l1, -weights)
        return np.hstack([np.where(weights != 0, beyond, evidence), roots])
