"""`millstream read`: the rows of an output, as a reader of its sink sees them."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from millstream.errors import MillstreamError
from millstream.log.formats.rows import json_lines
from millstream.plain_text import json_text
from millstream.runs.directory import RunDirectory
from millstream.runs.outputs import RunOutput, load_run, outputs_of
from millstream.suggestions import suggestion

__all__ = ["read"]

_ROWS_AT_ONCE = 10_000


@click.command()
@click.argument("run", metavar="RUN")
@click.argument("output", metavar="OUTPUT")
def read(run: str, output: str) -> None:
    """Print the rows of OUTPUT of RUN as JSON lines; RUN may be running."""
    found = _output(RunDirectory.find(Path(run)), output)
    stream, terminal = sys.stdout.buffer, sys.stdout.isatty()
    try:
        for rows in found.read():
            for start in range(0, rows.num_rows, _ROWS_AT_ONCE):
                lines = json_lines(rows.slice(start, _ROWS_AT_ONCE))
                stream.write(json_text(lines.decode()).encode() if terminal else lines)
        stream.flush()
    except BrokenPipeError:  # the reader closed the pipe, which is no error; `main` replaces the stream
        return


def _output(directory: RunDirectory, name: str) -> RunOutput:
    outputs = outputs_of(directory, load_run(directory))
    if name in outputs:
        return outputs[name]
    hint = suggestion(name, outputs, f"its outputs are {', '.join(outputs)}")
    message = f"{directory.path} has no output {name!r}{hint}"
    raise MillstreamError(message)
