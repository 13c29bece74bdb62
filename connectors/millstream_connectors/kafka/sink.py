"""The Kafka sink: an output's rows as messages of a topic, each once for whoever reads what is committed."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, field_validator

from millstream.config.durations import Duration
from millstream.errors import ForeignSink, InUse, MillstreamError
from millstream.log.contracts import Mark, Place
from millstream.log.rows import table_of
from millstream_connectors.kafka.clearing import clear
from millstream_connectors.kafka.cluster import Cluster, Topic
from millstream_connectors.kafka.connection import addresses
from millstream_connectors.kafka.coordinators import Coordinators, Producer
from millstream_connectors.kafka.encoding import Messages
from millstream_connectors.kafka.fetching import Fetcher
from millstream_connectors.kafka.marks import HEADER, Marks, Signature, metadata_of
from millstream_connectors.kafka.messages import RowMessages
from millstream_connectors.kafka.producing import Idempotent, TooLarge
from millstream_connectors.kafka.security import Security
from millstream_connectors.kafka.transactions import Fenced, Transactions

__all__ = ["KafkaRows", "KafkaSink"]

_HURRIED_SECONDS = 3.0
_TRANSACTION_SECONDS = 60.0


class KafkaSink(BaseModel):
    """Rows as messages of a topic: the value is the row in JSON, as `millstream read` prints it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["kafka"] = "kafka"
    bootstrap: str = Field(description="Brokers to begin with: `host:port`, several with commas between them.")
    topic: str = Field(pattern=r"^[A-Za-z0-9._-]{1,249}$", description="The topic.")
    key: str | None = Field(
        default=None,
        description="A column whose text is the message's key; by default what tells one row from another.",
    )
    create: bool = Field(default=True, description="Make the topic if it is not there.")
    partitions: int = Field(default=1, ge=1, description="How many partitions it is made with.")
    patience: Duration = Field(default=120_000_000, description="How long a broker that is away is waited for.")
    security: Security | None = Field(default=None, description="TLS and passwords, if the brokers want them.")

    @field_validator("bootstrap")
    @classmethod
    def _addresses(cls, value: str) -> str:
        addresses(value)
        return value

    def open(
        self, place: Place, output: str, schema: pa.Schema, *, identity: Sequence[str] = (), guarded: bool = True
    ) -> KafkaRows:
        return KafkaRows(self, place, output, schema, identity, guarded=guarded)

    def read(self, place: Place, output: str, schema: pa.Schema) -> Iterator[pa.Table]:
        with self.connected(place, output) as access:
            topic = access.topic()
            if topic is None:
                return
            access.settle()
            pairs = [(topic.name, number) for number in topic.partitions]
            begins, ends = access.cluster.beginnings(pairs), access.cluster.ends(pairs, "read_committed")
            fetcher = Fetcher(access.cluster, "read_committed", skip_removed=True)
            for pair in pairs:
                for records in fetcher.read(pair, begins[pair], ends[pair]):
                    ours = access.signature.ours(records.headers(HEADER.encode()))
                    values = [value for value, own in zip(records.values(), ours, strict=True) if own and value]
                    if values:
                        yield table_of(b"\n".join(values), schema)

    def problems(self, place: Place) -> Iterable[tuple[str, str]]:
        return [("security", problem) for problem in self.security.problems(place.base)] if self.security else []

    def mark(self, place: Place, output: str) -> Mark | None:
        with self.connected(place, output) as access:
            return access.marks.look()

    def location(self, place: Place, output: str) -> str:
        return f"kafka://{self.bootstrap}/{self.topic}"

    def clear(self, place: Place, output: str) -> None:
        """Delete the rows, and the group's offsets; refused if the topic has messages of others."""
        with self.connected(place, output) as access:
            clear(access.cluster, access.coordinators, access.marks, access.signature, self.location(place, output))

    @contextmanager
    def connected(self, place: Place, output: str) -> Iterator[_Access]:
        access = self.connect(place, output)
        try:
            yield access
        finally:
            access.cluster.close()

    def connect(self, place: Place, output: str) -> _Access:
        seconds = self.patience / 1e6
        seconds = min(seconds, _HURRIED_SECONDS) if place.hurry else seconds
        cluster = Cluster(self.bootstrap, self.security, seconds, place.base)
        coordinators = Coordinators(cluster)
        signature = Signature(place.pipeline, output, self.topic)
        return _Access(cluster, coordinators, signature, Marks(cluster, coordinators, signature, seconds))


