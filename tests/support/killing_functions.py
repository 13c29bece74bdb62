"""A function of a cycle that kills its process between two rounds, once."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from millstream_pipelines.label_propagation import document

__all__ = ["ARMED", "document_that_kills"]

ARMED = "CYCLE_KILL_ARMED"
"""The environment variable that names the armed file: its removal comes before the kill."""


def document_that_kills(record: Mapping[str, Any], state: Any) -> tuple[list[dict[str, str | None]], Any]:
    """Label propagation; the first record that has come over three hops kills the process, if the file is there."""
    armed = Path(os.environ[ARMED])
    if record["hops"] == "3" and armed.exists():
        armed.unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    return document(record, state)
