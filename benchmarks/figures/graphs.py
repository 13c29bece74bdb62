"""Graphs: the cost of a chain compared with that of its bare steps, and of a fork with that of its branches."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.kit.child import child_rate
from benchmarks.kit.measurement import Figure, Measurement, Setting, Value, at_least
from benchmarks.kit.pipeline import run_graph
from benchmarks.kit.rates import Rate
from benchmarks.kit.rounds import interleaved, median, repeated
from millstream.config.load import read_config
from millstream.digests import digest_of
from millstream.log.epochs import PartitionTable
from millstream.steps.chain import Chain, EpochInProgress
from millstream.steps.graph import Graph, build_graph
from millstream.substreams import Watermark

__all__ = ["MEASUREMENTS"]

_RECORDS, _QUICK, _EPOCH = 200_000, 8_000, 10_000
_CLASSIFY = {"type": "classify", "model": {"type": "naive_bayes", "features": {}}}
_ONE = [_CLASSIFY]
_FORK = [{**_CLASSIFY, "name": "one"}, {**_CLASSIFY, "name": "two", "from": "source"}]
_CHAIN = [
    {"type": "hashed_text", "dimensions": 2**18},
    {"type": "classify", "model": {"type": "naive_bayes"}},
    {"type": "popularity", "window": {"type": "tumbling", "size": "1h"}},
]


def _chain(setting: Setting) -> Iterator[Value]:
    epoch = _QUICK // 4 if setting.quick else _EPOCH
    records = _positioned(setting.texts(_RECORDS, _QUICK).table)
    epochs = [records.slice(start, epoch) for start in range(0, records.num_rows, epoch)]
    source = {"type": "files", "path": str(setting.folder)}
    config = read_config({"name": "bench", "source": source, "pipeline": {"steps": _CHAIN}}, setting.folder, "b").config

    def build() -> Graph:
        return build_graph(config.steps, ["text", "label"], config.source_times, config.sinks)

    def speed(ahead: int, _: int) -> float:
        """The time of the bare steps over that of the chain, epoch by epoch in turns."""
        given = [reduce(lambda part, node: node.step.process(part).records, build().steps[:ahead], e) for e in epochs]
        runs, taken = (_chain_of(build(), ahead), _steps_of(build(), ahead)), ([0.0] * len(given), [0.0] * len(given))
        for number, part in enumerate(given):
            for which in (number % 2, 1 - number % 2):
                began = time.process_time()
                runs[which](number, part)
                taken[which][number] = time.process_time() - began
        return statistics.median(taken[1]) / statistics.median(taken[0])

    for name, ahead in (("graph_chain_vs_steps", 0), ("graph_chain_vs_steps_ahead", 1)):
        yield median(name, repeated(setting, partial(speed, ahead)), ".3f")


def _positioned(texts: pa.Table) -> pa.Table:
    """Texts as the records of one partition, one a second."""
    offsets = np.arange(texts.num_rows)
    position = {"_rank": np.zeros(len(offsets), np.int32), "_offset": offsets, "_time": offsets * 1_000_000}
    return pa.table({**position, "text": texts["text"], "label": texts["label"]})


def _chain_of(graph: Graph, ahead: int) -> Callable[[int, pa.Table], None]:
    """Runs the chain of a graph as its processor does; the first steps have run `ahead` in another process."""
    chain, partitions = Chain(graph, graph.steps, [node.name for node in graph.steps[:ahead]]), PartitionTable()

    def run(number: int, records: pa.Table) -> None:
        epoch = EpochInProgress(number, records, {}, {}, {})
        chain.run(epoch, partitions)
        chain.end(epoch, _end_of(records), partitions)

    return run


def _steps_of(graph: Graph, ahead: int) -> Callable[[int, pa.Table], None]:
    """Calls the steps one after the other, and digests of their records what a receipt has."""

    def run(number: int, records: pa.Table) -> None:
        results = []  # kept until the end of the epoch, because sinks get the rows of outputs then
        for node in graph.steps:
            if node.number >= ahead:
                results.append(node.step.process(records))
                records = results[-1].records
            if columns := graph.digested[node.name]:
                digest_of(records.select(columns))
        graph.steps[-1].step.ended(_end_of(records))

    return run


def _end_of(records: pa.Table) -> Watermark:
    return Watermark(records["_time"][-1].as_py())


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
        (
            Figure("graph_chain_vs_steps", "x", at_least(0.97)),
            Figure("graph_chain_vs_steps_ahead", "x", at_least(0.97)),
        ),
        f"hashed_text, naive_bayes and popularity over {_RECORDS:,} texts in {_EPOCH:,}-record epochs: records per "
        "second of processor time through the chain of a graph, divided by those of the same steps called one after "
        "the other, digests included on both sides. `ahead`: hashed_text has run before, as in a worker of Spark.",
        _chain,
        name="graph_chain",
    ),
    Measurement(
        (Figure("graph_fork_vs_two", "x", at_least(0.9)),),
        f"{_RECORDS:,} texts from Parquet, classified by naive_bayes twice, in two branches of one graph, on one core "
        f"(exactly_once, {_EPOCH:,}-record epochs): twice the time of a pipeline with one of the branches, divided by "
        "the time of the graph. The branches share the reading of the records.",
        _fork,
        any_texts=True,
    ),
)