@dataclass(frozen=True)
class _Access:
    """A connection, and what is asked over it."""

    cluster: Cluster
    coordinators: Coordinators
    signature: Signature
    marks: Marks

    def topic(self) -> Topic | None:
        return self.cluster.topics([self.signature.topic]).get(self.signature.topic)

    def settle(self) -> None:
        self.coordinators.settle(self.signature.id)


class KafkaRows:
    """A topic, open for the run that appends its rows.

    With a guard, an epoch's rows and its mark are one transaction; an epoch without rows writes nothing, as the guard
    knows which epochs had none. Nobody is disturbed before the first rows: a run that turns out to be the wrong one
    (of another epoch log) has looked at the mark by then, and fenced nobody. From its first rows on a run is the only
    one that writes: whoever wrote before is shut out, what that left open is aborted, and the mark is looked at again.

    Without a guard rows are written as they are, each once as long as this process lives.

    `prepare` and `commit` are the two halves of `append`. Between them all is durable and nothing is there to be read;
    if this process dies there, `finish` in another one does either, with what `prepare` has returned, if it is the next
    to touch the topic, and comes before the brokers' patience with a transaction ends (`timeout` seconds).
    """

    def __init__(
        self,
        config: KafkaSink,
        place: Place,
        output: str,
        schema: pa.Schema,
        identity: Sequence[str],
        *,
        guarded: bool,
        timeout: float = _TRANSACTION_SECONDS,
    ) -> None:
        self._config, self._place, self._output, self._schema = config, place, output, schema
        self._where = config.location(place, output)
        self._access = config.connect(place, output)
        signature = self._access.signature
        self._prepared: tuple[Mapping[int, Messages], Mark] | None = None
        try:
            self._rows = RowMessages(signature, schema, identity, config.key, self._topic().partitions)
            self._seen = self._mark = self._access.marks.look()
        except BaseException:
            self._access.cluster.close()
            raise
        cluster = self._access.cluster
        self._unguarded = None if guarded else Idempotent(cluster, config.topic)
        self._transactions = Transactions(
            cluster,
            self._access.coordinators,
            name=signature.id,
            group=signature.id,
            topic=config.topic,
            timeout=timeout,
        )

    def mark(self) -> Mark | None:
        return self._mark

    def append(self, rows: pa.Table, mark: Mark) -> None:
        if self._unguarded is None:
            self.prepare(rows, mark)
            self.commit()
            return
        self._check_log(self._mark, mark)
        if rows.num_rows:
            messages = self._rows.of(rows, mark, _now())
            with self._alone():
                try:
                    self._unguarded.write(messages)
                except TooLarge as large:
                    self._refuse_size(messages, large)
        self._mark = mark

    def prepare(self, rows: pa.Table, mark: Mark) -> Mapping[str, Any]:
        """Write rows and mark, durably, so that `commit` makes them count: what `finish` needs to do that for us."""
        self._check_log(self._mark, mark)
        token: dict[str, Any] = {"log": mark.log, "epoch": mark.epoch}
        messages = self._rows.of(rows, mark, _now()) if rows.num_rows else {}
        self._prepared = (messages, mark)
        if messages:
            with self._alone():
                if not self._transactions.fenced:
                    self._take_over(mark)
                self._write(messages, mark)
            producer = self._transactions.producer
            token |= {"transactional_id": self._id, "producer_id": producer.id, "producer_epoch": producer.epoch}
        return token

    def commit(self) -> None:
        """Make what was prepared count."""
        if self._prepared is None:
            message = "nothing was prepared"
            raise RuntimeError(message)
        messages, mark = self._prepared
        with self._alone():
            while messages and not self._transactions.commit():
                if self._access.marks.look() == mark:
                    break
                self._write(messages, mark)
        self._prepared, self._mark = None, mark

    def finish(self, token: Mapping[str, Any], *, commit: bool = True) -> None:
        """End what a process that died has prepared, as that would have done it; once more is as good."""
        if "producer_id" not in token:  # it had no rows
            return
        prepared = Mark(token["log"], token["epoch"])
        if not (commit and self._holds(prepared)):
            producer = Producer(token["producer_id"], token["producer_epoch"])
            with self._alone():
                ended = self._transactions.end(producer, commit=commit)
            if not ended and commit and not self._holds(prepared):
                message = (
                    f"what was prepared of epoch {prepared.epoch} for {self._where} is no longer there: the brokers "
                    "have ended it after its timeout, or another run was started; its rows are not in the topic"
                )
                raise MillstreamError(message)
            if not ended and not commit and self._access.marks.look() == prepared:
                message = f"epoch {prepared.epoch} in {self._where} cannot be taken back: it was committed"
                raise MillstreamError(message)
        self._seen = self._mark = self._access.marks.look()

    def read(self) -> Iterator[pa.Table]:
        return self._config.read(self._place, self._output, self._schema)

    def close(self) -> None:
        try:
            if self._transactions.fenced:
                self._access.settle()
        finally:
            self._access.cluster.close()

    @property
    def _id(self) -> str:
        return self._access.signature.id

    def _topic(self) -> Topic:
        found = self._access.topic()
        if found is None and not self._config.create:
            message = f"there is no {self._where}; make the topic, or say `create: true`"
            raise MillstreamError(message)
        return found or self._access.cluster.create(self._config.topic, self._config.partitions)

    def _holds(self, mark: Mark) -> bool:
        seen = self._access.marks.look()
        return seen is not None and seen.log == mark.log and seen.epoch >= mark.epoch

    def _take_over(self, mark: Mark) -> None:
        """Become the only one that writes, unless somebody else has since the mark was told."""
        for fence in (False, True):
            if fence:
                self._transactions.fence()
            seen = self._access.marks.look()
            self._check_log(seen, mark)
            if seen != self._seen:
                message = (
                    f"another run of pipeline {self._place.pipeline} has written to {self._where} since this one was "
                    "started; see that only one is running, and start it again"
                )
                raise InUse(message)

    def _write(self, messages: Mapping[int, Messages], mark: Mark) -> None:
        try:
            self._transactions.prepare(messages, metadata_of(mark))
        except TooLarge as large:
            self._transactions.abort()
            self._refuse_size(messages, large)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Tells what being shut out means; if the brokers are given up, nothing goes on behind our back."""
        try:
            yield
        except Fenced:
            message = (
                f"another run of pipeline {self._place.pipeline} writes {self._output} to {self._where} now, "
                "and this one stops; one pipeline, one run"
            )
            raise InUse(message) from None
        except MillstreamError:
            self._access.cluster.close()
            raise

    def _check_log(self, held: Mark | None, mark: Mark) -> None:
        if held is not None and held.log != mark.log:
            message = (
                f"{self._where} holds rows of the epoch log {held.log}, not of {mark.log}; "
                "choose another topic, or start over with --fresh in the run directory that has written them"
            )
            raise ForeignSink(message)

    def _refuse_size(self, messages: Mapping[int, Messages], large: TooLarge) -> NoReturn:
        row = self._rows.described(messages[large.partition].content[large.place])
        message = (
            f"{self._where}: the row of {row} takes {large.size:,} bytes, more than the topic allows; "
            "raise its max.message.bytes"
        )
        raise MillstreamError(message) from None


def _now() -> int:
    return int(time.time() * 1000)
