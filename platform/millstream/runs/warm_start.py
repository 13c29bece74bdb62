"""The warm start of a new run: its models learn old labels from files before the first record."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from millstream.config.load import Loaded
from millstream.config.models import Config
from millstream.errors import ConfigError, MillstreamError, Unavailable
from millstream.log.checked_source import open_log
from millstream.log.contracts import Log, OpenContext
from millstream.log.epochs import PartitionName
from millstream.log.ranges import Range, read_ranges, records_schema
from millstream.records import OFFSET, RANK, REJECT
from millstream.registry.config_versions import Entering
from millstream.runs.checkpoint_model import way_to
from millstream.runs.outputs import graph_of
from millstream.state.model_version import ModelVersion
from millstream.steps.contracts import Scope
from millstream.steps.nodes import Node
from millstream.steps.runner import process_batch
from millstream.steps.text_model import fitted

__all__ = ["starts_warm", "warm_models"]

_SECONDS = 2
"""The least time between two lines of progress."""


def starts_warm(config: Config) -> bool:
    """True if a model of the config begins with old labels."""
    return any(getattr(step.config, "warm_start", None) is not None for step in config.steps)


def warm_models(
    loaded: Loaded,
    cache: Callable[[str], Path],
    entering: Mapping[str, Entering],
    stopped: Callable[[], bool],
    say: Callable[[str], None],
) -> dict[str, Entering]:
    """The models that begin with old labels, by step; each has learned all records of its `warm_start`.

    `cache` makes the folder for a source's own files, and `say` gets lines of progress. A start that is killed here
    begins again.
    """
    graph = graph_of(loaded)
    found = {}
    for node in graph.steps:
        source = getattr(node.config, "warm_start", None)
        if source is None:
            continue
        if node.name in entering:
            message = (
                f"step {node.name!r}: the model {entering[node.name].uri} has learned already; leave out `warm_start`"
            )
            raise ConfigError(message)
        context = OpenContext(
            loaded.folder, cache(f"warm_start-{node.name}"), loaded.config.name, fail_fast=True, stopped=stopped
        )
        log = open_log(source, context)
        try:
            found[node.name] = _Learner(node, way_to(graph, node), log, stopped, say).learn()
        finally:
            log.close()
    return found


class _Learner:
    """A new model, which learns the records of a log."""

    def __init__(
        self, node: Node, before: Sequence[Node], log: Log, stopped: Callable[[], bool], say: Callable[[str], None]
    ) -> None:
        self._node, self._before, self._log, self._stopped, self._say = node, before, log, stopped, say
        self._fields = [name for name in (*before, node)[0].records.names if not name.startswith("_")]
        self._names = [partition.name for partition in log.partitions()]
        self._place = _Place(node.name, self._names)
        self._read = self._labelled = 0
        for step in before:
            if step.traits.scope is not Scope.STATELESS:
                raise self._refusal(
                    f"the step {step.name!r} before the model has state, and old labels are not records of the stream; "
                    "only steps without state may be before a model that begins with old labels"
                )
        if missing := [name for name in self._fields if name not in log.fields]:
            raise self._refusal(
                f"its records have no field {missing[0]!r}, which those of the stream have; name it in `fields`"
            )

    def learn(self) -> Entering:
        noted = time.monotonic()
        spans = [(name, self._log.beginning(name), self._log.end(name)) for name in self._names]
        total = sum(stop - start for _, start, stop in spans)
        ranges = [
            Range(rank, PartitionName("warm_start", name, rank), start, stop)
            for rank, (name, start, stop) in enumerate(spans)
        ]
        for batch in read_ranges(ranges, lambda _: self._log, records_schema(self._fields)):
            if self._stopped():
                raise Unavailable(
                    f"stopped in the warm start of {self._node.name!r}, before the first epoch; the same command "
                    "begins the warm start again"
                )
            self._learn(pa.Table.from_batches([batch]))
            if time.monotonic() - noted >= _SECONDS:
                noted = time.monotonic()
                self._say(f"warm start of {self._node.name!r}: {self._read:,} of {total:,} records learned")
        if not self._labelled:
            raise self._refusal(
                f"no record of {', '.join(self._names) or 'it'} has a label; name the field with the label in `fields`"
            )
        names = self._names[0] if len(self._names) == 1 else f"{len(self._names):,} partitions"
        about = f"warm start: {self._read:,} records of {names}"
        step = self._node.config.model_dump(mode="json", include={"type", "model", "label"})
        return Entering(about, ModelVersion(self._node.name, self._node.step.save(), (step,), {}, ""))

    def _learn(self, records: pa.Table) -> None:
        rejected = records.filter(records[REJECT].is_valid()).slice(0, 1)
        for row in rejected.to_pylist():
            place = self._place.of_record(row[RANK], row[OFFSET], b"")
            raise MillstreamError(f"{place}: {row[REJECT]}; correct the record, or remove it")
        self._read += records.num_rows
        records = records.drop_columns([REJECT])
        for step in self._before:
            records = process_batch(step, fitted(records, step), self._place).records
        self._labelled += process_batch(self._node, fitted(records, self._node), self._place).labelled

    def _refusal(self, why: str) -> ConfigError:
        return ConfigError(f"step {self._node.name!r}, `warm_start`: {why}")


@dataclass(frozen=True)
class _Place:
    """Describes the position of records of a warm start, for errors.

    >>> _Place("classify", ["old.jsonl", "old.parquet"]).of_record(0, 16, b"")
    "warm start of 'classify', old.jsonl line 17"
    """

    step: str
    names: Sequence[str]

    def of_record(self, rank: int, offset: int, path: bytes) -> str:
        name = self.names[rank]
        position = f"line {offset + 1:,}" if name.endswith((".jsonl", ".jsonl.gz")) else f"offset {offset:,}"
        return f"warm start of {self.step!r}, {name} {position}"

    def of_batch(self, records: pa.Table) -> str:
        if not records.num_rows:
            return f"in the warm start of {self.step!r}"
        first: dict[str, Any] = records.select([RANK, OFFSET]).slice(0, 1).to_pylist()[0]
        return f"in the {self.of_record(first[RANK], first[OFFSET], b'')}, or after it"
