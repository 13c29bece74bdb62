"""The state of a Python object without pickle: a walk over its attributes, into one JSON text and arrays.

`objects` is a JSON list with an entry for each object that can change; the first one is the root. An entry is a list
with its kind. In an entry, numbers and text stand for themselves, `["@", 3]` is a reference to the fourth entry, and
other lists are values that cannot change, such as tuples. So an object that two attributes share is restored once, and
cycles are restored too. The numbers of dictionaries whose values are all floats are in the array `floats`, and numpy's
arrays are arrays of the state. `docs/internals/formats.md` lists the kinds of entries.
"""

from __future__ import annotations

import collections
import functools
import inspect
import json
import random
import types
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, cast

import numpy as np

from millstream.errors import StepFailed
from millstream.steps.contracts import Array, State
from millstream_models.libraries.allowed_names import COMPILED, dotted_name

__all__ = ["GENERATOR", "PLAIN", "NotSavable", "SavedObject", "save_object"]

PLAIN = frozenset({bool, float, int, str, type(None)})
"""The types of values that JSON keeps to the bit."""
GENERATOR = "_rng"
_NUMBERS = "biuf"
_DICTIONARIES = (dict, collections.Counter, collections.defaultdict)
_REMEDY = "choose other options or another class"


class NotSavable(StepFailed):
    """A value that cannot be saved without pickle."""

    def __init__(self, place: str, what: str) -> None:
        super().__init__(f"the attribute {place} is {what}, which cannot be saved without pickle; {_REMEDY}")


class SavedObject:
    """The state of an object, and for each entry of `objects` the attribute where the walk found it."""

    def __init__(self, state: State, places: list[str]) -> None:
        self.state, self.places = state, places

    def difference(self, other: SavedObject) -> str | None:
        """Return the attribute of the first difference between two states of one class; None if they are equal."""
        mine, others = (json.loads(bytes(each.state["objects"])) for each in (self, other))
        for index, (entry, its) in enumerate(zip(mine, others, strict=False)):
            if json.dumps(entry) != json.dumps(its) or self._numbers(entry) != other._numbers(its):
                return _attribute(entry, its, self.places[index])
        return None if len(mine) == len(others) else self.places[0]

    def _numbers(self, entry: list[Any]) -> bytes:
        if entry[0] == "array":
            return np.asarray(self.state[entry[1]]).tobytes()
        if entry[0] == "dict" and isinstance(entry[3], dict):
            start, size = entry[3]["floats"]
            return np.asarray(self.state["floats"])[start : start + size].tobytes()
        return b""


def save_object(root: Any) -> SavedObject:
    """Return the state of an object; `NotSavable`, with the attribute, if it has a value that cannot be saved.

    >>> save_object({"a": [1, 2.5], "b": (None,)}).state["objects"]
    b'[["dict","builtins:dict",["a","b"],[["@",1],["tuple",[null]]],null],["list",[1,2.5]]]'
    """
    return _Walk(root).saved()


def _attributes(value: Any) -> dict[str, Any]:
    """Return the attributes of an object, those in `__slots__` too, in the order of their names."""
    found = dict(getattr(value, "__dict__", {}))
    for each in type(value).__mro__:
        slots = each.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name.startswith("__") and not name.endswith("__"):
                name = f"_{each.__name__.lstrip('_')}{name}"
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                found[name] = getattr(value, name)
    return dict(sorted(found.items()))


def _is_unseeded(value: Any) -> bool:
    """True for a distribution of River without a seed, whose generator is not saved.

    The trees of River have thousands of such distributions and draw no samples of them, and no option seeds them.
    """
    own = getattr(value, "__dict__", {})
    return type(value).__module__.startswith("river.proba.") and GENERATOR in own and own.get("seed") is None


