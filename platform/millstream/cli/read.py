"""`millstream read`: the rows of an output, as a reader of its sink sees them."""

from __future__ import annotations

import sys

import click

from millstream.api.run import open_run_as_given
from millstream.log.formats.rows import json_lines
from millstream.plain_text import json_text

__all__ = ["read"]

_ROWS_AT_ONCE = 10_000


@click.command()
@click.argument("run", metavar="RUN")
@click.argument("output", metavar="OUTPUT")
def read(run: str, output: str) -> None:
    """Print the rows of OUTPUT of RUN as JSON lines; RUN may be running."""
    stream, terminal = sys.stdout.buffer, sys.stdout.isatty()
    try:
        for rows in open_run_as_given(run).batches(output):
            for start in range(0, rows.num_rows, _ROWS_AT_ONCE):
                lines = json_lines(rows.slice(start, _ROWS_AT_ONCE))
                stream.write(json_text(lines.decode()).encode() if terminal else lines)
        stream.flush()
    except BrokenPipeError:  # the reader closed the pipe, which is no error; `main` replaces the stream
        return
