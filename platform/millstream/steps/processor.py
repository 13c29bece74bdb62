"""The processor of epochs: makes rows for the outputs and a receipt from the records of an epoch. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from millstream.digests import Digest, digest_of
from millstream.log.epochs import Epoch, EpochReceipt, PartitionName, PartitionTable
from millstream.records import no_records
from millstream.state.dirty_rows import Value
from millstream.state.stored_states import States
from millstream.steps.chain import Chain, EpochInProgress, begin_epoch
from millstream.steps.contracts import FindsLateRecords, Scope
from millstream.steps.graph import Graph
from millstream.steps.nodes import Node
from millstream.steps.outcome import Outcome, outcome_of
from millstream.steps.output_rows import row_schema, rows_for_sinks, with_columns
from millstream.steps.runner import save_state
from millstream.substreams.event_time import EventTime

__all__ = ["EpochProcessor", "EpochResult"]

_ENGINE = "event time"


@dataclass(frozen=True)
class EpochResult:
    """The result of an epoch: its rows by output, and its receipt."""

    epoch: Epoch
    rows: Mapping[str, pa.Table]
    receipt: EpochReceipt


class EpochProcessor:
    """The steps of a pipeline with their state, all in one process.

    `steps` are the last steps of the pipeline, which run here; by default all steps.
    """

    def __init__(self, graph: Graph, steps: Sequence[Node] | None = None) -> None:
        self.graph = graph
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
        begun = begin_epoch(epoch.number, epoch.at, records, self.graph, self._partitions)
        return self._complete(epoch, begun, attempt)

    def complete(self, epoch: Epoch, in_progress: EpochInProgress) -> EpochResult:
        """Run the steps and the boundary of an epoch that another process has begun, and whose first steps it ran."""
        self._join(epoch)
        return self._complete(epoch, in_progress, attempt=1)

    def _complete(self, epoch: Epoch, in_progress: EpochInProgress, attempt: int) -> EpochResult:
        self._event_time.observe(in_progress.latest)
        self._chain.run(in_progress, self._partitions)
        risen = self._event_time.boundary(epoch.ended, epoch.idle)
        self._chain.end(in_progress, risen, self._partitions)
        rows = {name: self._rows(name, in_progress.outputs.get(name, [])) for name in self.graph.outputs}
        return EpochResult(epoch, rows, self._receipt(in_progress, rows, attempt))

    def skip(self, epoch: Epoch) -> None:
        """Skip an epoch that is lost (at_most_once); the partitions that it adds and ends still count.

        The times of its records are unknown, so the watermark waits for the next records of their partitions.
        """
        self._join(epoch)
        self._event_time.lose(epoch.ranks)
        self._event_time.leave(epoch.ended, epoch.idle)

    def save(self) -> States:
        """The state of every step and of event time; later epochs do not change the returned arrays."""
        states: dict[str, Mapping[str, Value]] = {node.name: save_state(node) for node in self._chain.here}
        states[_ENGINE] = {"event_time": self._event_time.save()}
        return states

    def restore(self, states: States, partitions: Sequence[PartitionName]) -> None:
        """Continue from these states; empty states are the beginning. `partitions` are those of earlier epochs."""
        for node in self._chain.here:
            node.step.restore(states.get(node.name, {}))
        saved = states.get(_ENGINE, {}).get("event_time")
        self._event_time = EventTime.restore(bytes(saved)) if saved is not None else EventTime()
        self._partitions = PartitionTable(partitions)
        self._resume()

    @property
    def keyed(self) -> frozenset[str]:
        """The steps whose state in this process is divided by key."""
        return frozenset(node.name for node in self._chain.here if node.traits.scope is Scope.KEYED)

    def outcome(self) -> Outcome:
        """The digests of all state in this process, and the fingerprints of the models here."""
        prints = {node.name: getattr(node.step, "fingerprint", None) for node in self._chain.here}
        return outcome_of(self.save(), {step: str(each()) for step, each in prints.items() if each is not None})

    def _join(self, epoch: Epoch) -> None:
        for rank in self._partitions.follow(epoch):
            self._event_time.join(rank, timed=self.graph.source(self._partitions[rank].source).timed)

    def _resume(self) -> None:
        """Give the last watermark to the steps that find late records."""
        if (watermark := self._event_time.watermark) is not None:
            for node in self._chain.here:
                if isinstance(node.step, FindsLateRecords):
                    node.step.resume(watermark.held_back(self.graph.held_back[node.name]))

    def _watermarks(self) -> dict[str, int | None]:
        """The watermark of all that each step has passed on."""
        if (watermark := self._event_time.watermark) is None:
            return {}
        behind = self.graph.held_back
        return {
            node.name: watermark.held_back(behind[node.name] + node.traits.held_back).time for node in self.graph.steps
        }

    def _receipt(self, epoch: EpochInProgress, rows: Mapping[str, pa.Table], attempt: int) -> EpochReceipt:
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
            watermarks=self._watermarks(),
            held_by=self._event_time.holder,
            rounds=epoch.rounds,
        )

    def _rows(self, name: str, tables: list[pa.Table]) -> pa.Table:
        if not tables:
            return self._no_rows[name]
        schema = self.graph.outputs[name].schema
        rows = pa.concat_tables([with_columns(table, schema) for table in tables])
        return rows_for_sinks(rows, self._no_rows[name].schema, list(self._partitions), self._steps)
