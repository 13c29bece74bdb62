"""Errors of the client as Millstream's errors."""

from __future__ import annotations

import pytest

from millstream.errors import AlteredLog, InUse, MillstreamError, Truncated, Unavailable
from millstream_connectors.kafka.client import errors as client
from millstream_connectors.kafka.client.errors import KafkaClientError
from millstream_connectors.kafka.errors import millstream_errors

ERRORS: list[tuple[KafkaClientError, type[MillstreamError], str]] = [
    (client.KafkaClientError("it failed"), MillstreamError, "it failed"),
    (client.RequestRefused("not allowed"), MillstreamError, "not allowed"),
    (client.RetryTimeout("gave up"), Unavailable, "gave up"),
    (
        client.RetryTimeout("gave up", unreachable=True),
        Unavailable,
        "gave up; check the address, and that the broker is up; `millstream kafka up` starts one on this machine",
    ),
    (client.RetryStopped("stopped"), MillstreamError, "stopped"),
    (client.InvalidSecurity("security.ca_file: no"), MillstreamError, "security.ca_file: no"),
    (client.InvalidData(7, "its checksum is wrong"), MillstreamError, "its checksum is wrong"),
    (client.TopicAltered("altered"), AlteredLog, "altered"),
    (
        client.TopicRecreated("news"),
        AlteredLog,
        "topic news was deleted and created again while it was read; start over with --fresh",
    ),
    (client.MessagesLost("news/0 has lost messages"), AlteredLog, "news/0 has lost messages"),
    (
        client.OffsetRemoved("news/0", 3, 1000),
        Truncated,
        "news/0: offset 3 is requested, and the brokers have removed all before 1,000; "
        "start over with --fresh, or continue without the removed messages with `on_truncated: earliest`",
    ),
    (
        client.MessageTooLarge(0, 2, 3000),
        MillstreamError,
        "message 2 for partition 0 takes 3,000 bytes, more than the topic allows",
    ),
    (client.Fenced(), InUse, "another run writes with the same transactional id"),
]


@pytest.mark.parametrize(("error", "kind", "message"), ERRORS, ids=lambda value: type(value).__name__)
def test_each_error_has_a_kind_of_millstream_and_advice(
    error: KafkaClientError, kind: type[MillstreamError], message: str
) -> None:
    with pytest.raises(MillstreamError) as raised, millstream_errors():
        raise error
    assert (type(raised.value), str(raised.value)) == (kind, message)
    assert raised.value.__cause__ is error


def test_every_error_of_the_client_is_translated_here() -> None:
    assert {type(error).__name__ for error, _, _ in ERRORS} == {*client.__all__}


def test_other_errors_stay() -> None:
    with pytest.raises(KeyError), millstream_errors():
        raise KeyError
