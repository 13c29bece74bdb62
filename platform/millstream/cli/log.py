"""`millstream log`: list logs, print their entries, and append records."""

from __future__ import annotations

import gzip
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import click
import pyarrow as pa
import pyarrow.parquet as pq

from millstream.errors import MillstreamError
from millstream.log.formats.rows import json_lines
from millstream.log.urls import open_url
from millstream.plain_text import one_line

__all__ = ["log"]

_AT_ONCE = 1 << 20


_url = click.argument("url", metavar="URL")


@click.group()
def log() -> None:
    """List, read and append to logs.

    URL is the folder of a journal, plain or as journal://FOLDER, or a topic as kafka://HOST:PORT/TOPIC.
    """


@log.command()
@_url
def ls(url: str) -> None:
    """List journals or topics.

    URL is a journal, a folder of journals, a topic or a cluster.
    """
    for line in open_url(url).describe():
        click.echo(one_line(line))


@log.command()
@_url
@click.option(
    "--from", "start", type=click.IntRange(min=0), help="Offset of the first entry to print, in each partition."
)
@click.option("--max", "most", type=click.IntRange(min=0), help="Print at most so many entries.")
@click.option("--follow", is_flag=True, help="Wait for new entries until interrupted.")
def cat(url: str, start: int | None, most: int | None, follow: bool) -> None:
    """Print entries, one per line."""
    out, terminal = sys.stdout.buffer, sys.stdout.isatty()
    if most == 0:
        return
    try:
        for printed, payload in enumerate(open_url(url).entries(start, follow=follow), 1):
            out.write(_printable(payload) + b"\n" if terminal else payload + b"\n")
            if follow:
                out.flush()
            if printed == most:
                break
        out.flush()
    except BrokenPipeError:  # the reader closed the pipe, which is no error
        os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())


def _printable(payload: bytes) -> bytes:
    return one_line(payload.decode(errors="backslashreplace")).encode()


_partitions = click.option(
    "--partitions",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of partitions of a topic that does not exist yet.",
)


@log.command()
@_url
@_partitions
def append(url: str, partitions: int | None) -> None:
    """Append the lines of standard input.

    Each line becomes one entry; blank lines are left out.
    """
    with open_url(url).appender(partitions) as put:
        count = sum(_put(lines, put) for lines in _lines(_chunks(sys.stdin.buffer.fileno())))
    click.echo(f"{count} entries appended", err=True)


@log.command("import")
@click.argument("file", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@_url
@_partitions
def import_file(file: Path, url: str, partitions: int | None) -> None:
    """Append the records of a file.

    FILE is a JSON Lines file, plain or gzipped, or a Parquet file.
    """
    count, size = 0, file.stat().st_size
    bar = click.progressbar(length=size, label=one_line(file.name), file=sys.stderr, hidden=not sys.stderr.isatty())
    with open_url(url).appender(partitions) as put, bar, file.open("rb") as source:
        for lines in _lines(_contents(file, source)):
            count += _put(lines, put)
            if size:  # a pipe has size 0
                bar.update(min(source.tell(), size) - bar.pos)
    click.echo(f"{count} entries imported from {one_line(str(file))}", err=True)


def _put(lines: list[bytes], put: Callable[[list[bytes]], None]) -> int:
    entries = [line.rstrip(b"\r") for line in lines if line.strip()]
    put(entries)
    return len(entries)


def _lines(chunks: Iterator[bytes]) -> Iterator[list[bytes]]:
    rest: list[bytes] = []
    for chunk in chunks:
        *lines, last = chunk.split(b"\n")
        if lines:
            lines[0] = b"".join(rest) + lines[0]
            rest = []
            yield lines
        rest.append(last)
    yield [b"".join(rest)]


def _chunks(file: int) -> Iterator[bytes]:
    while chunk := os.read(file, _AT_ONCE):
        yield chunk


def _contents(file: Path, source: BinaryIO) -> Iterator[bytes]:
    """Yield the file's records as JSON lines, in chunks of any size."""
    try:
        if file.suffix == ".parquet":
            for batch in pq.ParquetFile(source).iter_batches(8192):
                yield json_lines(pa.Table.from_batches([batch]))
        else:
            stream: Any = gzip.GzipFile(fileobj=source) if file.suffix == ".gz" else source
            while chunk := stream.read(_AT_ONCE):
                yield chunk
    except (EOFError, gzip.BadGzipFile, zlib.error, pa.ArrowInvalid) as error:
        message = f"{file} is not a complete {file.suffix} file: {error}; the records before the error are imported"
        raise MillstreamError(message) from None
