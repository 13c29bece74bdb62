"""The children that a user's function makes of records: each differs from its record in some text fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.steps.child_paths import with_child_paths
from millstream.steps.field_changes import Change, FieldChanges
from millstream.steps.function_calls import Misuse, describe_value

__all__ = ["ChildChanges"]


class ChildChanges:
    """Checks the lists that a function returns, with the `changes` of each child, and makes the children.

    >>> parents = pa.table({"_offset": [7, 8], "text": ["two words", ""]})
    >>> children = ChildChanges(FieldChanges("words", parents.schema, ["word"]))
    >>> changes = children.read_one({"text": "two words"}, [{"word": "two"}, {"word": "words"}])
    >>> children.made(parents, [changes, []]).select(["_offset", "word"]).to_pylist()
    [{'_offset': 7, 'word': 'two'}, {'_offset': 7, 'word': 'words'}]
    """

    def __init__(self, changes: FieldChanges) -> None:
        self._changes = changes

    def read_one(self, record: Mapping[str, Any], returned: Any) -> Sequence[Change]:
        """Check the value that the function returned for one record, and return the changed fields of each child."""
        if not isinstance(returned, list | tuple):
            raise Misuse(f"it returned {describe_value(returned)}, not a list with a dict for each child")
        return [self._changes.read_one(record, child) for child in returned]

    def made(self, records: pa.Table, changes: Sequence[Sequence[Change]]) -> pa.Table:
        """The children of these records, in order, with these changes."""
        counts = np.fromiter(map(len, changes), np.int64, len(changes))
        rows = np.repeat(np.arange(len(counts)), counts)
        indices = np.arange(len(rows)) - np.repeat(counts.cumsum() - counts, counts)
        children = with_child_paths(records.take(pa.array(rows)), indices)
        return self._changes.made(children, [change for each in changes for change in each])
