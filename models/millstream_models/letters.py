"""Which characters make up words, and their lower case: one table, so that all versions of Python see the same words.

The rules are Python's own for `re.findall(r"\\w+", text.lower())`, as of the version of Unicode that the table names.
`scripts/letters.py` writes it.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import as_file, files

import numpy as np

from millstream.arrays import Array

__all__ = ["CASED", "IGNORABLE", "LOWER", "PAGE", "WORD", "letters"]

LOWER = 0x1FFFFF
"""The bits of an entry that lead to the lower case: it is the character plus these, by 21 bits."""
WORD, CASED, IGNORABLE = 1 << 21, 1 << 22, 1 << 23
"""A letter, digit or underscore; a character that has a case; one that is looked past when cases are compared."""
PAGE = 256


@cache
def letters() -> tuple[Array, Array, Array]:
    """ASCII in lower case, 0 for other bytes (uint8); the page of each 256 characters (uint16); all pages (uint32).

    >>> ascii_, pages, entries = letters()
    >>> bytes(ascii_[[*b"Top-5"]])
    b'top\\x005'
    >>> entry = int(entries[pages[ord("Ä") // PAGE] * PAGE + ord("Ä") % PAGE])
    >>> chr(ord("Ä") + entry & LOWER), bool(entry & WORD)
    ('ä', True)
    """
    with as_file(files(__package__) / "letters.npz") as path, np.load(path, allow_pickle=False) as table:
        entries = table["entries"].reshape(-1)
        low = np.arange(128, dtype=np.uint32) + entries[:128]
        ascii_ = np.zeros(256, np.uint8)  # 0 for all bytes beyond too
        ascii_[:128] = np.where(entries[:128] & WORD, low & LOWER, 0)
        return ascii_, table["pages"], entries
