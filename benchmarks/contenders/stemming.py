"""A function of a user that costs as much as a model: words without their endings."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["stemmed"]

_WORD = re.compile(r"\w+")
_ENDINGS = ("ations", "ation", "ingly", "ings", "ing", "edly", "ed", "ies", "es", "s")


def stemmed(record: dict[str, Any]) -> dict[str, str]:
    """The text with its words in lower case and without a usual ending.

    >>> stemmed({"text": "Trains stopped, floodings ended"})
    {'text': 'train stopp flood end'}
    """
    return {"text": " ".join(map(_stem, _WORD.findall(record["text"].lower())))}


def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) > len(ending) + 2:
            return word[: -len(ending)]
    return word
