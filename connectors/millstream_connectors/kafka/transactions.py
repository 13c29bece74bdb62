"""Transactions: rows and a mark, all of them or none, whatever happens to us or to the brokers.

Whoever has a *transactional id* is a producer, `(id, epoch)`. `fence` makes us it: the brokers end what the one before
has left open and count up the epoch, so that nothing of it is taken any more. After that nobody but us can end our
transaction, with two exceptions: another run that fences us, and the brokers when it takes longer than its timeout.

A request that is not answered may have been done. So nothing is guessed:

- Before the commit is asked for, what was begun is ended (an abort says the epoch, so it can hit no transaction but
  our own) and the epoch counted up, *provided that it is still ours*: late requests of that try fall away. Then all is
  sent again.
- The commit is asked for until it is answered: asked again, it has the same answer. If the answer is that there is no
  such transaction, the mark tells whether it was committed before. A request of which no answer was heard may still
  arrive, and would commit whatever is open under the epoch then: so after a commit that took more than one try, the
  epoch is counted up before anything else is begun.
- That we were fenced is never mended by fencing back. How the id stands tells it from what ends by itself: the brokers
  leave an epoch one higher whose transaction was aborted (timed out); ours to go on with, if nobody else counts it up.
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

from millstream_connectors.kafka.cluster import Cluster
from millstream_connectors.kafka.connection import checked
from millstream_connectors.kafka.coordinators import Coordinators, Producer
from millstream_connectors.kafka.encoding import Messages
from millstream_connectors.kafka.network import Broker
from millstream_connectors.kafka.producing import Unwritten, Writing

__all__ = ["TRANSACTION_SECONDS", "Fenced", "Transactions"]

_NOBODY = Producer(-1, -1)
_NEWEST = 3
"""Of requests about transactions; from 4 or 5 on they are for brokers, or leave it to Produce to begin one."""
TRANSACTION_SECONDS = 60.0
"""How long one may be open before the brokers abort it; a dead run's hides for so long what comes behind it."""
_QUICK_TRIES = 30
"""How often a transaction is begun while the last one is being told to all its partitions: some milliseconds."""

_GONE = (
    kafka_errors.ProducerFencedError,
    kafka_errors.InvalidProducerEpochError,
    kafka_errors.InvalidProducerIdMappingError,
    kafka_errors.InvalidTxnStateError,
)
_BEGIN_ANEW = (
    *_GONE,
    kafka_errors.OutOfOrderSequenceNumberError,
    kafka_errors.TransactionAbortableError,
    kafka_errors.TransactionCoordinatorFencedError,
    kafka_errors.UnknownProducerIdError,
)


class Fenced(Exception):
    """Another producer has our transactional id now."""


