"""How often the compiled text models are right, each text predicted before it is learned, and how often others are."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.against_scikit_learn import learn_with_scikit_learn
from benchmarks.children import ask
from benchmarks.figures import AtLeast, Figure, Measurement, Setting
from benchmarks.text_learners import alpha_of, learn, learn_with_river

__all__ = ["MEASUREMENTS", "ORDERS", "OURS", "accuracy", "in_order"]

OURS = ("naive_bayes", "softmax", "ftrl")
ORDERS = ("shuffled", "in_order")
_MOST = 100_000
_QUICK = 2_000
_OTHERS = ("no_change", "majority")


def in_order(setting: Setting, order: str) -> Path:
    """The texts in a Parquet file: as they come, or shuffled; at most 100,000 of them, none twice."""
    path = setting.folder / f"accuracy-{order}.parquet"
    if not path.exists():
        texts = setting.corpus.texts.shuffled() if order == "shuffled" else setting.corpus.texts
        texts.at_most(_QUICK if setting.quick else _MOST).write_parquet(path)
    return path


def accuracy(name: str, learned: Any) -> Figure:
    """The share that was predicted right."""
    return Figure(name, learned["correct"] / learned["records"], "share", None, f"of {learned['records']:,}")


def _measure(setting: Setting) -> Iterator[Figure]:
    alpha = alpha_of("naive_bayes")
    for order in ORDERS:
        file = str(in_order(setting, order))
        takes = {name: partial(learn, model=name, file=file) for name in (*OURS, *_OTHERS)}
        for model in ("naive_bayes", "softmax"):
            takes[f"river_{model}"] = partial(learn_with_river, model=model, file=file, alpha=alpha)
        takes["scikit_learn"] = partial(learn_with_scikit_learn, file=file, alpha=alpha)
        found = {}
        for name, take in takes.items():
            found[name] = accuracy(f"accuracy_{name}_{order}", ask(take.func, **take.keywords))
            setting.say(f"{found[name].name} {found[name].value:.4f}")
        yield from found.values()
        if order == "shuffled":
            over = found["naive_bayes"].value - found["river_naive_bayes"].value
            yield Figure("accuracy_naive_bayes_over_river", over, "share", AtLeast(-0.003), "shuffled")


_PEERS = ("river_naive_bayes", "river_softmax", "scikit_learn")
_FIGURES = [f"accuracy_{name}_{order}" for order in ORDERS for name in (*OURS, *_OTHERS, *_PEERS)]

MEASUREMENTS = (
    Measurement(
        "text_accuracy",
        (*_FIGURES, "accuracy_naive_bayes_over_river"),
        f"the share of texts predicted right before they were learned, of at most {_MOST:,}, shuffled and in the order "
        "they come in: our models, River's, scikit-learn's naive Bayes in blocks of 256, the label before (no_change), "
        "the most common label so far (majority); and how much more of the shuffled ones naive_bayes has right than "
        "River's with the same alpha",
        _measure,
        any_texts=True,
    ),
)
