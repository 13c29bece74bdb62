"""A topic, open for the run that appends an output's rows: each once for whoever reads what is committed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

import pyarrow as pa

from millstream.errors import ForeignSink, InUse, MillstreamError
from millstream.log.contracts import Mark
from millstream_connectors.kafka.access import Access
from millstream_connectors.kafka.coordinators import Producer
from millstream_connectors.kafka.encoding import Messages
from millstream_connectors.kafka.marks import metadata_of
from millstream_connectors.kafka.messages import RowMessages
from millstream_connectors.kafka.producing import Idempotent, TooLarge
from millstream_connectors.kafka.transactions import TRANSACTION_SECONDS, Fenced, Transactions

__all__ = ["KafkaRows"]


class KafkaRows:
    """Rows and marks of one output, appended by one run.

    With a guard, an epoch's rows and its mark are one transaction. An epoch without rows writes nothing, as the guard
    knows which epochs had none.

    Opening disturbs nobody. The mark is looked at without fencing: a run that turns out to be the wrong one (of another
    epoch log) must not stop the one that rightly writes. That is safe, as a transaction that is open then does not
    count, whether its run is dead or not, and one that is being ended is waited for. The first rows fence: whoever
    wrote before is shut out, and what it left open is aborted. The mark is looked at right before that and right after:
    if it is not the one that was told, somebody has written meanwhile, and this run stops: what it is about to write
    has been decided by the older one.

    Without a guard rows are written as they are, each once as far as this process is concerned, and nobody is waited
    for: the mark is what a glance at the end of the topic tells.

    `prepare` and `commit` are the two halves of `append`. Between them all is durable and nothing is there to be read.
    If this process dies there, `finish` in another one does either in its place, given what `prepare` has returned: if
    it comes before the next rows, and before the brokers end the transaction, after `timeout` seconds.
    """

    def __init__(
        self,
        access: Access,
        messages: RowMessages,
        read: Callable[[], Iterator[pa.Table]],
        *,
        guarded: bool,
        timeout: float = TRANSACTION_SECONDS,
    ) -> None:
        self._access, self._messages, self._read = access, messages, read
        self._where, self._signature = access.where, access.signature
        self._prepared: tuple[Mapping[int, Messages], Mark] | None = None
        self._untold: Mapping[int, int] = {}  # group offsets that are missing, and where they belong
        self._seen = self._mark = access.marks.look().mark if guarded else access.marks.glance()
        self._unguarded = None if guarded else Idempotent(access.cluster, self._signature.topic)
        self._transactions = Transactions(
            access.cluster,
            access.coordinators,
            name=self._signature.id,
            group=self._signature.id,
            topic=self._signature.topic,
            timeout=timeout,
        )

    @property
    def keeps(self) -> bool:
        """Retention removes rows, and group offsets of a week ago; but not from a topic that never had a message."""
        return self._access.never_written()

    def mark(self) -> Mark | None:
        return self._mark

    def append(self, rows: pa.Table, mark: Mark) -> None:
        if self._unguarded is None:
            self.prepare(rows, mark)
            self.commit()
            return
        self._check_log(self._mark, mark)
        if rows.num_rows:
            messages = self._messages.of(rows, mark, _now())
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
        messages = self._messages.of(rows, mark, _now()) if rows.num_rows else {}
        self._prepared = (messages, mark)
        if messages:
            with self._alone():
                if not self._transactions.fenced:
                    self._take_over(mark)
                self._write(messages, mark)
            producer = self._transactions.producer
            token |= {
                "transactional_id": self._signature.id,
                "producer_id": producer.id,
                "producer_epoch": producer.epoch,
            }
        return token

    def commit(self) -> None:
        """Make what was prepared count."""
        if self._prepared is None:
            message = "nothing was prepared"
            raise RuntimeError(message)
        messages, mark = self._prepared
        with self._alone():
            while messages and not self._transactions.commit():
                if self._access.marks.look().mark == mark:
                    break
                self._write(messages, mark)
        self._prepared, self._mark = None, mark
        if messages:
            self._untold = {}

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
            if not ended and not commit and self._access.marks.look().mark == prepared:
                message = f"epoch {prepared.epoch} in {self._where} cannot be taken back: it was committed"
                raise MillstreamError(message)
        self._seen = self._mark = self._access.marks.look().mark

    def read(self) -> Iterator[pa.Table]:
        return self._read()

    def close(self) -> None:
        try:
            if self._transactions.fenced:
                self._access.settle()
        finally:
            self._access.close()

    def abandon(self) -> None:
        """Let go of the connection; a transaction that is open is the brokers' to abort, or the next run's."""
        self._access.close()

    def _holds(self, mark: Mark) -> bool:
        seen = self._access.marks.look().mark
        return seen is not None and seen.log == mark.log and seen.epoch >= mark.epoch

    def _take_over(self, mark: Mark) -> None:
        """Become the only one that writes, unless somebody else has since the mark was told."""
        for fence in (False, True):
            if fence:
                self._transactions.fence()
            look = self._access.marks.look()
            self._check_log(look.mark, mark)
            if look.mark != self._seen:
                message = (
                    f"{self._where} had {_named(self._seen)} when this run was started, and has {_named(look.mark)} "
                    f"now: another run of pipeline {self._signature.pipeline} has written since, or the last "
                    "transaction of the one before was completed only then; see that no other is running, and start "
                    "this one again"
                )
                raise InUse(message)
            self._untold = look.untold

    def _write(self, messages: Mapping[int, Messages], mark: Mark) -> None:
        try:
            self._transactions.prepare(messages, metadata_of(mark), self._untold)
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
                f"another run of pipeline {self._signature.pipeline} writes {self._signature.output} to {self._where} "
                "now, and this one stops; one pipeline, one run"
            )
            raise InUse(message) from None
        except MillstreamError:
            self._access.close()
            raise

    def _check_log(self, held: Mark | None, mark: Mark) -> None:
        if held is not None and held.log != mark.log:
            message = (
                f"{self._where} holds rows of the epoch log {held.log}, not of {mark.log}; "
                "choose another topic, or start over with --fresh in the run directory that has written them"
            )
            raise ForeignSink(message)

    def _refuse_size(self, messages: Mapping[int, Messages], large: TooLarge) -> NoReturn:
        row = self._messages.described(messages[large.partition].content[large.place])
        message = (
            f"{self._where}: the row of {row} takes {large.size:,} bytes, more than the topic allows; "
            "raise its max.message.bytes"
        )
        raise MillstreamError(message) from None


def _named(mark: Mark | None) -> str:
    return "no rows" if mark is None else f"rows up to epoch {mark.epoch}"


def _now() -> int:
    return int(time.time() * 1000)
