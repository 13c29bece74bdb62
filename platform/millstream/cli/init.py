"""`millstream init`: a small project that runs at once."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from millstream.plain_text import one_line

__all__ = ["init"]


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path())
@click.option("--kafka", is_flag=True, help="Add an overlay with which the pipeline reads a Kafka topic.")
def init(folder: str, kafka: bool) -> None:
    """Write a small project to DIR, a new or empty folder: a config, data to try, a function, its test, a README."""
    from millstream.cli.project_template import project_files, project_name
    from millstream.errors import MillstreamError

    if not folder:
        message = "DIR is empty; name a new folder"
        raise click.UsageError(message)
    target = Path(folder)
    if file := next((path for path in (target, *target.parents) if path.exists() and not path.is_dir()), None):
        message = f"{file} is a file; name a new folder"
        raise MillstreamError(message)
    if target.is_dir() and any(target.iterdir()):
        message = f"{target} is not empty, and `init` replaces no files; name a new folder"
        raise MillstreamError(message)
    files = project_files(project_name(target.absolute().name), kafka=kafka)
    for name, text in files.items():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        click.echo(one_line(f"wrote {path}"))
    click.echo("commands to try:")
    if target.resolve() != Path.cwd().resolve():
        click.echo(one_line(f"  cd {'-- ' if folder.startswith('-') else ''}{shlex.quote(folder)}"))
    click.echo("  millstream run pipeline.yaml")
