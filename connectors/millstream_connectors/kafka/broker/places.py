"""Where a broker is: its folders, by the user's environment, and its ports."""

from __future__ import annotations

import fcntl
import os
import random
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from millstream.errors import MillstreamError

__all__ = ["HOST", "alone", "default_data", "free_port", "jar_folder", "refusal"]

HOST = "127.0.0.1"

# Below every system's own choice of ports: a client that calls a broker that is away would sooner or later be given
# the broker's port as its own, and keep the broker from coming back.
_PORTS = range(20000, 32000)


def default_data(environment: Mapping[str, str] = os.environ) -> Path:
    """Where the broker of a user keeps its data, unless told otherwise.

    >>> str(default_data({"XDG_DATA_HOME": "/home/a/data"}))
    '/home/a/data/millstream/kafka'
    """
    return Path(environment.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "millstream" / "kafka"


def jar_folder(version: str, environment: Mapping[str, str] = os.environ) -> Path:
    """Where Kafka's jars are kept, for all brokers of a user."""
    cache = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "millstream" / f"kafka-{version}"


def refusal(port: int) -> str | None:
    """Why nothing can be made to listen on this port; None if it can."""
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((HOST, port))
        except OSError as error:
            return str(error.strerror)
    return None


def free_port() -> int:
    """A port that nothing listens on."""
    while refusal(port := random.choice(_PORTS)):
        pass
    return port


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Waits until no other process is in such a block for this folder, which is made if it is not there."""
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            handle = os.open(folder, os.O_RDONLY)
        except OSError as error:
            raise MillstreamError(f"the folder {folder} cannot be used: {error.strerror}") from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if os.fstat(handle).st_nlink > 0:  # it may have been removed while we waited
                yield
                return
        finally:
            os.close(handle)
