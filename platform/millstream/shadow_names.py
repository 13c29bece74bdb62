"""The names of shadows: the shadow of the step `label` is the step `label_shadow`."""

from __future__ import annotations

__all__ = ["champion_of", "is_shadow", "shadow_of"]

_SUFFIX = "_shadow"
"""No step of a config has a name with this end."""


def shadow_of(step: str) -> str:
    """The name of the shadow of a step."""
    return f"{step}{_SUFFIX}"


def is_shadow(step: str) -> bool:
    """True if a step of this name is the shadow of another one.

    >>> is_shadow("label_shadow"), is_shadow("label")
    (True, False)
    """
    return step.endswith(_SUFFIX)


def champion_of(shadow: str) -> str:
    """The step of which this is the shadow."""
    return shadow.removesuffix(_SUFFIX)
