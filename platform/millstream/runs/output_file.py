"""The file outputs.json of a run directory: the outputs of the steps, so that rows are read without the steps."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from millstream.log.journal.durability import write_whole
from millstream.steps.contracts import Output

__all__ = ["read_outputs", "write_outputs"]


def write_outputs(path: Path, outputs: Mapping[str, Output]) -> None:
    """Write the outputs, if they changed: for each its kind, its key, and its columns as an Arrow schema in base64.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "outputs.json"
    >>> output = Output("words", pa.schema([("_window", pa.string()), ("word", pa.string())]), "window", ("word",))
    >>> write_outputs(path, {"words": output})
    >>> read_outputs(path) == {"words": output}
    True
    """
    content = {
        name: {
            "of": output.of,
            "key": list(output.key),
            "schema": base64.b64encode(output.schema.serialize().to_pybytes()).decode(),
        }
        for name, output in outputs.items()
    }
    text = json.dumps(content, indent=1)
    if not path.is_file() or path.read_bytes() != text.encode():
        write_whole(path, text)


def read_outputs(path: Path) -> dict[str, Output] | None:
    """Read the outputs; None if there is no such file, or if it is damaged."""
    try:
        content: dict[str, dict[str, Any]] = json.loads(path.read_text())
        return {
            name: Output(name, _schema_of(described["schema"]), described["of"], tuple(described["key"]))
            for name, described in content.items()
        }
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):  # Arrow's errors are ValueErrors
        return None


def _schema_of(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))
