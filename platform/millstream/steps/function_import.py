"""A function of the user's, found by its name."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import AfterValidator

from millstream.config.plugins import nearest
from millstream.errors import ConfigError
from millstream.steps.function_calls import shown

__all__ = ["FunctionName", "imported"]


def _function_name(text: str) -> str:
    module, _, name = text.partition(":")
    if not all(part.isidentifier() for part in [*module.split("."), *name.split(".")]):
        message = "a function is written package.module:name"
        raise ValueError(message)
    return text


FunctionName = Annotated[str, AfterValidator(_function_name)]
"""How a config names a function: package.module:name."""


def imported(step: str, function: str) -> Callable[..., Any]:
    """The function of this name, or what keeps the step from having it."""
    where = f"step {step!r}, `function`"
    module_name, _, name = function.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and f"{module_name}.".startswith(f"{error.name}."):
            hint = "install its package, or put its folder on PYTHONPATH"
            raise ConfigError(f"{where}: there is no module {error.name!r}; {hint}") from error
        raise ConfigError(f"{where}: {module_name} cannot be imported: {type(error).__name__}: {error}") from error
    place = module_name
    for part in name.split("."):
        if not hasattr(found, part):
            meant = nearest(part, dir(found))
            hint = f"did you mean {meant!r}?" if meant else "is it spelt as it is defined there?"
            raise ConfigError(f"{where}: {place} has no {part!r}; {hint}")
        found, place = getattr(found, part), f"{place}.{part}"
    if not callable(found):
        raise ConfigError(f"{where}: {function} is no function but {shown(found)}")
    return _staying(found)


def _staying(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, but that an exit that it asks for is an error like any other: it is not its process to end."""

    def call(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except SystemExit as asked:
            message = f"it asked for an exit with {asked.code!r}"
            raise RuntimeError(message) from asked

    return call
