"""Speed of the text models on one core, compared with River, scikit-learn and Vowpal Wabbit; their start."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from benchmarks.contenders.text_learners import (
    BATCH_SIZE,
    alpha_of,
    first,
    learn,
    learn_as_steps,
    learn_with_river,
    learn_with_scikit_learn,
)
from benchmarks.kit.child import ask, child_rate, script_rate
from benchmarks.kit.environments import environment
from benchmarks.kit.measurement import Figure, Measurement, Setting, Value, at_least, at_most
from benchmarks.kit.rates import Rate
from benchmarks.kit.rounds import interleaved, median, ratio, repeated
from benchmarks.kit.texts import Texts

__all__ = ["MEASUREMENTS", "vowpal_wabbit"]

_RECORDS, _QUICK = 200_000, 4_000
_RIVER, _SCIKIT_LEARN = 10_000, 20_000
"""The slower contenders get fewer texts: some seconds of work. Each text costs them the same."""
_COMPILED = ("naive_bayes", "softmax", "ftrl")
_IN_MINI_BATCHES = ("complement_nb", "sgd", "river_nb")
_VW = {
    "vs_vw": "vw",
    "vs_vw_predictions": "vw -p",
    "vs_vw_probabilities": "vw --probabilities",
}


def vowpal_wabbit(setting: Setting, texts: Texts) -> Callable[..., Rate]:
    """Vowpal Wabbit over texts, which are written in its format before."""
    python = environment("vowpalwabbit", setting.say)
    lines = setting.folder / "texts.vw"
    with lines.open("w", encoding="utf-8") as file:
        file.writelines(texts.in_vw_format())
    script = Path(__file__).parents[1] / "contenders" / "vowpal_wabbit.py"
    return partial(script_rate, python, script, file=str(lines), topics=len(texts.labels))


def _files(setting: Setting, some: int) -> tuple[str, str]:
    """All texts, and the first of them for slower contenders."""
    texts = setting.texts(_RECORDS, _QUICK)
    part = texts.first(_QUICK // 4 if setting.quick else some)
    all_file = texts.write_parquet(setting.folder / "all.parquet")
    return str(all_file), str(part.write_parquet(setting.folder / "some.parquet"))


def _ours(file: str, models: Sequence[str]) -> dict[str, Callable[[], Rate]]:
    return {model: partial(child_rate, learn, model=model, file=file) for model in models}


def _cost(name: str, rates: Sequence[float]) -> Value:
    """Microseconds per text."""
    return median(f"{name}_text", [1e6 / rate for rate in rates], ".2f")


def _river(setting: Setting) -> Iterator[Value]:
    file, some = _files(setting, _RIVER)
    river = partial(child_rate, learn_with_river, file=some, alpha=alpha_of("naive_bayes"))
    contenders = _ours(file, _COMPILED)
    contenders |= {f"river's {model}": partial(river, model=model) for model in ("naive_bayes", "softmax")}
    taken = interleaved(setting, contenders)
    for model in ("naive_bayes", "softmax"):
        yield ratio(f"{model}_vs_river", taken, model, f"river's {model}")
    for model in _COMPILED:
        yield _cost(model, taken[model])


def _scikit_learn(setting: Setting) -> Iterator[Value]:
    file, some = _files(setting, _SCIKIT_LEARN)
    contenders = _ours(file, ["naive_bayes"])
    contenders["scikit-learn"] = partial(child_rate, learn_with_scikit_learn, file=some, alpha=alpha_of("naive_bayes"))
    contenders |= {model: partial(child_rate, learn_as_steps, model=model, file=some) for model in _IN_MINI_BATCHES}
    taken = interleaved(setting, contenders)
    yield ratio("naive_bayes_vs_scikit_learn", taken, "naive_bayes", "scikit-learn")
    for model in _IN_MINI_BATCHES:
        yield _cost(model, taken[model])


def _vowpal_wabbit(setting: Setting) -> Iterator[Value]:
    file, _ = _files(setting, _RIVER)
    vw, written = vowpal_wabbit(setting, setting.texts(_RECORDS, _QUICK)), str(setting.folder / "predictions.txt")
    contenders = _ours(file, ["naive_bayes", "softmax"])
    contenders["vw"] = vw
    contenders["vw -p"] = partial(vw, predictions=written)
    contenders["vw --probabilities"] = partial(vw, predictions=written, probabilities=True)
    taken = interleaved(setting, contenders)
    for model in ("naive_bayes", "softmax"):
        for name, contender in _VW.items():
            yield ratio(f"{model}_{name}", taken, model, contender)


def _compiled_start(setting: Setting) -> Iterator[Value]:
    ask(first, model="naive_bayes")  # compiles the model, if necessary
    yield median("compiled_start", repeated(setting, lambda _: float(ask(first, model="naive_bayes"))), ".2f")


MEASUREMENTS = (
    Measurement(
        (
            Figure("naive_bayes_vs_river", "x", at_least(100)),
            Figure("softmax_vs_river", "x", at_least(50)),
            *(Figure(f"{model}_text", "us") for model in _COMPILED),
        ),
        f"Texts per second on one core, from a text in Arrow to its prediction and the learned label, record by "
        f"record: our models over {_RECORDS:,} texts, divided by River's BagOfWords and MultinomialNB (the same alpha) "
        f"and by its BagOfWords, Normalizer and SoftmaxRegression, over the first {_RIVER:,}. *_text is the time of "
        "one text.",
        _river,
        name="texts_vs_river",
        any_texts=True,
    ),
    Measurement(
        (Figure("naive_bayes_vs_scikit_learn", "x"), *(Figure(f"{model}_text", "us") for model in _IN_MINI_BATCHES)),
        f"As texts_vs_river, divided by scikit-learn's HashingVectorizer (2^18) and MultinomialNB in mini-batches "
        f"of {BATCH_SIZE} (the same alpha), over the first {_SCIKIT_LEARN:,} texts. *_text is the time of one "
        f"text with our "
        "models that learn in mini-batches and with river_nb, each in the steps of its pipeline.",
        _scikit_learn,
        name="texts_vs_scikit_learn",
        any_texts=True,
    ),
    Measurement(
        tuple(Figure(f"{model}_{name}", "x", at_least(5)) for model in ("naive_bayes", "softmax") for name in _VW),
        "As texts_vs_river, divided by Vowpal Wabbit 9.11 (--oaa K -b 18): its own time to read a file of lower-case "
        "words and to learn from it, without any output. In *_predictions it writes its predictions (-p), in "
        "*_probabilities the probability of each label, as our models do (--loss_function logistic --probabilities).",
        _vowpal_wabbit,
        name="texts_vs_vw",
        any_texts=True,
        peers=True,
    ),
    Measurement(
        (Figure("compiled_start", "s", at_most(0.5)),),
        "In a process that has NumPy and Arrow: time to the first prediction of naive_bayes, which was compiled before "
        "and is kept on disk; the import of numba included.",
        _compiled_start,
    ),
)
