"""Sends record batches to the brokers that lead their partitions, each batch once and in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafka import errors as kafka_errors
from kafka.protocol.producer import InitProducerIdRequest, ProduceRequest

from millstream_connectors.kafka.client.cluster import Cluster, Pair, partition_name
from millstream_connectors.kafka.client.connection import check_code
from millstream_connectors.kafka.client.coordinators import ProducerIdentity
from millstream_connectors.kafka.client.encoder import Batch, Messages
from millstream_connectors.kafka.client.errors import MessageTooLarge
from millstream_connectors.kafka.client.network import Nodes

__all__ = ["BatchWriter", "IdempotentProducer", "Unwritten"]

_FIRST_BATCH_BYTES = 1_000_000
"""The size of the first batch: by default a topic accepts 1 MiB."""
_ALL_REPLICAS = -1
_ANSWER_MILLIS = 30_000
_MAX_PRODUCE_VERSION = 11
"""From version 12 on, a Produce request begins a transaction by itself if the cluster supports that."""
_SEQUENCES = 1 << 31
_TOO_LARGE = {kafka_errors.MessageSizeTooLargeError.errno, kafka_errors.RecordListTooLargeError.errno}


@dataclass
class Unwritten:
    """Messages for one partition: how many of them are written, and the offset after the last written one."""

    messages: Messages
    written: int = 0
    end: int = -1

    @property
    def complete(self) -> bool:
        return self.written == len(self.messages)


class BatchWriter:
    """Writes the batches of one producer to a topic; the brokers recognize repeated batches by sequence numbers."""

    def __init__(
        self, cluster: Cluster, topic: str, producer: ProducerIdentity, transaction: str | None = None
    ) -> None:
        self.producer = producer
        self._cluster, self._topic, self._transaction = cluster, topic, transaction
        self._sequences: dict[int, int] = {}
        self._max_batch_bytes = _FIRST_BATCH_BYTES

    async def write(self, nodes: Nodes, partitions: Mapping[int, Unwritten]) -> None:
        """Write messages durably.

        After an error the same messages may be written again, provided that nothing else was written in between.
        """
        while waiting := {number: part for number, part in partitions.items() if not part.complete}:
            by_node: dict[int, dict[int, Batch]] = {}
            for number, part in waiting.items():
                _, node = await self._cluster.leader(nodes, self._pair(number))
                by_node.setdefault(node, {})[number] = part.messages.batch(part.written, self._max_batch_bytes)
            for node, batches in by_node.items():
                for number, start in (await self._send(nodes, node, batches)).items():
                    count, part = batches[number].count, waiting[number]
                    if start is None and count == 1:
                        raise MessageTooLarge(number, part.written, batches[number].size)
                    if start is None:
                        self._max_batch_bytes = batches[number].size // 2
                        continue
                    self._sequences[number] = (self._sequences.get(number, 0) + count) % _SEQUENCES
                    part.written, part.end = part.written + count, start + count

    async def _send(self, nodes: Nodes, node: int, batches: Mapping[int, Batch]) -> Mapping[int, int | None]:
        """The offset of the first message of each batch, by partition; None for a batch that is too large."""
        try:
            answer = await nodes.send(self._request(batches), node)
        except kafka_errors.KafkaError:
            for number in batches:
                self._cluster.forget_leader(self._pair(number))
            raise
        found: dict[int, int | None] = {}
        for one in answer.responses[0].partition_responses:
            if one.error_code in _TOO_LARGE:
                found[one.index] = None
                continue
            if one.error_code:
                self._cluster.forget_leader(self._pair(one.index))
            check_code(one.error_code, partition_name(self._pair(one.index)))
            found[one.index] = one.base_offset
        return found

    def _request(self, batches: Mapping[int, Batch]) -> ProduceRequest:
        topic = ProduceRequest.TopicProduceData
        producer, transactional = self.producer, self._transaction is not None
        data = []
        for number, batch in batches.items():
            sequence = self._sequences.get(number, 0)
            records = batch.encode(producer.id, producer.epoch, sequence, transactional=transactional)
            data.append(topic.PartitionProduceData(index=number, records=records))
        return ProduceRequest(
            transactional_id=self._transaction,
            acks=_ALL_REPLICAS,
            timeout_ms=_ANSWER_MILLIS,
            topic_data=[topic(name=self._topic, partition_data=data)],
            min_version=3,
            max_version=_MAX_PRODUCE_VERSION,
        )

    def _pair(self, partition: int) -> Pair:
        return self._topic, partition


class IdempotentProducer:
    """Writes without transactions: each acknowledged message is written once, as long as this process lives."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster, self._topic = cluster, topic
        self._writer: BatchWriter | None = None

    def write(self, partitions: Mapping[int, Messages]) -> None:
        """Write messages by partition, durably; at a `MessageTooLarge` the messages before it are written."""
        unwritten = {number: Unwritten(messages) for number, messages in partitions.items()}

        async def write(nodes: Nodes) -> None:
            if self._writer is None:
                answer = await nodes.send(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0))
                check_code(answer.error_code, "a producer's id")
                producer = ProducerIdentity(answer.producer_id, answer.producer_epoch)
                self._writer = BatchWriter(self._cluster, self._topic, producer)
            await self._writer.write(nodes, unwritten)

        self._cluster.ask("writing", write)
