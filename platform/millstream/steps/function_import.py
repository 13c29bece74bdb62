"""Import of a user's function by its name, `package.module:name`."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import AfterValidator

from millstream.errors import ConfigError
from millstream.steps.function_calls import describe_value
from millstream.suggestions import suggestion

__all__ = ["FunctionName", "import_function"]


def _function_name(text: str) -> str:
    module, _, name = text.partition(":")
    if not all(part.isidentifier() for part in [*module.split("."), *name.split(".")]):
        message = "a function is written package.module:name"
        raise ValueError(message)
    return text


FunctionName = Annotated[str, AfterValidator(_function_name)]
"""The name of a function in a config: package.module:name."""


def import_function(step: str, function: str) -> Callable[..., Any]:
    """Import the function of this name, or raise `ConfigError` with the reason why the step cannot use it."""
    where = f"step {step!r}, `function`"
    module_name, _, name = function.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and f"{module_name}.".startswith(f"{error.name}."):
            hint = "install its package, run the command in its folder, or put the folder on PYTHONPATH"
            raise ConfigError(f"{where}: there is no module {error.name!r}; {hint}") from error
        raise ConfigError(f"{where}: {module_name} cannot be imported: {type(error).__name__}: {error}") from error
    path = module_name
    for part in name.split("."):
        if not hasattr(found, part):
            meant = suggestion(part, dir(found), f"check the spelling in {module_name}")
            raise ConfigError(f"{where}: {path} has no {part!r}{meant}")
        found, path = getattr(found, part), f"{path}.{part}"
    if not callable(found):
        raise ConfigError(f"{where}: {function} is not a function but {describe_value(found)}")
    return _without_exit(found)


def _without_exit(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the function so that `sys.exit()` in it is an ordinary error: a function must not end the run's process."""

    def call(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except SystemExit as asked:
            message = f"it asked for an exit with {asked.code!r}"
            raise RuntimeError(message) from asked

    return call
