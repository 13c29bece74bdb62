"""Transactions: messages and group offsets, all of them or none, whatever process or broker fails.

The owner of a *transactional id* is a producer, `(id, epoch)`. `fence` makes this process the owner: the brokers abort
the previous owner's open transaction and increase the epoch, and from then on refuse all its requests. After that only
two others can end our transaction: a run that fences us, and the brokers when the transaction exceeds its timeout.

A request without an answer may or may not have been executed. The client assumes neither:

- Before the commit is requested: the transaction is aborted (an abort names the epoch, so it cannot hit another
  producer's transaction), and the epoch is increased *provided that we still own it*, so that the brokers refuse late
  requests of the failed attempt. Then everything is sent again.
- The commit is requested until it is answered: repeated, it has the same answer. If the answer is that there is no such
  transaction, only the committed progress can show whether it was committed before. An unanswered commit request may
  arrive late, and would commit whatever is then open under the epoch. So after a commit of more than one attempt, the
  epoch is increased before the next transaction begins.
- A producer that was fenced never fences back. The state of the transactional id distinguishes this from an abort by
  the brokers after a timeout: they leave an aborted transaction whose epoch is one higher. We continue with that epoch,
  unless another producer increases it first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from kafka import errors as kafka_errors
from kafka.protocol.producer import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
)

from millstream_connectors.kafka.client.cluster import Cluster
from millstream_connectors.kafka.client.connection import check_code
from millstream_connectors.kafka.client.coordinators import KafkaCoordinators, ProducerIdentity
from millstream_connectors.kafka.client.encoder import Messages
from millstream_connectors.kafka.client.errors import Fenced
from millstream_connectors.kafka.client.network import Nodes
from millstream_connectors.kafka.client.producer import BatchWriter, Unwritten

__all__ = ["TRANSACTION_SECONDS", "Transactions"]

_ANY_PRODUCER = ProducerIdentity(-1, -1)
_MAX_VERSION = 3
"""Of requests about transactions: later ones are for brokers, or expect Produce requests to begin transactions."""
TRANSACTION_SECONDS = 60.0
"""The brokers abort a transaction that is open for longer; a dead run's hides all later messages for so long."""
_QUICK_ATTEMPTS = 30
"""Attempts to begin a transaction while the brokers still publish the end of the last one, for some milliseconds."""

_TRANSACTION_GONE = (
    kafka_errors.ProducerFencedError,
    kafka_errors.InvalidProducerEpochError,
    kafka_errors.InvalidProducerIdMappingError,
    kafka_errors.InvalidTxnStateError,
)
_RESTARTABLE = (
    *_TRANSACTION_GONE,
    kafka_errors.OutOfOrderSequenceNumberError,
    kafka_errors.TransactionAbortableError,
    kafka_errors.TransactionCoordinatorFencedError,
    kafka_errors.UnknownProducerIdError,
)


