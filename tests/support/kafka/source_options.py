"""Kafka sources for tests."""

from __future__ import annotations

from typing import Any

from millstream_connectors.kafka.source import KafkaSource

__all__ = ["source"]


def source(**options: Any) -> KafkaSource:
    """A source with these options; the option `from`, a keyword of Python, is `start` here."""
    options = {"bootstrap": "127.0.0.1:1", **options}
    return KafkaSource.model_validate({"from" if key == "start" else key: options[key] for key in options})
