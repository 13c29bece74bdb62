"""Accuracy of the text models and of their peers: each text is predicted before it is learned."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from benchmarks.contenders.text_learners import alpha_of, learn, learn_with_river, learn_with_scikit_learn
from benchmarks.figures.text_models import vowpal_wabbit
from benchmarks.kit.child import child_rate
from benchmarks.kit.measurement import Figure, Measurement, Setting, Value, at_least
from benchmarks.kit.rates import Rate
from benchmarks.kit.texts import Texts

__all__ = ["MEASUREMENTS"]

_MOST, _QUICK = 100_000, 2_000
_ORDERS = ("shuffled", "in_order")
_OURS = ("naive_bayes", "softmax", "ftrl")
_GUESSES = ("no_change", "majority")
_PEERS = ("river_naive_bayes", "river_softmax", "scikit_learn")


def _texts(setting: Setting, order: str) -> tuple[Texts, str]:
    """At most 100,000 texts, none twice, and their file."""
    texts = setting.corpus.texts.shuffled() if order == "shuffled" else setting.corpus.texts
    texts = texts.at_most(_QUICK if setting.quick else _MOST)
    return texts, str(texts.write_parquet(setting.folder / f"{order}.parquet"))


def _accuracy(setting: Setting, name: str, learner: Callable[[], Rate]) -> Value:
    rate = learner()
    value = Value(f"accuracy_{name}", rate.correct / rate.records, f"of {rate.records:,}")
    setting.say(f"{value.name} {value.value:.4f}")
    return value


def _measure(setting: Setting) -> Iterator[Value]:
    alpha = alpha_of("naive_bayes")
    for order in _ORDERS:
        _, file = _texts(setting, order)
        learners = {name: partial(child_rate, learn, model=name, file=file) for name in (*_OURS, *_GUESSES)}
        for model in ("naive_bayes", "softmax"):
            learners[f"river_{model}"] = partial(child_rate, learn_with_river, model=model, file=file, alpha=alpha)
        learners["scikit_learn"] = partial(child_rate, learn_with_scikit_learn, file=file, alpha=alpha)
        found = {name: _accuracy(setting, f"{name}_{order}", learner) for name, learner in learners.items()}
        yield from found.values()
        if order == "shuffled":
            over = found["naive_bayes"].value - found["river_naive_bayes"].value
            yield Value("accuracy_naive_bayes_over_river", over, "shuffled")


def _vowpal_wabbit(setting: Setting) -> Iterator[Value]:
    for order in _ORDERS:
        texts, file = _texts(setting, order)
        vw = _accuracy(setting, f"vw_{order}", vowpal_wabbit(setting, texts))
        ours = {name: _accuracy(setting, name, partial(child_rate, learn, model=name, file=file)) for name in _OURS}
        best = max(ours, key=lambda name: ours[name].value)
        yield vw
        yield Value(f"accuracy_best_over_vw_{order}", ours[best].value - vw.value, best)


MEASUREMENTS = (
    Measurement(
        (
            *(
                Figure(f"accuracy_{name}_{order}", "share")
                for order in _ORDERS
                for name in (*_OURS, *_GUESSES, *_PEERS)
            ),
            Figure("accuracy_naive_bayes_over_river", "share", at_least(-0.003)),
        ),
        f"Share of correct predictions, each made before its text was learned, over at most {_MOST:,} texts, shuffled "
        "and in their own order: our models, River's, scikit-learn's naive Bayes in mini-batches of 256, the label "
        "before (no_change), the most common label so far (majority). *_over_river is the difference of "
        "naive_bayes and "
        "River's naive Bayes with the same alpha, shuffled.",
        _measure,
        name="text_accuracy",
        any_texts=True,
    ),
    Measurement(
        (
            Figure("accuracy_vw_shuffled", "share"),
            Figure("accuracy_best_over_vw_shuffled", "share", at_least(0)),
            Figure("accuracy_vw_in_order", "share"),
            Figure("accuracy_best_over_vw_in_order", "share"),
        ),
        "Share of correct predictions of Vowpal Wabbit (--oaa K -b 18) over the texts of text_accuracy, and the "
        "difference of our best model and Vowpal Wabbit.",
        _vowpal_wabbit,
        name="text_accuracy_vw",
        any_texts=True,
        peers=True,
    ),
)
