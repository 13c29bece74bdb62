"""`millstream audit RUN`: the effects of crashes on a run's results, counted by the identity of records and rows."""

from __future__ import annotations

from pathlib import Path

import click

from millstream.api.run import Audit, open_run_as_given
from millstream.plain_text import json_object, one_line

__all__ = ["audit"]

_MEANING = {
    "precise": "every result once, as if nothing had happened",
    "repeating": "some results more than once, each copy the same",
    "convergent": "without the repeats, the results of a run without crashes",
    "divergent": "results that a run without crashes does not give",
    "gap": "results are missing",
}


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--against",
    type=click.Path(path_type=Path),
    metavar="RUN",
    help="Compare with this run of the same epoch log. Default: a temporary golden run.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def audit(run: Path, against: Path | None, as_json: bool) -> None:
    """Count the effects of crashes on RUN: records trained twice or lost, rows repeated, missing or changed.

    The command compares RUN with a golden run, which reads the same epochs and does not crash.
    """

    def announce() -> None:
        if not as_json:
            click.echo("making a golden run of the same epochs, without crashes ...", err=True)

    golden = None if against is None else open_run_as_given(against)
    found = open_run_as_given(run).audit(golden, announce=announce)
    click.echo(json_object(as_object(found)) if as_json else _text(found))


def as_object(found: Audit) -> dict[str, object]:
    """Return the object that `--json` prints."""
    return {
        "records": found.records,
        "trained_twice": found.trained_twice,
        "lost": found.lost,
        "rows_repeated": found.rows_repeated,
        "rows_missing": found.rows_missing,
        "rows_changed": found.rows_changed,
        "class": {"state": str(found.state), "output": str(found.output)},
        "outputs": {
            name: {
                "rows_repeated": output.repeated,
                "rows_missing": output.missing,
                "rows_changed": output.changed,
                "class": str(output.kind),
            }
            for name, output in found.outputs.items()
        },
        "not_compared": dict(found.later),
        "changed_code": dict(found.changed_code),
    }


def _text(found: Audit) -> str:
    lines = [
        f"{found.records:,} records: {found.trained_twice:,} trained twice, {found.lost:,} lost to the model",
        f"  the model's state is {found.state}: {_MEANING[found.state].replace('result', 'record')}"
        if found.state in ("precise", "gap")
        else f"  the model's state is {found.state}: it {'equals' if found.state == 'convergent' else 'differs from'} "
        "that of a run without crashes",
    ]
    for name, output in found.outputs.items():
        counts = f"{output.repeated:,} repeated, {output.missing:,} missing, {output.changed:,} changed"
        lines.append(f"{name}: {counts}")
        lines.append(f"  {output.kind}: {_MEANING[output.kind]}")
    for name, began in found.later.items():
        lines.append(f"{name}: not compared, its sink was added later and begins with epoch {began}")
    for name, epoch in found.changed_code.items():
        first = f"during the run: epoch {epoch} is the first with it"
        when = "since the last start of the run" if epoch is None else first
        lines.append(f"{name}: its code changed {when}, so differences may come from it and not from a crash")
    return "\n".join(map(one_line, lines))
