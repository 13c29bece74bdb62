"""Functions for label propagation: a document without a label takes that of the nearest labelled document.

Two documents are neighbours if they share a long word. A label goes from document to document over shared words, one
hop in each round, until no document finds a nearer one; of labels that are equally near, the first by the alphabet
counts. `configs/label_propagation.yaml` puts the functions together: `words` splits a document, `document` keeps the
state of each document, `word` that of each word, and `is_news` finds the documents whose label changed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

__all__ = ["document", "is_news", "word", "words"]

_LONG = re.compile(r"[^\W\d_]\w{4,}")
_MOST = 20
"""A word that so many documents have says little about any of them: it passes labels to no more documents."""

Record = Mapping[str, Any]
Child = dict[str, str | None]
State = dict[str, Any]


def words(record: Record) -> list[Child]:
    """A child for each different word of five letters or more.

    >>> [child["word"] for child in words({"text": "The ferry, the storm. The FERRY!"})]
    ['ferry', 'storm']
    """
    found = dict.fromkeys(_LONG.findall((record["text"] or "").lower()))
    return [{"word": each, "hops": "0", "text": None} for each in found]


def document(record: Record, state: State | None) -> tuple[list[Child], State]:
    """Keep the nearest label of a document and its words; pass a new label to all words, and a new word on.

    >>> record = {"word": "storm", "label": "weather", "hops": "2"}
    >>> document(record, {"words": ["ferry"], "label": "sea", "hops": 3})[0][0]
    {'word': 'ferry', 'label': 'weather', 'hops': '2', 'news': 'yes'}
    """
    known = state or {"words": [], "label": None, "hops": 0}
    is_new = record["word"] not in known["words"]
    state = {**known, "words": [*known["words"], record["word"]]} if is_new else known
    if _is_nearer(record, known):
        state |= {"label": record["label"], "hops": int(record["hops"])}
        children = [_child(state, word=each) for each in state["words"]]
        return [{**children[0], "news": "yes"}, *children[1:]], state
    return [_child(state, word=record["word"])] if is_new else [], state


def word(record: Record, state: State | None) -> tuple[list[Child], State]:
    """Keep the nearest label of a word and its documents; pass a nearer label to the other documents.

    >>> word({"id": "b", "label": None, "hops": "0"}, {"ids": ["a"], "label": "sea", "hops": 3})[0]
    [{'id': 'b', 'label': 'sea', 'hops': '4', 'news': None}]
    """
    known = state or {"ids": [], "label": None, "hops": 0}
    if len(known["ids"]) == _MOST:
        return [], known
    is_new = record["id"] not in known["ids"]
    state = {**known, "ids": [*known["ids"], record["id"]]} if is_new else known
    if _is_nearer(record, known):
        state |= {"label": record["label"], "hops": int(record["hops"])}
        others = [each for each in state["ids"] if each != record["id"]]
    else:
        others = [record["id"]] if is_new and state["label"] is not None else []
    return [{**_child(state, id=each), "hops": str(state["hops"] + 1)} for each in others], state


def is_news(record: Record) -> bool:
    """True for one record of each document whose label has changed."""
    return bool(record["news"] == "yes")


def _is_nearer(record: Record, known: State) -> bool:
    """True if the record has a label, and it is nearer than the known one."""
    if record["label"] is None:
        return False
    there = (int(record["hops"]), record["label"])
    return known["label"] is None or there < (known["hops"], known["label"])


def _child(state: State, **named: str) -> Child:
    return {**named, "label": state["label"], "hops": str(state["hops"]), "news": None}