class _Walk:
    """One walk: the objects found so far, each with its entry's number, and the arrays."""

    def __init__(self, root: Any) -> None:
        self._found: list[Any] = []  # keeps temporary objects alive, so that no number of `id` is used twice
        self._places: list[str] = []
        self._numbers: dict[Any, int] = {}
        self._floats: list[Array] = []
        self._float_count = 0
        self._arrays: dict[str, Array] = {}
        self._memory: list[tuple[int, int]] = []
        self._value(root, "")

    def saved(self) -> SavedObject:
        entries = []
        for index, value in enumerate(self._found):  # which grows meanwhile
            entries.append(self._entry(value, self._places[index]))
        text = json.dumps(entries, separators=(",", ":")).encode()
        floats = np.concatenate(self._floats) if self._floats else np.zeros(0)
        places = [place or "of the model itself" for place in self._places]
        return SavedObject({"objects": text, "floats": floats, **self._arrays}, places)

    def _value(self, value: Any, place: str) -> Any:
        kind = type(value)
        if kind in PLAIN:
            return value
        if kind is tuple:
            return ["tuple", self._values(value, place)]
        if kind is frozenset:
            return ["frozenset", self._sorted(value, place)]
        if kind is bytes:
            return ["bytes", value.hex()]
        if isinstance(value, np.generic) and value.dtype.kind in _NUMBERS and value.dtype.itemsize <= 8:
            return ["number", value.dtype.str, value.item()]
        if kind is types.MethodType and self._is_method(value):
            return ["method", self._value(value.__self__, f"{place}.__self__"), value.__name__]
        if isinstance(value, type) or (callable(value) and hasattr(value, "__qualname__")):
            return ["name", self._name(value, place)]
        key = _identity(value)
        if key not in self._numbers:
            self._numbers[key] = len(self._found)
            self._found.append(value)
            self._places.append(place)
        return ["@", self._numbers[key]]

    def _values(self, values: Iterable[Any], place: str) -> list[Any]:
        values = list(values)
        if PLAIN.issuperset(map(type, values)):
            return values
        return [self._value(value, f"{place}[{index}]") for index, value in enumerate(values)]

    def _keys(self, keys: Iterable[Any], place: str) -> list[Any]:
        """Keys of a dictionary or members of a set: values whose hash does not depend on the place in memory."""
        keys = list(keys)
        return keys if PLAIN.issuperset(map(type, keys)) else [self._key(key, place) for key in keys]

    def _key(self, key: Any, place: str) -> Any:
        if type(key) is tuple:
            return ["tuple", [self._key(part, place) for part in key]]
        if type(key) is frozenset:
            return ["frozenset", self._sorted(key, place)]
        if type(key) in PLAIN or type(key) is bytes or isinstance(key, np.generic):
            return self._value(key, place)
        raise NotSavable(place, f"a dictionary or set with keys of the class {_class_name(key)}")

    def _sorted(self, members: Iterable[Any], place: str) -> list[Any]:
        return sorted(self._keys(members, place), key=lambda member: (type(member).__name__, json.dumps(member)))

    def _entry(self, value: Any, place: str) -> list[Any]:
        kind = type(value)
        if kind in _DICTIONARIES:
            return self._dictionary(value, place)
        writer = _WRITERS.get(kind)
        if writer is not None:
            return writer(self, value, place)
        return self._compiled(value, place) if kind.__module__.startswith(COMPILED) else self._object(value, place)

    def _dictionary(self, value: Mapping[Any, Any], place: str) -> list[Any]:
        factory = self._value(getattr(value, "default_factory", None), f"{place}.default_factory")
        keys = self._keys(value, place)
        values: Any
        if value and {float}.issuperset(map(type, value.values())):
            values = {"floats": [self._float_count, len(value)]}
            self._floats.append(np.fromiter(value.values(), np.float64, len(value)))
            self._float_count += len(value)
        elif PLAIN.issuperset(map(type, value.values())):
            values = list(value.values())
        else:
            values = [self._value(each, f"{place}[{key!r}]") for key, each in value.items()]
        return ["dict", self._name(type(value), place), keys, values, factory]

    def _list(self, value: list[Any], place: str) -> list[Any]:
        return ["list", self._values(value, place)]

    def _set(self, value: set[Any], place: str) -> list[Any]:
        return ["set", self._sorted(value, place)]

    def _deque(self, value: collections.deque[Any], place: str) -> list[Any]:
        return ["deque", self._values(value, place), value.maxlen]

    def _array(self, value: Array, place: str) -> list[Any]:
        if value.dtype.kind == "O":
            return ["objects", list(value.shape), self._values(value.ravel().tolist(), place)]
        if value.dtype.kind not in _NUMBERS + "SU" or (value.dtype.kind == "f" and value.dtype.itemsize > 8):
            raise NotSavable(place, f"an array of the type {value.dtype}")
        low, high = np.lib.array_utils.byte_bounds(value)
        if any(start < high and low < stop for start, stop in self._memory) and value.size:
            raise NotSavable(place, "a view of another array of the model")
        self._memory.append((low, high))
        name = f"array{len(self._arrays)}"
        column_major = value.flags.f_contiguous and not value.flags.c_contiguous
        self._arrays[name] = np.array(value.T if column_major else value, order="C")
        return ["array", name, "F" if column_major else "C"]

    def _partial(self, value: functools.partial[Any], place: str) -> list[Any]:
        keywords = {key: self._value(each, f"{place}.keywords[{key!r}]") for key, each in value.keywords.items()}
        return [
            "partial",
            self._value(value.func, f"{place}.func"),
            self._values(value.args, f"{place}.args"),
            keywords,
        ]

    def _random(self, value: random.Random, place: str) -> list[Any]:
        version, numbers, gauss = value.getstate()
        return ["random", version, list(numbers), gauss]

    def _random_state(self, value: np.random.RandomState, place: str) -> list[Any]:
        state: dict[str, Any] = value.get_state(legacy=False)
        if state["bit_generator"] != "MT19937":
            raise NotSavable(place, f"a generator of random numbers of the kind {state['bit_generator']}")
        key, pos = state["state"]["key"].tolist(), state["state"]["pos"]
        return ["random_state", key, pos, state["has_gauss"], state["gauss"]]

    def _compiled(self, value: Any, place: str) -> list[Any]:
        made = value.__reduce_ex__(4)
        args = made[1][1:] if made[0].__name__ == "__newobj__" else made[1]
        state = made[2] if len(made) > 2 else None
        if not isinstance(state, bytes | None) or not all(_is_plain(arg) for arg in args):
            raise NotSavable(place, f"a compiled object of the class {_class_name(value)}")
        own = None if state is None else state.hex()
        return ["compiled", self._name(type(value), place), [self._argument(arg, place) for arg in args], own]

    def _argument(self, value: Any, place: str) -> list[Any] | Any:
        """An argument of a compiled class; a dictionary is an entry within the entry."""
        return self._dictionary(value, place) if type(value) is dict else value

    def _object(self, value: Any, place: str) -> list[Any]:
        name = self._name(type(value), place)
        if not _made_without_init(cast(Hashable, type(value))):
            raise NotSavable(place, f"a compiled object of the class {_class_name(value)}")
        own = _attributes(value)
        if _is_unseeded(value):
            del own[GENERATOR]
        return [
            "object",
            name,
            list(own),
            [self._value(each, f"{place}.{key}".lstrip(".")) for key, each in own.items()],
        ]

    @staticmethod
    def _is_method(value: types.MethodType) -> bool:
        """True for a method of an object that a state may have, under the name by which its class has it."""
        kind = type(value.__self__)
        return dotted_name(kind) is not None and inspect.getattr_static(kind, value.__name__, None) is value.__func__

    def _name(self, value: Any, place: str) -> str:
        if (name := dotted_name(value)) is not None:
            return name
        if isinstance(value, type):
            raise NotSavable(place, f"an object of the class {value.__module__}.{value.__qualname__}")
        raise NotSavable(place, f"the function {getattr(value, '__qualname__', repr(value))}")


