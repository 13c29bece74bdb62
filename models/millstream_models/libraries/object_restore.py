"""Objects from a saved state: made with `object.__new__` of allowed classes, so nothing in the state is called."""

from __future__ import annotations

import collections
import functools
import inspect
import json
import random
import types
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from millstream.errors import MillstreamError
from millstream.steps.contracts import State
from millstream_models.libraries.allowed_names import COMPILED, dotted_name, named_class, named_function
from millstream_models.libraries.object_state import GENERATOR, PLAIN

__all__ = ["restore_object"]

_WORDS = 624  # of the state of a Mersenne twister


def restore_object(state: State, kind: type) -> Any:
    """Return a new object of this class from a state that `save_object` returned.

    `MillstreamError` if the state is of another class, or names anything that is not allowed.

    >>> from millstream_models.libraries.object_state import save_object
    >>> shared = [1]
    >>> restored = restore_object(save_object({"a": shared, "b": shared}).state, dict)
    >>> restored, restored["a"] is restored["b"]
    ({'a': [1], 'b': [1]}, True)
    """
    try:
        root = _Restored(state).root
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, ArithmeticError, RecursionError) as error:
        message = f"the state of the model cannot be restored: {type(error).__name__}: {error}"
        raise MillstreamError(f"{message}; restore an earlier checkpoint, or start over with --fresh") from error
    if type(root) is not kind:
        message = f"the state is that of a {type(root).__name__}, not of a {kind.__name__}"
        raise MillstreamError(f"{message}; start over with --fresh")
    return root


class _Restored:
    """All objects of a state: first made without content, then filled, so that they may refer to each other."""

    def __init__(self, state: State) -> None:
        self._state = state
        entries: list[list[Any]] = json.loads(bytes(state["objects"]))
        self._floats: list[float] = np.asarray(state["floats"]).tolist()
        self._objects: list[Any] = []
        self._objects += [self._made(entry) for entry in entries]
        for entry, made in zip(entries, self._objects, strict=True):
            if (fill := _FILLERS.get(entry[0])) is not None:
                fill(self, made, entry)
        self.root = self._objects[0]

    def _made(self, entry: list[Any]) -> Any:
        kind = entry[0]
        if kind == "dict":
            return _new_dictionary(entry[1])
        if kind in _EMPTY:
            return _EMPTY[kind]()
        if kind == "deque":
            return collections.deque(maxlen=entry[2])
        if kind == "array":
            array = np.array(self._state[entry[1]])
            return array.T if entry[2] == "F" else array
        if kind == "objects":
            return np.empty(entry[1], np.object_)
        if kind == "random_state":
            return _random_state(*entry[1:])
        if kind == "random":
            return _random(*entry[1:])
        if kind == "compiled":
            return self._compiled(entry)
        if kind == "object":
            return _new_object(named_class(entry[1]), entry[2])
        message = f"it has an entry of the unknown kind {kind!r}"
        raise ValueError(message)

    def _value(self, value: Any) -> Any:
        if type(value) is not list:
            return value
        kind = value[0]
        if kind == "@":
            return self._objects[value[1]]
        if kind == "tuple":
            return tuple(self._values(value[1]))
        if kind == "frozenset":
            return frozenset(self._values(value[1]))
        if kind == "bytes":
            return bytes.fromhex(value[1])
        if kind == "number":
            return np.dtype(value[1]).type(value[2])
        if kind == "name":
            return named_function(value[1])
        if kind == "method":
            return _method(self._value(value[1]), value[2])
        message = f"it has a value of the unknown kind {kind!r}"
        raise ValueError(message)

    def _values(self, values: list[Any]) -> list[Any]:
        return [self._value(value) if type(value) is list else value for value in values]

    def _fill_dictionary(self, made: Any, entry: list[Any]) -> None:
        _, _, keys, values, factory = entry
        if factory is not None:
            made.default_factory = self._value(factory)
        dict.update(made, zip(self._values(keys), self._dictionary_values(values), strict=True))

    def _dictionary_values(self, values: Any) -> list[Any]:
        if isinstance(values, dict):
            start, size = values["floats"]
            return self._floats[start : start + size]
        return self._values(values)

    def _fill_list(self, made: Any, entry: list[Any]) -> None:
        made.extend(self._values(entry[1]))

    def _fill_set(self, made: set[Any], entry: list[Any]) -> None:
        made.update(self._values(entry[1]))

    def _fill_objects(self, made: Any, entry: list[Any]) -> None:
        for index, value in enumerate(self._values(entry[2])):
            made.flat[index] = value

    def _fill_partial(self, made: functools.partial[Any], entry: list[Any]) -> None:
        _, called, args, keywords = entry
        keywords = {key: self._value(value) for key, value in keywords.items()}
        made.__setstate__((self._value(called), tuple(self._values(args)), keywords, {}))  # type: ignore[attr-defined]

    def _fill_object(self, made: Any, entry: list[Any]) -> None:
        for name, value in zip(entry[2], self._values(entry[3]), strict=True):
            if isinstance(inspect.getattr_static(type(made), name, None), types.MemberDescriptorType):
                object.__setattr__(made, name, value)  # in `__slots__`
            else:
                made.__dict__[name] = value
        if type(made).__module__.startswith("river.proba.") and "seed" in entry[2] and GENERATOR not in entry[2]:
            made.__dict__[GENERATOR] = random.Random(0)

    def _compiled(self, entry: list[Any]) -> Any:
        _, name, args, own = entry
        kind = named_class(name)
        if not kind.__module__.startswith(COMPILED):
            message = f"{name} is no compiled class"
            raise ValueError(message)
        made = kind(*map(self._argument, args))
        if own is not None:
            made.__setstate__(bytes.fromhex(own))
        return made

    def _argument(self, value: Any) -> Any:
        if type(value) in PLAIN:
            return value
        _, name, keys, values, _ = value
        if name != "builtins:dict":
            message = f"an argument of a compiled class is of the class {name}"
            raise ValueError(message)
        return dict(zip(keys, self._dictionary_values(values), strict=True))


