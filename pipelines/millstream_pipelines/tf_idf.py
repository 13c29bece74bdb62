"""Functions that weigh the words of documents by tf-idf, as steps of a graph: `configs/documents.yaml`.

The weight of a word in a document is its count there, times `1 + log((1 + n) / (1 + m))`: m of the n documents so far,
this one included, contain the word. This is the weight of scikit-learn's `TfidfTransformer`, of a stream.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

__all__ = ["collect", "count", "words"]

_WORD = re.compile(r"\w\w+")
_EVERY = "*"
"""Stands for a word that every document contains: the documents that contain it are all documents."""


def words(record: Mapping[str, Any]) -> list[dict[str, str | None]]:
    """A child for each word of a document, once, with its count and the number of children.

    >>> for child in words({"text": "tide after tide", "label": "sea"}):
    ...     print(child["document"], child["word"], child["count"], child["words"])
    7cbcdd866c7588b6 tide 2 3
    7cbcdd866c7588b6 after 1 3
    7cbcdd866c7588b6 * 1 3
    """
    text = record["text"]
    counts = {**Counter(_WORD.findall(text.lower())), _EVERY: 1}
    document = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
    same = {"text": None, "document": document, "words": str(len(counts))}
    return [{**same, "word": word, "count": str(number)} for word, number in counts.items()]


def count(record: Mapping[str, Any], seen: int | None) -> tuple[dict[str, str], int]:
    """Adds the number of documents with this word so far; the key is the word.

    >>> count({"word": "tide"}, 4)
    ({'documents': '5'}, 5)
    """
    documents = (seen or 0) + 1
    return {"documents": str(documents)}, documents


def collect(
    record: Mapping[str, Any], seen: Mapping[str, list[int]] | None
) -> tuple[list[dict[str, str]], Mapping[str, list[int]] | None]:
    """Passes on a document with the weights of its words when all its words are back; the key is the document.

    >>> tide = {"word": "tide", "count": "2", "documents": "1", "words": "2"}
    >>> every = {"word": "*", "count": "1", "documents": "5", "words": "2"}
    >>> children, state = collect(tide, None)
    >>> children, state
    ([], {'tide': [2, 1]})
    >>> collect(every, state)
    ([{'weights': '{"tide": 4.197225}'}], None)
    """
    back = {**(seen or {}), record["word"]: [int(record["count"]), int(record["documents"])]}
    if len(back) < int(record["words"]):
        return [], back
    _, documents = back.pop(_EVERY)
    weights = {
        word: round(number * (1 + math.log((1 + documents) / (1 + containing))), 6)
        for word, (number, containing) in back.items()
    }
    return [{"weights": json.dumps(weights, ensure_ascii=False)}], None
