"""The checks of the disk that holds run directories, and of the clock."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from millstream.cli.finding import Finding
from millstream.log.journal.durability import sync_file

__all__ = ["check_clock", "check_disk"]

_LEAST_BYTES = 10**9
_LONGEST_SYNC = 0.1
_LARGEST_SKEW = 2.0
_SYNCS = 9
_DAY = 86_400


def _sync_seconds(folder: Path) -> float:
    """Return the median time of a write of 4 KiB and its sync."""
    seconds = []
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(_SYNCS):
            began = time.perf_counter()
            file.write(b"." * 4096)
            file.flush()
            sync_file(file.fileno())
            seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def check_disk(
    folder: Path,
    free_bytes: Callable[[Path], int] = lambda folder: shutil.disk_usage(folder).free,
    sync_seconds: Callable[[Path], float] = _sync_seconds,
) -> Iterator[Finding]:
    """Check the room in the folder of run directories, and the time of a sync: an epoch waits for several of them."""
    elsewhere = "give --run a folder on another disk"
    try:
        free, sync = free_bytes(folder), sync_seconds(folder)
    except OSError as error:
        yield Finding("disk", "problem", f"{folder} cannot be written: {error.strerror}", elsewhere)
        return
    room, speed = f"{free / 1e9:,.1f} GB are free in {folder}", f"a sync takes {sync * 1000:.1f} ms"
    if free < _LEAST_BYTES:
        yield Finding("disk", "problem", room, f"make room, or {elsewhere}")
    if sync > _LONGEST_SYNC:
        yield Finding("disk", "problem", speed, f"use a local disk: {elsewhere}")
    if free >= _LEAST_BYTES and sync <= _LONGEST_SYNC:
        yield Finding("disk", "ok", f"{room}; {speed}")


def check_clock(folder: Path, now: Callable[[], float] = time.time) -> Iterator[Finding]:
    """Check the clock against the times of files: those of Millstream's own code, and that of a new file."""
    shown = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now()))
    fix = "set the clock, and let a time service keep it right (NTP)"
    if now() < Path(__file__).stat().st_mtime - _DAY:
        yield Finding("clock", "problem", f"the clock shows {shown}, and Millstream was installed later", fix)
        return
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b".")
            file.flush()
            skew = abs(os.fstat(file.fileno()).st_mtime - now())
    except OSError:
        return  # `check_disk` reports it
    if skew > _LARGEST_SKEW:
        text = f"the clock and that of the disk of {folder} differ by {skew:,.0f} s"
        yield Finding("clock", "problem", text, fix)
    else:
        yield Finding("clock", "ok", shown)
