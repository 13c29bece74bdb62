"""A broker's data folder: what makes it one, and the process that was last seen at work in it."""

from __future__ import annotations

import base64
import json
import shutil
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path

from millstream.errors import MillstreamError
from millstream_connectors.kafka.broker.process import Running
from millstream_connectors.kafka.broker.settings import PARTITIONS

__all__ = [
    "OUTPUT",
    "SETTINGS",
    "Cluster",
    "claim",
    "clear",
    "forget",
    "formatted",
    "known",
    "ours",
    "refuse_foreign",
    "remember",
]

SETTINGS = "server.properties"
OUTPUT = "broker.log"
_OURS = "broker.json"
_PROCESS = "process.json"


@dataclass(frozen=True)
class Cluster:
    """Whose data a folder holds, or is to hold as long as it is not `formatted`."""

    id: str
    formatted: bool


def ours(data: Path) -> bool:
    """Whether a broker of ours has been started in this folder."""
    return (data / _OURS).is_file()


def refuse_foreign(data: Path) -> None:
    """A folder that holds anything but a broker's data is nothing to put it into, or to delete."""
    if not data.exists() or ours(data):
        return
    if not data.is_dir() or any(data.iterdir()):
        raise MillstreamError(f"{data} holds something else than the data of a broker of ours: choose another folder")


def claim(data: Path) -> Cluster:
    """The cluster of this folder; a new one if it is empty."""
    refuse_foreign(data)
    if ours(data):
        return Cluster(**json.loads((data / _OURS).read_text()))
    new = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    return _write(data, Cluster(new, formatted=False))


def formatted(data: Path, cluster: Cluster) -> None:
    """Note that the folder has been made ready for the broker, and so holds data from now on."""
    _write(data, Cluster(cluster.id, formatted=True))


def _write(data: Path, cluster: Cluster) -> Cluster:
    _write_whole(data / _OURS, cluster)
    return cluster


def known(data: Path) -> Running | None:
    """The process that was started for this folder and was not stopped; whether it lives is another question."""
    if not ours(data):
        return None
    try:
        return Running(**json.loads((data / _PROCESS).read_text()))
    except FileNotFoundError:
        return None


def remember(data: Path, running: Running) -> None:
    _write_whole(data / _PROCESS, running)


def forget(data: Path) -> None:
    (data / _PROCESS).unlink(missing_ok=True)


def clear(data: Path) -> None:
    """Delete what is the broker's, and the folder if nothing else is in it."""
    shutil.rmtree(data / PARTITIONS, ignore_errors=True)
    # What says that the rest is ours goes last, so that whoever is interrupted here can do it again.
    for name in (_PROCESS, SETTINGS, OUTPUT, _OURS):
        (data / name).unlink(missing_ok=True)
    if not any(data.iterdir()):
        data.rmdir()


def _write_whole(path: Path, value: Cluster | Running) -> None:
    # brings with it what `millstream --help` need not wait for
    from millstream.log.journal.durability import write_whole

    write_whole(path, json.dumps(asdict(value)))
