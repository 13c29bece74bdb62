"""Which files a path of a config means: one file, all in a directory, or those that match a pattern."""

from __future__ import annotations

import difflib
import glob
from collections.abc import Iterable
from pathlib import Path

from millstream.errors import ConfigError

__all__ = ["find"]

_ENDINGS = (".jsonl", ".ndjson", ".json", ".parquet")


def find(base: Path, path: str) -> tuple[Path, list[str]]:
    """The folder that names are relative to, and the names, in order; `ConfigError` if there is no such file.

    Of a directory it takes `.jsonl`, `.ndjson` and `.json` (all of them JSON Lines), these as `.gz`, and `.parquet`,
    at any depth. What begins with a dot or an underscore is left out, as Spark does.
    """
    full = base / Path(path).expanduser()
    if full.is_file():
        return full.parent, [full.name]
    if full.is_dir():
        names = [name for name in _shown(full, full.rglob("*")) if name.removesuffix(".gz").endswith(_ENDINGS)]
        if not names:
            message = f"{full} holds no file to read: none ends in {', '.join(_ENDINGS)}, or in these and .gz"
            raise ConfigError(message)
        return full, names
    first = next((place for place, part in enumerate(full.parts) if glob.has_magic(part)), None)
    if first is None:
        message = f"there is no {full}{_hint(full)}"
        raise ConfigError(message)
    folder, pattern = Path(*full.parts[:first]), str(Path(*full.parts[first:]))
    names = _shown(folder, folder.glob(pattern)) if folder.is_dir() else []
    if not names:
        hint = f"; {folder} holds {len(list(folder.iterdir()))} entries" if folder.is_dir() else _hint(folder)
        message = f"no file matches {full}{hint}"
        raise ConfigError(message)
    return folder, names


def _shown(folder: Path, found: Iterable[Path]) -> list[str]:
    names = [(file, file.relative_to(folder)) for file in found]
    return sorted(
        name.as_posix()
        for file, name in names
        if not any(part.startswith((".", "_")) for part in name.parts) and file.is_file()
    )


def _hint(missing: Path) -> str:
    """Where a path goes wrong, and what somebody who wrote it probably meant."""
    wrong = missing
    while not wrong.parent.is_dir():
        wrong = wrong.parent
    where = "" if wrong == missing else f": {wrong} is missing"
    close = difflib.get_close_matches(wrong.name, [entry.name for entry in wrong.parent.iterdir()], n=1, cutoff=0.5)
    return f"{where}; did you mean {wrong.parent / close[0]}?" if close else where
