"""The former name of support.topics."""

from __future__ import annotations

from support.topics import create_topic, produce_documents, seen

__all__ = ["create_topic", "produce_documents", "seen"]
