"""The comparison of two runs, as `millstream compare RUN RUN` prints it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from millstream.errors import MillstreamError
from millstream.extras import require
from millstream.plain_text import json_object, one_line, short

if TYPE_CHECKING:
    from millstream.runs.comparison import PredictionsCompared, RunComparison

__all__ = ["print_comparison"]

_MOST_LABELS = 10
_PLOT = "accuracy.png"


def print_comparison(first: str, second: str, out: str | None, *, as_json: bool) -> None:
    """Compare two run directories and print the result; `out` is the folder of the plot."""
    from millstream.runs.comparison import compare_runs
    from millstream.runs.directory import RunDirectory
    from millstream.runs.outputs import load_run

    if out is not None:
        require("study", "the plot of --out")
    directories = [RunDirectory.find(Path(each)) for each in (first, second)]
    ours, theirs = ((each, load_run(each)) for each in directories)
    found = compare_runs(ours, theirs)
    plot = None if out is None or not found.windows else _draw(found, Path(out))
    if as_json:
        click.echo(json_object({**_as_object(found), "plot": None if plot is None else str(plot)}))
        return
    for line in [*_lines(found), *([] if plot is None else [f"  plot         {plot}"])]:
        click.echo(one_line(line))


def _draw(found: RunComparison, folder: Path) -> Path:
    from millstream.log.journal.durability import make_folder
    from millstream.study.plots.run_accuracy import draw

    try:
        make_folder(folder)
    except FileExistsError:
        raise MillstreamError(f"{folder} is a file; give a folder with --out") from None
    draw((str(found.runs[0]), str(found.runs[1])), found.windows).savefig(folder / _PLOT, metadata={"Software": None})
    return folder / _PLOT


def _as_object(found: RunComparison) -> dict[str, object]:
    predictions = {name: {**asdict(each), "share": each.share} for name, each in found.predictions.items()}
    return {**asdict(found), "runs": [str(run) for run in found.runs], "predictions": predictions}


def _lines(found: RunComparison) -> Iterator[str]:
    yield f"{found.runs[0]} and {found.runs[1]}"
    yield f"  records      {found.records[0]:,} and {found.records[1]:,}, since the base of each run"
    yield f"  accuracy     {_percent(found.accuracies[0])} and {_percent(found.accuracies[1])}, of these"
    difference = found.first_difference
    if difference is None:
        yield f"  epochs       {found.equal_epochs:,} in both, all with the same cuts and results"
    else:
        same = f"{found.equal_epochs:,} the same"
        yield f"  epochs       {same}; epoch {difference.epoch:,} differs first in {difference.what}"
    for window in found.windows:
        one, other = window.accuracies
        span = f"{window.start:,} to {window.stop:,}"
        yield f"    records {span:>23}  {_percent(one):>8}  {_percent(other):>8}{_points(one, other)}"
    for name, each in found.predictions.items():
        yield from _predictions(name, each)
    for step, (ours, theirs) in found.models.items():
        same = "the same in both" if ours == theirs else f"{_digest(ours)} and {_digest(theirs)}"
        yield f"  {'model' if step == 'model' else f'model of {step}'}  {same}"
    for missing in found.not_compared:
        yield f"  not compared: {missing}"


def _predictions(name: str, found: PredictionsCompared) -> Iterator[str]:
    if found.share is None:
        return
    yield (
        f"  {name}  {found.different:,} of {found.common:,} differ ({_percent(found.share)}); accuracy of these "
        f"{found.common:,}: {_percent(found.accuracies[0])} and {_percent(found.accuracies[1])}"
    )
    if found.rows != (found.common, found.common):
        ours, theirs = (rows - found.common for rows in found.rows)
        yield f"    {ours:,} records are in the first run only, {theirs:,} in the second"
    changed = sorted(found.labels.items(), key=lambda item: -abs(item[1][0] - item[1][1]))
    for label, (ours, theirs) in changed[:_MOST_LABELS]:
        shares = [count / found.common for count in (ours, theirs)]
        yield f"    share of {short(label):<20}  {_percent(shares[0]):>8}  {_percent(shares[1]):>8}{_points(*shares)}"
    if len(changed) > _MOST_LABELS:
        yield f"    and {len(changed) - _MOST_LABELS:,} labels more, which differ less; --json has them all"
    for example in found.examples:
        place = " ".join(str(value) for value in example.position.values())
        ours_text, theirs_text = (short(each) if each is not None else "nothing" for each in example.predicted)
        label = "no label" if example.label is None else f"label {short(example.label)}"
        yield f"    {place}: {ours_text} and {theirs_text}, {label}"


def _digest(model: str) -> str:
    """The beginning of a digest, without its count."""
    return model.partition("-")[2][:12]


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.2f} %"


def _points(ours: float | None, theirs: float | None) -> str:
    return "" if ours is None or theirs is None else f"  {100 * (theirs - ours):+.2f}"
