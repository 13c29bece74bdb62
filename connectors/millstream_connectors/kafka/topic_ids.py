"""A file with the ids of a run's topics, for the run's other processes and for later starts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from millstream.log.journal.durability import write_whole

__all__ = ["TopicIds"]

_NAME = "topics.json"


class TopicIds:
    """A small file in the cache folder; without it, topic ids are not compared with those of earlier reads.

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
        """The ids by topic name; an empty mapping if the file is missing or damaged."""
        try:
            found = json.loads(self._path.read_bytes())
        except (OSError, ValueError):
            return {}
        return {name: str(found[name]) for name in found} if isinstance(found, dict) else {}

    def write(self, ids: Mapping[str, str]) -> None:
        """Write the ids, if they differ from the last written ones."""
        if ids == self._written:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self._path, json.dumps(ids, indent=1))
        self._written = dict(ids)