_EMPTY: Mapping[str, Callable[[], Any]] = {"list": list, "set": set, "partial": lambda: functools.partial(int)}
_FILLERS: Mapping[str, Callable[[_Restored, Any, list[Any]], None]] = {
    "dict": _Restored._fill_dictionary,
    "list": _Restored._fill_list,
    "deque": _Restored._fill_list,
    "set": _Restored._fill_set,
    "objects": _Restored._fill_objects,
    "partial": _Restored._fill_partial,
    "object": _Restored._fill_object,
}


def _new_dictionary(name: str) -> Any:
    kind = named_class(name)
    if kind not in (dict, collections.Counter, collections.defaultdict):
        message = f"{name} is no class of dictionaries"
        raise ValueError(message)
    return kind()


def _new_object(kind: type, names: list[str]) -> Any:
    """An object without content. Names with two underscores on both sides are Python's own: calls go through them."""
    if kind.__module__ in ("builtins", "collections", "copy"):
        message = f"{kind.__name__} is no class of a library"
        raise ValueError(message)
    if special := [name for name in names if name.startswith("__") and name.endswith("__")]:
        message = f"it sets {special[0]} of a {kind.__name__}"
        raise ValueError(message)
    return object.__new__(kind)


def _method(owner: Any, name: str) -> types.MethodType:
    function = inspect.getattr_static(type(owner), name, None)
    if not isinstance(function, types.FunctionType) or dotted_name(type(owner)) is None:
        message = f"it names {name!r}, which is no method of a {type(owner).__name__}"
        raise ValueError(message)
    return types.MethodType(function, owner)


def _random(version: int, numbers: list[int], gauss: float | None) -> random.Random:
    made = random.Random(0)
    made.setstate((version, tuple(numbers), gauss))
    return made


def _random_state(key: list[int], pos: int, has_gauss: int, gauss: float) -> np.random.RandomState:
    if len(key) != _WORDS or not 0 <= pos <= _WORDS:
        message = "a generator of random numbers has no valid position"
        raise ValueError(message)
    made = np.random.RandomState(0)
    made.set_state(("MT19937", np.array(key, np.uint32), pos, has_gauss, gauss))
    return made
