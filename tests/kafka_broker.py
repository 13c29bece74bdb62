"""The former name of support.brokers."""

from __future__ import annotations

from support.brokers import OwnBroker, SharedBroker

__all__ = ["OwnBroker", "SharedBroker"]
