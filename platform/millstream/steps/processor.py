"""The processor of epochs: makes rows for the outputs and a receipt from the records of an epoch. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from millstream.digests import Digest, digest_of
from millstream.log.epochs import Epoch, EpochReceipt, PartitionName, PartitionTable
from millstream.records import no_records
from millstream.shadow_names import is_shadow
from millstream.state.dirty_rows import Value
from millstream.state.stored_states import States
from millstream.steps.chain import Chain, EpochInProgress, begin_epoch
from millstream.steps.contracts import FindsLateRecords, Scope
from millstream.steps.graph import Graph
from millstream.steps.model_events import NO_VERSIONS, Versions, take_models
from millstream.steps.nodes import Node
from millstream.steps.outcome import Outcome, outcome_of
from millstream.steps.output_rows import row_schema, rows_for_sinks, with_columns
from millstream.steps.runner import save_state
from millstream.substreams import Watermark
from millstream.substreams.event_time import EventTime

__all__ = ["EVENT_TIME", "EpochBoundary", "EpochProcessor", "EpochResult", "restore_steps"]

EVENT_TIME = "event time"
"""The name of event time among the states of the steps."""


@dataclass(frozen=True)
class EpochResult:
    """The result of an epoch: its rows by output, and its receipt."""

    epoch: Epoch
    rows: Mapping[str, pa.Table]
    receipt: EpochReceipt


@dataclass(frozen=True)
class EpochBoundary:
    """Event time at the boundary of an epoch: the watermark of the sources if it has risen, and those of the steps.

    `held_by` is the partition for which the watermark waits, if it waits for one.
    """

    risen: Watermark | None
    watermarks: Mapping[str, int | None]
    held_by: int | None


class EpochProcessor:
    """The steps of a pipeline with their state, all in one process.

    `steps` are the last steps of the pipeline, which run here; by default all steps. `versions` has the versions of
    models that epochs name.
    """

    def __init__(self, graph: Graph, steps: Sequence[Node] | None = None, versions: Versions = NO_VERSIONS) -> None:
        self.graph = graph
        self._versions = versions
        self._partitions = PartitionTable()
        self._chain = Chain(graph, graph.steps if steps is None else steps)
        self._event_time = EventTime()
        self._steps = {node.number: node.name for node in graph.steps}
        self._no_rows = {name: no_records(row_schema(output)) for name, output in graph.outputs.items()}

    def run_ahead(self, steps: Iterable[str]) -> None:
        """Declare that another process runs these steps before; their state is not in this process either."""
        self._chain = Chain(self.graph, self._chain.steps, steps)

    def process(self, epoch: Epoch, records: pa.Table, attempt: int = 1) -> EpochResult:
        """Process one epoch in all steps. `records` has the log's columns and `_rank`; rows may be in any order."""
        self._join(epoch)
        self.take_models(epoch, self._chain.here)
        begun = begin_epoch(epoch.number, epoch.at, records, self.graph, self._partitions)
        return self._complete(epoch, begun, attempt)

    def take_models(self, epoch: Epoch, steps: Iterable[Node]) -> None:
        """Let these steps take the models with which they begin an epoch."""
        take_models(epoch, steps, self._versions)

    def boundary(self, epoch: Epoch, latest: Mapping[int, int | None]) -> EpochBoundary:
        """Pass the boundary of an epoch; `latest` are the `latest_times` of its records."""
        self._join(epoch)
        return self._boundary(epoch, latest)

    def result(
        self, epoch: Epoch, in_progress: EpochInProgress, boundary: EpochBoundary, attempt: int = 1
    ) -> EpochResult:
        """The result of an epoch that is through all steps."""
        rows = {name: self._rows(name, in_progress.outputs.get(name, [])) for name in self.graph.outputs}
        return EpochResult(epoch, rows, self._receipt(in_progress, rows, boundary, attempt))

    def _complete(self, epoch: Epoch, in_progress: EpochInProgress, attempt: int) -> EpochResult:
        boundary = self._boundary(epoch, in_progress.latest)
        self._chain.run(in_progress, self._partitions)
        self._chain.end(in_progress, boundary.risen, self._partitions)
        return self.result(epoch, in_progress, boundary, attempt)

    def _boundary(self, epoch: Epoch, latest: Mapping[int, int | None]) -> EpochBoundary:
        self._event_time.observe(latest)
        risen = self._event_time.boundary(epoch.ended, epoch.idle)
        return EpochBoundary(risen, self._watermarks(), self._event_time.holder)

    def skip(self, epoch: Epoch) -> None:
        """Skip an epoch that is lost (at_most_once); its models, and the partitions that it adds and ends, still count.

        The times of its records are unknown, so the watermark waits for the next records of their partitions.
        """
        self._join(epoch)
        self.take_models(epoch, self._chain.here)
        self._event_time.lose(epoch.ranks)
        self._event_time.leave(epoch.ended, epoch.idle)

    def save(self) -> States:
        """The state of every step and of event time; later epochs do not change the returned arrays."""
        states: dict[str, Mapping[str, Value]] = {node.name: save_state(node) for node in self._chain.here}
        states[EVENT_TIME] = {"event_time": self._event_time.save()}
        return states

    def restore(self, states: States, partitions: Sequence[PartitionName]) -> None:
        """Continue from these states; empty states are the beginning. `partitions` are those of earlier epochs."""
        self._event_time = restore_steps(self.graph, self._chain.here, states)
        self._partitions = PartitionTable(partitions)

    @property
    def partitions(self) -> PartitionTable:
        """The partitions of all epochs so far."""
        return self._partitions

    @property
    def keyed(self) -> frozenset[str]:
        """The steps whose state in this process is divided by key."""
        return frozenset(node.name for node in self._chain.here if node.traits.scope is Scope.KEYED)

    def outcome(self) -> Outcome:
        """The digests of all state in this process, and the fingerprints of the models here."""
        prints = {node.name: getattr(node.step, "fingerprint", None) for node in self._chain.here}
        found = {step: each() for step, each in prints.items() if each is not None}
        return outcome_of(self.save(), {step: str(made) for step, made in found.items() if made is not None})

    def _join(self, epoch: Epoch) -> None:
        for rank in self._partitions.follow(epoch):
            self._event_time.join(rank, timed=self.graph.source(self._partitions[rank].source).timed)

    def _watermarks(self) -> dict[str, int | None]:
        """The watermark of all that each step has passed on. That of a shadow is its champion's."""
        if (watermark := self._event_time.watermark) is None:
            return {}
        behind = self.graph.held_back
        return {
            node.name: watermark.held_back(behind[node.name] + node.traits.held_back).time
            for node in self.graph.steps
            if not is_shadow(node.name)
        }

    def _receipt(
        self, epoch: EpochInProgress, rows: Mapping[str, pa.Table], boundary: EpochBoundary, attempt: int
    ) -> EpochReceipt:
        inputs: dict[str, Digest] = {}
        for rank in sorted(epoch.inputs):
            source = self._partitions[rank].source
            inputs[source] = inputs.get(source, Digest()) + epoch.inputs[rank]
        steps = [node.name for node in self.graph.steps]
        return EpochReceipt(
            epoch=epoch.epoch,
            attempt=attempt,
            records=sum(digest.count for digest in inputs.values()),
            rejects=rows["rejects"].num_rows,
            inputs=inputs,
            streams={name: epoch.streams[name] for name in steps if name in epoch.streams},
            outputs={name: digest_of(table) for name, table in rows.items() if table.num_rows},
            scores={name: epoch.scores[name] for name in steps if name in epoch.scores},
            watermarks=boundary.watermarks,
            held_by=boundary.held_by,
            rounds=epoch.rounds,
        )

    def _rows(self, name: str, tables: list[pa.Table]) -> pa.Table:
        if not tables:
            return self._no_rows[name]
        schema = self.graph.outputs[name].schema
        rows = pa.concat_tables([with_columns(table, schema) for table in tables])
        return rows_for_sinks(rows, self._no_rows[name].schema, list(self._partitions), self._steps)


def restore_steps(graph: Graph, steps: Iterable[Node], states: States) -> EventTime:
    """Let these steps continue from their states, by which those that find late records get the last watermark.

    Returns event time, which is one of the states.
    """
    saved = states.get(EVENT_TIME, {}).get("event_time")
    event_time = EventTime.restore(bytes(saved)) if saved is not None else EventTime()
    for node in steps:
        node.step.restore(states.get(node.name, {}))
        if event_time.watermark is not None and isinstance(node.step, FindsLateRecords):
            node.step.resume(event_time.watermark.held_back(graph.held_back[node.name]))
    return event_time
