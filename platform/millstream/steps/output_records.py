"""The rows of an output as records that other steps read."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa

from millstream.errors import StepFailed
from millstream.records import OFFSET, PATH, RANK, TIME, no_records
from millstream.steps.contracts import Output, Result
from millstream.steps.nodes import Node
from millstream.steps.reject_rows import with_step

__all__ = ["output_records"]


def output_records(node: Node, output: Output, result: Result, schema: pa.Schema) -> pa.Table:
    """The rows of an output of a step's result, with the columns of its stream.

    The rows of windows get an identity: a rank below 0 for each step, the number of the window, and their key as path.
    """
    rows = result.outputs.get(output.name)
    if rows is None or not rows.num_rows:
        return no_records(schema)
    if output.of != "window":
        rows = with_step(rows, node.name) if output.name == "rejects" else rows
        return rows.select(schema.names).cast(schema)
    windows = result.windows.get(output.name)
    if windows is None or not len(windows.numbers) == len(windows.times) == rows.num_rows:
        message = f"step {node.name!r} made rows of {output.name!r} without a number and a time for each of them"
        raise StepFailed(message)
    identity = {
        RANK: pa.array(np.full(rows.num_rows, -1 - node.number, np.int32)),
        OFFSET: windows.numbers,
        TIME: windows.times,
        PATH: pa.array(_keys(rows, output.key), pa.binary()),
    }
    columns = [identity[name] if name in identity else rows[name] for name in schema.names]
    return pa.table(columns, names=schema.names).cast(schema)


def _keys(rows: pa.Table, key: tuple[str, ...]) -> list[bytes]:
    """The key of each row, as JSON; empty without a key."""
    if not key:
        return [b""] * rows.num_rows
    values = zip(*(rows[name].to_pylist() for name in key), strict=True)
    return [json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str).encode() for value in values]
