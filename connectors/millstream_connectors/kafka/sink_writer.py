"""Appends an output's rows to a topic; a reader of committed messages sees each row once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

import pyarrow as pa

from millstream.errors import ForeignSink, InUse, MillstreamError
from millstream.log.contracts import Progress
from millstream_connectors.kafka.client.coordinators import ProducerIdentity
from millstream_connectors.kafka.client.encoder import Messages
from millstream_connectors.kafka.client.errors import Fenced, KafkaClientError, MessageTooLarge
from millstream_connectors.kafka.client.producer import IdempotentProducer
from millstream_connectors.kafka.client.transactions import TRANSACTION_SECONDS, Transactions
from millstream_connectors.kafka.errors import millstream_errors
from millstream_connectors.kafka.messages import RowMessages
from millstream_connectors.kafka.output_topic import OutputTopic
from millstream_connectors.kafka.progress import metadata_of

__all__ = ["KafkaSinkWriter"]


class KafkaSinkWriter:
    """Appends rows and progress of one output, for one run.

    With a guard, an epoch's rows and its progress are one transaction. An epoch without rows writes nothing, because
    the guard knows the epochs without rows.

    Opening does not fence: a run of another epoch log, which will be refused, must not stop the run that rightly
    writes. The progress is read without fencing: an open transaction does not count, whether its run is dead or not,
    and a transaction that is being committed is waited for. `fence` shuts out the previous writer and aborts its open
    transaction. The progress that is read after it counts, because no other run can change it any more.

    Without a guard, rows are written without transactions, each once as long as this process lives, and no transaction
    is waited for: the progress is that of the rows at the end of the topic. Then nothing can be fenced.

    `prepare` and `commit` are the two phases of `append`. Between them everything is durable and nothing is readable.
    If this process dies there, another process commits or aborts in its place by `finish`, with the value that
    `prepare` has returned, provided that it does so before the next rows and before the brokers abort the transaction,
    after `transaction_timeout` seconds.
    """

    def __init__(
        self,
        output: OutputTopic,
        messages: RowMessages,
        read: Callable[[], Iterator[pa.Table]],
        *,
        guarded: bool,
        transaction_timeout: float = TRANSACTION_SECONDS,
    ) -> None:
        self._output, self._messages, self._read = output, messages, read
        self._location, self._signature = output.location, output.signature
        self._prepared: tuple[Mapping[int, Messages], Progress] | None = None
        self._missing_offsets: Mapping[int, int] = {}
        self._progress = output.progress.find().progress if guarded else output.progress.find_recent()
        self._unguarded = None if guarded else IdempotentProducer(output.cluster, self._signature.topic)
        self._transactions = Transactions(
            output.cluster,
            output.coordinators,
            name=self._signature.id,
            group=self._signature.id,
            topic=self._signature.topic,
            transaction_timeout=transaction_timeout,
        )

    @property
    @millstream_errors()
    def keeps(self) -> bool:
        """False, as retention removes rows, and group offsets after a week; true while the topic had no message."""
        return self._output.never_written()

    def progress(self) -> Progress | None:
        return self._progress

    @millstream_errors()
    def fence(self, term: int) -> Progress | None:
        """Take over the transactional id of this output."""
        if self._unguarded is None:
            self._transactions.fence()
            found = self._output.progress.find()
            self._progress, self._missing_offsets = found.progress, found.missing_offsets
        return self._progress

    def append(self, rows: pa.Table, progress: Progress) -> None:
        if self._unguarded is None:
            self.prepare(rows, progress)
            self.commit()
            return
        self._check_log(self._progress, progress)
        if rows.num_rows:
            messages = self._messages.encode(rows, progress, _now())
            with self._writing():
                try:
                    self._unguarded.write(messages)
                except MessageTooLarge as large:
                    self._refuse_size(messages, large)
        self._progress = progress

    def prepare(self, rows: pa.Table, progress: Progress) -> Mapping[str, Any]:
        """Write rows and progress durably, for `commit`; returns the arguments that `finish` needs to do it instead."""
        self._check_log(self._progress, progress)
        token: dict[str, Any] = progress.line()
        messages = self._messages.encode(rows, progress, _now()) if rows.num_rows else {}
        self._prepared = (messages, progress)
        if messages:
            with self._writing():
                self._write(messages, progress)
            producer = self._transactions.producer
            token |= {
                "transactional_id": self._signature.id,
                "producer_id": producer.id,
                "producer_epoch": producer.epoch,
            }
        return token

    def commit(self) -> None:
        """Make the prepared rows readable."""
        if self._prepared is None:
            message = "nothing was prepared"
            raise RuntimeError(message)
        messages, prepared = self._prepared
        with self._writing():
            while messages and not self._transactions.commit():
                if self._output.progress.find().progress == prepared:
                    break
                self._write(messages, prepared)
        self._prepared, self._progress = None, prepared
        if messages:
            self._missing_offsets = {}

    @millstream_errors()
    def finish(self, token: Mapping[str, Any], *, commit: bool = True) -> None:
        """Commit or abort the transaction that a dead process has prepared; this may be repeated."""
        if "producer_id" not in token:  # the epoch had no rows
            return
        prepared = Progress.from_line(token)
        if not (commit and self._holds(prepared)):
            self._end(prepared, ProducerIdentity(token["producer_id"], token["producer_epoch"]), commit=commit)
        self._progress = self._output.progress.find().progress

    def read(self) -> Iterator[pa.Table]:
        return self._read()

    @millstream_errors()
    def close(self) -> None:
        try:
            if self._transactions.fenced:
                self._output.wait_until_complete()
        finally:
            self._output.close()

    def abandon(self) -> None:
        """Close the connection; an open transaction is aborted by the brokers or by the next run."""
        self._output.close()

    def _holds(self, progress: Progress) -> bool:
        found = self._output.progress.find().progress
        return found is not None and found.log == progress.log and found.epoch >= progress.epoch

    def _end(self, prepared: Progress, producer: ProducerIdentity, *, commit: bool) -> None:
        """Commit or abort a prepared transaction; refuse if it has ended the other way."""
        with self._writing():
            ended = self._transactions.end(producer, commit=commit)
        if ended:
            return
        if commit and not self._holds(prepared):
            message = (
                f"the prepared rows of epoch {prepared.epoch} for {self._location} no longer exist: the brokers have "
                "aborted their transaction after its timeout, or another run was started; they are not in the topic"
            )
            raise MillstreamError(message)
        if not commit and self._output.progress.find().progress == prepared:
            message = f"epoch {prepared.epoch} in {self._location} cannot be aborted: it was committed"
            raise MillstreamError(message)

    def _write(self, messages: Mapping[int, Messages], prepared: Progress) -> None:
        try:
            self._transactions.prepare(messages, metadata_of(prepared), self._missing_offsets)
        except MessageTooLarge as large:
            self._transactions.abort()
            self._refuse_size(messages, large)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Explains fencing; closes the connection at an error, so that no request continues in the background."""
        try:
            yield
        except Fenced:
            message = (
                f"another run of pipeline {self._signature.pipeline} writes {self._signature.output} to "
                f"{self._location} now, and this one stops; one pipeline, one run"
            )
            raise InUse(message) from None
        except (KafkaClientError, MillstreamError):
            self._output.close()
            with millstream_errors():
                raise

    def _check_log(self, held: Progress | None, wanted: Progress) -> None:
        if held is not None and held.log != wanted.log:
            message = (
                f"{self._location} holds rows of the epoch log {held.log}, not of {wanted.log}; "
                "choose another topic, or start over with --fresh in the run directory that has written them"
            )
            raise ForeignSink(message)

    def _refuse_size(self, messages: Mapping[int, Messages], large: MessageTooLarge) -> NoReturn:
        row = self._messages.describe(messages[large.partition].content[large.index])
        message = (
            f"{self._location}: the row of {row} takes {large.size:,} bytes, more than the topic allows; "
            "raise its max.message.bytes"
        )
        raise MillstreamError(message) from None


def _now() -> int:
    return int(time.time() * 1000)
