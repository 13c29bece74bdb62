"""The memory of a process is that of the machine, or the limit of its container."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from millstream.memory import usable_memory

GIB = 1 << 30
MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
NO_LIMIT = "9223372036854771712\n"


@pytest.mark.parametrize(
    ("groups", "limits", "expected"),
    [
        ("0::/\n", {"memory.max": "268435456\n"}, GIB // 4),
        ("0::/\n", {"memory.max": "max\n"}, MACHINE),
        ("0::/\n", {}, MACHINE),
        ("0::/a/b\n", {"a/b/memory.max": "max\n", "a/memory.max": "268435456\n"}, GIB // 4),
        ("0::/a/b\n", {"a/b/memory.max": "134217728\n", "a/memory.max": "268435456\n"}, GIB // 8),
        ("9:cpu:/\n8:memory:/docker/x\n", {"memory/memory.limit_in_bytes": "268435456\n"}, GIB // 4),
        ("8:memory,hugetlb:/x\n0::/\n", {"memory/x/memory.limit_in_bytes": "268435456\n"}, GIB // 4),
        ("8:memory:/x\n", {"memory/x/memory.limit_in_bytes": NO_LIMIT}, MACHINE),
    ],
)
def test_the_least_limit_of_the_control_groups_counts(
    tmp_path: Path, groups: str, limits: dict[str, str], expected: int
) -> None:
    write(tmp_path / "proc/self/cgroup", groups)
    for name, text in limits.items():
        write(tmp_path / "sys/fs/cgroup" / name, text)
    assert usable_memory(tmp_path) == expected


def test_without_control_groups_the_memory_of_the_machine_counts(tmp_path: Path) -> None:
    assert usable_memory(tmp_path) == MACHINE


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
