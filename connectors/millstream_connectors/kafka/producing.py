"""Record batches to the brokers that lead their partitions, each once and in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafka import errors as kafka_errors
from kafka.protocol.producer import InitProducerIdRequest, ProduceRequest

from millstream_connectors.kafka.cluster import Cluster, Pair
from millstream_connectors.kafka.connection import checked
from millstream_connectors.kafka.coordinators import Producer
from millstream_connectors.kafka.encoding import Batch, Messages
from millstream_connectors.kafka.network import Broker

__all__ = ["Idempotent", "TooLarge", "Unwritten", "Writing"]

_USUAL_BATCH = 1_000_000
"""Bytes: a topic takes 1 MiB unless told otherwise."""
_ALL_REPLICAS = -1
_ANSWER_MILLIS = 30_000
_NEWEST = 11
"""Version of a Produce request: from 12 on it begins a transaction by itself, where the cluster knows how to."""
_SEQUENCES = 1 << 31
_TOO_LARGE = {kafka_errors.MessageSizeTooLargeError.errno, kafka_errors.RecordListTooLargeError.errno}


class TooLarge(Exception):
    """A message is larger than the topic allows: this one of those for the partition, of so many bytes."""

    def __init__(self, partition: int, place: int, size: int) -> None:
        super().__init__(f"message {place} for partition {partition}: {size} bytes")
        self.partition, self.place, self.size = partition, place, size


@dataclass
class Unwritten:
    """What of a partition's messages is still to be written, and where in it those end that are."""

    messages: Messages
    done: int = 0
    end: int = -1

    @property
    def over(self) -> bool:
        return self.done == len(self.messages)


class Writing:
    """What one producer writes to a topic; by their sequence the brokers know a batch that comes again."""

    def __init__(self, cluster: Cluster, topic: str, producer: Producer, transaction: str | None = None) -> None:
        self.producer = producer
        self._cluster, self._topic, self._transaction = cluster, topic, transaction
        self._sequences: dict[int, int] = {}
        self._largest = _USUAL_BATCH

    async def write(self, broker: Broker, partitions: Mapping[int, Unwritten]) -> None:
        """Write messages, durably. If it fails, it may be done again with the same, as long as nothing else is."""
        while waiting := {number: part for number, part in partitions.items() if not part.over}:
            by_node: dict[int, dict[int, Batch]] = {}
            for number, part in waiting.items():
                _, node = await self._cluster.leader(broker, self._pair(number))
                by_node.setdefault(node, {})[number] = part.messages.batch(part.done, self._largest)
            for node, batches in by_node.items():
                for number, start in (await self._send(broker, node, batches)).items():
                    count, part = batches[number].count, waiting[number]
                    if start is None and count == 1:
                        raise TooLarge(number, part.done, batches[number].size)
                    if start is None:
                        self._largest = batches[number].size // 2
                        continue
                    self._sequences[number] = (self._sequences.get(number, 0) + count) % _SEQUENCES
                    part.done, part.end = part.done + count, start + count

    async def _send(self, broker: Broker, node: int, batches: Mapping[int, Batch]) -> Mapping[int, int | None]:
        """Where the batches begin, by partition; None for one that is too large."""
        try:
            answer = await broker.send(self._request(batches), node)
        except kafka_errors.KafkaError:
            for number in batches:
                self._cluster.moved(self._pair(number))
            raise
        found: dict[int, int | None] = {}
        for one in answer.responses[0].partition_responses:
            if one.error_code in _TOO_LARGE:
                found[one.index] = None
                continue
            if one.error_code:
                self._cluster.moved(self._pair(one.index))
            checked(one.error_code, f"{self._topic}/{one.index}")
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
            max_version=_NEWEST,
        )

    def _pair(self, partition: int) -> Pair:
        return self._topic, partition


class Idempotent:
    """Writes without transactions: what was acknowledged is there, and once, as far as this process is concerned."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster, self._topic = cluster, topic
        self._writing: Writing | None = None

    def write(self, partitions: Mapping[int, Messages]) -> None:
        """Write messages by partition, durably; `TooLarge` if one is, those before it being written."""
        unwritten = {number: Unwritten(messages) for number, messages in partitions.items()}

        async def written(broker: Broker) -> None:
            if self._writing is None:
                answer = await broker.send(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0))
                checked(answer.error_code, "a producer's id")
                producer = Producer(answer.producer_id, answer.producer_epoch)
                self._writing = Writing(self._cluster, self._topic, producer)
            await self._writing.write(broker, unwritten)

        self._cluster.ask("writing", written)
