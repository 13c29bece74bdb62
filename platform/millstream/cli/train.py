"""`millstream train`: a model trained on a whole history, on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from millstream.cli.candidate_table import candidate_lines
from millstream.cli.history_lines import HistoryLines, feature_lines, interruptible
from millstream.cli.options import config_options
from millstream.cli.session import current_session
from millstream.history.how import DEFAULT, HOWS, SEARCH
from millstream.plain_text import json_object, one_line

if TYPE_CHECKING:
    from millstream.config.load import Loaded
    from millstream.history.train import Trained

__all__ = ["train"]


@click.command()
@config_options
@click.option("--out", required=True, metavar="DIR", type=click.Path(path_type=Path), help="The folder of the model.")
@click.option(
    "--how",
    type=click.Choice([*HOWS, SEARCH]),
    default=DEFAULT,
    help="sequential: in one task, as a run; averaged: in many, for naive_bayes, softmax, ftrl and sgd; search: the "
    "best of the candidates in `search`.",
)
@click.option("--replay", metavar="RUN", type=click.Path(path_type=Path), help="Take the cuts of this run.")
@click.option("--step", metavar="NAME", help="The step that classifies, if there are several.")
@click.option("--register", "name", metavar="NAME", help="Register the model in MLflow, as the next version of NAME.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object; no progress.")
def train(
    config: str,
    sets: tuple[str, ...],
    overlays: tuple[str, ...],
    out: Path,
    how: str,
    replay: Path | None,
    step: str | None,
    name: str | None,
    as_json: bool,
) -> None:
    """Train the model of CONFIG on the whole history, on Spark, and write a version of the model into DIR.

    With --how search, the `search` of CONFIG names options and values to try. Each candidate is a Spark task; the best
    of them learn more records, and the best one is trained on the whole history. DIR/search.png compares them.

    The same command continues after a crash: blocks that are learned are not learned again, and candidates that are
    judged are not judged again.
    """
    from millstream.config.load import load_config

    loaded = load_config(config, sets, overlays=overlays)
    current_session().redact = loaded.redact
    lines = HistoryLines(quiet=as_json)
    with interruptible(), loaded.redacting():
        if name is not None:
            from millstream.history.registration import check

            search = loaded.config.search if how == SEARCH else None
            check(loaded, name, step or (None if search is None else search.step))  # before hours of training
        trained, model, run = _train(loaded, out, how, replay, step, lines)
    if not as_json:  # before the registry, which may fail
        for line in _lines(trained):
            click.echo(one_line(line))
    made = None
    if name is not None:
        from millstream.history.registration import register

        made = register(trained, model, name, run)
    if as_json:
        registered = {} if made is None else {"registered": made.uri}
        click.echo(json_object({"path": str(out), "was_complete": trained.was_there, **trained.result, **registered}))
    elif made is not None:
        click.echo(one_line(f"  registered as {made.uri}, in {made.store}"))


def _train(
    loaded: Loaded, out: Path, how: str, replay: Path | None, step: str | None, lines: HistoryLines
) -> tuple[Trained, Loaded, str | None]:
    """Train; return the training, the config of its model, and the MLflow run to which the model belongs."""
    if how != SEARCH:
        from millstream.history.train import train

        return train(loaded, out, how=how, replay=replay, step=step, watch=lines.show), loaded, None
    from millstream.history.search.mlflow_record import record_search
    from millstream.history.search.search import search

    found = search(loaded, out, replay=replay, step=step, watch=lines.show)
    return found, found.best.loaded, record_search(found, loaded, _warn)


def _warn(message: str) -> None:
    click.echo(one_line(f"  {message}"), err=True)


def _lines(found: Trained) -> list[str]:
    result = found.result
    done = "was complete, nothing to do" if found.was_there else "complete"
    rejects = f", {result['rejects']:,} of them rejects" if result["rejects"] else ""
    lines = [f"{found.path}: {done}: {result['step']} trained on {result['records']:,} records{rejects}"]
    if not result["labelled"]:
        lines.append(
            "  no record has a label, so the model has learned nothing; `fields` says which field is the label"
        )
    if (labelled := result["labelled"]) and "correct" in result:
        predictions = "the predictions of each part" if "rounds" in result else "its predictions"
        lines.append(f"  accuracy of {predictions} before it learned each record: {result['correct'] / labelled:.3f}")
    if "rounds" in result:
        rounds = f"{result['rounds']:,} round{'s' if result['rounds'] > 1 else ''} of {result['parts']} parts"
        lines.append(f"  the average of {rounds}, which is another model than that of a run")
    lines.append(f"  digest of the state: {result['digest']}")
    if result["how"] == SEARCH:
        lines += candidate_lines(found)
    return [*lines, *feature_lines(result)]
