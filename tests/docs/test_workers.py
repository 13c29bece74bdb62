"""The page about the workers' messages has all of them."""

from __future__ import annotations

from typing import get_args

from support.docs_pages import TEXTS, table

from millstream.engines.workers.messages import Message


def test_every_message_is_in_the_table() -> None:
    names = [kind.__name__ for kind in get_args(Message)]
    shown = [row[0].strip("`") for row in table(TEXTS["docs/internals/workers.md"], "message")]
    assert sorted(shown) == sorted(names)
