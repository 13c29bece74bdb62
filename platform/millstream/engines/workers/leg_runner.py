"""The runner of a leg in one role: it takes the parts of epochs, and runs the leg's steps once they have arrived."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from millstream.engines.workers.exchange import Exchange
from millstream.engines.workers.leg_results import LegResults
from millstream.engines.workers.legs import BOUNDARY, LOG, RECORDS, Leg, Legs
from millstream.engines.workers.messages import Boundary, EpochPart, Report, Round, SentBack
from millstream.engines.workers.places import Places, in_order, without_order
from millstream.log.epochs import PartitionTable
from millstream.steps.chain import Chain, EpochInProgress
from millstream.steps.graph import Graph

__all__ = ["LegRunner", "Passed", "chain_of", "rows_at_end", "tables_of"]


@dataclass(frozen=True)
class Passed:
    """All that a leg made in a phase of an epoch: by receiving leg the streams, and the report in the last phase.

    In a cycle: all that it made in a `round`, for legs of the same cycle, with the report on the records `sent_back`.
    """

    epoch: int
    leg: Leg
    phase: int
    tables: Mapping[int, Mapping[str, pa.Table]]
    report: Report | None
    round: int = 0
    sent_back: SentBack | None = None


class LegRunner:
    """Runs the steps of a leg, epoch by epoch, and each epoch phase by phase.

    `begins` is called with the number of an epoch before the first steps of the leg run on it.
    """

    def __init__(
        self, graph: Graph, legs: Legs, leg: Leg, readers: int, begins: Callable[[int, Leg], None] | None = None
    ) -> None:
        self.leg, self._begins = leg, begins
        self._chain = chain_of(graph, legs, leg)
        self._results = LegResults(graph, legs, leg)
        self._merges = any(node.cycle or graph.inputs[node.name].needs_order for node in leg.steps)
        records = sum(legs.senders(feeding, readers) for feeding in leg.reads)
        ends = sum(legs.senders(feeding, readers) for feeding in leg.ends)
        self._exchange = Exchange[EpochPart | Boundary]([records, ends + 1][: leg.phases])
        self._running = EpochInProgress(-1, None, {}, {}, {})
        """The epoch whose last phase has not run, or the last one."""
        self.allow = self._exchange.allowed.allow

    @property
    def idle(self) -> bool:
        """True if the leg has run all epochs that are allowed."""
        return self._exchange.allowed.first is None

    def take(self, part: EpochPart | Boundary | Round) -> None:
        """Take a part, if it is for this leg."""
        if isinstance(part, EpochPart) and self.leg.index in part.tables:
            self._exchange.take(part.epoch, part.phase, part)
        elif isinstance(part, Boundary) and self.leg.phases > BOUNDARY:
            self._exchange.take(part.epoch, BOUNDARY, part)

    def run_next(self, partitions: PartitionTable) -> Passed | None:
        """Run the steps on the next phase; None if a part is missing, or the epoch may not change state yet."""
        ready = self._exchange.ready()
        if ready is None:
            return None
        epoch, phase, held = ready
        parts = sorted((part for part in held if isinstance(part, EpochPart)), key=lambda part: (part.leg, part.sender))
        if phase == RECORDS:
            places = self._begin(epoch, parts)
            self._chain.run(self._running, partitions)
            tables = self._results.take_records(self._running, places)
        else:
            self._running.at_end = rows_at_end(self.leg.index, self._running, parts)
            [watermark] = (part.watermark for part in held if isinstance(part, Boundary))
            self._chain.end(self._running, watermark, partitions)
            tables = self._results.take_boundary(self._running)
        over = phase + 1 == self.leg.phases
        return Passed(epoch, self.leg, phase, tables, self._results.report(self._running) if over else None)

    def _begin(self, epoch: int, parts: Sequence[EpochPart]) -> Places | None:
        """Make the epoch of the records in these parts; return their places if the leg needs them."""
        if self._begins is not None:
            self._begins(epoch, self.leg)
        tables = tables_of(self.leg.index, self.leg.reads, parts)
        places = Places(list(tables.values())) if self.leg.needs_order else None
        records = {stream: without_order(table) for stream, table in tables.items()}
        self._running = EpochInProgress(epoch, records.pop(LOG, None), {}, {}, {}, tables=records)
        if self._merges and places is not None:
            self._running.order = places.order
        return places


def tables_of(leg: int, reads: Mapping[int, frozenset[str]], parts: Sequence[EpochPart]) -> dict[str, pa.Table]:
    """The records in these parts of the streams that a leg reads, by stream, with their places."""
    return {
        stream: in_order([part.tables[leg][stream] for part in parts if part.leg == feeding])
        for feeding, streams in reads.items()
        for stream in streams
    }


def rows_at_end(leg: int, epoch: EpochInProgress, parts: Sequence[EpochPart]) -> dict[str, list[pa.Table]]:
    """The rows of the boundary that the steps of this leg and other legs have made so far."""
    rows = dict(epoch.at_end)
    for part in parts:
        for stream, table in part.tables[leg].items():
            rows[stream] = [*rows.get(stream, ()), table]
    return rows


def chain_of(graph: Graph, legs: Legs, leg: Leg) -> Chain:
    """The steps of a leg, before the legs that read them."""
    return Chain(graph, leg.behind, after=[node for each in legs.fed_by(leg) for node in each.steps])
