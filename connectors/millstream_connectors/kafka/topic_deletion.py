"""The deletion of an output's rows and progress, for `--fresh`; refused if the topic has messages of others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NoReturn

from millstream.errors import ForeignSink, MillstreamError
from millstream_connectors.kafka.client.batches import Records
from millstream_connectors.kafka.client.cluster import Cluster, Isolation, Pair
from millstream_connectors.kafka.client.fetcher import Fetcher
from millstream_connectors.kafka.client.transactions import Transactions
from millstream_connectors.kafka.output_topic import OutputTopic
from millstream_connectors.kafka.progress import HEADER, Signature

__all__ = ["check_deletion", "delete_output"]


def check_deletion(output: OutputTopic) -> None:
    """Refuse what `delete_output` would refuse, without disturbing any writer.

    Messages that an open transaction hides are read too: a transaction of this output may stay open.
    """
    topic = output.topic()
    if topic is None:
        return
    cluster, signature = output.cluster, output.signature
    transaction = output.coordinators.wait_until_complete(signature.id)
    pairs = topic.pairs
    begins, written = cluster.beginnings(pairs), cluster.ends(pairs, "read_uncommitted")
    own_is_open = transaction is not None and transaction.open
    ends = cluster.ends(pairs, "read_committed") if own_is_open else output.progress.closed_ends(pairs)

    def messages() -> Iterator[tuple[Pair, Records]]:
        yield from _read(cluster, "read_committed", begins, ends)
        yield from _read(cluster, "read_uncommitted", ends, written)

    if _has_own_rows(messages(), signature, output.location) and not cluster.deletes_messages(topic.name):
        _refuse_compacted(output.location)


def delete_output(output: OutputTopic) -> None:
    """Delete all messages of the topic and the group's offsets, after fencing the previous writer.

    The group is deleted last: its progress allows another attempt if this one is interrupted.
    """
    topic = output.topic()
    if topic is None:
        return
    cluster, signature = output.cluster, output.signature
    if output.coordinators.wait_until_complete(signature.id) is not None:
        Transactions(cluster, output.coordinators, name=signature.id, group=signature.id, topic=topic.name).fence()
    pairs = topic.pairs
    begins, ends = cluster.beginnings(pairs), output.progress.closed_ends(pairs)
    messages = _read(cluster, "read_committed", begins, ends)
    # Only the messages that were read are deleted, and no later ones.
    if _has_own_rows(messages, signature, output.location) and not cluster.delete_messages(ends):
        _refuse_compacted(output.location)
    output.coordinators.delete_group(signature.id)


def _read(
    cluster: Cluster, isolation: Isolation, begins: Mapping[Pair, int], ends: Mapping[Pair, int]
) -> Iterator[tuple[Pair, Records]]:
    fetcher = Fetcher(cluster, isolation, skip_removed=True)
    for pair, end in ends.items():
        for records in fetcher.read(pair, begins[pair], end):
            yield pair, records


def _has_own_rows(messages: Iterator[tuple[Pair, Records]], signature: Signature, location: str) -> bool:
    """True if there are rows of this output; `ForeignSink` if there are other messages too."""
    found = False
    foreign: tuple[Pair, int] | None = None
    for pair, records in messages:
        own = signature.matches(records.headers(HEADER.encode()))
        found = found or any(own)
        if foreign is None and not all(own):
            foreign = (pair, int(records.offsets[own.index(False)]))
        if found and foreign is not None:
            _refuse_foreign(location, *foreign)
    return found


def _refuse_foreign(location: str, pair: Pair, offset: int) -> NoReturn:
    message = (
        f"{location} holds messages that this pipeline has not written for this output, such as offset {offset:,} of "
        f"partition {pair[1]}; --fresh deletes no messages of others, so give the output a topic of its own"
    )
    raise ForeignSink(message)


def _refuse_compacted(location: str) -> NoReturn:
    message = (
        f"{location} is a compacted topic, from which the brokers delete no messages: "
        "delete the topic itself, or give the output another topic"
    )
    raise MillstreamError(message)
