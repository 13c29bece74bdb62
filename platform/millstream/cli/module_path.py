"""The path on which Python finds modules: a command also finds those of the current folder, as `python -m` does."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["current_folder_importable"]

_VARIABLE = "PYTHONPATH"


@contextmanager
def current_folder_importable() -> Iterator[None]:
    """Add the current folder at the end of the path, for this process and for those that it starts meanwhile.

    At the end, a module of the folder replaces no module of Python or of an installed package in this process. The path
    stays as it is if Python was started in its safe mode (`-P`).
    """
    folder = _current_folder()
    if folder is None or sys.flags.safe_path:
        yield
        return
    path, inherited = list(sys.path), os.environ.get(_VARIABLE)
    entries = inherited.split(os.pathsep) if inherited else []
    if folder not in path:
        sys.path.append(folder)
    if folder not in entries and os.pathsep not in folder:
        os.environ[_VARIABLE] = os.pathsep.join([*entries, folder])
    try:
        yield
    finally:
        if folder not in path and folder in sys.path:
            sys.path.remove(folder)
        if inherited is None:
            os.environ.pop(_VARIABLE, None)
        else:
            os.environ[_VARIABLE] = inherited


def _current_folder() -> str | None:
    try:
        return os.getcwd()
    except OSError:  # it was deleted
        return None
