"""The classes and functions that a saved state may name: those of River, scikit-learn and SciPy's sparse matrices.

A state is data. A name in it is looked up in the modules of these libraries; nothing else is imported. Objects are made
without a call of their classes, but for the compiled classes that hold numbers (`COMPILED`).
"""

from __future__ import annotations

import collections
import copy
import functools
import importlib
from collections.abc import Mapping
from typing import Any

from millstream.errors import MillstreamError

__all__ = ["COMPILED", "dotted_name", "named_class", "named_function"]

_LIBRARIES = ("river", "sklearn", "scipy.sparse")
_FUNCTIONS = ("river",)
"""The modules whose functions a state may name. Those of scikit-learn and SciPy also read files."""
_NOT_MODELS = ("river.api", "river.checks", "river.datasets", "river.stream")
"""Modules that read files or fetch data: a state may name nothing in them."""
COMPILED = ("river._river_rust", "sklearn.linear_model._sgd_fast", "sklearn._loss._loss")
"""The modules whose compiled classes are saved as their arguments and a state."""
_BUILT_IN: Mapping[str, Any] = {
    "builtins:bool": bool,
    "builtins:dict": dict,
    "builtins:float": float,
    "builtins:int": int,
    "builtins:list": list,
    "builtins:set": set,
    "builtins:str": str,
    "collections:Counter": collections.Counter,
    "collections:defaultdict": collections.defaultdict,
    "collections:deque": collections.deque,
    "copy:deepcopy": copy.deepcopy,
}


def dotted_name(value: Any) -> str | None:
    """Return the name of a class or function in a state; None if a state may not name it.

    >>> dotted_name(collections.Counter), dotted_name(print), dotted_name(lambda: 0)
    ('collections:Counter', None, None)
    """
    name = f"{getattr(value, '__module__', None)}:{getattr(value, '__qualname__', None)}"
    try:
        found = named_class(name) if isinstance(value, type) else named_function(name)
    except MillstreamError:
        return None
    return name if found is value else None


@functools.cache
def named_class(name: str) -> type:
    """Return the class of this name; `MillstreamError` if a state may not name it."""
    found = _BUILT_IN.get(name) or _found(name, _LIBRARIES)
    if not isinstance(found, type):
        raise _foreign(name)
    return found


@functools.cache
def named_function(name: str) -> Any:
    """Return the function or class of this name; `MillstreamError` if a state may not name it.

    >>> named_function("os:system")
    Traceback (most recent call last):
    ...
    millstream.errors.MillstreamError: the state of the model names 'os:system', which is no class of River or ...
    """
    found = _BUILT_IN.get(name) or _found(name, _LIBRARIES)
    if not (isinstance(found, type) or name in _BUILT_IN or _is_inside(name.partition(":")[0], _FUNCTIONS)):
        raise _foreign(name)
    return found


def _found(name: str, modules: tuple[str, ...]) -> Any:
    """The object of this name, if it is defined in one of these modules, and not only imported by it."""
    module, _, path = name.partition(":")
    if not _is_inside(module, modules) or _is_inside(module, _NOT_MODELS):
        raise _foreign(name)
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise _foreign(name) from error
    if (getattr(found, "__module__", None), getattr(found, "__qualname__", None)) != (module, path):
        raise _foreign(name)
    return found


def _is_inside(module: str, modules: tuple[str, ...]) -> bool:
    return any(module == each or module.startswith(each + ".") for each in modules)


def _foreign(name: str) -> MillstreamError:
    message = f"the state of the model names {name!r}, which is no class of River or scikit-learn that is installed"
    return MillstreamError(f"{message}; restore it with the versions that wrote it, or start over with --fresh")
