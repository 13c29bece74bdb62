"""The files that a path of a config names: one file, all in a directory, or those that match a pattern."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable
from pathlib import Path

from millstream.errors import ConfigError
from millstream.suggestions import suggestion

__all__ = ["find"]

_LINES = (".jsonl", ".ndjson", ".json")
_ENDINGS = (*_LINES, *(f"{ending}.gz" for ending in _LINES), ".parquet")
_READ = f"none ends in {', '.join(_LINES)} (JSON Lines), these and .gz, or .parquet"


def find(config_folder: Path, path: str) -> tuple[Path, list[str]]:
    """The folder that names are relative to, and the names, in order; `ConfigError` if there is no such file.

    In a directory, at any depth, and among the matches of a pattern, the files that end in `.jsonl`, `.ndjson` and
    `.json` (all are JSON Lines), in these and `.gz`, and in `.parquet` are taken. Names that begin with a dot or an
    underscore are left out, as by Spark.
    """
    full = config_folder / Path(path).expanduser()
    shown = Path(os.path.normpath(full))
    if full.is_file():
        if not full.name.endswith(_ENDINGS):
            message = (
                f"{shown} is no file that can be read: it ends in none of {', '.join(_LINES)} (JSON Lines), "
                "these and .gz, or .parquet; convert it, or rename it if that is what it holds"
            )
            raise ConfigError(message)
        return full.parent, [full.name]
    if full.is_dir():
        names = _readable(full, full.rglob("*"))
        if not names:
            message = f"{shown} holds no file to read: {_READ}"
            raise ConfigError(message)
        return full, names
    first = next((index for index, part in enumerate(full.parts) if glob.has_magic(part)), None)
    if first is None:
        message = f"there is no {shown}{_hint(shown)}"
        raise ConfigError(message)
    folder, pattern = Path(*full.parts[:first]), str(Path(*full.parts[first:]))
    names = _readable(folder, folder.glob(pattern)) if folder.is_dir() else []
    if not names:
        if any(match.is_file() for match in folder.glob(pattern)):
            hint = f" and can be read: {_READ}"
        elif folder.is_dir():
            hint = f"; {os.path.normpath(folder)} holds {len(list(folder.iterdir()))} entries"
        else:
            hint = _hint(Path(os.path.normpath(folder)))
        message = f"no file matches {shown}{hint}"
        raise ConfigError(message)
    return folder, names


def _readable(folder: Path, found: Iterable[Path]) -> list[str]:
    names = [(file, file.relative_to(folder)) for file in found]
    return sorted(
        name.as_posix()
        for file, name in names
        if not any(part.startswith((".", "_")) for part in name.parts)
        and name.name.endswith(_ENDINGS)
        and file.is_file()
    )


def _hint(missing: Path) -> str:
    """The first part of a path that does not exist, and a suggestion of a similar name that does."""
    wrong = missing
    while not wrong.parent.is_dir():
        wrong = wrong.parent
    location = "" if wrong == missing else f": {wrong} is missing"
    names = [entry.name for entry in wrong.parent.iterdir()]
    return f"{location}{suggestion(wrong.name, names, shown=wrong.with_name)}"