class Transactions:
    """Transactions, one after the other, that write to a topic and to a group's offsets of it; `fence` comes first.

    The brokers abort a transaction that is open for longer than `transaction_timeout` seconds.
    """

    def __init__(
        self,
        cluster: Cluster,
        coordinators: KafkaCoordinators,
        *,
        name: str,
        group: str,
        topic: str,
        transaction_timeout: float = TRANSACTION_SECONDS,
    ) -> None:
        self._cluster, self._coordinators = cluster, coordinators
        self._name, self._group, self._topic = name, group, topic
        self._timeout = transaction_timeout
        self._writer: BatchWriter | None = None
        self._needs_cleanup = False
        """True if an open transaction of ours or a late request may have to be shut out before the next transaction."""

    @property
    def fenced(self) -> bool:
        """True after `fence`: the transactional id is ours, or was."""
        return self._writer is not None

    @property
    def producer(self) -> ProducerIdentity:
        """Our own id and epoch."""
        return self._own.producer

    def fence(self) -> None:
        """Take over the transactional id: its open transaction is aborted, its previous owner is shut out."""

        async def take_over(nodes: Nodes) -> None:
            self._writer = await self._increase_epoch(nodes, _ANY_PRODUCER)

        self._cluster.ask("transactions", take_over)
        self._needs_cleanup = False

    def prepare(
        self, partitions: Mapping[int, Messages], metadata: str, others: Mapping[int, int] = MappingProxyType({})
    ) -> None:
        """Begin a transaction, and write messages by partition and the group's offset after each partition's messages.

        The offsets get `metadata`; `others` are offsets of partitions without messages. On return everything is
        durable and nothing is committed. `Fenced`, or `MessageTooLarge` with the transaction still open.
        """

        async def prepare(nodes: Nodes) -> None:
            if self._needs_cleanup:
                await self._clean_up(nodes)
            self._needs_cleanup = True
            try:
                unwritten = {number: Unwritten(messages) for number, messages in partitions.items()}
                await self._begin(nodes, list(partitions))
                await self._own.write(nodes, unwritten)
                await self._add_offsets(nodes)
                ends = {number: part.end for number, part in unwritten.items()}
                await self._write_offsets(nodes, {**others, **ends}, metadata)
            except _RESTARTABLE as error:
                raise kafka_errors.KafkaTimeoutError(f"the transaction is started again ({error})") from error

        self._cluster.ask("transactions", prepare)

    def commit(self) -> bool:
        """Commit the prepared transaction; false if it no longer exists, and perhaps was committed before."""
        ended, attempts = self._end_repeatedly(self.producer, commit=True)
        self._needs_cleanup = not ended or attempts > 1
        return ended

    def abort(self) -> None:
        """Abort the open transaction."""
        self._cluster.ask("transactions", self._clean_up)

    def end(self, producer: ProducerIdentity, *, commit: bool) -> bool:
        """Commit or abort the transaction of a dead producer; false if it no longer exists.

        This may be repeated with the same choice. Late requests hit no other transaction: the next producer has
        fenced first, or still has to increase the epoch under which its transaction was prepared.
        """
        return self._end_repeatedly(producer, commit=commit)[0]

    def _end_repeatedly(self, producer: ProducerIdentity, *, commit: bool) -> tuple[bool, int]:
        """True if the transaction could be ended, and the number of attempts."""
        attempts = 0

        async def end(nodes: Nodes) -> bool:
            nonlocal attempts
            attempts += 1
            try:
                await self._end(nodes, producer, commit=commit)
            except _TRANSACTION_GONE:
                return False
            return True

        return self._cluster.ask("transactions", end), attempts

    @property
    def _own(self) -> BatchWriter:
        if self._writer is None:
            message = "fence first"
            raise RuntimeError(message)
        return self._writer

    async def _clean_up(self, nodes: Nodes) -> None:
        """Abort the transaction of a failed attempt, and shut out its late requests; `Fenced` if the id is not ours."""
        own = self.producer
        current = await self._coordinators.transaction_state(nodes, self._name)
        if current is not None and current.producer.id != own.id:
            raise Fenced
        ahead = 0 if current is None else current.producer.epoch - own.epoch
        state = "" if current is None else current.state
        if ahead == 0 and state == "Ongoing":
            await self._end(nodes, own, commit=False)
        elif ahead == 1 and state == "CompleteAbort":  # the brokers' own abort
            own = ProducerIdentity(own.id, own.epoch + 1)
        elif ahead > 1 or (
            ahead == 1 and state != "Empty"
        ):  # ahead by 1 and empty: perhaps our own, unanswered request
            raise Fenced
        try:
            self._writer = await self._increase_epoch(nodes, own)
        except (kafka_errors.ProducerFencedError, kafka_errors.InvalidProducerEpochError):
            raise Fenced from None
        self._needs_cleanup = False

    async def _increase_epoch(self, nodes: Nodes, expected: ProducerIdentity) -> BatchWriter:
        """Increase the epoch, if the owner is the `expected` producer."""
        request = InitProducerIdRequest(
            transactional_id=self._name,
            transaction_timeout_ms=int(self._timeout * 1000),
            producer_id=expected.id,
            producer_epoch=expected.epoch,
            min_version=4,
            max_version=4,
        )
        answer = await self._coordinators.ask_transaction(nodes, self._name, request)
        self._check(answer.error_code)
        producer = ProducerIdentity(answer.producer_id, answer.producer_epoch)
        return BatchWriter(self._cluster, self._topic, producer, self._name)

    async def _begin(self, nodes: Nodes, partitions: Sequence[int]) -> None:
        topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
        for attempts_left in reversed(range(_QUICK_ATTEMPTS)):
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self._name,
                v3_and_below_producer_id=self.producer.id,
                v3_and_below_producer_epoch=self.producer.epoch,
                v3_and_below_topics=[topic(name=self._topic, partitions=partitions)],
                max_version=_MAX_VERSION,
            )
            answer = await self._coordinators.ask_transaction(nodes, self._name, request)
            try:
                for one in answer.results_by_topic_v3_and_below[0].results_by_partition:
                    self._check(one.partition_error_code)
            except kafka_errors.ConcurrentTransactionsError:
                if not attempts_left:
                    raise
            else:
                return

    async def _add_offsets(self, nodes: Nodes) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=self._name,
            producer_id=self.producer.id,
            producer_epoch=self.producer.epoch,
            group_id=self._group,
            max_version=_MAX_VERSION,
        )
        self._check((await self._coordinators.ask_transaction(nodes, self._name, request)).error_code)

    async def _write_offsets(self, nodes: Nodes, ends: Mapping[int, int], metadata: str) -> None:
        topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
        offsets = [
            topic.TxnOffsetCommitRequestPartition(
                partition_index=partition, committed_offset=end, committed_metadata=metadata
            )
            for partition, end in ends.items()
        ]
        request = TxnOffsetCommitRequest(
            transactional_id=self._name,
            group_id=self._group,
            producer_id=self.producer.id,
            producer_epoch=self.producer.epoch,
            topics=[topic(name=self._topic, partitions=offsets)],
            min_version=3,
            max_version=_MAX_VERSION,
        )
        answer = await self._coordinators.ask_group(nodes, self._group, request)
        for one in answer.topics[0].partitions:
            self._check(one.error_code)

    async def _end(self, nodes: Nodes, producer: ProducerIdentity, *, commit: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self._name,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            committed=commit,
            max_version=_MAX_VERSION,
        )
        self._check((await self._coordinators.ask_transaction(nodes, self._name, request)).error_code)

    def _check(self, code: int) -> None:
        if code:
            self._coordinators.forget()
        check_code(code, f"transactions of {self._name}")
