"""Questions to a cluster: asked again while a broker is unavailable, refused at once where no retry can help."""

from __future__ import annotations

import os
import ssl
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from kafka import errors as kafka_errors

from millstream_connectors.kafka.client.addresses import parse_addresses
from millstream_connectors.kafka.client.errors import RequestRefused
from millstream_connectors.kafka.client.network import NetworkLoop, Nodes, PendingAnswer
from millstream_connectors.kafka.client.retries import RetryTimer
from millstream_connectors.kafka.client.security import Security

__all__ = ["Connection", "check_code"]

T = TypeVar("T")

_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.02, 0.05
_MIN_ANSWER_SECONDS, _MAX_ANSWER_SECONDS = 1.0, 30.0
_POLL_SECONDS = 0.25
"""Time to wait for an answer before the timeout, or a stop, is checked."""

_INHERITED: list[NetworkLoop] = []
"""Loops of the process that this one was forked from: collecting them as garbage would wake up that process's loop."""


def check_code(code: int, subject: str) -> None:
    """Raise the exception of a broker's error code; 0 is success."""
    if code:
        raise kafka_errors.for_code(code)(subject)


class Connection:
    """The connections of one process to one cluster, opened at the first question; any thread may ask.

    A question is a coroutine function that gets the cluster's `Nodes`. If it fails with an error that may be temporary,
    it is asked again until `timeout` seconds have passed. Any other error, such as a wrong password or a forbidden
    topic, is raised at once.
    """

    def __init__(
        self,
        bootstrap: str,
        security: Security | None,
        timeout: float,
        folder: Path,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self._bootstrap = bootstrap
        self._addresses = parse_addresses(bootstrap)
        self._security, self._folder = security, folder
        self._timer = RetryTimer(f"Kafka at {bootstrap}", timeout, stopped=stopped)
        self._lock = threading.Lock()
        self._loop: NetworkLoop | None = None
        self._pending: dict[str, PendingAnswer[Any]] = {}

    def ask(self, kind: str, question: Callable[[Nodes], Awaitable[T]]) -> T:
        """The answer, after as many attempts as it takes; `kind` names the kind of question."""
        pause = _SHORTEST_PAUSE
        while True:
            pending = self._open().submit(question)
            while not pending.wait(_POLL_SECONDS):
                self._attempt_failed(kind, pending, stops=True)
            try:
                answer = pending.answer
            except kafka_errors.KafkaError as error:
                self._attempt_failed(kind, pending, error, stops=True)
            else:
                self._timer.succeeded(kind)
                return answer
            time.sleep(pause)
            pause = min(pause * 1.5, _LONGEST_PAUSE)

    def ask_briefly(self, kind: str, question: Callable[[Nodes], Awaitable[T]]) -> T | None:
        """The answer; None if the broker is unavailable or slow, and the next call then returns a late answer."""
        pending = self._pending.pop(kind, None) or self._open().submit(question)
        if not pending.wait(_POLL_SECONDS):
            self._pending[kind] = pending
            self._attempt_failed(kind, pending)
            return None
        try:
            answer: T = pending.answer
        except kafka_errors.KafkaError as error:
            self._attempt_failed(kind, pending, error)
            return None
        self._timer.succeeded(kind)
        return answer

    def close(self) -> None:
        with self._lock:
            loop, self._loop = self._loop, None
            self._pending.clear()
        if loop is not None and loop.process == os.getpid():
            loop.close()

    def _open(self) -> NetworkLoop:
        loop = self._loop
        if loop is not None and loop.process == os.getpid():
            return loop
        if loop is not None:  # this process was forked: the sockets and the thread are the parent's
            _INHERITED.append(loop)
            self._loop, self._pending, self._lock = None, {}, threading.Lock()
        with self._lock:
            if self._loop is None:
                options = self._security.options(self._folder) if self._security is not None else {}
                seconds = min(_MAX_ANSWER_SECONDS, max(self._timer.timeout, _MIN_ANSWER_SECONDS))
                self._loop = NetworkLoop(self._addresses, options, seconds)
            return self._loop

    def _attempt_failed(
        self,
        kind: str,
        pending: PendingAnswer[Any],
        error: kafka_errors.KafkaError | None = None,
        *,
        stops: bool = False,
    ) -> None:
        """Raise if no retry can help, if the timeout has passed or, where the caller `stops`, if it has stopped."""
        reason = "no answer" if error is None else self._retriable_reason(error)
        unreachable = not isinstance(error, kafka_errors.BrokerResponseError)
        self._timer.failed(kind, reason, since=pending.since, unreachable=unreachable)
        if stops:
            self._timer.check_stop(kind, reason)

    def _retriable_reason(self, error: kafka_errors.KafkaError) -> str:
        """The reason of a failure, for people; raises if a retry would fail too."""
        cause = error.__cause__
        if isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLEOFError | ssl.SSLZeroReturnError):
            self._refuse(f"TLS failed: {cause.reason or cause}; see `security`")
        if isinstance(error, kafka_errors.SaslAuthenticationFailedError):
            details = str(error.args[0]).partition(": ")[2] if error.args else ""
            self._refuse(f"the brokers do not accept the user name and password of `security` ({details})")
        if isinstance(error, kafka_errors.UnsupportedSaslMechanismError):
            self._refuse("the brokers do not support the mechanism of `security`")
        if isinstance(error, kafka_errors.AuthorizationError):
            self._refuse(f"not allowed: {_in_words(error)}; grant it to this user")
        if isinstance(error, kafka_errors.UnsupportedVersionError):
            self._refuse(f"this needs a broker of Kafka 2.8 or newer ({_in_words(error)})")
        if isinstance(error, kafka_errors.InvalidReceiveError):
            self._refuse("the server at this address is no Kafka broker, or requires TLS; see `security`")
        if not error.retriable and not isinstance(error, kafka_errors.UnknownBrokerIdError):
            self._refuse(_in_words(error))
        return _in_words(error)

    def _refuse(self, reason: str) -> NoReturn:
        message = f"Kafka at {self._bootstrap}: {reason}"
        raise RequestRefused(message)


def _in_words(error: kafka_errors.KafkaError) -> str:
    """An error of kafka-python for people: its name in words, and its subject."""
    subject = ": ".join(str(part) for part in error.args)
    if isinstance(error, kafka_errors.BrokerResponseError):
        name = (error.message or type(error).__name__).replace("_", " ").lower()
        return f"{subject}: {name}" if subject else name
    if subject == "socket disconnected":
        return "the broker closed the connection, as it does without the TLS or the password that it requires"
    return subject.replace("111 ECONNREFUSED", "connection refused") or type(error).__name__
