"""The learner of a version: brings it to the position of a run, record by record, from the log and the run's cuts.

It runs the steps before the model and the model itself as the run does, on the part of each epoch that the version has
not learned.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from millstream.config.models import Config
from millstream.errors import MillstreamError, Truncated
from millstream.log.checked_source import open_log
from millstream.log.contracts import Log, OpenContext
from millstream.log.epochs import Epoch, EpochReader, Planner
from millstream.log.ranges import Range, read_table, records_schema
from millstream.runs.shadow.positions import VersionPositions
from millstream.runs.trained_logs import check_logs
from millstream.state.model_version import ModelVersion, Trained
from millstream.state.version_store import VersionStore
from millstream.steps.chain import Chain, begin_epoch
from millstream.steps.graph import Graph, build_graph
from millstream.steps.nodes import Node

__all__ = ["Entry", "Learner", "LearnerSpec"]


@dataclass(frozen=True)
class LearnerSpec:
    """The configuration of a learner.

    `version` is the folder of the version `uri` for the step `step`, and `epochs` the epoch log of the run. `contexts`
    has for each source its folder, its cache and the pipeline. With `as_is`, records are counted and not learned.
    """

    config: Config
    fields: Sequence[str]
    contexts: Mapping[str, tuple[Path, Path, str]]
    step: str
    uri: str
    version: Path
    epochs: Path
    as_is: bool


@dataclass(frozen=True)
class Entry:
    """A version that is ready for the next epoch, and whose state is in the run directory.

    `trained` has its positions. Of the records of the run it has not learned `skipped` of those before that epoch, and
    will learn `repeated` of those after it a second time.
    """

    uri: str
    digest: str
    trained: Mapping[str, Mapping[str, int]]
    skipped: int = 0
    repeated: int = 0


class Learner:
    """A version, the logs and the epochs of a run.

    Refuses a version that learned another log, one whose records after its position are gone, and one that lacks
    records of epochs before the base of the run, because nothing has their cuts any more.
    """

    def __init__(self, spec: LearnerSpec) -> None:
        self._spec = spec
        self._version = ModelVersion.load(spec.version)
        self._reader = EpochReader(spec.epochs)
        totals = self._reader.base_totals()
        self._next = totals.base.epoch + 1
        self._ending = ExitStack()
        self._logs: dict[str, Log] = {}
        for source in spec.config.logs:
            folder, cache, pipeline = spec.contexts[source.name]
            self._logs[source.name] = open_log(source.config, OpenContext(folder, cache, pipeline))
            self._ending.callback(self._logs[source.name].close)
        check_logs(self._logs, self._known, spec.uri)
        trained = {source: {p: part.upto for p, part in parts.items()} for source, parts in self._known.items()}
        self._positions = VersionPositions(trained, totals, self._begin)
        if missing := self._positions.missing:
            label, records = next(iter(missing.items()))
            message = (
                f"{spec.uri} was trained up to {records:,} records of {label} before epoch {self._next}, and the cuts "
                "of these are gone (`keep` in the config): train a newer version"
            )
            raise Truncated(message)
        config = spec.config
        graph = build_graph(config.steps, spec.fields, config.source_times, config.sinks, config.cycle_limits)
        self._node, self._graph = _with_model(graph, spec.step, self._version)
        self._chain = Chain(self._graph, self._graph.steps)
        self._schema = records_schema(graph.fields)
        self.learned = self.skipped = self.repeated = 0
        self._counted = False
        self.seconds = 0.0
        """The duration of the last round."""

    @property
    def _known(self) -> Mapping[str, Mapping[str, Trained]]:
        return self._version.trained

    def _begin(self, partition: tuple[str, str], at: int) -> int:
        """The position in a partition that the version does not know: its beginning, also if the run began later."""
        source, name = partition
        return min(at, self._logs[source].beginning(name))

    @property
    def epoch(self) -> int:
        """The last epoch that was followed."""
        return self._next - 1

    @property
    def ahead(self) -> int:
        """The offsets until the run has reached the version."""
        return sum(self._positions.ahead.values())

    @property
    def waits(self) -> bool:
        """True if the version cannot enter before the run has reached it."""
        return self.ahead > 0 and not self._spec.as_is

    @property
    def records(self) -> int:
        """The number of records that were learned, or counted."""
        return self.skipped if self._spec.as_is else self.learned

    def rounds(self) -> Iterator[int]:
        """Follow the epochs that the run has cut by now; yields the number of records after each of them."""
        began = time.perf_counter()
        for epoch in self._reader.follow(self._next):
            yield self._follow(epoch)
        if self._spec.as_is and not self._counted:
            self.repeated, self._counted = self._count_ahead(), True
        self.seconds = time.perf_counter() - began

    def finish(self, upto: int, models: Path) -> Entry:
        """Follow the epochs up to this one, which is the last one cut, and store the state durably below `models`."""
        for _ in self.rounds():
            pass
        if self.epoch != upto:
            message = f"the epoch log ends with epoch {self.epoch} and not with {upto}"
            raise MillstreamError(message)
        offsets = self._positions.offsets
        if self._spec.as_is:
            offsets = {source: {p: part.upto for p, part in parts.items()} for source, parts in self._known.items()}
        trained = {source: {p: Trained(offset, "") for p, offset in parts.items()} for source, parts in offsets.items()}
        classify: Any = self._node.step
        state = self._version.state if self._spec.as_is else classify.version_state()
        made = replace(self._version, step=self._spec.step, state=state, trained=trained, cuts=self._reader.id)
        digest = VersionStore(models).put(made)
        return Entry(self._spec.uri, digest, offsets, self.skipped, self.repeated)

    def close(self) -> None:
        self._ending.close()

    def _follow(self, epoch: Epoch) -> int:
        parts = self._positions.follow(epoch)
        self._next = epoch.number + 1
        if self._spec.as_is:
            self.skipped += self._count(parts.learn)
            self.repeated -= self._count(parts.knows) if self._counted else 0
            return self.records
        for earlier in self._cut(parts.earlier):
            self._learn(epoch, earlier)
        self._learn(epoch, parts.learn)
        return self.records

    def _cut(self, ranges: Sequence[Range]) -> Iterator[list[Range]]:
        """Cut ranges that no epoch has, as a run that stops at their ends does."""
        names = {each.rank: each.partition for each in ranges}
        size = self._spec.config.engine.epoch.max_records
        planner = Planner(size, 0.0, {each.rank: each.start for each in ranges})
        ends = {each.rank: each.stop for each in ranges}
        while (cut := planner.plan(ends, 0.0, no_more=True)) is not None:
            yield [Range(rank, names[rank], *span) for rank, span in cut.items()]

    def _learn(self, epoch: Epoch, ranges: Sequence[Range]) -> None:
        if not ranges:
            return
        for wanted in ranges:
            self._check_reach(wanted)
        records = read_table(ranges, self._logs.__getitem__, self._schema)
        self._chain.run(
            begin_epoch(epoch.number, epoch.at, records, self._graph, self._positions.partitions),
            self._positions.partitions,
        )
        self.learned += records.num_rows

    def _check_reach(self, wanted: Range) -> None:
        name = wanted.partition
        first = self._logs[name.source].resume(name.name, wanted.start)
        if first > wanted.start:
            message = (
                f"{self._spec.uri} has to learn {name.source}/{name.name} from offset {wanted.start:,} on, and the log "
                f"now begins at {first:,}: train a newer version"
            )
            raise Truncated(message)

    def _count_ahead(self) -> int:
        """The number of records between the run and the version, in the partitions in which the version is ahead."""
        return self._count(self._positions.ahead_ranges(lambda source, name: self._logs[source].beginning(name)))

    def _count(self, ranges: Sequence[Range]) -> int:
        return sum(
            batch.num_rows
            for wanted in ranges
            for batch in self._logs[wanted.partition.source].read(wanted.partition.name, wanted.start, wanted.stop)
        )


def _with_model(graph: Graph, step: str, version: ModelVersion) -> tuple[Node, Graph]:
    """The steps up to the model, with the model of the version in its place."""
    champion = graph.node(step)
    entered: Any = champion.config.build(champion.records)
    entered.enter(version)
    node = replace(champion, step=entered)
    wanted = {step}
    for each in reversed(graph.steps):  # topological order: all readers of a step come after it
        if each.name in wanted:
            wanted.update(maker for name in each.reads if (maker := graph.streams[name].maker) is not None)
    steps = tuple(node if each.name == step else each for each in graph.steps if each.name in wanted)
    return node, replace(graph, steps=steps)
