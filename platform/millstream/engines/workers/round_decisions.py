"""The decisions on the rounds of cycles: another round begins if a leg has sent a record back, otherwise it is over."""

from __future__ import annotations

from millstream.engines.workers.legs import Legs
from millstream.engines.workers.messages import Round, SentBack
from millstream.errors import StepFailed
from millstream.log.epochs import PartitionTable
from millstream.steps.graph import Graph

__all__ = ["RoundDecisions"]


class RoundDecisions:
    """Adds up, for each round, the records that all legs send back in all owners of keys."""

    def __init__(self, graph: Graph, legs: Legs, readers: int) -> None:
        self._graph = graph
        cycles = dict.fromkeys(leg.cycle for leg in legs.all if leg.cycle)
        self._reports = {cycle: readers * len(legs.sending_back(cycle)) for cycle in cycles}
        self._held: dict[tuple[int, str, int], list[SentBack]] = {}

    def take(self, report: SentBack, partitions: PartitionTable) -> Round | None:
        """The decision on a round, with the last report on it; `StepFailed` if there are too many rounds."""
        key = (report.epoch, report.cycle, report.round)
        held = self._held.setdefault(key, [])
        held.append(report)
        if len(held) < self._reports[report.cycle]:
            return None
        del self._held[key]
        if not any(each.records for each in held):
            return Round(*key, over=True)
        if report.round == self._graph.rounds:
            _, _, *record = min(each.first for each in held if each.first is not None)
            records = sum(each.records for each in held)
            cycle = self._graph.cycles[report.cycle]
            raise StepFailed(*cycle.endless(records, (record[0], record[1]), report.epoch, report.round, partitions))
        return Round(*key)
