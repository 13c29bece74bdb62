"""Sources as tests write them."""

from __future__ import annotations

from typing import Any

from millstream_connectors.kafka.source import KafkaSource

__all__ = ["source"]


def source(**options: Any) -> KafkaSource:
    """`from` is written `begin` here, because Python keeps that word."""
    options = {"bootstrap": "127.0.0.1:1", **options}
    return KafkaSource.model_validate({"from" if key == "begin" else key: options[key] for key in options})
