"""Translates the client's errors into Millstream's, and adds the options and commands by which a user can react."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from millstream.errors import AlteredLog, InUse, MillstreamError, Truncated, Unavailable
from millstream_connectors.kafka.client import errors as client

__all__ = ["millstream_errors"]


@contextmanager
def millstream_errors() -> Iterator[None]:
    """Raise the client's errors in this block, or in a function with this decorator, as Millstream's.

    >>> with millstream_errors():
    ...     raise client.OffsetRemoved("news/0", requested=3, first=9)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    millstream.errors.Truncated: news/0: offset 3 is requested, and the brokers have removed all before 9; start ...
    """
    try:
        yield
    except client.KafkaClientError as error:
        raise _translated(error) from error


def _translated(error: client.KafkaClientError) -> MillstreamError:
    text = str(error)
    if isinstance(error, client.RetryTimeout):
        advice = "; check the address, and that the broker is up; `millstream kafka up` starts one on this machine"
        return Unavailable(f"{text}{advice if error.unreachable else ''}")
    if isinstance(error, client.OffsetRemoved):
        advice = "start over with --fresh, or continue without the removed messages with `on_truncated: earliest`"
        return Truncated(f"{text}; {advice}")
    if isinstance(error, client.TopicRecreated):
        return AlteredLog(f"{text}; start over with --fresh")
    if isinstance(error, client.TopicAltered):
        return AlteredLog(text)
    if isinstance(error, client.Fenced):
        return InUse("another run writes with the same transactional id")
    return MillstreamError(text)
