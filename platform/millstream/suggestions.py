"""Suggestions in error messages: the known name that is most similar to a wrong name."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable

__all__ = ["nearest", "suggestion"]


def nearest(wrong: object, known: Iterable[str]) -> str | None:
    """The known name that is most similar to a wrong name, ignoring case; None if no name is similar.

    >>> nearest("Complement-nb", ["complement_nb", "sgd"])
    'complement_nb'
    >>> nearest("kafka", ["complement_nb", "sgd"])
    """
    names = {name.lower(): name for name in known}
    close = difflib.get_close_matches(str(wrong).lower(), names, n=1)
    return names[close[0]] if close else None


def suggestion(
    wrong: object, known: Iterable[str], otherwise: str = "", *, shown: Callable[[str], object] = str
) -> str:
    """The end of an error message: the most similar known name, or `otherwise` if no name is similar.

    `shown` formats the name.

    >>> suggestion("modle", ["model", "window"])
    '; did you mean `model`?'
    >>> suggestion("x", ["model", "window"], "there are model, window")
    '; there are model, window'
    """
    close = nearest(wrong, known)
    if close is None:
        return f"; {otherwise}" if otherwise else ""
    return f"; did you mean `{shown(close)}`?"
