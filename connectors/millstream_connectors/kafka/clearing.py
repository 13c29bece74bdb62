"""Starting over in a topic: the rows and the mark of one output go, unless others use the topic too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NoReturn

from kafka import errors as kafka_errors
from kafka.protocol.admin import DeleteGroupsRequest, DeleteRecordsRequest, DescribeConfigsRequest

from millstream.errors import ForeignSink, MillstreamError
from millstream_connectors.kafka.access import Access
from millstream_connectors.kafka.batches import Records
from millstream_connectors.kafka.cluster import Cluster, Isolation, Pair
from millstream_connectors.kafka.connection import checked
from millstream_connectors.kafka.coordinators import Coordinators
from millstream_connectors.kafka.fetching import Fetcher
from millstream_connectors.kafka.marks import HEADER, Signature
from millstream_connectors.kafka.network import Broker
from millstream_connectors.kafka.transactions import Transactions

__all__ = ["check", "clear"]

_WAIT_MILLIS = 30_000
_TOPIC = 2
"""The kind of thing whose settings are asked for."""


def check(access: Access) -> None:
    """Refuse what `clear` would refuse, disturbing nobody.

    What an open transaction hides is looked at too: if it may be ours, there is no waiting for its end.
    """
    topic = access.topic()
    if topic is None:
        return
    cluster, signature = access.cluster, access.signature
    standing = access.coordinators.settle(signature.id)
    pairs = topic.pairs
    begins, written = cluster.beginnings(pairs), cluster.ends(pairs, "read_uncommitted")
    ours_is_open = standing is not None and standing.open
    ends = cluster.ends(pairs, "read_committed") if ours_is_open else access.marks.closed_ends(pairs)

    def everything() -> Iterator[tuple[Pair, Records]]:
        yield from _read(cluster, "read_committed", begins, ends)
        yield from _read(cluster, "read_uncommitted", ends, written)

    if _has_ours(everything(), signature, access.where) and not _deletes(cluster, topic.name):
        _refuse_compacted(access.where)


def clear(access: Access) -> None:
    """Delete all messages of the topic and the group's offsets, whoever still writes as us being shut out first.

    The group goes last: it has the mark, by which this may be done again.
    """
    topic = access.topic()
    if topic is None:
        return
    cluster, signature = access.cluster, access.signature
    if access.coordinators.settle(signature.id) is not None:
        Transactions(cluster, access.coordinators, name=signature.id, group=signature.id, topic=topic.name).fence()
    pairs = topic.pairs
    begins, ends = cluster.beginnings(pairs), access.marks.closed_ends(pairs)
    if _has_ours(_read(cluster, "read_committed", begins, ends), signature, access.where):
        _delete_records(cluster, ends, access.where)
    _delete_group(cluster, access.coordinators, signature.id)


def _read(
    cluster: Cluster, isolation: Isolation, begins: Mapping[Pair, int], ends: Mapping[Pair, int]
) -> Iterator[tuple[Pair, Records]]:
    fetcher = Fetcher(cluster, isolation, skip_removed=True)
    for pair, end in ends.items():
        for records in fetcher.read(pair, begins[pair], end):
            yield pair, records


def _has_ours(messages: Iterator[tuple[Pair, Records]], signature: Signature, where: str) -> bool:
    """Whether there are rows of ours; `ForeignSink` if others are among them."""
    found = False
    foreign: tuple[Pair, int] | None = None
    for pair, records in messages:
        ours = signature.ours(records.headers(HEADER.encode()))
        found = found or any(ours)
        if foreign is None and not all(ours):
            foreign = (pair, int(records.offsets[ours.index(False)]))
        if found and foreign is not None:
            _refuse_foreign(where, *foreign)
    return found


def _refuse_foreign(where: str, pair: Pair, offset: int) -> NoReturn:
    message = (
        f"{where} holds messages that this pipeline has not written for this output, such as offset {offset:,} of "
        f"partition {pair[1]}; --fresh deletes no messages of others, so give the output a topic of its own"
    )
    raise ForeignSink(message)


def _refuse_compacted(where: str) -> NoReturn:
    message = (
        f"{where} is a compacted topic, and the brokers delete no messages of such a one: "
        "delete the topic itself, or give the output another"
    )
    raise MillstreamError(message)


def _deletes(cluster: Cluster, topic: str) -> bool:
    """Whether the brokers delete messages of a topic, as far as we may know."""
    asked = DescribeConfigsRequest.DescribeConfigsResource
    resource = asked(resource_type=_TOPIC, resource_name=topic, configuration_keys=["cleanup.policy"])

    async def told(broker: Broker) -> bool:
        [found] = (await broker.send(DescribeConfigsRequest(resources=[resource]))).results
        if found.error_code == kafka_errors.TopicAuthorizationFailedError.errno:
            return True
        checked(found.error_code, f"settings of topic {topic}")
        return all("delete" in one.value for one in found.configs)

    return cluster.ask("settings", told)


def _delete_records(cluster: Cluster, ends: Mapping[Pair, int], where: str) -> None:
    """Delete what was looked at, and nothing that has come since."""
    asked = DeleteRecordsRequest.DeleteRecordsTopic

    async def deleted(broker: Broker) -> None:
        for pair, end in ends.items():
            _, node = await cluster.leader(broker, pair)
            partition = asked.DeleteRecordsPartition(partition_index=pair[1], offset=end)
            request = DeleteRecordsRequest(
                topics=[asked(name=pair[0], partitions=[partition])], timeout_ms=_WAIT_MILLIS
            )
            answer = await broker.send(request, node)
            code = answer.topics[0].partitions[0].error_code
            if code == kafka_errors.PolicyViolationError.errno:
                _refuse_compacted(where)
            if code:
                cluster.moved(pair)
            checked(code, f"{pair[0]}/{pair[1]}")

    cluster.ask("deleting", deleted)


def _delete_group(cluster: Cluster, coordinators: Coordinators, group: str) -> None:
    async def deleted(broker: Broker) -> None:
        answer = await coordinators.of_group(broker, group, DeleteGroupsRequest(groups_names=[group]))
        code = answer.results[0].error_code
        if code != kafka_errors.GroupIdNotFoundError.errno:
            checked(code, f"group {group}")

    cluster.ask("deleting", deleted)
