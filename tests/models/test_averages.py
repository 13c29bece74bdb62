"""The average of replicas: weighted means of the weights that both changed, and sums of squares and of counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from millstream.steps.contracts import Array, State
from millstream_models.hashed_text import HashedText
from millstream_models.online.ftrl import FTRL
from millstream_models.online.softmax import Softmax
from millstream_models.sgd import SGD

RECORDS = (3, 1)


def parts_of(build: Callable[[], Any], rows: Callable[[Any, list[str]], Any]) -> tuple[State, list[State], State]:
    """The state of a model that has learned two texts, those of two replicas that learned on, and their average."""
    model = build()
    model.learn(rows(model, ["harbour light", "orchard gate"]), np.array([0, 1]), 2)
    start = model.save()
    texts = [(["harbour wall", "orchard wall", "harbour light"], [0, 1, 0]), (["glacier wall"], [2])]
    replicas = []
    for words, labels in texts:
        replica = build()
        replica.restore(start)
        replica.learn(rows(replica, words), np.array(labels), max(labels) + 1)
        replicas.append(replica.save())
    model.average(zip(replicas, RECORDS, strict=True), 3)
    return start, replicas, model.save()


def from_text(model: Any, texts: list[str]) -> Any:
    return model.prepare(pa.array(texts))


def tables(states: list[State], parts: int) -> list[tuple[Array, Array]]:
    """The two halves of each table, as float64; the second one is empty if the table has one part."""
    halves = []
    for state in states:
        table = (
            np.asarray(state["table"])
            .astype(np.float64)
            .reshape(-1, parts, np.asarray(state["table"]).shape[1] // parts)
        )
        halves.append((table[:, 0], table[:, 1] if parts == 2 else table[:, 0]))
    return halves


def changed(start: Array, replica: Array) -> Array:
    return np.asarray((start != replica).any(axis=1))


@pytest.mark.parametrize("rate", ["adaptive", "decaying", "constant"])
def test_weights_of_softmax_are_averaged_and_squares_are_added(rate: Any) -> None:
    config = Softmax(rate=rate, features=HashedText(dimensions=64))
    start, replicas, average = parts_of(lambda: config.build(pa.schema([("text", pa.string())])), from_text)
    before, first, second, found = tables([start, *replicas, average], 2 if rate == "adaptive" else 1)
    one, two = (changed(before[0], each[0]) for each in (first, second))
    assert (one & two).sum() == 2 and (one & ~two).sum() > 1 and (two & ~one).sum() == 1  # "wall" and the bias
    np.testing.assert_allclose(found[0][one & two], ((3 * first[0] + second[0]) / 4)[one & two], rtol=1e-6)
    np.testing.assert_array_equal(found[0][one & ~two], first[0][one & ~two])
    np.testing.assert_array_equal(found[0][two & ~one], second[0][two & ~one])
    np.testing.assert_array_equal(found[0][~one & ~two], before[0][~one & ~two])
    if rate == "adaptive":
        np.testing.assert_allclose(found[1], first[1] + second[1] - before[1], rtol=1e-6)
    assert np.asarray(average["learned"]).tolist() == [6]


@pytest.mark.parametrize("l1", [0.0, 0.2])
def test_weights_of_ftrl_are_averaged_and_squares_are_added(l1: float) -> None:
    config = FTRL(l1=l1, alpha=0.7, l2=0.1, features=HashedText(dimensions=64))
    start, replicas, average = parts_of(lambda: config.build(pa.schema([("text", pa.string())])), from_text)

    def weights(z: Array, roots: Array) -> Array:
        beyond = np.maximum(np.abs(z) - l1, 0)
        return -np.copysign(beyond, z) / (roots / 0.7 + 0.1 / 0.7 + 0.1)

    before, first, second, found = tables([start, *replicas, average], 2)
    one, two = (changed(before[0], each[0]) for each in (first, second))
    both = one & two
    mean = (3 * weights(*first) + weights(*second)) / 4
    np.testing.assert_allclose(weights(*found)[both], mean[both], rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(found[1] ** 2, first[1] ** 2 + second[1] ** 2 - before[1] ** 2, rtol=1e-5, atol=1e-7)
    silent = both[:, np.newaxis] & (mean == 0)
    np.testing.assert_allclose(found[0][silent], ((3 * first[0] + second[0]) / 4)[silent], rtol=1e-6)
    np.testing.assert_array_equal(found[0][one & ~two], first[0][one & ~two])


def test_weights_of_sgd_are_averaged_and_its_steps_are_added() -> None:
    step = HashedText(dimensions=64).build(pa.schema([("text", pa.string())]))
    schema = step.process(pa.table({"text": pa.array([], pa.string())})).records.schema

    def rows(model: Any, texts: list[str]) -> Any:
        return model.prepare(step.process(pa.table({"text": texts})).records["features"].combine_chunks())

    start, replicas, average = parts_of(lambda: SGD(batch_size=1).build(schema), rows)
    first, second = (np.asarray(each["weights"]) for each in replicas)
    first = np.vstack([first, first[-1:]]) if len(first) < len(second) else first
    found = np.asarray(average["weights"])
    assert found.shape == (4, 64)
    before = np.vstack([np.asarray(start["weights"]), np.asarray(start["weights"])[-1:]])
    both = changed(before.T, first.T) & changed(before.T, second.T)
    assert both.sum() == 1  # "wall"
    np.testing.assert_allclose(found[:, both], ((3 * first + second) / 4)[:, both])
    assert np.asarray(average["progress"]).tolist() == [3, 7]
