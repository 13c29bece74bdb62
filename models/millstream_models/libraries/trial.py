"""The trial of a class before a run: a short training that is saved, restored, and repeated."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import numpy as np

from millstream.errors import StepFailed
from millstream.steps.contracts import Array
from millstream_models.libraries.library_model import LibraryModel

__all__ = ["check_class"]

_ROWS = 256
_ASKED = 32  # of these rows are predicted
_CLASSES = 2  # as many as every class can learn
_REMEDY = "choose other options or another class"
_results: dict[str, str | None] = {}


def check_class(key: str, build: Callable[[], LibraryModel]) -> str | None:
    """Return the reason why a class with its options cannot be a model; None if it can.

    The same class with the same options, and so the same `key`, is tried once in a process.
    """
    if key not in _results:
        _results[key] = _problem(build)
    return _results[key]


def _problem(build: Callable[[], LibraryModel]) -> str | None:
    try:
        found = _difference(build)
        return found if found is None else f"{found}; {_REMEDY}"
    except StepFailed as error:
        return str(error)
    except Exception as error:  # whatever the class raises when it learns, saves and predicts
        name = (
            "it has no probabilities" if isinstance(error, NotImplementedError) else f"{type(error).__name__}: {error}"
        )
        return f"a trial with {_ROWS} records failed: {name}; {_REMEDY}"


def _difference(build: Callable[[], LibraryModel]) -> str | None:
    """Train a model, and compare it with one that is saved and restored halfway, and with one trained again."""
    model, restored, again = build(), build(), build()
    words, labels = _documents()
    inputs = model.prepare(model.trial_column(words))
    half, asked = _ROWS // 2, inputs[-_ASKED:]  # with words that the first half does not have
    _teach(model, inputs, labels, 0, half)
    _teach(again, inputs, labels, 0, half)
    saved = model.saved()
    answers = model.predict(asked)
    if (found := saved.difference(model.saved())) is not None:
        return f"it changes its attribute {found} when it predicts, so predictions would depend on other predictions"
    restored.restore(model.save())
    if (found := saved.difference(restored.saved())) is not None:
        return f"its attribute {found} is not the same after it was saved and restored"
    if not _same(answers, restored.predict(asked)):
        return "it predicts otherwise after it was saved and restored"
    for each in (model, restored, again):
        _teach(each, inputs, labels, half, _ROWS)
    saved = model.saved()
    if (found := saved.difference(again.saved())) is not None:
        return f"its attribute {found} differs between two trainings with the same records, as without a seed"
    if (found := saved.difference(restored.saved())) is not None:
        return f"its attribute {found} differs if it was saved and restored halfway"
    if not _same(model.predict(asked), restored.predict(asked)):
        return "it predicts otherwise if it was saved and restored halfway"
    if not _same(model.predict(asked), _one_by_one(model, asked)):
        return "its prediction for a record depends on the other records that it predicts at the same time"
    return None


def _teach(model: LibraryModel, inputs: object, labels: Array, start: int, stop: int) -> None:
    for first, last in _mini_batches(start, stop):
        model.learn(inputs[first:last], labels[first:last], int(labels[:last].max()) + 1)  # type: ignore[index]


def _mini_batches(start: int, stop: int) -> Iterator[tuple[int, int]]:
    size = 1
    while start < stop:
        yield start, min(start + size, stop)
        start, size = start + size, size * 2


def _one_by_one(model: LibraryModel, inputs: object) -> tuple[Array, Array]:
    answers = [model.predict(inputs[row : row + 1]) for row in range(_ASKED)]  # type: ignore[index]
    classes, probability = zip(*answers, strict=True)
    return np.concatenate(classes), np.concatenate(probability)


def _same(one: tuple[Array, Array], other: tuple[Array, Array]) -> bool:
    return all(mine.tobytes() == its.tobytes() for mine, its in zip(one, other, strict=True))


@functools.cache
def _documents() -> tuple[list[list[int]], Array]:
    """Documents of words that are numbers: some of the document's class, some of all documents, one of its own."""
    dice = np.random.default_rng(0)
    labels = dice.integers(0, _CLASSES, _ROWS)
    labels[0] = 0
    words = [
        [*dice.integers(label * 20, label * 20 + 20, 4), *dice.integers(40, 100, 4), 100 + row]
        for row, label in enumerate(labels)
    ]
    return [list(map(int, each)) for each in words], labels.astype(np.int64)
