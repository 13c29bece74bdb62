"""Import of a user's function by its name, `package.module:name`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import AfterValidator

from millstream.config.imported_names import IMPORTED_NAME, import_name
from millstream.errors import ConfigError
from millstream.steps.function_calls import describe_value

__all__ = ["FunctionName", "import_function"]


def _function_name(text: str) -> str:
    if not re.fullmatch(IMPORTED_NAME, text):
        message = "a function is written package.module:name"
        raise ValueError(message)
    return text


FunctionName = Annotated[str, AfterValidator(_function_name)]
"""The name of a function in a config: package.module:name."""


def import_function(step: str, function: str, option: str = "function") -> Callable[..., Any]:
    """Import the function of this name, or raise `ConfigError` with the reason why the step cannot use it.

    `option` is the option of the step that names the function.
    """
    where = f"step {step!r}, `{option}`"
    try:
        found = import_name(function)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error
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
