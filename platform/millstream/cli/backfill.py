"""`millstream backfill`: the features of a whole history as Parquet files, computed on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from millstream.cli.history_lines import HistoryLines, feature_lines, interruptible
from millstream.cli.options import config_options
from millstream.cli.session import current_session
from millstream.plain_text import json_object, one_line

if TYPE_CHECKING:
    from millstream.history.folder import Complete

__all__ = ["backfill"]


@click.command()
@config_options
@click.option(
    "--out", required=True, metavar="DIR", type=click.Path(path_type=Path), help="The folder of the features."
)
@click.option("--replay", metavar="RUN", type=click.Path(path_type=Path), help="Take the cuts of this run.")
@click.option("--from", "begin", multiple=True, metavar="POSITION", help="The first epoch, or SOURCE/PARTITION:OFFSET.")
@click.option("--to", "end", multiple=True, metavar="POSITION", help="The epoch or the offset to end before.")
@click.option("--step", metavar="NAME", help="The step that classifies, if there are several.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object; no progress.")
def backfill(
    config: str,
    sets: tuple[str, ...],
    overlays: tuple[str, ...],
    out: Path,
    replay: Path | None,
    begin: tuple[str, ...],
    end: tuple[str, ...],
    step: str | None,
    as_json: bool,
) -> None:
    """Compute what the model of CONFIG gets of every record of the history, on Spark, as Parquet files in DIR.

    The same command continues after a crash: tasks that are done are not run again. DIR/features has a folder for each
    partition of the log.
    """
    from millstream.config.load import load_config
    from millstream.history.backfill import backfill as run
    from millstream.history.bounds import Bounds

    loaded = load_config(config, sets, overlays=overlays)
    current_session().redact = loaded.redact
    bounds = Bounds.parse(begin, end)
    lines = HistoryLines(quiet=as_json)
    with interruptible(), loaded.redacting():
        found = run(loaded, out, replay=replay, step=step, bounds=bounds, watch=lines.show)
    if as_json:
        click.echo(json_object({"path": str(out), "was_complete": found.was_there, **found.result}))
        return
    for line in _lines(found):
        click.echo(one_line(line))


def _lines(found: Complete) -> list[str]:
    result = found.result
    done = "was complete, nothing to do" if found.was_there else "complete"
    lines = [
        f"{found.path}: {done}: {result['rows']:,} rows of {result['records']:,} records, {result['rejects']:,} rejects"
    ]
    return [*lines, *feature_lines(result)]
