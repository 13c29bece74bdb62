"""The runner of a leg in a cycle: it runs the leg's steps round by round, and then those behind the cycle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from millstream.digests import Digest
from millstream.engines.workers.leg_results import LegResults
from millstream.engines.workers.leg_runner import Passed, chain_of, rows_at_end, tables_of
from millstream.engines.workers.legs import BOUNDARY, LOG, RECORDS, Leg, Legs
from millstream.engines.workers.messages import Boundary, EpochPart, Round, SentBack
from millstream.engines.workers.places import ORDER, Places, PlacesOfRounds, in_order, without_order
from millstream.engines.workers.round_exchange import RoundExchange
from millstream.log.epochs import PartitionTable, Scores
from millstream.records import OFFSET, RANK
from millstream.steps.chain import Chain, EpochInProgress
from millstream.steps.cycles import back_edges
from millstream.steps.edges import maker_of
from millstream.steps.graph import Graph

__all__ = ["CycleRunner"]


class CycleRunner:
    """Runs the steps of a leg of a cycle, epoch by epoch and round by round; the sequencer decides on the rounds.

    Nothing is durable between two rounds: a crash repeats the epoch.
    """

    def __init__(self, graph: Graph, legs: Legs, leg: Leg, readers: int) -> None:
        self.leg = leg
        cycle = graph.cycles[leg.cycle]
        after = [*cycle.steps, *leg.behind, *(node for each in legs.fed_by(leg) for node in each.steps)]
        self._names = frozenset(node.name for node in leg.in_cycle)
        self._rounds = Chain(graph, leg.in_cycle, after=after, by_round=True)
        self._behind = chain_of(graph, legs, leg)
        self._results = LegResults(graph, legs, leg)
        self._kept = frozenset(
            stream for node in after if node.cycle != leg.cycle for stream in node.reads
        ) & frozenset(stream for stream in graph.streams if graph.streams[stream].maker in self._names)
        self._edges = {
            stream: edge.number
            for (_, stream), edge in reversed(back_edges(graph.steps).items())  # of several edges the first one stays
            if graph.streams[stream].maker in self._names
        }
        entering, inside, back, ends = (
            sum(legs.senders(feeding, readers) for feeding in each)
            for each in (leg.reads, leg.inside, leg.back, leg.ends)
        )
        self._exchange = RoundExchange(entering, inside, back, ends + 1 if leg.phases > BOUNDARY else 0)
        self._running = EpochInProgress(-1, None, {}, {}, {})
        """The results of the present epoch, of all rounds so far."""
        self._made: dict[str, list[pa.Table]] = {}
        self._known = PlacesOfRounds()
        self.allow = self._exchange.allowed.allow

    @property
    def idle(self) -> bool:
        """True if the leg has run all epochs that are allowed."""
        return self._exchange.allowed.first is None

    def take(self, message: EpochPart | Boundary | Round) -> None:
        """Take a part or a decision, if it is for this leg."""
        if isinstance(message, Round):
            if message.cycle == self.leg.cycle:
                self._exchange.decide(message)
        elif isinstance(message, Boundary):
            if self.leg.phases > BOUNDARY:
                self._exchange.take(message.epoch, "end", message)
        elif self.leg.index in message.tables:
            inside, back = message.leg in self.leg.inside, message.leg in self.leg.back
            if inside:
                self._exchange.take(message.epoch, "inside", message, message.round)
            if back:
                self._exchange.take(message.epoch, "back", message, message.round + 1)
            if not inside and not back:
                self._exchange.take(message.epoch, "entering" if message.phase == RECORDS else "end", message)

    def run_next(self, partitions: PartitionTable) -> Passed | None:
        """Run the next round, or what follows the cycle; None if something is missing."""
        ready = self._exchange.ready()
        if ready is None:
            return None
        epoch, number, held = ready
        parts = sorted((part for part in held if isinstance(part, EpochPart)), key=lambda part: (part.leg, part.sender))
        if number is not None:
            return self._run_round(epoch, number, parts, partitions)
        if not held:
            return self._run_behind(partitions)
        self._running.at_end = rows_at_end(self.leg.index, self._running, parts)
        [watermark] = (part.watermark for part in held if isinstance(part, Boundary))
        self._behind.end(self._running, watermark, partitions)
        tables = self._results.take_boundary(self._running)
        return Passed(epoch, self.leg, BOUNDARY, tables, self._results.report(self._running))

    def _run_round(self, epoch: int, number: int, parts: Sequence[EpochPart], partitions: PartitionTable) -> Passed:
        if number == 0:
            self._running, self._made, self._known = EpochInProgress(epoch, None, {}, {}, {}), {}, PlacesOfRounds()
        here = [part for part in parts if part.round == number]
        entering = self.leg.reads if number == 0 else {}
        tables = dict(tables_of(self.leg.index, {**entering, **self.leg.inside}, here))
        if number:
            before = [part for part in parts if part.round == number - 1]
            tables |= tables_of(self.leg.index, self.leg.back, before)
        places = Places(list(tables.values()))
        for table in tables.values():
            self._known.add(table)
        records = {stream: without_order(table) for stream, table in tables.items()}
        present = EpochInProgress(epoch, records.pop(LOG, None), {}, {}, {}, tables=records, order=places.order)
        present.round = number
        self._rounds.run(present, partitions)
        self._add(present)
        made = {stream: table for stream, table in present.tables.items() if maker_of(stream) in self._names}
        for stream in self._kept:
            self._made.setdefault(stream, []).append(made[stream])
        around = self._results.take_round(present, places)
        sent = {stream: around[index][stream] for stream in self._edges for index in around if stream in around[index]}
        return Passed(
            epoch, self.leg, RECORDS, around, None, number, self._sent_back(epoch, number + 1, sent, partitions)
        )

    def _add(self, present: EpochInProgress) -> None:
        """Add the results of a round to those of the epoch."""
        whole = self._running
        whole.rounds = {self.leg.cycle: present.round + 1}
        for name, rows in present.outputs.items():
            whole.outputs.setdefault(name, []).extend(rows)
        for step, digest in present.streams.items():
            whole.streams[step] = whole.streams.get(step, Digest()) + digest
        for step, scores in present.scores.items():
            whole.scores[step] = whole.scores.get(step, Scores()) + scores

    def _sent_back(
        self, epoch: int, number: int, sent: Mapping[str, pa.Table], partitions: PartitionTable
    ) -> SentBack | None:
        """The report on the records for the next round; None if no back edge leads from this leg."""
        if not self._edges:
            return None
        heads = {self._edges[stream]: table for stream, table in sent.items() if table.num_rows}
        first = None
        if heads:
            edge = min(heads)
            place, rank, offset = (heads[edge][name][0].as_py() for name in (ORDER, RANK, OFFSET))
            first = (edge, place, rank, offset, partitions.position(rank, offset))
        return SentBack(epoch, self.leg.cycle, number, sum(table.num_rows for table in heads.values()), first)

    def _run_behind(self, partitions: PartitionTable) -> Passed:
        """Run the steps behind the cycle on the records of all rounds."""
        places = self._known.places()
        epoch = self._running
        for stream, tables in self._made.items():
            epoch.tables[stream] = without_order(in_order([places.with_order(table) for table in tables]))
        epoch.order = places.order
        self._behind.run(epoch, partitions)
        made = self._results.take_records(epoch, places)
        report = self._results.report(epoch) if self.leg.phases == 1 else None
        return Passed(epoch.epoch, self.leg, RECORDS, made, report)
