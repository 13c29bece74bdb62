"""What a worker raised, found again in what Spark tells of it."""

from __future__ import annotations

import re

from millstream import errors

__all__ = ["failure"]

_OURS = re.compile(r"^millstream\.errors\.(\w+): (.+?)(?=\n\n|\n\S*Traceback|\Z)", re.MULTILINE | re.DOTALL)
_REPORT = "=== Streaming Query ==="
_PYTHONS = re.compile(r"^(?!pyspark\.)[\w.]+(?:Error|Exception|Interrupt|Exit)\b.*$", re.MULTILINE)


def failure(told: str) -> errors.MillstreamError:
    """The error that ended a query: of its own kind if it is ours, else the last words before Spark's own report.

    >>> text = "Job aborted\\nmillstream.errors.Truncated: news/0 begins at 7\\n\\n=== Streaming Query ==="
    >>> failure(text)
    Truncated('news/0 begins at 7')
    >>> failure("An exception was thrown:\\nTraceback ...\\nKeyError: 'text'\\n\\n=== Streaming Query ===")
    MillstreamError("Spark's query ended: KeyError: 'text'; --debug shows more")
    >>> failure("Python worker failed to connect back.\\n=== Streaming Query ===\\nThread State: RUNNABLE")
    MillstreamError("Spark's query ended: Python worker failed to connect back; --debug shows more")
    """
    ours = _OURS.findall(told)
    if ours:
        name, message = ours[-1]
        kind: type[errors.MillstreamError] = getattr(errors, name, errors.MillstreamError)
        return kind(message.strip())
    words = _PYTHONS.findall(told) or told.split(_REPORT)[0].strip().splitlines() or ["nobody knows why"]
    return errors.MillstreamError(f"Spark's query ended: {words[-1].rstrip('.')}; --debug shows more")
