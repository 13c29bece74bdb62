"""The types of the options that the source and the sink share."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from millstream_connectors.kafka.client.addresses import parse_addresses

__all__ = ["FAIL_FAST_SECONDS", "Bootstrap", "TopicName"]

FAIL_FAST_SECONDS = 2.0
"""The timeout of read-only commands that wait for an answer, such as `millstream status`, whatever the config says."""


def _check(bootstrap: str) -> str:
    parse_addresses(bootstrap)
    return bootstrap


Bootstrap = Annotated[str, AfterValidator(_check)]
"""`host:port`, several with commas between them."""

TopicName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")]
