"""`millstream compare`: runs the trials of a study on Spark, and prints the results of its cells."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from millstream.plain_text import one_line, short

if TYPE_CHECKING:
    from millstream.study.cells import Cell
    from millstream.study.comparison import Progress

__all__ = ["compare"]

_LINE_SECONDS = 5.0
_MOST_LINES = 40
_WORDS = {"different": "different", "equivalent": "equivalent within the margin", "open": "open"}
"""The verdicts, in words."""


@click.command()
@click.argument("study", metavar="STUDY", type=click.Path())
@click.option("--out", metavar="DIR", help="The folder of the results. Default: studies/NAME.")
@click.option("--quick", is_flag=True, help="Run the study at the size of its `quick`.")
@click.option("--set", "sets", multiple=True, metavar="PATH=VALUE", help="Change a value of the study.")
@click.option(
    "--tasks", type=click.IntRange(min=1), metavar="N", help="Number of Spark tasks. Default: many small ones."
)
def compare(study: str, out: str | None, quick: bool, sets: tuple[str, ...], tasks: int | None) -> None:
    """Run the trials of STUDY, a YAML file, on Spark: learners under deliveries, failures and lost state.

    Each trial is compared with the exactly-once trial of the same stream, learner and seed. The same command continues
    after a crash: finished trials are not run again. DIR/trials.parquet has a row for each trial, DIR/cells.csv one for
    each combination of factors, and DIR/plots has the plots.
    """
    from millstream.api.study import compared

    began = time.monotonic()
    shown = _Lines()
    folder = None if out is None else Path(out)
    found = compared(Path(study), folder, quick=quick, sets=sets, tasks=tasks, watch=shown.show, warn=_warn)
    seconds = time.monotonic() - began
    click.echo(one_line(f"{found.name}: {found.table.num_rows:,} trials in {found.path}, in {seconds:.0f} s"))
    for line in [*_verdicts(found.cells), *_table(found.cells)]:
        click.echo(one_line(line))
    if found.plots:
        click.echo(one_line(f"  plots: {', '.join(f'{name}.png' for name in found.plots)} in {found.path / 'plots'}"))


def _warn(message: str) -> None:
    click.echo(one_line(f"  {message}"), err=True)


class _Lines:
    """Prints the progress to standard error: at most a line every few seconds."""

    def __init__(self) -> None:
        self._last = time.monotonic()
        self._shown: Progress | None = None

    def show(self, progress: Progress) -> None:
        now = time.monotonic()
        if progress == self._shown or (now - self._last < _LINE_SECONDS and progress.finished < progress.trials):
            return
        self._last, self._shown = now, progress
        before = f", {progress.before:,} from earlier starts" if progress.before else ""
        click.echo(f"  {progress.finished:,} of {progress.trials:,} trials{before}", err=True)


def _verdicts(cells: list[Cell]) -> Iterator[str]:
    """Yield the number of cells with each verdict."""
    counted = Counter(cell.verdict for cell in cells if cell.verdict is not None)
    if counted:
        numbers = ", ".join(f"{number:,} {_WORDS[verdict]}" for verdict, number in sorted(counted.items()))
        yield f"  of {counted.total():,} cells, after Holm's correction: {numbers}"


def _table(cells: list[Cell]) -> Iterator[str]:
    """Yield the lines of the table of cells, accuracy and differences in percent."""
    shown = _largest(cells)
    heads = ("stream", "learner", "treatment", "failures", "accuracy", "difference", "verdict", "changed", "bias")
    rows = [heads, *([*_row(cell)] for cell in shown)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(heads))]
    for row in rows:
        texts = [text.ljust(width) for text, width in zip(row[:4], widths[:4], strict=True)]
        numbers = [text.rjust(width) for text, width in zip(row[4:], widths[4:], strict=True)]
        yield "  " + "  ".join([*texts, *numbers])
    if len(shown) < len(cells):
        yield f"  the {len(shown)} cells with the largest differences; cells.csv has all {len(cells):,}"


def _largest(cells: list[Cell]) -> list[Cell]:
    """Return all cells, or those with the largest differences in their order, the significant ones first."""

    def rank(cell: Cell) -> tuple[bool, bool, float]:
        return cell.verdict is None, cell.verdict != "different", -abs(cell.accuracy_difference)

    ranked = sorted(cells, key=rank)
    kept = {id(cell) for cell in ranked[:_MOST_LINES]}
    return [cell for cell in cells if id(cell) in kept]


def _row(cell: Cell) -> Iterator[str]:
    yield cell.factors["stream"]
    yield cell.factors["learner"]
    yield cell.treatment
    yield short(one_line(cell.failures))
    yield f"{100 * cell.holdout_accuracy:.2f}"
    interval = f" \u00b1 {100 * cell.interval.half_width:.2f}" if cell.interval else ""
    yield f"{100 * cell.accuracy_difference:+.2f}{interval}"
    yield "" if cell.verdict is None else str(cell.verdict)
    yield f"{100 * cell.labels_changed:.2f}"
    yield f"{100 * cell.share_bias:.3f}"
