"""The checks of what Spark needs: PySpark and Java."""

from __future__ import annotations

import importlib.metadata

from millstream.cli.finding import Finding
from millstream.errors import MillstreamError
from millstream.extras import need

__all__ = ["check_java", "check_spark"]


def check_spark(*, needed: bool) -> Finding:
    """Check that PySpark is installed."""
    if (missing := need("spark", "Spark")) is not None:
        text, _, fix = missing.partition(": ")
        return Finding("Spark", "problem" if needed else "note", text, fix)
    return Finding("Spark", "ok", f"PySpark {importlib.metadata.version('pyspark')}")


def check_java(*, needed: bool) -> Finding:
    """Check that there is a Java for Spark."""
    from millstream.java import java_home

    try:
        return Finding("Java", "ok", f"Java in {java_home()}")
    except MillstreamError as error:
        text, _, fix = str(error).partition(": ")
        return Finding("Java", "problem" if needed else "note", text, fix.rstrip("."))
