"""The failures of a query, classified by the text of Spark's report."""

from __future__ import annotations

import re

from millstream import errors

__all__ = ["QueryLost", "error_of"]

_OURS = re.compile(r"^millstream\.errors\.(\w+): (.+?)(?=\n\n|\n\S*Traceback|\Z)", re.MULTILINE | re.DOTALL)
_REPORT = "=== Streaming Query ==="
_PYTHONS = re.compile(r"^(?!pyspark\.)[\w.]+(?:Error|Exception|Interrupt|Exit)\b.*$", re.MULTILINE)
_LOST = re.compile(
    r"Python worker failed to connect back|Python worker exited unexpectedly|Python daemon failed to launch worker"
    r"|Timed out while waiting for the Python worker|Failed to open socket to Python daemon"
    r"|IOException: Stream closed"
)
"""Spark's messages for a Python process that was lost or did not start within 10 s, which Spark cannot configure."""
_BROKEN = frozenset({"Connection reset", "Connection reset by peer", "Broken pipe", "Stream closed", "null"})
"""The complete report of a query that has lost a Python process; Java's EOFException has no message (null)."""


class QueryLost(errors.WorkerLost):
    """Spark's query lost one of its Python processes; another query may succeed."""

    counts_when_idle = True


def error_of(report: str) -> errors.MillstreamError:
    """The error that ended a query.

    An error of Millstream keeps its class; of any other error, the last line before Spark's own report is the message.

    >>> text = "Job aborted\\nmillstream.errors.Truncated: news/0 begins at 7\\n\\n=== Streaming Query ==="
    >>> error_of(text)
    Truncated('news/0 begins at 7')
    >>> error_of("An exception was thrown:\\nTraceback ...\\nKeyError: 'text'\\n\\n=== Streaming Query ===")
    MillstreamError("Spark's query ended: KeyError: 'text'; --debug shows more")
    >>> error_of("Python worker failed to connect back.\\n=== Streaming Query ===\\nThread State: RUNNABLE")
    QueryLost("Spark's query ended: Python worker failed to connect back")
    >>> error_of("calling o74.start.\\n: java.io.IOException: Stream closed\\n\\tat java.lang.Thread.run")
    QueryLost("Spark's query ended: IOException: Stream closed")
    >>> error_of("Connection reset\\n=== Streaming Query ===")
    QueryLost("Spark's query ended: the Python process that plans it, or the daemon of its workers, is gone")
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
        return QueryLost("Spark's query ended: the Python process that plans it, or the daemon of its workers, is gone")
    words = _PYTHONS.findall(report) or head.splitlines() or ["for an unknown reason"]
    return errors.MillstreamError(f"Spark's query ended: {words[-1].rstrip('.')}; --debug shows more")
