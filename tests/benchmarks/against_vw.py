"""The compiled text models beside Vowpal Wabbit, which reads words that were found for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from benchmarks.against_river import rate_of, texts_file
from benchmarks.children import ask, ask_script
from benchmarks.environments import environment
from benchmarks.figures import AtLeast, Figure, Measurement, Setting, interleaved, ratio
from benchmarks.text_accuracy import ORDERS, OURS, accuracy, in_order
from benchmarks.text_learners import learn
from benchmarks.texts import Texts

__all__ = ["MEASUREMENTS"]

_COMPARED = ("naive_bayes", "softmax")
_BESIDE = ("vs_vw", "vs_vw_predictions", "vs_vw_probabilities")
_SCRIPT = Path(__file__).parent / "peers" / "vowpal_wabbit.py"


def _vw(setting: Setting, file: Path) -> Callable[..., Any]:
    """Vowpal Wabbit over the texts of a Parquet file, which are written down for it first."""
    python = environment("vowpalwabbit", setting.say)
    texts = Texts(pq.read_table(file, columns=["text", "label"]))
    lines = file.with_suffix(".vw")
    with lines.open("w", encoding="utf-8") as written:
        written.writelines(texts.in_vw_format())
    return partial(ask_script, python, _SCRIPT, file=str(lines), topics=texts.topics)


def _speed(setting: Setting) -> Iterator[Figure]:
    file = texts_file(setting)
    vw = _vw(setting, file)
    contenders = {name: rate_of(learn, model=name, file=str(file)) for name in _COMPARED}
    contenders["vw"] = lambda: float(vw()["per_second"])
    written = str(file.with_suffix(".predicted"))
    contenders["vw -p"] = lambda: float(vw(predictions=written)["per_second"])
    contenders["vw --probabilities"] = lambda: float(vw(predictions=written, probabilities=True)["per_second"])
    taken = interleaved(setting, contenders)
    for name in _COMPARED:
        yield ratio(f"{name}_vs_vw", taken, name, "vw", AtLeast(5))
        yield ratio(f"{name}_vs_vw_predictions", taken, name, "vw -p", AtLeast(5))
        yield ratio(f"{name}_vs_vw_probabilities", taken, name, "vw --probabilities", AtLeast(5))


def _accuracy(setting: Setting) -> Iterator[Figure]:
    for order in ORDERS:
        file = in_order(setting, order)
        vw = accuracy(f"accuracy_vw_{order}", _vw(setting, file)())
        ours = {name: accuracy(name, ask(learn, model=name, file=str(file))).value for name in OURS}
        best = max(ours, key=lambda name: ours[name])
        goal = AtLeast(0) if order == "shuffled" else None
        yield vw
        yield Figure(f"accuracy_best_over_vw_{order}", ours[best] - vw.value, "share", goal, best)


MEASUREMENTS = (
    Measurement(
        "texts_vs_vw",
        tuple(f"{name}_{beside}" for name in _COMPARED for beside in _BESIDE),
        "the same as texts_vs_river over Vowpal Wabbit 9.11 (--oaa K -b 18): its own time to read a file of words that "
        "were found and lower-cased before, and to learn from it, telling nobody what it predicts; in *_predictions it "
        "writes that (-p), in *_probabilities the probability of each label, as ours do (--loss_function logistic "
        "--probabilities -p)",
        _speed,
        any_texts=True,
        peers=True,
    ),
    Measurement(
        "text_accuracy_vw",
        tuple(f"accuracy_{name}_{order}" for order in ORDERS for name in ("vw", "best_over_vw")),
        "the share of texts that Vowpal Wabbit (--oaa K -b 18) predicted right before it learned them, and how much "
        "more the best of our models has; the texts of text_accuracy",
        _accuracy,
        any_texts=True,
        peers=True,
    ),
)
