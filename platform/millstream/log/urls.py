"""Logs by their URL, for the command line and for notebooks: what a plug-in registers for a scheme.

An entry point of the group `millstream.logs` has the scheme as its name, and makes a `UrlLog` from what follows `://`.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from millstream.errors import ConfigError
from millstream.log.contracts import Log

__all__ = ["UrlLog", "open_url"]

_GROUP = "millstream.logs"
_PLAIN = "journal"


class UrlLog(Protocol):
    """A log that people look into and append to, outside of any run."""

    def describe(self) -> Iterator[str]:
        """A line for each log that the URL means: what is in it, and how much."""
        ...

    def entries(self, start: int | None = None, *, follow: bool = False) -> Iterator[bytes]:
        """What was appended, from the offset `start` of each partition on; with `follow` it goes on as more comes."""
        ...

    def appender(self, partitions: int | None = None) -> AbstractContextManager[Callable[[list[bytes]], None]]:
        """Appends lists of entries, each list durable when the call returns; a log that is not there is made."""
        ...

    def log(self, fields: Mapping[str, str] | None = None) -> Log:
        """The log as a pipeline's source opens it, by default with the usual fields."""
        ...


def open_url(url: str) -> UrlLog:
    """The log of a URL; a plain path is the folder of a journal.

    >>> type(open_url("journal://news")).__name__
    'JournalUrl'
    """
    scheme, separator, rest = url.partition("://")
    if not separator:
        scheme, rest = _PLAIN, url
    points = {point.name: point for point in importlib.metadata.entry_points(group=_GROUP)}
    if scheme not in points:
        known = ", ".join(f"{name}://" for name in sorted(points))
        message = f"{url}: no logs of the scheme {scheme!r} are known; there are {known}, and plain paths of journals"
        raise ConfigError(message)
    opened: UrlLog = points[scheme].load()(rest)
    return opened
