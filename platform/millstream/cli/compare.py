"""`millstream compare`: compares two runs, or runs the trials of a study on Spark and prints its cells."""

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


class _Interrupted(click.ClickException):
    exit_code = 130


@click.command()
@click.argument("first", metavar="STUDY|RUN", type=click.Path())
@click.argument("second", metavar="[RUN]", type=click.Path(), required=False)
@click.option("--out", metavar="DIR", help="The folder of the results. Default: studies/NAME; for two runs, no plot.")
@click.option("--json", "as_json", is_flag=True, help="For two runs: print one JSON object.")
@click.option("--quick", is_flag=True, help="Run the study at the size of its `quick`.")
@click.option("--set", "sets", multiple=True, metavar="PATH=VALUE", help="Change a value of the study.")
@click.option(
    "--tasks", type=click.IntRange(min=1), metavar="N", help="Number of Spark tasks. Default: many small ones."
)
def compare(
    first: str,
    second: str | None,
    out: str | None,
    as_json: bool,
    quick: bool,
    sets: tuple[str, ...],
    tasks: int | None,
) -> None:
    """Compare two RUNs, or run the trials of STUDY: learners under deliveries, failures and lost state.

    Two run directories: the first epoch that differs, accuracy over the records that both have read, predictions that
    differ, shares of labels, digests of models. With --out, DIR/accuracy.png is a plot.

    STUDY is a YAML file. Each trial is compared with the exactly-once trial of the same stream, learner and seed. The
    same command continues after a crash: finished trials are not run again. DIR/trials.parquet has a row for each
    trial, DIR/cells.csv one for each combination of factors, and DIR/plots has the plots.
    """
    is_run = (Path(first) / "run.json").is_file()
    if second is None and is_run:
        raise click.UsageError(f"{first} is a run directory; name the run to compare it with")
    if second is not None:
        if quick or sets or tasks is not None:
            raise click.UsageError("--quick, --set and --tasks are for a study, and two runs are given; leave them out")
        from millstream.cli.compared_runs import print_comparison

        print_comparison(first, second, out, as_json=as_json)
        return
    if as_json:
        raise click.UsageError(
            "--json is for two runs; the results of a study are in its files trials.parquet, cells.csv"
        )
    _study(first, out, quick, sets, tasks)


def _study(study: str, out: str | None, quick: bool, sets: tuple[str, ...], tasks: int | None) -> None:
    from millstream.api import study as studies

    began = time.monotonic()
    shown = _Lines()
    folder = None if out is None else Path(out)
    try:
        found = studies.study_of_file(Path(study), folder, quick, sets, tasks=tasks, watch=shown.show, warn=_warn)
    except KeyboardInterrupt:
        click.echo(err=True)  # the terminal has written ^C
        raise _Interrupted("interrupted; the same command continues with the trials that are missing") from None
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
        yield f"  of {counted.total():,} tested cells, after Holm's correction: {numbers}"


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
