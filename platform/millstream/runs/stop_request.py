"""A request from another process that a run ends after its epoch: SIGTERM to the process that holds its directory."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from millstream.errors import MillstreamError
from millstream.runs.directory import RunDirectory

__all__ = ["has_ended", "request_stop"]

_TRIES, _WAIT = 20, 0.05
"""A process that has just locked a directory has not written its id yet."""


def request_stop(directory: RunDirectory, processes: Path = Path("/proc")) -> int | None:
    """Send SIGTERM to the process that runs in a directory and return its id; None if no process does.

    The process in the lock file gets the signal only if it has written there that SIGTERM ends its run, and if it has
    this file open, as far as `processes` can show it.
    """
    for _ in range(_TRIES):
        if not directory.in_use:
            return None
        process = directory.holder
        if process is not None and _stop(process, directory, processes):
            return process
        time.sleep(_WAIT)
    message = (
        f"a process holds {directory.path}, and it is not process {process}, which the file lock names: "
        "stop the run in the terminal or on the machine where it was started"
    )
    raise MillstreamError(message)


def has_ended(directory: RunDirectory, process: int) -> bool:
    """Return True if this process no longer holds the directory."""
    return not directory.in_use or directory.holder != process


def _stop(process: int, directory: RunDirectory, processes: Path) -> bool:
    """Send SIGTERM to a process; False if it does not hold the directory."""
    try:
        with _handle(process) as handle:
            if not _has_open(process, directory.path / "lock", processes):
                return False
            if not directory.ends_on_signal:
                message = (
                    f"process {process}, which holds {directory.path}, is a program that does not end its run on "
                    "SIGTERM: stop the run in the program that started it"
                )
                raise MillstreamError(message)
            if handle is None:
                os.kill(process, signal.SIGTERM)
            else:
                signal.pidfd_send_signal(handle, signal.SIGTERM)
    except (ProcessLookupError, FileNotFoundError):
        return False
    except PermissionError:
        message = f"process {process}, which holds {directory.path}, belongs to another user, who can stop it"
        raise MillstreamError(message) from None
    return True


@contextmanager
def _handle(process: int) -> Iterator[int | None]:
    """Yield a descriptor that stays with this process, even if its id is used again; None if there is no such thing."""
    handle = None
    with suppress(AttributeError, NotImplementedError):  # only Linux has it
        try:
            handle = os.pidfd_open(process)
        except ProcessLookupError:
            raise
        except OSError:  # an older kernel
            handle = None
    try:
        yield handle
    finally:
        if handle is not None:
            os.close(handle)


def _has_open(process: int, file: Path, processes: Path) -> bool:
    if not (processes / "self").exists():
        return True  # without /proc, the id in the lock file counts
    for descriptor in (processes / str(process) / "fd").iterdir():
        with suppress(OSError):  # the descriptor was closed meanwhile
            if os.path.samestat(descriptor.stat(), file.stat()):
                return True
    return False
