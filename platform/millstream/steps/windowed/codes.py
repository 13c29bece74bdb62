"""Numbers for texts; the number of a text that is forgotten is given again."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millstream.arrays import Array

__all__ = ["Codes"]


class Codes:
    """A number for each text.

    >>> codes = Codes()
    >>> codes.of(pa.array(["ann", None, "bob"]).dictionary_encode())
    (array([ 0, -1,  1]), [0, 1])
    >>> codes.forget(0)
    >>> codes.add("cleo"), codes.names, codes.used()
    (0, ['cleo', 'bob'], [1, 0])
    """

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self._free: list[int] = []
        self.names: list[str] = []
        """The text of each number."""

    def used(self) -> list[int]:
        """The numbers of all texts."""
        return list(self._codes.values())

    def of(self, coded: pa.DictionaryArray) -> tuple[Array, list[int]]:
        """The number of each text, -1 for null; and the numbers of the texts that are new."""
        names = coded.dictionary.to_pylist()
        known = self._codes
        found = [known.get(name, -1) for name in names]
        new = [index for index, code in enumerate(found) if code < 0] if -1 in found else []
        for index in new:
            found[index] = self.add(names[index])
        by_index = np.array([*found, -1], np.int64)
        indices = coded.indices if not coded.null_count else coded.indices.fill_null(-1)
        codes: Array = by_index[indices.to_numpy(zero_copy_only=False)]
        return codes, [found[index] for index in new]

    def add(self, name: str) -> int:
        """Give a new text a number."""
        if self._free:
            code = self._free.pop()
            self.names[code] = name
        else:
            code = len(self.names)
            self.names.append(name)
        self._codes[name] = code
        return code

    def forget(self, code: int) -> None:
        """Remove a text."""
        del self._codes[self.names[code]]
        self._free.append(code)

    def clear(self) -> None:
        """Remove all texts."""
        self._codes.clear()
        self._free.clear()
        self.names.clear()
