"""The order of the rows of an output that several owners of keys made: that of one process."""

from __future__ import annotations

from collections.abc import Sequence

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
            return [without_order(rows) for rows in shares[0]]
        rows = pa.concat_tables(table for tables in shares for table in tables)
        if name not in self._graph.made.shared:
            return [self._sorted(name, rows, phase)]
        steps = pc.unique(rows["step"]).to_pylist()
        return [self._sorted(name, rows.filter(pc.equal(rows["step"], step)), phase) for step in steps]

    def _sorted(self, name: str, rows: pa.Table, phase: int) -> pa.Table:
        """The rows of one step.

        Rows of windows are ordered by the time of their window, their key and their window. Other rows of a boundary
        are in the order in which steps read them; but a join orders those that it makes at an end by their position.
        """
        maker = self._makers.get(name)
        if maker is not None and self._graph.outputs[name].of == "window":
            keys = {"time": rows[ORDER], "key": keys_of(rows, maker.traits.key_fields), "window": rows["_window"]}
        elif phase == RECORDS:
            return without_order(in_order([rows.slice(0, 0), rows]))
        else:
            joined = maker is not None and maker.joined is not None and self._is_unmatched(maker.name, name)
            step = pc.subtract(pa.scalar(-1, pa.int64()), rows[RANK].cast(pa.int64()))
            columns = {**dict(zip(rows.column_names, rows.columns, strict=True)), _STEP: step}
            if PATH in columns:
                columns[_ROUND] = pa.array(rounds_of(rows[PATH]))
            names = [TIME, RANK, OFFSET, PATH] if joined else [_ROUND, TIME, _STEP, PATH, OFFSET]
            keys = {each: columns[each] for each in names if each in columns}
        filled = {name: pc.fill_null(key, _BEFORE_ALL) if name in ("time", TIME) else key for name, key in keys.items()}
        order = pc.sort_indices(pa.table(filled), [(each, "ascending") for each in filled])
        return without_order(rows.take(order))

    def _is_unmatched(self, step: str, output: str) -> bool:
        return self._graph.made.names.get((step, "unmatched")) == output
