"""The order of the rows of an output that several owners of keys made: that of one process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.engines.workers.legs import RECORDS
from millstream.engines.workers.places import ORDER, in_order, without_order
from millstream.records import OFFSET, PATH, RANK, TIME
from millstream.steps.graph import Graph
from millstream.steps.keys import keys_of
from millstream.steps.round_paths import rounds_of

__all__ = ["OutputOrder"]

_STEP, _ROUND = " step", " round"
"""Columns to sort by; no field has such a name."""
_BEFORE_ALL = np.iinfo(np.int64).min


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
            fields = self._makers[name].traits.key_fields
            keys = {"time": rows[ORDER], "key": keys_of(rows, fields), "window": rows["_window"]}
            found.append(self._by(name, rows, keys))
        return found

    def _sorted(self, name: str, rows: pa.Table, phase: int) -> pa.Table:
        """The rows that one step made of records.

        At a boundary these are in the order in which steps read them; but a join orders those that it makes at an end
        by their position.
        """
        maker = self._makers.get(name)
        if phase == RECORDS:
            return self._without_order(name, in_order([rows.slice(0, 0), rows]))
        joined = maker is not None and maker.joined is not None and self._is_unmatched(maker.name, name)
        step = pc.subtract(pa.scalar(-1, pa.int64()), rows[RANK].cast(pa.int64()))
        columns = {**dict(zip(rows.column_names, rows.columns, strict=True)), _STEP: step}
        if PATH in columns:
            columns[_ROUND] = pa.array(rounds_of(rows[PATH]))
        names = [TIME, RANK, OFFSET, PATH] if joined else [_ROUND, TIME, _STEP, PATH, OFFSET]
        return self._by(name, rows, {each: columns[each] for each in names if each in columns})

    def _by(self, name: str, rows: pa.Table, keys: Mapping[str, pa.Array | pa.ChunkedArray]) -> pa.Table:
        filled = {each: pc.fill_null(key, _BEFORE_ALL) if each in ("time", TIME) else key for each, key in keys.items()}
        order = pc.sort_indices(pa.table(filled), [(each, "ascending") for each in filled])
        return self._without_order(name, rows.take(order))

    def _without_order(self, name: str, rows: pa.Table) -> pa.Table:
        if self._graph.outputs[name].of == "window":
            return rows.select(self._graph.outputs[name].schema.names)
        return without_order(rows)

    def _is_unmatched(self, step: str, output: str) -> bool:
        return self._graph.made.names.get((step, "unmatched")) == output
