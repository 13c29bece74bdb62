"""The memory that this process may use: that of the machine, or the limit of its container."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

__all__ = ["usable_memory"]


def usable_memory(root: Path = Path("/")) -> int:
    """The bytes of the machine's memory, or of the least limit of a control group of this process, on Linux.

    `root` is the root of the file system. A limit that cannot be read does not count.
    """
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *_limits(root)])


def _limits(root: Path) -> Iterator[int]:
    """The limits of the control groups of this process, of version 2 and of version 1, and of the groups above them."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if controllers == "":
            folder, name = root / "sys/fs/cgroup", "memory.max"
        elif "memory" in controllers.split(","):
            folder, name = root / "sys/fs/cgroup/memory", "memory.limit_in_bytes"
        else:
            continue
        # A container may see its own group as the root, so the root counts although the path names another group.
        path = PurePosixPath(group.lstrip("/"))
        for each in (path, *path.parents):
            yield from _limit(folder / each / name)


def _limit(path: Path) -> Iterator[int]:
    try:
        text = path.read_text().strip()
    except OSError:
        return
    if text.isdecimal():  # version 2 writes `max` for no limit, version 1 a number beyond all memory
        yield int(text)
