"""The order of the rows of an output that several owners of keys made: that of one process."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from millstream.engines.workers.legs import RECORDS
from millstream.engines.workers.places import ORDER, in_order, without_order
from millstream.records import RANK
from millstream.steps.boundary_order import in_boundary_order, in_window_order, key_of_rows
from millstream.steps.graph import Graph

__all__ = ["OutputOrder"]


class OutputOrder:
    """Puts the rows of outputs in order; those that one owner made are in order already."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._makers = {name: graph.node(step) for (step, _), name in graph.made.names.items()}

    def in_order(self, name: str, shares: Sequence[Sequence[pa.Table]], phase: int) -> Sequence[pa.Table]:
        """The rows that each of some owners made in a phase, in a table for each step.

        A step in a cycle has a table for each round.
        """
        if len(shares) == 1 and (phase != RECORDS or len(shares[0]) == 1):
            return [self._without_order(name, rows) for rows in shares[0]]
        tables = [table for tables in shares for table in tables]
        if self._graph.outputs[name].of == "window":
            return self._windows(name, tables, phase)
        rows = pa.concat_tables(tables)
        if name not in self._graph.made.shared:
            return [self._sorted(name, rows, phase)]
        steps = pc.unique(rows["step"]).to_pylist()
        return [self._sorted(name, rows.filter(pc.equal(rows["step"], step)), phase) for step in steps]

    def _windows(self, name: str, tables: Sequence[pa.Table], phase: int) -> Sequence[pa.Table]:
        """The rows of windows that closed among records, in the order of these records, and then those of an end.

        These are ordered by their time, their key and their window.
        """
        closed = [rows for rows in tables if RANK in rows.column_names]
        found = [self._sorted(name, pa.concat_tables(closed), phase)] if closed else []
        ended = [rows for rows in tables if RANK not in rows.column_names]
        if ended:
            rows = pa.concat_tables(ended)
            fields = key_of_rows(self._makers[name].traits, self._graph.outputs[name])
            found.append(self._without_order(name, in_window_order(rows, fields, rows[ORDER])))
        return found

    def _sorted(self, name: str, rows: pa.Table, phase: int) -> pa.Table:
        """The rows that one step made of records."""
        ordered = in_order([rows.slice(0, 0), rows]) if phase == RECORDS else in_boundary_order(rows)
        return self._without_order(name, ordered)

    def _without_order(self, name: str, rows: pa.Table) -> pa.Table:
        if self._graph.outputs[name].of == "window":
            return rows.select(self._graph.outputs[name].schema.names)
        return without_order(rows)
