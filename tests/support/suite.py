"""The conformance suite: its pipelines, and the cases in which each pipeline crashes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import yaml
from support.documents import add_topics, sign_documents
from support.engines import ENGINES, marks_of
from support.pairs import covering

from millstream.guarantees.crash_point import CHECKPOINT_PARTS, CrashPoint
from millstream.guarantees.delivery import Delivery, Point

__all__ = [
    "BASELINES",
    "CHECKPOINT_EVERY",
    "GRAPHS",
    "MODELS",
    "PIPELINES",
    "POINTS",
    "Case",
    "Recipe",
    "all_cases",
    "covering_cases",
    "parameters",
]

CRASHED = 5
"""The epoch of the crash: earlier epochs are delivered, and with `checkpoint_every` 4 the checkpoint is older."""
CHECKPOINTED = 7
"""The epoch of a crash within a checkpoint: one is due after it with each `checkpoint_every`."""
POINTS = [
    *(CrashPoint(point, CRASHED) for point in Point),
    CrashPoint(Point.DELIVER, CRASHED, "rejects"),
    *(CrashPoint(Point.CHECKPOINT, CHECKPOINTED, part) for part in CHECKPOINT_PARTS),
]
CHECKPOINT_EVERY = (4, 1)
WINDOW = MappingProxyType({"type": "tumbling", "size": "10m", "lateness": "1m"})
_PREDICTIONS = {"predictions": {"type": "files", "format": "jsonl"}}
FEATURES = MappingProxyType({"type": "hashed_text", "name": "features", "dimensions": 256})


@dataclass(frozen=True)
class Recipe:
    """The options of one pipeline of the suite, and the change of its documents."""

    options: Mapping[str, Any]
    change: Callable[[Path], None] | None = None
    topics: bool = False
    """Reads a topic and writes to topics."""
    of_state: frozenset[str] = frozenset()
    """Outputs whose rows depend on the records before: after a loss or a repetition, a join has other pairs."""


def _model(model: dict[str, Any], *, new_topics: bool = True, features: bool = False) -> Recipe:
    placement = {"features": "worker"} if features else {}
    return Recipe({"model": model, "placement": placement}, add_topics if new_topics else None)


def _keyed(store: str) -> Recipe:
    follow = {"key": "author", "function": "support.user_functions:follow", "adds": ["before"], "store": store}
    steps: list[dict[str, Any]] = [
        {"type": "per_key", **follow},
        {"type": "hashed_text", "dimensions": 256},
        {"type": "classify", "model": {"type": "complement_nb", "batch_size": 16}},
    ]
    fields = {name: name for name in ("text", "label", "time", "author")}
    return Recipe(
        {"steps": steps, "source": {"fields": fields}, "sinks": _PREDICTIONS, "placement": {}}, sign_documents
    )


_COUNTED_BEFORE: list[dict[str, Any]] = [
    dict(FEATURES),
    {"type": "classify", "model": {"type": "naive_bayes"}},
    {"type": "popularity", "window": dict(WINDOW), "threshold": 0.3},
]
_FUNCTIONS: list[dict[str, Any]] = [
    {"type": "filter", "function": "support.user_functions:short"},
    {"type": "map", "function": "support.user_functions:shout", "adds": ["first"], "on_error": "reject"},
    dict(FEATURES),
    {"type": "classify", "model": {"type": "complement_nb", "batch_size": 16}},
    {"type": "popularity", "of": "first", "window": dict(WINDOW)},
]

_SHOUT = {"type": "map", "function": "support.user_functions:shout", "adds": ["first"], "on_error": "reject"}
_CLIP = {"type": "map", "function": "support.user_functions:clip", "adds": ["first"]}
_SHORT = {"type": "filter", "function": "support.user_functions:short"}
_FOLLOW = {"type": "per_key", "function": "support.user_functions:follow", "adds": ["before"], "on_error": "reject"}
_BAYES = {"type": "naive_bayes", "features": {}}
_FORK: list[dict[str, Any]] = [
    {**_SHOUT, "name": "shout"},
    {"type": "classify", "name": "bayes", "model": dict(_BAYES)},
    {**FEATURES, "from": "shout"},
    {"type": "classify", "name": "batches", "model": {"type": "complement_nb", "batch_size": 16}},
    {**_SHORT, "name": "short", "from": "source"},
    {"type": "popularity", "from": "bayes", "window": dict(WINDOW), "threshold": 0.3},
    {"type": "filter", "name": "changes", "from": "popularity.topics", "function": "support.user_functions:changed"},
]
_DIAMOND: list[dict[str, Any]] = [
    {**_SHOUT, "name": "shout"},
    {**_CLIP, "name": "clip", "from": "source"},
    {**_FOLLOW, "name": "follow", "from": ["clip", "shout"], "key": "author"},
    {"type": "classify", "model": {**_BAYES, "batch_size": 10}},
    {"type": "map", "name": "again", "from": "classify.predictions", "function": "support.user_functions:mark"},
]
_TWO_SOURCES: list[dict[str, Any]] = [
    {**_SHOUT, "name": "shout", "from": "second"},
    {**_CLIP, "name": "clip", "from": "first"},
    {"type": "classify", "from": ["shout", "clip"], "model": dict(_BAYES)},
    {"type": "popularity", "window": dict(WINDOW), "threshold": 0.3},
]
_WORDS: list[dict[str, Any]] = [
    {"type": "flat_map", "function": "support.user_functions:words", "adds": ["word"]},
    {"type": "per_key", "key": ["word", "label"], "function": "support.user_functions:count", "on_error": "reject",
     "ended": "support.user_functions:close", "idle": "4m", "makes": ["words", "of"]},
    {"type": "classify", "model": {**_BAYES, "batch_size": 10}},
]  # fmt: skip
_JOIN: list[dict[str, Any]] = [
    {**_SHORT, "name": "short", "rest": True},
    {"type": "join", "name": "both", "from": ["short", "short.rest"], "by": "author", "within": "8m", "how": "outer",
     "lateness": "30s"},
    {"type": "classify", "model": dict(_BAYES)},
    {"type": "dedupe", "by": ["author", "label"], "within": "3m"},
    {**_FOLLOW, "name": "again", "from": "dedupe.repeated", "key": "author"},
]  # fmt: skip
_JOIN_TO_ALL: list[dict[str, Any]] = [
    _JOIN[0],
    {**_JOIN[1], "from": ["short", {"stream": "short.rest", "to": "all"}], "how": "left"},
    *_JOIN[2:],
]
_SPREAD = "millstream_pipelines.label_propagation"
_CYCLE: list[dict[str, Any]] = [
    {"type": "map", "name": "known", "function": "support.user_functions:known"},
    {"type": "flat_map", "name": "words", "function": f"{_SPREAD}:words", "adds": ["word", "hops", "news"]},
    {"type": "per_key", "name": "notes", "from": ["words", "shared"], "key": "id", "children": True,
     "function": f"{_SPREAD}:document"},
    {"type": "per_key", "name": "shared", "from": "notes", "key": "word", "children": True,
     "function": f"{_SPREAD}:word"},
    {"type": "filter", "name": "labels", "from": "notes", "function": f"{_SPREAD}:is_news"},
    {"type": "per_key", "name": "count", "key": "id", "function": "support.user_functions:count", "on_error": "reject"},
    {"type": "classify", "model": {**_BAYES, "batch_size": 10}},
]  # fmt: skip
_LIBRARIES: list[dict[str, Any]] = [
    dict(FEATURES),
    {"type": "classify", "name": "river",
     "model": {"type": "river", "class": "linear_model.SoftmaxRegression",
               "options": {"optimizer": {"class": "optim.SGD", "options": {"lr": 0.5}}}}},
    {"type": "classify", "name": "scikit_learn", "from": "features",
     "model": {"type": "scikit_learn", "class": "linear_model.SGDClassifier", "options": {"loss": "log_loss"},
               "batch_size": 16}},
]  # fmt: skip
_KINDS: list[dict[str, Any]] = [
    {**_SHORT, "name": "short", "rest": True},
    {"type": "join", "name": "both", "from": ["short", "short.rest"], "by": "author", "window": dict(WINDOW),
     "how": "left"},
    {"type": "popularity", "name": "predicates", "from": "source", "of": "label", "by": "author",
     "window": {"type": "predicate", "begins": "support.user_functions:news", "lateness": "1m"}},
    {"type": "popularity", "name": "spans", "from": "source", "of": "label", "by": "author", "window": dict(WINDOW),
     "half_life": "15m", "emit": {"early": "3m"}},
    {"type": "popularity", "name": "slides", "from": "source", "of": "label", "by": "author", "threshold": 0.5,
     "window": {"type": "sliding", "size": "15m", "slide": "5m", "lateness": "1m"}},
    {"type": "popularity", "name": "counts", "from": "source", "of": "label", "by": "author",
     "window": {"type": "count", "size": 4}, "half_life_records": 6},
]  # fmt: skip
_FILES: dict[str, Any] = {"type": "files", "format": "jsonl"}
_DOCUMENTS = yaml.safe_load((Path(__file__).parents[2] / "configs/documents.yaml").read_text())["pipeline"]["steps"]


def _fields(*names: str) -> dict[str, Any]:
    return {"fields": {name: name for name in names}}


_OF_KINDS = ("both", "unmatched", *(f"{name}.topics" for name in ("predicates", "spans", "slides", "counts")))
GRAPHS: Mapping[str, Recipe] = {
    "fork": Recipe(
        {"steps": _FORK, "placement": {}, "sinks": {"bayes.predictions": _FILES, "short": _FILES, "changes": _FILES}}
    ),
    "diamond": Recipe(
        {
            "steps": _DIAMOND,
            "placement": {},
            "source": _fields("text", "label", "time", "author"),
            "sinks": {"again": _FILES, "predictions": _FILES},
        },
        sign_documents,
    ),
    "flat_map": Recipe(
        {"steps": _WORDS, "placement": {}, "sinks": {"predictions": _FILES, "ended": _FILES}},
        of_state=frozenset({"predictions", "rejects"}),  # a record that comes twice may be late for its key
    ),
    "join": Recipe(
        {
            "steps": _JOIN,
            "placement": {},
            "source": _fields("text", "label", "time", "author"),
            "sinks": {"unmatched": _FILES, "predictions": _FILES, "again": _FILES},
        },
        sign_documents,
        of_state=frozenset({"predictions", "repeated", "again", "rejects"}),
    ),
    "join_to_all": Recipe(
        {
            "steps": _JOIN_TO_ALL,
            "placement": {},
            "source": _fields("text", "label", "time", "author"),
            "sinks": {"unmatched": _FILES, "predictions": _FILES, "again": _FILES},
        },
        sign_documents,
        of_state=frozenset({"predictions", "repeated", "again", "rejects"}),
    ),
    "documents": Recipe(
        {"steps": _DOCUMENTS, "placement": {}, "sinks": {"collected": _FILES, "plain.predictions": _FILES}}
    ),
    "cycle": Recipe(
        {
            "steps": _CYCLE,
            "placement": {},
            "source": {"fields": {"text": "text", "label": "label", "time": "time", "id": "author"}},
            "sinks": {"labels": _FILES, "predictions": _FILES},
        },
        sign_documents,
        of_state=frozenset({"labels", "predictions", "rejects"}),  # a record that comes twice brings nothing new
    ),
    "two_sources": Recipe(
        {
            "steps": _TWO_SOURCES,
            "placement": {},
            "sources": {
                "first": {"type": "files", "path": "documents/part1.jsonl"},
                "second": {"type": "files", "path": "documents/part0.jsonl"},
            },
        }
    ),
}
"""Graphs that are no chain."""
_WINDOWS: list[dict[str, Any]] = [
    {"type": "classify", "model": {"type": "naive_bayes", "features": {}}},
    {"type": "top_k", "of": "predicted", "k": 2, "counters": 2, "window": {"type": "count", "size": 37}},
    {"type": "trending", "window": {"type": "tumbling", "size": "10m", "lateness": "1m"}, "least": 2, "rise": 1.5},
]


def _by_author(window: Mapping[str, Any]) -> Recipe:
    step = {"type": "popularity", "of": "label", "by": "author", "window": dict(window), "emit": {"early": "3m"}}
    fields = {name: name for name in ("text", "label", "time", "author")}
    sinks = {"topics": {"type": "journal", "path": "{run}-topics"}}
    return Recipe({"steps": [step], "source": {"fields": fields}, "sinks": sinks, "placement": {}}, sign_documents)


MODELS: Mapping[str, Recipe] = {
    "naive_bayes": _model({"type": "naive_bayes"}),
    "half_life": _model({"type": "naive_bayes", "half_life": 4}),
    "complement": _model({"type": "naive_bayes", "complement": True, "half_life": 8}),
    "batch_size": _model({"type": "naive_bayes", "batch_size": 10}),
    "softmax": _model({"type": "softmax"}),
    "ftrl": _model({"type": "ftrl", "l1": 0.01}),
}
"""The compiled models. New topics arrive all the time, so that the table of a model grows between checkpoints."""
BASELINES: Mapping[str, Recipe] = {name: _model({"type": name}) for name in ("no_change", "majority")}
PIPELINES: Mapping[str, Recipe] = {
    **MODELS,
    **BASELINES,
    "complement_nb": _model({"type": "complement_nb", "batch_size": 16}, new_topics=False, features=True),
    "sgd": _model({"type": "sgd", "batch_size": 16}, new_topics=False, features=True),
    "counted_before": Recipe({"steps": _COUNTED_BEFORE}, add_topics),
    "count_windows": Recipe({"window": {"type": "count", "size": 37}}),
    "functions": Recipe({"steps": _FUNCTIONS, "placement": {}}),
    "sliding": Recipe({"window": {"type": "sliding", "size": "15m", "slide": "5m", "lateness": "1m"}}),
    "sessions_by_author": _by_author({"type": "session", "gap": "4m", "lateness": "30s"}),
    "counts_by_author": _by_author({"type": "count", "size": 5}),
    "words": Recipe({"steps": _WINDOWS, "sinks": _PREDICTIONS, "placement": {}}),
    "windows_of_all_kinds": Recipe(
        {
            "steps": _KINDS,
            "placement": {},
            "source": _fields("text", "label", "time", "author"),
            "sinks": {name: _FILES for name in _OF_KINDS},
        },
        sign_documents,
        of_state=frozenset({"both"}),
    ),
    "keyed_memory": _keyed("memory"),
    "keyed_rocksdb": _keyed("rocksdb"),
    **GRAPHS,
    "topics": Recipe({"model": {"type": "sgd", "batch_size": 16}}, topics=True),
    "libraries": Recipe(
        {
            "steps": _LIBRARIES,
            "placement": {},
            "sinks": {"river.predictions": _FILES, "scikit_learn.predictions": _FILES},
        }
    ),
}


@dataclass(frozen=True)
class Case:
    """One crash of one pipeline."""

    pipeline: str
    delivery: Delivery
    engine_name: str
    point: CrashPoint
    checkpoint_every: int

    def __str__(self) -> str:
        return f"{self.pipeline}-{self.delivery}-{self.engine_name}-{self.point}-{self.checkpoint_every}"


_FACTORS = (list(PIPELINES), list(Delivery), ENGINES, POINTS, CHECKPOINT_EVERY)


def _case(numbers: tuple[int, ...]) -> Case:
    pipeline, delivery, engine, point, checkpoint_every = numbers
    return Case(
        list(PIPELINES)[pipeline],
        list(Delivery)[delivery],
        ENGINES[engine],
        POINTS[point],
        CHECKPOINT_EVERY[checkpoint_every],
    )


def all_cases() -> list[Case]:
    """Every crash point with every delivery, for every pipeline on every engine; `checkpoint_every` alternates.

    So the matrix has half of all combinations of the five factors, and in these every combination of any four factors.
    """
    numbers = itertools.product(*(range(len(values)) for values in _FACTORS))
    return [_case(each) for each in numbers if _is_in_the_matrix(each)]


def _is_in_the_matrix(numbers: tuple[int, ...]) -> bool:
    """True for the value of `checkpoint_every` that the case has; the next value of any factor changes it."""
    return sum(numbers) % len(CHECKPOINT_EVERY) == 0


def covering_cases() -> list[Case]:
    """Cases with every pair of values, and with exactly_once for every pipeline on every engine.

    Only exactly_once compares all results bit by bit, so every engine runs every pipeline with it at least once.
    """
    sizes = [len(values) for values in _FACTORS]
    exactly_once = list(Delivery).index(Delivery.EXACTLY_ONCE)
    seeds = [
        {0: pipeline, 1: exactly_once, 2: (pipeline + turn) % sizes[2]}  # in turn, so that each engine has every point
        for pipeline, turn in itertools.product(range(sizes[0]), range(sizes[2]))
    ]
    return [_case(numbers) for numbers in covering(sizes, seeds, cheapest_first=[2], allowed=_is_in_the_matrix)]


def parameters() -> list[Any]:
    """All cases as parameters of a test; those outside the covering set are marked `matrix`."""
    covered = set(covering_cases())
    return [pytest.param(case, marks=_marks(case, covered=case in covered), id=str(case)) for case in all_cases()]


def _marks(case: Case, *, covered: bool) -> list[pytest.MarkDecorator]:
    marks = marks_of(case.engine_name)
    if PIPELINES[case.pipeline].topics:
        marks.append(pytest.mark.kafka)
    return marks if covered else [*marks, pytest.mark.matrix]
