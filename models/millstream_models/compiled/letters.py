"""Table of the characters that make up words, and of their lower case: the same words in all versions of Python.

The rules are Python's own for `re.findall(r"\\w+", text.lower())`, for the Unicode version that the table names.
`scripts/letters.py` writes it.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import as_file, files

import numpy as np

from millstream.arrays import Array

__all__ = ["CASED", "IGNORABLE", "LOWER", "PAGE", "WORD", "letters"]

LOWER = 0x1FFFFF
"""The bits of an entry for the lower case: the character plus these bits, modulo 2^21, is its lower case."""
WORD, CASED, IGNORABLE = 1 << 21, 1 << 22, 1 << 23
"""Flags of a character: it is a letter, digit or underscore; it has a case; it is ignored when cases are compared."""
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
        ascii_ = np.zeros(256, np.uint8)  # 0 for all bytes from 128 on
        ascii_[:128] = np.where(entries[:128] & WORD, low & LOWER, 0)
        return ascii_, table["pages"], entries
