"""The failures of a query, classified by Spark's report of them."""

from __future__ import annotations

import re

from millstream import errors
from millstream.engines.recovery import WorkerLost

__all__ = ["QueryLost", "failure"]

_OURS = re.compile(r"^millstream\.errors\.(\w+): (.+?)(?=\n\n|\n\S*Traceback|\Z)", re.MULTILINE | re.DOTALL)
_REPORT = "=== Streaming Query ==="
_PYTHONS = re.compile(r"^(?!pyspark\.)[\w.]+(?:Error|Exception|Interrupt|Exit)\b.*$", re.MULTILINE)
_LOST = re.compile(
    r"Python worker failed to connect back|Python worker exited unexpectedly|Python daemon failed to launch worker"
    r"|Timed out while waiting for the Python worker|Failed to open socket to Python daemon"
)
"""Spark's words for a Python process that it lost, or that did not start in time: 10 s are not a setting of Spark's."""
_BROKEN = frozenset({"Connection reset", "Connection reset by peer", "Broken pipe", "null"})
"""The whole report of a query whose planning process is gone; Java's EOFException has no words (null)."""


class QueryLost(WorkerLost):
    """Spark's query lost one of its Python processes; another query may succeed."""

    counts_when_idle = True


def failure(report: str) -> errors.MillstreamError:
    """The error that ended a query: of its own kind if it is ours, else the last words before Spark's own report.

    >>> text = "Job aborted\\nmillstream.errors.Truncated: news/0 begins at 7\\n\\n=== Streaming Query ==="
    >>> failure(text)
    Truncated('news/0 begins at 7')
    >>> failure("An exception was thrown:\\nTraceback ...\\nKeyError: 'text'\\n\\n=== Streaming Query ===")
    MillstreamError("Spark's query ended: KeyError: 'text'; --debug shows more")
    >>> failure("Python worker failed to connect back.\\n=== Streaming Query ===\\nThread State: RUNNABLE")
    QueryLost("Spark's query ended: Python worker failed to connect back")
    >>> failure("Connection reset\\n=== Streaming Query ===")
    QueryLost("Spark's query ended: the Python process that plans it is gone")
    """
    ours = _OURS.findall(report)
    if ours:
        name, message = ours[-1]
        kind: type[errors.MillstreamError] = getattr(errors, name, errors.MillstreamError)
        return kind(message.strip())
    if lost := _LOST.search(report):
        return QueryLost(f"Spark's query ended: {lost[0]}")
    head = report.split(_REPORT)[0].strip()
    if head in _BROKEN:
        return QueryLost("Spark's query ended: the Python process that plans it is gone")
    words = _PYTHONS.findall(report) or head.splitlines() or ["for an unknown reason"]
    return errors.MillstreamError(f"Spark's query ended: {words[-1].rstrip('.')}; --debug shows more")
