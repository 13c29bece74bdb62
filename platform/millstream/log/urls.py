"""Logs by their URL, for the command line and for notebooks.

A plug-in registers a scheme by an entry point of the group `millstream.logs`: its name is the scheme, and its function
makes a `UrlLog` from the text after `://`.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from millstream.errors import ConfigError
from millstream.extras import explanation
from millstream.log.contracts import Log

__all__ = ["UrlLog", "open_url"]

_GROUP = "millstream.logs"
_PLAIN = "journal"


class UrlLog(Protocol):
    """A log that users read and append to without a run."""

    def describe(self) -> Iterator[str]:
        """One line of text for each log that the URL names, about its contents and its size."""
        ...

    def entries(self, start: int | None = None, *, follow: bool = False) -> Iterator[bytes]:
        """The entries from the offset `start` of each partition on; with `follow`, also later entries, without end."""
        ...

    def appender(self, partitions: int | None = None) -> AbstractContextManager[Callable[[list[bytes]], None]]:
        """A function that appends a list of entries, durable on return; a log that does not exist is created first."""
        ...

    def log(self, fields: Mapping[str, str] | None = None) -> Log:
        """The log as a pipeline's source opens it; `fields` as in the source's config, by default the usual fields."""
        ...


def open_url(url: str) -> UrlLog:
    """Open the log of a URL; a URL without a scheme is the folder of a journal.

    >>> type(open_url("journal://news")).__name__
    'JournalUrl'
    """
    scheme, separator, rest = url.partition("://")
    if not separator:
        scheme, rest = _PLAIN, url
    points = {point.name: point for point in importlib.metadata.entry_points(group=_GROUP)}
    if scheme not in points:
        known = ", ".join(f"{name}://" for name in sorted(points))
        message = f"{url}: the scheme {scheme!r} is unknown; use one of {known}, or the path of a journal's folder"
        raise ConfigError(message)
    try:
        opened: UrlLog = points[scheme].load()(rest)
    except ModuleNotFoundError as error:
        if missing := explanation(error, url):
            raise ConfigError(missing) from error
        raise
    return opened
