"""Messages between the processes of a run arrive whole and in order, and their sender never waits."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

from millstream.engines.local.channel import Channel, Closed


@pytest.fixture
def ends() -> Iterator[tuple[Channel, Channel]]:
    here, there = map(Channel, socket.socketpair())
    yield here, there
    here.close()
    there.close()


def test_messages_larger_than_the_sockets_buffer_go_both_ways_at_once(ends: tuple[Channel, Channel]) -> None:
    here, there = ends
    big = pa.table({"text": ["x" * 1000] * 5000})
    for end in ends:
        end.send(("first", big))  # no side reads yet, and no sender waits
        end.send("second")
    got: dict[Channel, list[object]] = {here: [], there: []}
    while len(got[here]) < 2 or len(got[there]) < 2:
        for end in ends:
            got[end] += end.receive()
    assert got[here] == got[there] == [("first", big), "second"]


def test_a_large_message_arrives_while_its_sender_is_busy(ends: tuple[Channel, Channel]) -> None:
    here, there = ends
    here.send("x" * 10_000_000)
    while not (arrived := there.receive()):  # the sender makes no call
        pass
    assert len(arrived[0]) == 10_000_000


def test_a_channel_can_be_closed_while_a_message_is_on_its_way(ends: tuple[Channel, Channel]) -> None:
    here, _ = ends
    here.send("x" * 10_000_000)
    here.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "millstream-channel"]


def test_a_message_is_received_only_when_it_is_whole() -> None:
    sender, receiver = socket.socketpair()
    whole = bytearray()
    there, back = socket.socketpair()
    Channel(there).send({"a": 1})
    whole += back.recv(1 << 16)
    channel = Channel(receiver)
    for index in range(len(whole)):
        sender.send(whole[index : index + 1])
        assert channel.receive() == ([{"a": 1}] if index == len(whole) - 1 else [])
    for end in (sender, there, back):
        end.close()


def test_a_message_that_was_sent_before_the_other_side_closed_arrives(ends: tuple[Channel, Channel]) -> None:
    here, there = ends
    there.send("last words")
    there.close()
    assert here.receive() == ["last words"]
    with pytest.raises(Closed):
        here.receive()
    with pytest.raises(Closed):
        here.send("hello?")


def test_a_slice_is_sent_without_the_rows_around_the_slice(ends: tuple[Channel, Channel]) -> None:
    here, there = ends
    table = pa.table({"text": ["x" * 100_000, "y"]})
    here.send(table.slice(1))
    assert there.receive() == [pa.table({"text": ["y"]})]
