"""Where brokers and topics are, as configs say it."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from millstream_connectors.kafka.connection import addresses

__all__ = ["Bootstrap", "TopicName"]


def _checked(bootstrap: str) -> str:
    addresses(bootstrap)
    return bootstrap


Bootstrap = Annotated[str, AfterValidator(_checked)]
"""`host:port`, several with commas between them."""

TopicName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")]
