"""A broker's data folder: the files that identify it, its cluster, and its last known process."""

from __future__ import annotations

import base64
import json
import shutil
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path

from millstream.errors import MillstreamError
from millstream_connectors.kafka.broker.process import BrokerProcess
from millstream_connectors.kafka.broker.settings import PARTITIONS

__all__ = [
    "OUTPUT",
    "SETTINGS",
    "ClusterIdentity",
    "claim",
    "delete",
    "forget_process",
    "known_process",
    "owned",
    "record_formatted",
    "record_process",
    "refuse_foreign",
]

SETTINGS = "server.properties"
OUTPUT = "broker.log"
_IDENTITY = "broker.json"
_PROCESS = "process.json"


@dataclass(frozen=True)
class ClusterIdentity:
    """The cluster of a data folder; it has no data before the folder is `formatted`."""

    id: str
    formatted: bool


def owned(data: Path) -> bool:
    """True if Millstream has started a broker in this folder."""
    return (data / _IDENTITY).is_file()


def refuse_foreign(data: Path) -> None:
    """Refuse to write into, or to delete, a folder with anything but a broker's data."""
    if not data.exists() or owned(data):
        return
    if not data.is_dir() or any(data.iterdir()):
        raise MillstreamError(f"{data} does not hold the data of a Millstream broker: choose another folder")


def claim(data: Path) -> ClusterIdentity:
    """The cluster of this folder; a new cluster if the folder is empty."""
    refuse_foreign(data)
    if owned(data):
        return ClusterIdentity(**json.loads((data / _IDENTITY).read_text()))
    new = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    return _write(data, ClusterIdentity(new, formatted=False))


def record_formatted(data: Path, cluster: ClusterIdentity) -> None:
    """Record that the folder is formatted, and so may contain data."""
    _write(data, ClusterIdentity(cluster.id, formatted=True))


def _write(data: Path, cluster: ClusterIdentity) -> ClusterIdentity:
    _write_whole(data / _IDENTITY, cluster)
    return cluster


def known_process(data: Path) -> BrokerProcess | None:
    """The process that was started for this folder and was not stopped; it may have ended by itself."""
    if not owned(data):
        return None
    try:
        return BrokerProcess(**json.loads((data / _PROCESS).read_text()))
    except FileNotFoundError:
        return None


def record_process(data: Path, running: BrokerProcess) -> None:
    _write_whole(data / _PROCESS, running)


def forget_process(data: Path) -> None:
    (data / _PROCESS).unlink(missing_ok=True)


def delete(data: Path) -> None:
    """Delete the broker's files, and the folder if it has no others."""
    shutil.rmtree(data / PARTITIONS, ignore_errors=True)
    # The file that identifies the folder is deleted last, so that an interrupted deletion can be repeated.
    for name in (_PROCESS, SETTINGS, OUTPUT, _IDENTITY):
        (data / name).unlink(missing_ok=True)
    if not any(data.iterdir()):
        data.rmdir()


def _write_whole(path: Path, value: ClusterIdentity | BrokerProcess) -> None:
    from millstream.log.journal.durability import write_whole  # imports modules that `millstream --help` does not need

    write_whole(path, json.dumps(asdict(value)))
