"""The results of a leg: the streams for the legs that read them, and the report for the receipt of an epoch."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from millstream.engines.workers.legs import BOUNDARY, LOG, RECORDS, Leg, Legs, Place
from millstream.engines.workers.messages import Report
from millstream.engines.workers.places import ORDER, Places
from millstream.errors import StepFailed
from millstream.records import RANK, TIME
from millstream.steps.chain import EpochInProgress
from millstream.steps.edges import maker_of
from millstream.steps.graph import Graph
from millstream.steps.output_rows import with_columns

__all__ = ["LegResults"]


class LegResults:
    """Takes the results of a leg from an epoch: `take_records`, then `take_boundary`, then `report`."""

    def __init__(self, graph: Graph, legs: Legs, leg: Leg) -> None:
        self._graph, self._leg = graph, leg
        self._fed = {phase: legs.fed_by(leg, phase) for phase in (RECORDS, BOUNDARY)}
        self._around = legs.around(leg)
        self._makers = {name: step for (step, _), name in graph.made.names.items()}
        """The step that makes each output; an output with the records of a step has its name."""
        self._outputs: list[dict[str, list[pa.Table]]] = []

    def take_records(self, epoch: EpochInProgress, places: Places | None) -> Mapping[int, Mapping[str, pa.Table]]:
        """The streams by receiving leg, with the places of their records if that leg needs them."""
        tables = {**epoch.tables, **({} if epoch.records is None else {LOG: epoch.records})}
        ordered: dict[str, pa.Table] = {}
        made: dict[int, dict[str, pa.Table]] = {}
        for leg in self._fed[RECORDS]:
            streams = leg.reads[self._leg.index]
            if self._leg.place is Place.KEYED or leg.needs_order:
                assert places is not None, "a leg that feeds one that needs places has them"
                for stream in streams - ordered.keys():
                    ordered[stream] = self._with_order(maker_of(stream), tables[stream], places, epoch)
                made[leg.index] = {stream: ordered[stream] for stream in streams}
            else:
                made[leg.index] = {stream: tables[stream] for stream in streams}
        self._outputs = [self._take_outputs(epoch, places)]
        epoch.records, epoch.tables = None, {}
        return made

    def take_round(self, epoch: EpochInProgress, places: Places) -> Mapping[int, Mapping[str, pa.Table]]:
        """The streams that the legs of the cycle read in this round or the next one, by receiving leg."""
        return {
            index: {
                stream: self._with_order(maker_of(stream), epoch.tables[stream], places, epoch) for stream in streams
            }
            for index, streams in self._around.items()
        }

    def take_boundary(self, epoch: EpochInProgress) -> Mapping[int, Mapping[str, pa.Table]]:
        """The rows of the boundary, by receiving leg and by stream."""
        self._outputs.append(self._take_outputs(epoch, None))
        return {
            leg.index: {
                stream: pa.concat_tables(epoch.at_end[stream])
                for stream in leg.ends[self._leg.index]
                if stream in epoch.at_end
            }
            for leg in self._fed[BOUNDARY]
        }

    def report(self, epoch: EpochInProgress) -> Report:
        """The results for the receipt of the epoch."""
        return Report(epoch.inputs, epoch.latest, epoch.streams, epoch.scores, tuple(self._outputs), epoch.rounds)

    def _take_outputs(self, epoch: EpochInProgress, places: Places | None) -> dict[str, list[pa.Table]]:
        """The rows of the outputs; those of several owners with what puts them in order.

        That is the place of its record, or of the record with which its window closed, or the time of its window.
        """
        outputs, orders = epoch.outputs, epoch.window_order
        epoch.outputs, epoch.window_order = {}, {}
        if self._leg.place is not Place.KEYED:
            return outputs
        made: dict[str, list[pa.Table]] = {}
        for name, tables in outputs.items():
            output = self._graph.outputs[name]
            if output.of == "window":
                known = orders.get(name) or [pa.table({TIME: pa.nulls(len(table), pa.int64())}) for table in tables]
                pairs = zip(tables, known, strict=True)
                made[name] = [self._with_window_order(name, *pair, places, epoch) for pair in pairs]
            else:
                whole = [with_columns(rows, output.schema) for rows in tables]
                made[name] = [rows if places is None else self._ordered(name, rows, places, epoch) for rows in whole]
        return made

    def _with_window_order(
        self, name: str, rows: pa.Table, order: pa.Table, places: Places | None, epoch: EpochInProgress
    ) -> pa.Table:
        if RANK not in order.column_names:
            return rows.append_column(ORDER, order[TIME])
        for column in order.column_names:
            rows = rows.append_column(column, order[column])
        return rows if places is None else self._ordered(name, rows, places, epoch)

    def _ordered(self, name: str, rows: pa.Table, places: Places, epoch: EpochInProgress) -> pa.Table:
        try:
            if self._graph.outputs[name].of == "window":
                return rows.append_column(ORDER, pa.array(places.of(rows)))
            return places.with_order(rows)
        except StepFailed as error:
            maker = rows["step"][0].as_py() if name in self._graph.made.shared else self._makers.get(name, name)
            raise _failed(maker, epoch, error) from error

    def _with_order(self, maker: str, records: pa.Table, places: Places, epoch: EpochInProgress) -> pa.Table:
        try:
            return places.with_order(records)
        except StepFailed as error:
            raise _failed(maker, epoch, error) from error


def _failed(maker: str, epoch: EpochInProgress, error: StepFailed) -> StepFailed:
    return StepFailed(f"step '{maker}' failed in epoch {epoch.epoch}: {error}")
