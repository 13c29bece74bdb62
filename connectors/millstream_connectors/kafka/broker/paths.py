"""The default folders of brokers, by the user's environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

__all__ = ["default_data", "jar_folder"]


def default_data(environment: Mapping[str, str] = os.environ) -> Path:
    """The data folder of a user's broker, unless another one is given.

    >>> str(default_data({"XDG_DATA_HOME": "/home/a/data"}))
    '/home/a/data/millstream/kafka'
    """
    return Path(environment.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "millstream" / "kafka"


def jar_folder(version: str, environment: Mapping[str, str] = os.environ) -> Path:
    """The folder of Kafka's jars, for all brokers of a user."""
    cache = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "millstream" / f"kafka-{version}"
