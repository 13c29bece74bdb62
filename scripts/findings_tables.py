"""The tables of docs/findings: the rows of cells, prequential accuracies and shifts of shares, as small CSV files."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv as arrow_csv

from millstream.study.cells import Cell
from millstream.study.results import labels_of
from millstream.study.statistics import Interval, mean_interval

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs/findings"
Row = Mapping[str, Any]


def write_rows(name: str, rows: Sequence[Row]) -> None:
    FOLDER.mkdir(exist_ok=True)
    with (FOLDER / f"{name}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, [*rows[0]], lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: _short(value) for key, value in row.items()} for row in rows)


def read_rows(name: str) -> list[Row]:
    """The rows of a table; a value that does not exist is None."""
    options = arrow_csv.ConvertOptions(strings_can_be_null=True, null_values=[""])
    rows: list[Row] = arrow_csv.read_csv(FOLDER / f"{name}.csv", convert_options=options).to_pylist()
    return rows


def chosen(rows: Iterable[Row], **wanted: Any) -> list[Row]:
    """The rows with these values; a tuple is one of several."""
    return [row for row in rows if all(_is(row[name], value) for name, value in wanted.items())]


def _is(found: Any, wanted: Any) -> bool:
    return found in wanted if isinstance(wanted, tuple) else bool(found == wanted)


def _short(value: Any) -> Any:
    return float(f"{value:.5g}") if isinstance(value, float) else value


def cell_rows(cells: Sequence[Cell]) -> list[Row]:
    """The cells with failures or another order: what differs, by how much, and the verdict."""
    return [_cell_row(cell) for cell in cells if cell.verdict is not None]


def _cell_row(cell: Cell) -> Row:
    return {
        "stream": cell.factors["stream"],
        "learner": cell.factors["learner"],
        "treatment": cell.treatment,
        "failures": cell.failures,
        "seeds": cell.seeds,
        "affected": cell.affected,
        "accuracy": cell.holdout_accuracy,
        "difference": cell.accuracy_difference,
        **_ends("difference", cell.interval),
        "margin": cell.margin,
        "adjusted_p": cell.adjusted_p,
        "verdict": str(cell.verdict),
        **_ends("noise", cell.accuracy_noise),
        "learning_curve": cell.shorter_difference,
        "changed": cell.labels_changed,
        **_ends("changed_noise", cell.changed_noise),
        "first": cell.first_difference,
        **_ends("first", cell.first_interval),
        "all": cell.all_difference,
        **_ends("all", cell.all_interval),
        "share_bias": cell.share_bias,
        "closed_form": cell.closed_form_share_bias,
        "deff": cell.deff,
        "flips": cell.flips,
        "closed_form_flips": cell.closed_form_flips,
    }


def _ends(name: str, interval: Interval | None) -> Row:
    ends = (None, None) if interval is None else (interval.low, interval.high)
    return dict(zip((f"{name}_low", f"{name}_high"), ends, strict=True))


def prequential_rows(table: pa.Table) -> list[Row]:
    """The prequential accuracy of each learner on each stream, and its change in another legal order."""
    groups: dict[tuple[str, str], dict[str, dict[int, float]]] = {}
    for row in table.to_pylist():
        group = groups.setdefault((row["stream"], row["learner"]), {})
        group.setdefault(row["treatment"], {})[row["seed"]] = row["accuracy_first"]
    rows: list[Row] = []
    for (stream, learner), group in groups.items():
        once, other = group["exactly_once"], group["interleaved"]
        accuracy = mean_interval([*once.values()])
        change = mean_interval([value - once[seed] for seed, value in other.items()])
        rows.append(
            {
                "stream": stream,
                "learner": learner,
                "seeds": len(once),
                "accuracy": accuracy.mean,
                **_ends("accuracy", accuracy),
                "another_order": change.mean,
                **_ends("another_order", change),
            }
        )
    return rows


def shift_rows(table: pa.Table) -> list[Row]:
    """The mean shift of a predicted label's share by a failure, and the shift by count arithmetic.

    The opposite delivery of the same seed gives the number of rows with the label in the failure's span. From it, and
    from the trial without failures, arithmetic gives the share under this delivery.
    """
    labels, rows = labels_of(table), table.to_pylist()
    trials = {(_place(row), row["treatment"], row["seed"]): row for row in rows}
    once = {(row["stream"], row["learner"], row["seed"]): row for row in rows if row["treatment"] == "exactly_once"}
    found: dict[tuple[str, ...], list[tuple[float, float, float, float]]] = {}
    for (place, treatment, seed), row in trials.items():
        if treatment == "exactly_once":
            continue
        opposite = trials[place, "at_least_once" if treatment == "at_most_once" else "at_most_once", seed]
        pair = once[row["stream"], row["learner"], seed]
        for label in _topics(row):
            number = labels.index(label)
            before, after = (each["predicted_shares"][number] for each in (pair, row))
            inside = _inside(pair, opposite, number)
            expected = before * row["records"] - _sign(opposite) * inside
            counted = expected / (row["records"] - _sign(opposite) * _rows(opposite))
            true = row["label_shares"][number] - pair["label_shares"][number]
            found.setdefault((*place, treatment, label), []).append((before, after, counted, true))
    made: list[Row] = []
    for (stream, learner, failures, treatment, label), values in found.items():
        before, after, counted, true = np.mean(values, axis=0).tolist()
        made.append(
            {
                "stream": stream,
                "learner": learner,
                "failures": failures,
                "treatment": treatment,
                "label": label,
                "seeds": len(values),
                "share": before,
                "shift": after - before,
                "shift_by_counts": counted - before,
                "true_shift": true,
            }
        )
    return made


def _place(row: Row) -> tuple[str, str, str]:
    """The stream, the learner, and the place of the failure."""
    if row["topic"]:
        return row["stream"], row["learner"], f"in {row['topic']}"
    return row["stream"], row["learner"], f"in {row['between_first']:g}-{row['between_last']:g}"


def _topics(row: Row) -> Sequence[str]:
    config = json.loads(row["stream_config"])
    return list(config["labels"] or [config["label"]])


def _sign(row: Row) -> int:
    """1 if rows repeat, -1 if they are lost."""
    return 1 if row["treatment"] == "at_least_once" else -1


def _rows(row: Row) -> int:
    return int(row["repeated"] + row["lost"])


def _inside(pair: Row, row: Row, number: int) -> float:
    """The rows of a failure's span that have the label, from the shares with and without the failure."""
    after = row["predicted_shares"][number] * (row["records"] + _sign(row) * _rows(row))
    return float(_sign(row) * (after - pair["predicted_shares"][number] * row["records"]))
