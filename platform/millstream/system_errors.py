"""Errors of the operating system that are no defect, such as a full disk, as errors with a remedy."""

from __future__ import annotations

import errno
from collections.abc import Mapping

from millstream.errors import DISK_FULL, MillstreamError, Unavailable

__all__ = ["system_error"]

_REMEDIES: Mapping[int | None, str] = {
    errno.ENOSPC: "make room",
    errno.EDQUOT: "make room",
    errno.EFBIG: "allow larger files (ulimit -f)",
    errno.EROFS: "choose a folder that you can write to",
    errno.EACCES: "choose a folder that you may read and write",
    errno.EPERM: "choose a folder that you may read and write",
    errno.EMFILE: "allow more open files (ulimit -n)",
}
"""The remedy for each error of the operating system that is no defect."""


def system_error(error: OSError) -> MillstreamError | None:
    """Return the error to report in place of an error of the operating system; None for an error that is a defect.

    >>> system_error(OSError(errno.ENOSPC, "No space left on device", "runs/demo/epochs"))
    Unavailable('runs/demo/epochs: No space left on device; make room, and run the same command again')
    """
    if error.errno not in _REMEDIES:
        return None
    message = f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error)
    kind = Unavailable if error.errno in DISK_FULL else MillstreamError
    return kind(f"{message}; {_REMEDIES[error.errno]}, and run the same command again")
