"""Addresses of brokers: `host:port`, several with commas between them."""

from __future__ import annotations

import re

__all__ = ["Address", "parse_addresses"]

Address = tuple[str, int]

_ADDRESS = r"([\w.-]+|\[[0-9A-Fa-f:.]+\]):([0-9]{1,5})"


def parse_addresses(bootstrap: str) -> list[Address]:
    """The hosts and ports of `host:port,host:port`; `ValueError` if one of them is not an address.

    >>> parse_addresses("127.0.0.1:9092, [::1]:9093")
    [('127.0.0.1', 9092), ('::1', 9093)]
    """
    found = [re.fullmatch(_ADDRESS, part.strip()) for part in bootstrap.split(",")]
    if not all(one and 0 < int(one[2]) < 65_536 for one in found):
        message = "a broker is HOST:PORT, such as 127.0.0.1:9092; several have commas between them"
        raise ValueError(message)
    return [(one[1].strip("[]"), int(one[2])) for one in found if one]
