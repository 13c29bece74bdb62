"""The path on which Python finds modules: a command also finds those of the current folder, as `python -m` does."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["current_folder_importable"]


@contextmanager
def current_folder_importable() -> Iterator[None]:
    """Add the current folder at the end of the path, for this process; workers get the path of the process.

    At the end, a module of the folder replaces no module of Python or of an installed package. The path stays as it is
    if Python was started in its safe mode (`-P`).
    """
    folder = _current_folder()
    if folder is None or sys.flags.safe_path or folder in sys.path:
        yield
        return
    sys.path.append(folder)
    try:
        yield
    finally:
        if folder in sys.path:
            sys.path.remove(folder)


def _current_folder() -> str | None:
    try:
        return os.getcwd()
    except OSError:  # it was deleted
        return None
