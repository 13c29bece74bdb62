"""Import of a user's object by its name, `package.module:name`."""

from __future__ import annotations

import importlib
import re
import traceback
from pathlib import Path
from typing import Any

from millstream.errors import ConfigError
from millstream.suggestions import suggestion

__all__ = ["IMPORTED_NAME", "import_name"]

_DOTTED = r"[^\W\d]\w*(\.[^\W\d]\w*)*"
IMPORTED_NAME = rf"^{_DOTTED}:{_DOTTED}$"
"""The form of the name of an object in a module: package.module:name."""


def import_name(text: str) -> Any:
    """Import the object of this name; `ConfigError` with the reason if it cannot be imported.

    >>> import_name("collections:OrderedDict").__name__
    'OrderedDict'
    >>> import_name("collections:OrderdDict")
    Traceback (most recent call last):
    ...
    millstream.errors.ConfigError: collections has no 'OrderdDict'; did you mean `OrderedDict`?
    """
    if not re.fullmatch(IMPORTED_NAME, text):
        message = f"{text!r} is not the name of an object in a module, package.module:name"
        raise ConfigError(message)
    module, _, name = text.partition(":")
    try:
        found: Any = importlib.import_module(module)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            hint = "install its package, run the command in its folder, or put the folder on PYTHONPATH"
            raise ConfigError(f"there is no module {error.name!r}; {hint}") from error
        first = f"{type(error).__name__}: {error}".splitlines()[0]
        message = f"{module} cannot be imported: {first}{_place(error)}"
        raise ConfigError(message) from error
    path = module
    for part in name.split("."):
        if not hasattr(found, part):
            if module == "__main__":
                raise ConfigError(f"this process does not define {part}, unlike the notebook or script that used it")
            meant = suggestion(part, dir(found), f"check the spelling in {module}")
            raise ConfigError(f"{path} has no {part!r}{meant}")
        found, path = getattr(found, part), f"{path}.{part}"
    return found


def _place(error: BaseException) -> str:
    """The file and the line at which a module raised an error: the last ones in the module's own folder."""
    if isinstance(error, SyntaxError):
        return ""  # its text has the file and the line
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if frame.filename not in (__file__, importlib.__file__)]
    theirs = [frame for frame in theirs if not frame.filename.startswith("<frozen ")]
    if not theirs:
        return ""
    folder = Path(theirs[0].filename).parent
    last = [frame for frame in theirs if folder in Path(frame.filename).parents][-1:] or theirs[:1]
    return f", at {last[0].filename}, line {last[0].lineno}"
