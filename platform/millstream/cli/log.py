"""`millstream log`: what is in an embedded log, and putting records into it."""

from __future__ import annotations

import contextlib
import gzip
import os
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import click
import pyarrow as pa
import pyarrow.parquet as pq

from millstream.errors import ConfigError, MillstreamError
from millstream.log.journal import Journal, JournalReader
from millstream.log.rows import json_lines

__all__ = ["log"]

_AT_ONCE = 1 << 20
_POLL = 0.05


class EmbeddedLog(Protocol):
    """What the commands do to a log, whatever its URL's scheme."""

    def describe(self) -> Iterator[str]: ...

    def entries(self, start: int | None, follow: bool) -> Iterator[bytes]: ...

    def appender(self) -> contextlib.AbstractContextManager[Callable[[list[bytes]], None]]: ...


class _JournalLog:
    """A journal, named by its folder."""

    def __init__(self, path: str) -> None:
        self._folder = Path(path).expanduser()

    def describe(self) -> Iterator[str]:
        """The journal, or all journals below the folder."""
        folders = sorted({part.parent for part in self._folder.glob("**/*.journal")}) or [self._folder]
        for folder in folders:
            with JournalReader(folder) as reader:
                end, first = reader.end(), reader.first_index
                size = sum(part.stat().st_size for part in folder.glob("*.journal"))
                marked = f", last mark {reader.last_mark}" if reader.last_mark >= 0 else ""
                yield f"{folder}  entries {first}-{end} ({end - first}), {size} bytes, id {reader.id}{marked}"

    def entries(self, start: int | None, follow: bool) -> Iterator[bytes]:
        with JournalReader(self._folder) as reader:
            at = reader.first_index if start is None else start
            while True:
                for entry in reader.read(at):
                    yield entry.payload
                    at = entry.index + 1
                if not follow:
                    return
                time.sleep(_POLL)

    @contextlib.contextmanager
    def appender(self) -> Iterator[Callable[[list[bytes]], None]]:
        self._refuse_a_pipelines()
        with Journal(self._folder) as journal:

            def put(entries: list[bytes]) -> None:
                journal.append_many(entries)
                journal.sync()

            yield put

    def _refuse_a_pipelines(self) -> None:
        """Refuse a journal in which its writer keeps a header; looks only, because opening one to write changes it."""
        try:
            reader = JournalReader(self._folder)
        except ConfigError:  # it will be made
            return
        with reader:
            _, header = reader.part_start(reader.end())
        if header:
            message = f"{self._folder} is the epoch log or a sink of a pipeline, which alone appends to it"
            raise ConfigError(message)


_SCHEMES: Mapping[str, Callable[[str], EmbeddedLog]] = {"journal": _JournalLog}


def _opened(url: str) -> EmbeddedLog:
    scheme, separator, rest = url.partition("://")
    if not separator:
        return _JournalLog(url)
    if scheme not in _SCHEMES:
        known = ", ".join(f"{name}://" for name in _SCHEMES)
        message = f"{url}: logs of the scheme {scheme!r} are not known; there are {known}, and plain paths of journals"
        raise ConfigError(message)
    return _SCHEMES[scheme](rest)


_url = click.argument("url", metavar="URL")


@click.group()
def log() -> None:
    """List, read and append to embedded logs.

    URL is the folder of a journal, plain or as journal://FOLDER.
    """


@log.command()
@_url
def ls(url: str) -> None:
    """Show a journal, or all journals below a folder: entries, bytes, id."""
    for line in _opened(url).describe():
        click.echo(line)


@log.command()
@_url
@click.option("--from", "start", type=click.IntRange(min=0), help="The first entry to print.")
@click.option("--max", "most", type=click.IntRange(min=0), help="How many entries to print at most.")
@click.option("--follow", is_flag=True, help="Go on as entries are appended, until interrupted.")
def cat(url: str, start: int | None, most: int | None, follow: bool) -> None:
    """Print entries, one a line."""
    out = sys.stdout.buffer
    if most == 0:
        return
    try:
        for printed, payload in enumerate(_opened(url).entries(start, follow), 1):
            out.write(payload + b"\n")
            if follow:
                out.flush()
            if printed == most:
                break
        out.flush()
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())


@log.command()
@_url
def append(url: str) -> None:
    """Append the lines of standard input, one entry each; blank ones are left out."""
    with _opened(url).appender() as put:
        count = sum(_put(lines, put) for lines in _lines(_as_it_comes(sys.stdin.buffer.fileno())))
    click.echo(f"{count} entries appended", err=True)


@log.command("import")
@click.argument("file", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@_url
def import_file(file: Path, url: str) -> None:
    """Append the records of a JSON Lines file, plain or gzipped, or of a Parquet file."""
    count, size = 0, file.stat().st_size
    bar = click.progressbar(length=size, label=file.name, file=sys.stderr, hidden=not sys.stderr.isatty())
    with _opened(url).appender() as put, bar, file.open("rb") as source:
        for lines in _lines(_contents(file, source)):
            count += _put(lines, put)
            bar.update(min(source.tell(), size) - bar.pos)
    click.echo(f"{count} entries imported from {file}", err=True)


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


def _as_it_comes(file: int) -> Iterator[bytes]:
    while chunk := os.read(file, _AT_ONCE):
        yield chunk


def _contents(file: Path, source: BinaryIO) -> Iterator[bytes]:
    """The file's records as JSON lines, in chunks of any size."""
    try:
        if file.suffix == ".parquet":
            for batch in pq.ParquetFile(source).iter_batches(8192):
                yield json_lines(pa.Table.from_batches([batch]))
        else:
            stream: Any = gzip.GzipFile(fileobj=source) if file.suffix == ".gz" else source
            while chunk := stream.read(_AT_ONCE):
                yield chunk
    except (EOFError, gzip.BadGzipFile, zlib.error, pa.ArrowInvalid) as error:
        message = f"{file} is not a whole {file.suffix} file: {error}; what came before that is imported"
        raise MillstreamError(message) from None