_WRITERS: Mapping[type, Callable[[_Walk, Any, str], list[Any]]] = {
    list: _Walk._list,
    set: _Walk._set,
    collections.deque: _Walk._deque,
    np.ndarray: _Walk._array,
    functools.partial: _Walk._partial,
    random.Random: _Walk._random,
    np.random.RandomState: _Walk._random_state,
}


def _identity(value: Any) -> Any:
    """A key that is equal for two names of one object: for arrays, of one memory in one shape."""
    if type(value) is np.ndarray and value.size:
        return (value.__array_interface__["data"][0], value.shape, value.strides, value.dtype.str)
    return id(value)


def _is_plain(value: Any) -> bool:
    if type(value) is dict:
        return PLAIN.issuperset(map(type, value)) and PLAIN.issuperset(map(type, value.values()))
    return type(value) in PLAIN


@functools.cache
def _made_without_init(kind: Hashable) -> bool:
    try:
        object.__new__(cast(type, kind))
    except TypeError:
        return False
    return True


def _class_name(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _attribute(entry: list[Any], other: list[Any], place: str) -> str:
    """The place of the first attribute in which two entries of an object differ."""
    if entry[0] == other[0] == "object" and entry[1:3] == other[1:3]:
        for name, one, its in zip(entry[2], entry[3], other[3], strict=True):
            if json.dumps(one) != json.dumps(its):
                return f"{place}.{name}" if place != "of the model itself" else name
    return place
