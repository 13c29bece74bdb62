"""Objects of a library from a config: a class by its name, with options that may hold further classes.

An option whose value is a mapping with `class` is an object of the same library:

    optimizer: {class: optim.SGD, options: {lr: 0.1}}
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from millstream.suggestions import suggestion

__all__ = ["Wrong", "find_class", "make_object", "wrong_options"]

_SEEDS = ("seed", "random_state")
"""The options of River and of scikit-learn that seed a generator of random numbers."""
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@dataclass(frozen=True)
class Wrong(Exception):
    """A wrong name or option: the path of the option, the message with the remedy, and the value."""

    path: tuple[str | int, ...]
    message: str
    value: object


def find_class(library: str, name: str) -> type:
    """Return the class of a library by its module and name; `Wrong` if there is none.

    >>> find_class("river", "naive_bayes.MultinomialNB").__name__
    'MultinomialNB'
    """
    module, _, last = name.rpartition(".")
    try:
        found = importlib.import_module(f"{library}.{module}") if module else None
    except ImportError:
        found = None
    if found is None:
        message = f"{library} has no module {module or name!r}; write `module.Class`, such as naive_bayes.MultinomialNB"
        raise Wrong((), message, name)
    kind = getattr(found, last, None)
    if not isinstance(kind, type) or kind.__module__.partition(".")[0] != library:
        there = [each for each in vars(found) if isinstance(getattr(found, each, None), type)]
        message = f"{library}.{module} has no class {last!r}"
        raise Wrong((), message + suggestion(last, there, f"the names are those of the library {library}"), name)
    return kind


def wrong_options(library: str, kind: type, options: Mapping[str, Any], name: str) -> Iterator[Wrong]:
    """All wrong options of a class, and of the classes inside its options."""
    parameters = {each.name: each for each in _parameters(kind)}
    for option, value in options.items():
        if option not in parameters:
            there = ", ".join(parameters) or "none"
            yield Wrong(
                (option,), f"{name} has no such option{suggestion(option, parameters, f'it has {there}')}", value
            )
        elif option in _SEEDS and value is None:
            message = (
                "without a seed, each process would draw other random numbers; give a number, or leave it out for 0"
            )
            yield Wrong((option,), message, value)
        else:
            for wrong in _wrong_value(library, value):
                yield Wrong((option, *wrong.path), wrong.message, wrong.value)
    for option, parameter in parameters.items():
        if parameter.default is parameter.empty and option not in options:
            yield Wrong((option,), f"{name} needs this option", None)


def make_object(library: str, kind: type, options: Mapping[str, Any]) -> Any:
    """Make an object of a class, with seed 0 where the class has a seed and the options do not."""
    seeds = {each.name: 0 for each in _parameters(kind) if each.name in _SEEDS}
    return kind(**{**seeds, **{option: _made(library, value) for option, value in options.items()}})


def _parameters(kind: type) -> list[inspect.Parameter]:
    return [each for each in inspect.signature(kind).parameters.values() if each.kind in _NAMED]


def _is_object(value: object) -> bool:
    return isinstance(value, Mapping) and "class" in value


def _wrong_value(library: str, value: Any) -> Iterator[Wrong]:
    if isinstance(value, list):
        for index, each in enumerate(value):
            for wrong in _wrong_value(library, each):
                yield Wrong((index, *wrong.path), wrong.message, wrong.value)
    if not _is_object(value):
        return
    name, options = value["class"], value.get("options", {})
    for key in value:
        if key not in ("class", "options"):
            yield Wrong((key,), "unknown key; an object has `class` and `options`", value[key])
    if not isinstance(options, Mapping):
        yield Wrong(("options",), "not a mapping of options", options)
        return
    try:
        kind = find_class(library, str(name))
    except Wrong as unknown:
        yield Wrong(("class",), unknown.message, name)
        return
    for wrong in wrong_options(library, kind, options, str(name)):
        yield Wrong(("options", *wrong.path), wrong.message, wrong.value)


def _made(library: str, value: Any) -> Any:
    if isinstance(value, list):
        return [_made(library, each) for each in value]
    if not _is_object(value):
        return value
    return make_object(library, find_class(library, str(value["class"])), value.get("options", {}))
