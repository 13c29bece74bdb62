"""Runs of windowed steps over random streams of records with keys, cut and restored anywhere."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from millstream.steps.contracts import FindsLateRecords, Result, Step, StepConfig
from millstream.substreams import Watermark

__all__ = ["SCHEMA", "Record", "cut_run", "random_epochs", "rises", "rows_of", "table"]

SCHEMA = pa.schema(
    [
        ("_rank", pa.int64()),
        ("_offset", pa.int64()),
        ("_time", pa.int64()),
        ("predicted", pa.string()),
        ("country", pa.string()),
    ]
)


class Record(NamedTuple):
    rank: int
    offset: int
    time: int | None
    topic: str | None
    country: str | None = None


Epoch = tuple[list[Record], Watermark | None]
"""The records of an epoch, and the watermark at its end if it rose."""


def table(records: Sequence[Record]) -> pa.Table:
    columns = list(zip(*records, strict=True)) or [()] * len(SCHEMA)
    return pa.table([list(column) for column in columns], schema=SCHEMA)


def random_epochs(dice: random.Random, *, ends: bool = True) -> list[Epoch]:
    """Epochs of records that are a little out of order, of a few countries; some have no time, topic or country."""
    now, offset, epochs = 0, 0, list[Epoch]()
    for _ in range(dice.randint(3, 10)):
        records = []
        for _ in range(dice.choice([0, 1, 4, 20])):
            now += dice.choice([0, 1, 2, 15])
            time = None if dice.random() < 0.03 else now - dice.randint(0, 12)
            topic = None if dice.random() < 0.1 else dice.choice("abc")
            country = None if dice.random() < 0.05 else dice.choice(["de", "fr", "日本", ""])
            records.append(Record(dice.randrange(2), offset, time, topic, country))
            offset += 1
        epochs.append((records, Watermark(now - dice.randint(0, 15)) if dice.random() < 0.8 else None))
    if ends:
        epochs.append(([], Watermark(None)))
    return epochs


def cut_run(config: StepConfig, epochs: Sequence[Epoch], dice: random.Random | None = None) -> dict[str, pa.Table]:
    """The outputs over these epochs, and the windows of their rows.

    With dice, epochs come in several batches, and the step is often restored.
    """
    step = config.build(SCHEMA)
    made: dict[str, list[pa.Table]] = {output.name: [output.schema.empty_table()] for output in step.outputs}
    greatest: Watermark | None = None
    for records, watermark in epochs:
        whole, places = table(records), [0, len(records)]
        if dice is not None:
            places = sorted([*places, *(dice.randint(0, len(records)) for _ in range(3))])
        for start, stop in itertools.pairwise(places):
            _collect(step.process(whole.slice(start, stop - start)), made)
            step = _restored(config, step, greatest) if dice is not None and dice.random() < 0.3 else step
        if watermark is not None and rises(greatest, watermark):
            greatest = watermark
            _collect(step.ended(watermark), made)
            step = _restored(config, step, greatest) if dice is not None and dice.random() < 0.5 else step
    return {name: pa.concat_tables(tables) for name, tables in made.items()}


def _collect(result: Result, made: dict[str, list[pa.Table]]) -> None:
    """Add the rows of a result, and the number and the time of the window of each row."""
    for name, rows in result.outputs.items():
        made[name].append(rows)
    for name, windows in result.windows.items():
        placed = pa.table({"number": windows.numbers, "time": windows.times})
        made.setdefault(f"windows of {name}", []).append(placed)


def rows_of(rows: pa.Table) -> list[dict[str, Any]]:
    """Rows with the labels of windows as whole numbers."""
    if "_window" in rows.column_names:
        index = rows.column_names.index("_window")
        rows = rows.set_column(index, "_window", rows["_window"].cast(pa.int64()))
    found: list[dict[str, Any]] = rows.to_pylist()
    return found


def rises(before: Watermark | None, now: Watermark) -> bool:
    """True if this watermark is later than the one before."""
    if before is None or before.time is None:
        return before is None
    return now.time is None or now.time > before.time


def _restored(config: StepConfig, step: Step, watermark: Watermark | None) -> Step:
    """A new step with the state of this one, as an engine restores it."""
    other = config.build(SCHEMA)
    other.restore(step.save())
    if isinstance(other, FindsLateRecords) and watermark is not None:
        other.resume(watermark)
    return other
