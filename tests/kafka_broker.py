"""What tests know of the broker that they share."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass

from millstream_connectors.kafka.broker import Broker

__all__ = ["OwnBroker", "SharedBroker"]

OwnBroker = Callable[..., Broker]
"""Starts a broker of the test's own; keywords are the node's settings, as a mapping `settings`."""


@dataclass(frozen=True)
class SharedBroker:
    """A broker that is up, and used by other tests too."""

    bootstrap: str

    def topic(self, prefix: str = "topic") -> str:
        """A name that no other test uses; the topic is not made."""
        return f"{prefix}-{uuid.uuid4().hex[:12]}"
