"""What a save of a large model costs of which little was touched: what the pipeline waits for, and all of it."""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
from benchmarks.figures import AtMost, Figure, Measurement, Setting, spread

from millstream.state.applied_epochs import Applied
from millstream.state.checkpoints import SaveStore
from millstream.steps.contracts import State
from millstream_models.hashed_text import HashedText
from millstream_models.online.learner import Learner
from millstream_models.online.naive_bayes import NaiveBayes
from millstream_models.online.softmax import Softmax

__all__ = ["MEASUREMENTS"]

_CLASSES = 20
_RECORDS, _WORDS = 1_000, 35
_VOCABULARY, _ZIPF = 100_000, 1.1
"""Words as common as n^-1.1: 8,000 different ones in 1,000 texts, somewhat more than news have."""
_GOAL = AtMost(3)


def _saves(setting: Setting) -> Iterator[Figure]:
    dimensions, epochs = (1 << 12, 20) if setting.quick else (1 << 18, 200)
    words = HashedText(dimensions=dimensions)
    bayes = _Learning(NaiveBayes(features=words))
    waited, saved, sizes = _timed(setting, epochs, bayes.learn, bayes.save)
    yield Figure("save_touched_wait", statistics.median(waited), "ms", _GOAL, spread(waited, ".2f"))
    yield Figure("save_touched", statistics.median(saved), "ms", _GOAL, f"{spread(saved, '.1f')}; fsync included")
    yield Figure("save_touched_bytes", statistics.median(sizes), "bytes")
    waited, saved, _ = _timed(setting, epochs // 5, bayes.learn, bayes.copied)
    yield Figure("save_copied_wait", statistics.median(waited), "ms", None, spread(waited, ".1f"))
    yield Figure("save_copied", statistics.median(saved), "ms", None, spread(saved, ".0f"))
    softmax = _Learning(Softmax(features=words))
    waited, saved, _ = _timed(setting, epochs, softmax.learn, softmax.save)
    yield Figure("save_touched_softmax_wait", statistics.median(waited), "ms", None, spread(waited, ".2f"))
    yield Figure("save_touched_softmax", statistics.median(saved), "ms", None, spread(saved, ".1f"))


class _Learning:
    """A model, and texts for it whose words are about as common as words are."""

    def __init__(self, config: NaiveBayes | Softmax) -> None:
        self._model: Learner = config.build(pa.schema([("text", pa.string())]))
        self._rng = np.random.default_rng(1)
        shares = 1 / np.arange(1, _VOCABULARY + 1) ** _ZIPF
        self._edges = np.cumsum(shares / shares.sum())
        self.learn()

    def learn(self) -> None:
        drawn = np.searchsorted(self._edges, self._rng.random((_RECORDS, _WORDS)))
        texts = [" ".join(f"w{word}" for word in text) for text in drawn.tolist()]
        labels = np.arange(_RECORDS) % _CLASSES
        self._model.in_turn(self._model.prepare(pa.array(texts)), labels, 0)

    def save(self) -> State:
        return self._model.save()

    def copied(self) -> State:
        """As it would be without knowing what was touched."""
        return {**self._model.save(), "table": self._model.table.copy()}


def _timed(
    setting: Setting, epochs: int, learn: Callable[[], None], save: Callable[[], State]
) -> tuple[Sequence[float], Sequence[float], Sequence[int]]:
    """By epoch: milliseconds until the model may go on, and until its save is durable; the bytes of the save."""
    folder = setting.folder / "touched-saves"
    saves = SaveStore(folder, {})
    saves.write(0, Applied([[0, 1]]), {"classify": save()})
    waited, saved, sizes = list[float](), list[float](), list[int]()
    for epoch in range(1, epochs + 1):
        learn()
        began = time.perf_counter()
        state = save()
        went_on = time.perf_counter()
        written = saves.write(epoch, Applied([[0, epoch + 1]]), {"classify": state})
        durable = time.perf_counter()
        waited.append((went_on - began) * 1e3)
        saved.append((durable - began) * 1e3)
        sizes.append(saves.size(written) or 0)
        saves.drop_before(epoch)
    shutil.rmtree(folder)
    return waited, saved, sizes


MEASUREMENTS = (
    Measurement(
        "touched_saves",
        (
            "save_touched_wait",
            "save_touched",
            "save_touched_bytes",
            "save_copied_wait",
            "save_copied",
            "save_touched_softmax_wait",
            "save_touched_softmax",
        ),
        "naive_bayes, 2^18 dimensions x 20 classes, 1,000 texts of 35 words learned before each of 200 saves: what the "
        "pipeline waits for, and the whole save, durable; beside it a copy that is compared, and softmax, which has "
        "twice the numbers",
        _saves,
    ),
)
