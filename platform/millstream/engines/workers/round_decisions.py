"""The decisions on the rounds of cycles: another round begins if a leg has sent a record back, otherwise it is over."""

from __future__ import annotations

from millstream.engines.workers.legs import Legs
from millstream.engines.workers.messages import Round, SentBack
from millstream.steps.cycles import RecordsSentBack
from millstream.steps.graph import Graph

__all__ = ["RoundDecisions"]


class RoundDecisions:
    """Adds up, for each round, the records that all legs send back in all owners of keys."""

    def __init__(self, graph: Graph, legs: Legs, readers: int) -> None:
        self._graph = graph
        cycles = dict.fromkeys(leg.cycle for leg in legs.all if leg.cycle)
        self._reports = {cycle: readers * len(legs.sending_back(cycle)) for cycle in cycles}
        self._held: dict[tuple[int, str, int], list[SentBack]] = {}
        self._totals: dict[tuple[int, str], int] = {}
        """The records that were sent back in all rounds of an epoch so far."""

    def take(self, report: SentBack) -> Round | None:
        """The decision on a round, with the last report on it; `StepFailed` if the cycle goes on beyond a limit."""
        key = (report.epoch, report.cycle, report.round)
        held = self._held.setdefault(key, [])
        held.append(report)
        if len(held) < self._reports[report.cycle]:
            return None
        del self._held[key]
        records = sum(each.records for each in held)
        total = self._totals.pop((report.epoch, report.cycle), 0) + records
        if not records:
            return Round(*key, over=True)
        self._totals[report.epoch, report.cycle] = total
        _, _, rank, offset, record = min(each.first for each in held if each.first is not None)
        going_on = RecordsSentBack(report.epoch, report.round, records, total, rank, offset, record)
        self._graph.cycles[report.cycle].check(going_on, self._graph.limits)
        return Round(*key)
