"""One epoch through all steps: records in, rows for the outputs and the epoch's note out. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.errors import MillstreamError, StepFailed
from millstream.log.epochs import Added, Ended, Epoch, Note, PartitionName
from millstream.records import OFFSET, RANK, REJECT, TIME, digest_of, in_step_order
from millstream.state.digests import state_digest
from millstream.state.saves import States
from millstream.steps.contracts import Result
from millstream.steps.graph import Graph, Node
from millstream.steps.rows import rows_for_sinks
from millstream.substreams.event_time import EventTime

__all__ = ["Processed", "Processing"]

_ENGINE = "event time"


@dataclass(frozen=True)
class Processed:
    """What an epoch came to: its rows by output, and its note."""

    epoch: Epoch
    rows: Mapping[str, pa.Table]
    note: Note


class Processing:
    """The steps of a pipeline with their state, in the hands of one engine."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.partitions: list[PartitionName] = []
        self.ahead: frozenset[str] = frozenset()
        """Steps that have run before the records come here."""
        self._event_time = EventTime()
        self._digested = _digested(graph)

    def process(self, epoch: Epoch, records: pa.Table, attempt: int = 1) -> Processed:
        """Take one epoch through all steps. `records` has the log's columns and `_rank`, in any order."""
        self._join(epoch)
        records = in_step_order(records)
        inputs = _inputs(records, self.graph.log_columns)
        collected: dict[str, list[pa.Table]] = {name: [] for name in self.graph.outputs}
        records, rejects = _split(records, self.graph.source_name)
        collected["rejects"].append(rejects)
        self._event_time.observe(records)
        steps: dict[str, str] = {}
        correct = labelled = 0
        for node in self.graph.steps:
            if node.name not in self.ahead:
                result = self._run(node, epoch, records)
                records = result.records
                correct, labelled = correct + result.correct, labelled + result.labelled
                _collect(collected, result)
            if self._digested[node.name]:
                steps[node.name] = digest_of([records.select(self._digested[node.name])])
        ended = self._event_time.edge(event.rank for event in epoch.events if isinstance(event, Ended))
        if ended is not None:
            for node in self.graph.steps:
                if "time" in node.step.traits.ends:
                    _collect(collected, node.step.ended(ended))
        rows = {name: self._rows(name, tables) for name, tables in collected.items()}
        note = Note(
            epoch=epoch.number,
            attempt=attempt,
            records=sum(count for count, _ in inputs.values()),
            rejects=rows["rejects"].num_rows,
            correct=correct,
            labelled=labelled,
            inputs=inputs,
            steps=steps,
            outputs={name: (table.num_rows, digest_of([table])) for name, table in rows.items() if table.num_rows},
        )
        return Processed(epoch, rows, note)

    def skip(self, epoch: Epoch) -> None:
        """An epoch is lost (at_most_once): its partitions still come and go."""
        self._join(epoch)
        self._event_time.leave(event.rank for event in epoch.events if isinstance(event, Ended))

    def save(self) -> States:
        """The state of every step and of event time; the arrays stay as they are."""
        states: dict[str, Mapping[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]] | bytes]] = {
            node.name: node.step.save() for node in self.graph.steps
        }
        states[_ENGINE] = {"event_time": self._event_time.save()}
        return states

    def restore(self, states: States, partitions: Sequence[PartitionName]) -> None:
        """Go on from a save; an empty one is the beginning. `partitions` are those of the epochs before."""
        for node in self.graph.steps:
            node.step.restore(states.get(node.name, {}))
        saved = states.get(_ENGINE, {}).get("event_time")
        self._event_time = EventTime.restore(bytes(saved)) if saved is not None else EventTime()
        self.partitions = list(partitions)

    def model_digest(self) -> str | None:
        """The fingerprint of the model, or of the first of several; None without one."""
        for node in self.graph.steps:
            fingerprint = getattr(node.step, "fingerprint", None)
            if fingerprint is not None:
                return str(fingerprint())
        return None

    def state_digest(self) -> str:
        """A digest of all state, waiting blocks and open windows included; free of step names' order."""
        parts = {f"{step}/{name}": value for step, state in self.save().items() for name, value in state.items()}
        return state_digest(parts)

    def _join(self, epoch: Epoch) -> None:
        for event in epoch.events:
            if isinstance(event, Added):
                if event.partition not in self.partitions:
                    self.partitions.append(event.partition)
                self._event_time.join(self.partitions.index(event.partition))

    def _run(self, node: Node, epoch: Epoch, records: pa.Table) -> Result:
        try:
            return node.step.process(records)
        except StepFailed as error:
            if error.rank is None or error.offset is None:
                raise
            message = f"{error} (epoch {epoch.number}, {self._position(error.rank, error.offset)})"
            raise StepFailed(message, error.rank, error.offset) from error
        except MillstreamError:
            raise
        except Exception as error:
            first = ""
            if records.num_rows:
                first = f", in records from {self._position(records[RANK][0].as_py(), records[OFFSET][0].as_py())} on"
            message = f"step '{node.name}' failed in epoch {epoch.number}{first}: {type(error).__name__}: {error}"
            raise StepFailed(message) from error

    def _position(self, rank: int, offset: int) -> str:
        partition = self.partitions[rank]
        return f"{partition.source}/{partition.name} offset {offset}"

    def _rows(self, name: str, tables: list[pa.Table]) -> pa.Table:
        output = self.graph.outputs[name]
        chosen = [table.select(output.schema.names).cast(output.schema) for table in tables if table.num_rows]
        table = pa.concat_tables(chosen) if chosen else output.schema.empty_table()
        return rows_for_sinks(output, table, self.partitions)


def _inputs(records: pa.Table, columns: Sequence[str]) -> dict[int, tuple[int, str]]:
    """For each rank the record count and the digest of its records."""
    ranks = records[RANK].to_numpy()
    plain = records.select(columns)
    present = np.unique(ranks).tolist()
    if len(present) == 1:
        return {present[0]: (records.num_rows, digest_of([plain]))}
    parts = {rank: plain.filter(pa.array(ranks == rank)) for rank in present}
    return {rank: (part.num_rows, digest_of([part])) for rank, part in parts.items()}


def _split(records: pa.Table, source_step: str) -> tuple[pa.Table, pa.Table]:
    """The records that could be read, and reject rows for the others."""
    rejected = records[REJECT].is_valid()
    if records.num_rows and pc.any(rejected).as_py():
        bad = records.filter(rejected)
        step = pa.array([source_step] * bad.num_rows, pa.string())
        rejects = pa.table({RANK: bad[RANK], OFFSET: bad[OFFSET], TIME: bad[TIME], "step": step, "reason": bad[REJECT]})
        return records.filter(pc.invert(rejected)).drop_columns([REJECT]), rejects
    return records.drop_columns([REJECT]), pa.table({})


def _digested(graph: Graph) -> dict[str, list[str]]:
    """For each step the columns that its note digests: those it adds; all if it changes some or leaves records out."""
    chosen: dict[str, list[str]] = {}
    before = graph.records.empty_table()
    for node in graph.steps:
        after = node.step.process(before).records
        added = [name for name in after.column_names if name not in before.column_names]
        chosen[node.name] = added or ([] if node.step.outputs else after.column_names)
        before = after
    return chosen


def _collect(collected: dict[str, list[pa.Table]], result: Result) -> None:
    for name, table in result.outputs.items():
        collected[name].append(table)
