"""TCP ports of this machine for brokers."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

__all__ = ["HOST", "free_port", "refusal"]

HOST = "127.0.0.1"

_PORTS = range(20000, 32000)
"""Below the ports that systems choose for clients: a client that retries to connect to a stopped broker would sooner or
later get the broker's own port for itself, and prevent the broker's return."""

_reserved: list[int] = []
"""Open files whose locks reserve ports as long as this process lives."""


def refusal(port: int) -> str | None:
    """The reason why no server can listen on this port; None if one can."""
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((HOST, port))
        except OSError as error:
            return str(error.strerror)
    return None


def free_port() -> int:
    """A port without a server; no other call returns it while this process lives, in this process or another.

    >>> len({free_port() for _ in range(20)})
    20
    """
    while not _reserve(port := random.choice(_PORTS)) or refusal(port):
        pass
    return port


def _reserve(port: int) -> bool:
    """Lock a file for this port, among those of this user; false if another call has locked it."""
    folder = Path(tempfile.gettempdir()) / f"millstream-ports-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    handle = os.open(folder / str(port), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return False
    _reserved.append(handle)
    return True
