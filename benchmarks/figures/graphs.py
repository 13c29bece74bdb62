"""Graphs: the cost of a fork, compared with the cost of its branches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from benchmarks.kit.child import child_rate
from benchmarks.kit.measurement import Figure, Measurement, Setting, Value, at_least
from benchmarks.kit.pipeline import run_graph
from benchmarks.kit.rates import Rate
from benchmarks.kit.rounds import interleaved, median

__all__ = ["MEASUREMENTS"]

_RECORDS, _QUICK, _EPOCH = 200_000, 8_000, 10_000
_CLASSIFY = {"type": "classify", "model": {"type": "naive_bayes", "features": {}}}
_ONE = [_CLASSIFY]
_FORK = [{**_CLASSIFY, "name": "one"}, {**_CLASSIFY, "name": "two", "from": "source"}]


def _fork(setting: Setting) -> Iterator[Value]:
    texts = setting.texts(_RECORDS, _QUICK)
    file = str(texts.write_parquet(setting.folder / "texts.parquet"))
    epoch = _QUICK // 4 if setting.quick else _EPOCH

    def contender(name: str, steps: Sequence[Mapping[str, Any]]) -> Callable[[], Rate]:
        work = str(setting.fresh(name))
        rate = partial(child_rate, run_graph, one_core=True, steps=steps, file=file, work=work)
        return partial(rate, records=texts.table.num_rows, epoch=epoch)

    taken = interleaved(setting, {"one": contender("one", _ONE), "fork": contender("fork", _FORK)})
    ratios = [2 * fork / one for fork, one in zip(taken["fork"], taken["one"], strict=True)]
    yield median("graph_fork_vs_two", ratios, ".3f")


MEASUREMENTS = (
    Measurement(
        (Figure("graph_fork_vs_two", "x", at_least(0.9)),),
        f"{_RECORDS:,} texts from Parquet, classified by naive_bayes twice, in two branches of one graph, on one core "
        f"(exactly_once, {_EPOCH:,}-record epochs): twice the time of a pipeline with one of the branches, divided by "
        "the time of the graph. The branches share the reading of the records.",
        _fork,
        any_texts=True,
    ),
)
