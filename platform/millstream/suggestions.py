"""Suggestions in error messages: the name that the writer of a wrong one probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable

__all__ = ["nearest", "suggestion"]


def nearest(wrong: object, known: Iterable[str]) -> str | None:
    """The known name that is most like a wrong one, whatever the case of their letters; None if none is like it.

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
    """The end of an error message: the nearest of the known names, or `otherwise` if none is near.

    >>> suggestion("modle", ["model", "window"])
    '; did you mean `model`?'
    >>> suggestion("x", ["model", "window"], "there are model, window")
    '; there are model, window'
    """
    close = nearest(wrong, known)
    if close is None:
        return f"; {otherwise}" if otherwise else ""
    return f"; did you mean `{shown(close)}`?"
