"""Write models/millstream_models/compiled/letters.npz from the Unicode tables of the Python that runs this script.

Words, and so all hashed features, depend on this file: with a new file, existing runs would give other results.
"""

from __future__ import annotations

import sys
import unicodedata
from pathlib import Path

import numpy as np

from millstream_models.compiled.letters import CASED, IGNORABLE, LOWER, PAGE, WORD

_TARGET = Path(__file__).parents[1] / "models" / "millstream_models" / "compiled" / "letters.npz"


def make_entry(code: int) -> int:
    """Make a character's table entry: the distance to its lower case (the first character of it), and its flags."""
    char = chr(code)
    lower = char.lower()[0]
    value = 0
    if lower.isalnum() or lower == "_":
        value = WORD | (ord(lower) - code) & LOWER
    # Python has no function for the next two flags; they decide whether a capital sigma ends a word.
    if f"{char}Σ".lower().endswith("ς"):
        value |= CASED
    elif f"a{char}Σ".lower().endswith("ς"):
        value |= IGNORABLE
    return value


def main() -> None:
    surrogates = range(0xD800, 0xE000)
    entries = np.array([0 if code in surrogates else make_entry(code) for code in range(sys.maxunicode + 1)], np.uint32)
    distinct, first, pages = np.unique(entries.reshape(-1, PAGE), axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)  # in order of appearance, so that ASCII is in the first page
    distinct, pages = distinct[order], np.argsort(order)[pages.reshape(-1)]
    version = np.array(unicodedata.unidata_version)
    np.savez_compressed(_TARGET, pages=pages.astype(np.uint16), entries=distinct, unicode=version)
    print(f"{_TARGET.name}: {len(distinct)} pages, {_TARGET.stat().st_size:,} bytes, Unicode {version}")


if __name__ == "__main__":
    main()