class Transactions:
    """One transaction after the other to a topic and a group's offsets there; `fence` before the first.

    The brokers end one by themselves that is open for longer than `timeout` seconds.
    """

    def __init__(
        self,
        cluster: Cluster,
        coordinators: Coordinators,
        *,
        name: str,
        group: str,
        topic: str,
        timeout: float = TRANSACTION_SECONDS,
    ) -> None:
        self._cluster, self._coordinators = cluster, coordinators
        self._name, self._group, self._topic = name, group, topic
        self._timeout = timeout
        self._writing: Writing | None = None
        self._unsettled = False
        """Whether something of ours may be open, or on its way, that has to be shut out before the next transaction."""

    @property
    def fenced(self) -> bool:
        """Whether we have fenced: whether the transactional id is ours, or was."""
        return self._writing is not None

    @property
    def producer(self) -> Producer:
        """Who we are to the brokers."""
        return self._mine.producer

    def fence(self) -> None:
        """Take the transactional id over: what is open under it is aborted, and nothing more is taken under it."""

        async def taken(broker: Broker) -> None:
            self._writing = await self._counted_up(broker, _NOBODY)

        self._cluster.ask("transactions", taken)
        self._unsettled = False

    def prepare(
        self, partitions: Mapping[int, Messages], metadata: str, others: Mapping[int, int] = MappingProxyType({})
    ) -> None:
        """Begin a transaction and write messages by partition into it, and for each the group's offset with `metadata`.

        `others` are group offsets of partitions that get no messages. On return all is durable, and nothing counts yet.
        `Fenced`; `TooLarge`, with the transaction open.
        """

        async def prepared(broker: Broker) -> None:
            if self._unsettled:
                await self._clean_up(broker)
            self._unsettled = True
            try:
                unwritten = {number: Unwritten(messages) for number, messages in partitions.items()}
                await self._begin(broker, list(partitions))
                await self._mine.write(broker, unwritten)
                await self._add_offsets(broker)
                ends = {number: part.end for number, part in unwritten.items()}
                await self._write_offsets(broker, {**others, **ends}, metadata)
            except _BEGIN_ANEW as error:
                raise kafka_errors.KafkaTimeoutError(f"the transaction is begun anew ({error})") from error

        self._cluster.ask("transactions", prepared)

    def commit(self) -> bool:
        """Make what was prepared count; if not, the transaction is no longer there, and was perhaps committed."""
        ended, tries = self._ended(self.producer, commit=True)
        self._unsettled = not ended or tries > 1
        return ended

    def abort(self) -> None:
        """End what is open; nothing of it counts."""
        self._cluster.ask("transactions", self._clean_up)

    def end(self, producer: Producer, *, commit: bool) -> bool:
        """End the transaction of a producer that is dead; false if it is no longer there.

        It may be done again, the same way. Requests that arrive late hit no other transaction: whoever writes next has
        fenced before, or has the epoch still to count up that it has prepared something under.
        """
        return self._ended(producer, commit=commit)[0]

    def _ended(self, producer: Producer, *, commit: bool) -> tuple[bool, int]:
        """Whether a transaction could be ended, and how often that was asked for."""
        tries = 0

        async def ended(broker: Broker) -> bool:
            nonlocal tries
            tries += 1
            try:
                await self._end(broker, producer, commit=commit)
            except _GONE:
                return False
            return True

        return self._cluster.ask("transactions", ended), tries

    @property
    def _mine(self) -> Writing:
        if self._writing is None:
            message = "fence first"
            raise RuntimeError(message)
        return self._writing

    async def _clean_up(self, broker: Broker) -> None:
        """Abort what an earlier try has left open, and shut out its late requests; `Fenced` if the id is not ours."""
        mine = self.producer
        standing = await self._coordinators.standing(broker, self._name)
        if standing is not None and standing.producer.id != mine.id:
            raise Fenced
        ahead = 0 if standing is None else standing.producer.epoch - mine.epoch
        state = "" if standing is None else standing.state
        if ahead == 0 and state == "Ongoing":
            await self._end(broker, mine, commit=False)
        elif ahead == 1 and state == "CompleteAbort":  # by the brokers themselves
            mine = Producer(mine.id, mine.epoch + 1)
        elif ahead > 1 or (ahead == 1 and state != "Empty"):  # one ahead and empty: perhaps we have, unheard
            raise Fenced
        try:
            self._writing = await self._counted_up(broker, mine)
        except (kafka_errors.ProducerFencedError, kafka_errors.InvalidProducerEpochError):
            raise Fenced from None
        self._unsettled = False

    async def _counted_up(self, broker: Broker, mine: Producer) -> Writing:
        """The next epoch, if it is still `mine`; or anyway, if that is nobody."""
        request = InitProducerIdRequest(
            transactional_id=self._name,
            transaction_timeout_ms=int(self._timeout * 1000),
            producer_id=mine.id,
            producer_epoch=mine.epoch,
            min_version=4,
            max_version=4,
        )
        answer = await self._coordinators.of_transaction(broker, self._name, request)
        self._check(answer.error_code)
        producer = Producer(answer.producer_id, answer.producer_epoch)
        return Writing(self._cluster, self._topic, producer, self._name)

    async def _begin(self, broker: Broker, partitions: Sequence[int]) -> None:
        topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
        for tries_left in reversed(range(_QUICK_TRIES)):
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self._name,
                v3_and_below_producer_id=self.producer.id,
                v3_and_below_producer_epoch=self.producer.epoch,
                v3_and_below_topics=[topic(name=self._topic, partitions=partitions)],
                max_version=_NEWEST,
            )
            answer = await self._coordinators.of_transaction(broker, self._name, request)
            try:
                for one in answer.results_by_topic_v3_and_below[0].results_by_partition:
                    self._check(one.partition_error_code)
            except kafka_errors.ConcurrentTransactionsError:
                if not tries_left:
                    raise
            else:
                return

    async def _add_offsets(self, broker: Broker) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=self._name,
            producer_id=self.producer.id,
            producer_epoch=self.producer.epoch,
            group_id=self._group,
            max_version=_NEWEST,
        )
        self._check((await self._coordinators.of_transaction(broker, self._name, request)).error_code)

    async def _write_offsets(self, broker: Broker, ends: Mapping[int, int], metadata: str) -> None:
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
            max_version=_NEWEST,
        )
        answer = await self._coordinators.of_group(broker, self._group, request)
        for one in answer.topics[0].partitions:
            self._check(one.error_code)

    async def _end(self, broker: Broker, producer: Producer, *, commit: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self._name,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            committed=commit,
            max_version=_NEWEST,
        )
        self._check((await self._coordinators.of_transaction(broker, self._name, request)).error_code)

    def _check(self, code: int) -> None:
        if code:
            self._coordinators.moved()
        checked(code, f"transactions of {self._name}")
