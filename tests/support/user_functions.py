"""Functions of a user, as `per_key`, `filter` and `map` call them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = [
    "changed",
    "clip",
    "close",
    "count",
    "count_down",
    "fail_later",
    "first_word",
    "follow",
    "group",
    "identify",
    "known",
    "known_by_word",
    "mark",
    "news",
    "not_dropped",
    "rows",
    "seen",
    "short",
    "shout",
    "start",
    "twice",
    "unchanged",
    "words",
]


def changed(row: Mapping[str, Any]) -> bool:
    """A row of a topic that became popular, or is no longer popular."""
    return bool(row["changed"])


def clip(record: Mapping[str, Any]) -> dict[str, str]:
    """Keeps the last words of a text, and adds a field."""
    words = record["text"].split()
    return {"text": " ".join(words[3:]), "first": words[0]}


def close(key: Mapping[str, str], state: int) -> dict[str, str] | None:
    """A row for a word that came more than once before it ended."""
    return {"words": str(state), "of": " ".join(key.values())} if state > 1 else None


def count(record: Mapping[str, Any], state: Any) -> tuple[dict[str, str], int]:
    """Adds the number of earlier words, so that a model depends on the order of siblings."""
    if record["word"].endswith("11"):
        raise ValueError("not eleven")
    return {"text": f"{record['word']} {state or 0}"}, (state or 0) + 1


def count_down(record: Mapping[str, Any], state: Any) -> tuple[list[dict[str, str]], int]:
    """Sends a record back over each of its hops, every time with another key; remembers how many it has seen."""
    hops, seen = int(record["hops"]), state or 0
    change = {"hops": str(hops - 1), "id": record["word"], "word": record["id"], "text": f"seen {seen}"}
    return [change] if hops > 0 else [], seen + 1


def fail_later(record: Mapping[str, Any], state: Any) -> tuple[list[dict[str, str]], Any]:
    """Sends a record without hops back; raises an error for every other one."""
    if record["hops"] != "0":
        message = "it has hops"
        raise ValueError(message)
    return [{"hops": "9"}], state


def first_word(record: Mapping[str, Any]) -> dict[str, str]:
    """Adds the first word of a text."""
    return {"word": record["text"].split()[0]}


def follow(record: Mapping[str, Any], state: Any) -> tuple[dict[str, str], Any]:
    """Adds an earlier word of the author to a text, so that a model depends on keyed state; drops old state."""
    seen = state or {"texts": 0, "last": ""}
    changes = {"text": f"{record['text']} after {seen['last']}", "before": str(seen["texts"])}
    if seen["texts"] == 12:
        return changes, None
    return changes, {"texts": seen["texts"] + 1, "last": record["text"].partition(" ")[0]}


def group(record: Mapping[str, Any]) -> dict[str, str | None]:
    """A key that six of ten authors share."""
    number = int(record["author"].split()[1]) if record["author"] else None
    return {"group": None if number is None else "all" if number % 10 < 6 else f"group {number}"}


def identify(record: Mapping[str, Any]) -> dict[str, str | None]:
    """The author as id, and the labels of a few authors only."""
    return {"id": record["author"], **({} if record["author"] in ("author 3", "author 20") else {"label": None})}


def known(record: Mapping[str, Any]) -> dict[str, str | None]:
    """Keeps the labels of a few authors only."""
    return {} if record["id"] in ("ann", "author 7", "author 21") else {"label": None}


def known_by_word(record: Mapping[str, Any]) -> dict[str, str | None]:
    """The first word as id; keeps the labels of a few words only."""
    first = record["text"].split()[0]
    return {"id": first, "label": record["label"] if first.endswith("3") else None}


def news(record: Mapping[str, Any]) -> bool:
    """Keeps the texts with a certain word: about one in eight."""
    return "word7" in record["text"].split()


def not_dropped(record: Mapping[str, Any]) -> bool:
    """Drops the texts that a test has marked."""
    return bool(record["text"] != "dropped")


def mark(record: Mapping[str, Any]) -> dict[str, str | None]:
    """Marks a wrong prediction."""
    wrong = record["predicted"] != record["label"]
    return {"predicted": f"{record['predicted']}?"} if wrong else {}


def rows(record: Mapping[str, Any], state: Any) -> tuple[dict[str, str], int]:
    """Counts the rows of a key."""
    return {}, (state or 0) + 1


def seen(record: Mapping[str, Any], state: Any) -> tuple[dict[str, str], int]:
    """Counts the records of a word; fails on every seventh."""
    number = state or 0
    if number % 7 == 6:
        message = f"seventh {record['word']}"
        raise ValueError(message)
    return {"seen": str(number)}, number + 1


def short(record: Mapping[str, Any]) -> bool:
    """Drops texts whose length is a multiple of five."""
    return len(record["text"]) % 5 != 0


def shout(record: Mapping[str, Any]) -> dict[str, str]:
    """Changes and adds a field; fails on some records."""
    if "word7" in record["text"]:
        raise ValueError("not seven")
    return {"text": record["text"].upper(), "first": record["text"].split()[0]}


def start(record: Mapping[str, Any]) -> dict[str, str]:
    """A number of hops for a few words."""
    return {"hops": "7" if record["word"].endswith("7") else "0"}


def twice(record: Mapping[str, Any]) -> list[dict[str, str]]:
    """Two children."""
    return [{"half": half} for half in ("first", "second")]


def unchanged(record: Mapping[str, Any]) -> dict[str, str]:
    """Passes a record on as it is."""
    return {}


def words(record: Mapping[str, Any]) -> list[dict[str, str]]:
    """A child for each word of a text."""
    return [{"word": word} for word in record["text"].split()]
