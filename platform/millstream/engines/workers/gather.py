"""The gathering of the reports on an epoch: the results of all legs in all roles become those of one process."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from millstream.engines.workers.legs import BOUNDARY, RECORDS, Legs, Place
from millstream.engines.workers.messages import EpochPart, Report
from millstream.engines.workers.output_order import OutputOrder
from millstream.steps.chain import EpochInProgress
from millstream.steps.graph import Graph

__all__ = ["Gather"]


class Gather:
    """Collects the reports on epochs, in any order."""

    def __init__(self, graph: Graph, legs: Legs, readers: int) -> None:
        self._graph, self._legs = graph, legs
        self._expected = sum(legs.senders(leg.index, readers) for leg in legs.all)
        self._reports: dict[int, dict[tuple[int, int], Report]] = {}
        self._order = OutputOrder(graph)
        self._numbers = {node.name: number for number, node in enumerate(graph.steps)}

    def take(self, part: EpochPart) -> None:
        """Take the report in a part, if it has one."""
        if part.report is not None:
            reports = self._reports.setdefault(part.epoch, {})
            assert (part.leg, part.sender) not in reports, f"two reports on epoch {part.epoch} of leg {part.leg}"
            reports[part.leg, part.sender] = part.report

    def latest(self, epoch: int) -> Mapping[int, int | None] | None:
        """The greatest time in each partition of which the epoch has records; None until a reader has reported it."""
        report = self._reports.get(epoch, {})
        return next((each.latest for (leg, _), each in report.items() if leg == self._legs.head.index), None)

    def complete(self, epoch: int) -> bool:
        """True if all reports on the epoch are here."""
        return len(self._reports.get(epoch, ())) == self._expected

    def pop(self, epoch: int) -> EpochInProgress:
        """The results of an epoch after all legs, without its records."""
        reports = self._reports.pop(epoch)
        whole = EpochInProgress(epoch, None, {}, {}, {})
        for _, report in sorted(reports.items(), key=lambda each: each[0]):
            whole.inputs |= report.inputs
            whole.latest |= report.latest
            whole.rounds |= report.rounds
            for step, digest in report.streams.items():
                whole.streams[step] = whole.streams[step] + digest if step in whole.streams else digest
            for step, scores in report.scores.items():
                whole.scores[step] = whole.scores[step] + scores if step in whole.scores else scores
        for phase in (RECORDS, BOUNDARY):
            for name, rows in self._outputs(reports, phase).items():
                whole.outputs.setdefault(name, []).extend(rows)
        return whole

    def _outputs(self, reports: Mapping[tuple[int, int], Report], phase: int) -> Mapping[str, list[pa.Table]]:
        """The rows of a phase by output, in the order of the steps that made them."""
        found: dict[str, list[tuple[int, pa.Table]]] = {}
        for leg in self._legs.all:
            shares: dict[str, list[list[pa.Table]]] = {}
            for key in sorted(key for key in reports if key[0] == leg.index):
                for name, rows in reports[key].outputs[phase].items() if phase < leg.phases else ():
                    shares.setdefault(name, []).append(list(rows))
            for name, made in shares.items():
                tables = self._order.in_order(name, made, phase) if leg.place is Place.KEYED else made[0]
                found.setdefault(name, []).extend((self._number(name, rows), rows) for rows in tables)
        return {name: [rows for _, rows in sorted(made, key=lambda each: each[0])] for name, made in found.items()}

    def _number(self, name: str, rows: pa.Table) -> int:
        """The number of the step that made these rows, among the steps that share an output."""
        return self._numbers.get(rows["step"][0].as_py(), -1) if name in self._graph.made.shared else 0
