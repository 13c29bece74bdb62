"""The compiled text models beside River's: how fast, on one core, from the text to having learned it."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.children import ask
from benchmarks.figures import AtLeast, Figure, Measurement, Setting, interleaved, ratio, spread
from benchmarks.text_learners import alpha_of, learn, learn_with_river

__all__ = ["MEASUREMENTS", "rate_of", "text_cost", "texts_file"]

_RECORDS = 200_000
_QUICK = 4_000
_RIVERS = 10_000
"""River's cost is the same for each text; these are some seconds of it."""


def texts_file(setting: Setting) -> Path:
    """The texts that our models learn from, in a Parquet file."""
    path = setting.folder / "texts.parquet"
    if not path.exists():
        setting.corpus.texts.first(_QUICK if setting.quick else _RECORDS).write_parquet(path)
    return path


def rate_of(take: Callable[..., Any], **arguments: Any) -> Callable[[], float]:
    """Texts a second, in a process of its own on one core."""
    return lambda: float(ask(take, **arguments)["per_second"])


def text_cost(name: str, rates: Sequence[float]) -> Figure:
    """What one text costs a model that takes so many a second."""
    microseconds = [1e6 / rate for rate in rates]
    return Figure(f"{name}_text", statistics.median(microseconds), "us", None, spread(microseconds, ".2f"))


def _measure(setting: Setting) -> Iterator[Figure]:
    file, some = texts_file(setting), setting.folder / "some-texts.parquet"
    setting.corpus.texts.first(_QUICK // 4 if setting.quick else _RIVERS).write_parquet(some)
    river = partial(rate_of, learn_with_river, file=str(some), alpha=alpha_of("naive_bayes"))
    names = ("naive_bayes", "softmax", "ftrl")
    contenders = {name: rate_of(learn, model=name, file=str(file)) for name in names}
    contenders |= {"river's naive Bayes": river(model="naive_bayes"), "river's softmax": river(model="softmax")}
    taken = interleaved(setting, contenders)
    yield ratio("naive_bayes_vs_river", taken, "naive_bayes", "river's naive Bayes", AtLeast(100))
    yield ratio("softmax_vs_river", taken, "softmax", "river's softmax", AtLeast(50))
    for name in names:
        yield text_cost(name, taken[name])


MEASUREMENTS = (
    Measurement(
        "texts_vs_river",
        ("naive_bayes_vs_river", "softmax_vs_river", "naive_bayes_text", "softmax_text", "ftrl_text"),
        f"texts a second on one core, from a text in Arrow to its prediction and having learned its label, record by "
        f"record: our models over {_RECORDS:,} texts, over River's BagOfWords and MultinomialNB (the same alpha), and "
        f"its BagOfWords, Normalizer and SoftmaxRegression, over the first {_RIVERS:,}; *_text is ours alone, for one "
        "text",
        _measure,
        any_texts=True,
    ),
)
