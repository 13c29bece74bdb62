"""Which brokers keep a group's offsets and a transaction's state, and what state that is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafka import errors as kafka_errors
from kafka.protocol.admin import DescribeTransactionsRequest
from kafka.protocol.metadata import CoordinatorType, FindCoordinatorRequest

from millstream_connectors.kafka.cluster import Cluster
from millstream_connectors.kafka.connection import checked
from millstream_connectors.kafka.network import Broker

__all__ = ["Coordinators", "Producer", "Standing"]


@dataclass(frozen=True)
class Producer:
    """Who writes: the brokers count up the epoch to shut out whoever was it before."""

    id: int
    epoch: int


@dataclass(frozen=True)
class Standing:
    """How a transactional id stands: who has it now, and the state of the last transaction."""

    producer: Producer
    state: str

    @property
    def open(self) -> bool:
        """Whether a transaction is open."""
        return self.state == "Ongoing"


class Coordinators:
    """The coordinators of groups and transactions; used on the event loop, but for `settle`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._nodes: dict[tuple[CoordinatorType, str], int] = {}

    async def of_group(self, broker: Broker, group: str, request: Any) -> Any:
        """The answer of the broker that keeps a group's offsets."""
        return await self._send(broker, CoordinatorType.GROUP, group, request)

    async def of_transaction(self, broker: Broker, name: str, request: Any) -> Any:
        """The answer of the broker that keeps the state of a transactional id."""
        return await self._send(broker, CoordinatorType.TRANSACTION, name, request)

    def moved(self) -> None:
        """Forget who coordinates what, because something was refused."""
        self._nodes.clear()

    async def standing(self, broker: Broker, name: str) -> Standing | None:
        """How a transactional id stands, without disturbing whoever has it; None if nobody ever had it, or long ago.

        A transaction that is being ended is waited for: until then nobody can tell what of it will be read.
        """
        answer = await self.of_transaction(broker, name, DescribeTransactionsRequest(transactional_ids=[name]))
        found = answer.transaction_states[0]
        if found.error_code == kafka_errors.TransactionalIdNotFoundError.errno:
            return None
        self._check(found.error_code, f"transactions of {name}")
        if found.transaction_state.startswith("Prepare"):
            raise kafka_errors.ConcurrentTransactionsError(f"transactions of {name}")
        return Standing(Producer(found.producer_id, found.producer_epoch), found.transaction_state)

    def settle(self, name: str) -> Standing | None:
        """Wait until what was committed is there to be read: the brokers answer before they have told each other."""
        return self._cluster.ask("transactions", lambda broker: self.standing(broker, name))

    async def _send(self, broker: Broker, kind: CoordinatorType, key: str, request: Any) -> Any:
        try:
            if (kind, key) not in self._nodes:
                asked = FindCoordinatorRequest(key_type=kind.value, coordinator_keys=[key], min_version=4)
                found = (await broker.send(asked)).coordinators[0]
                checked(found.error_code, key)
                self._nodes[kind, key] = found.node_id
            return await broker.send(request, self._nodes[kind, key])
        except kafka_errors.KafkaError:
            self.moved()
            raise

    def _check(self, code: int, what: str) -> None:
        if code:
            self.moved()
        checked(code, what)
