"""The ids of the topics of a run, told to its other processes and to later starts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from millstream.log.journal.durability import write_whole

__all__ = ["TopicIds"]

_NAME = "topics.json"


class TopicIds:
    """A small file in a folder that is safe to delete: without it, what it would tell is not known.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     TopicIds(Path(folder)).write({"news": "LQoEc7bqSGKGp1WWPpZHDg"})
    ...     TopicIds(Path(folder)).read()
    {'news': 'LQoEc7bqSGKGp1WWPpZHDg'}
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / _NAME
        self._written: Mapping[str, str] | None = None

    def read(self) -> Mapping[str, str]:
        """The ids by the topics' names; none, if the file is not there or is no longer whole."""
        try:
            found = json.loads(self._path.read_bytes())
        except (OSError, ValueError):
            return {}
        return {name: str(found[name]) for name in found} if isinstance(found, dict) else {}

    def write(self, ids: Mapping[str, str]) -> None:
        """Write them down, if they are others than the last time."""
        if ids == self._written:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self._path, json.dumps(ids, indent=1))
        self._written = dict(ids)
