"""The results in the summary of a run, which do not depend on the time, the machine or the caller."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from dataclasses import asdict
from typing import Any

import pytest

from millstream.cli import main
from millstream.runs.summary import Summary

__all__ = ["results", "results_of_command"]

_RESULTS = ("records", "epochs", "accuracy", "baselines", "model", "state", "outputs", "delivered")


def results(summary: Summary | None) -> dict[str, Any]:
    """Return the results in a summary."""
    assert summary is not None
    return {key: asdict(summary)[key] for key in _RESULTS}


def results_of_command(*arguments: str) -> dict[str, Any]:
    """Return the results that `millstream run` prints."""
    out = io.StringIO()
    with redirect_stdout(out), pytest.raises(SystemExit) as ended:
        main(["run", *arguments, "--json"])
    assert not ended.value.code
    found = json.loads(out.getvalue())
    return {key: found[key] for key in _RESULTS}
