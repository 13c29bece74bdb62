"""Questions to a cluster, asked again while a broker is away; what will never be answered is told at once."""

from __future__ import annotations

import os
import re
import ssl
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from kafka import errors as kafka_errors

from millstream.errors import MillstreamError
from millstream_connectors.kafka.network import Address, Broker, Client, Pending
from millstream_connectors.kafka.security import Security
from millstream_connectors.kafka.waiting import Patience

__all__ = ["Connection", "addresses", "checked"]

T = TypeVar("T")

_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.02, 0.05
_ANSWER_SECONDS = 30.0
_GLANCE_SECONDS = 0.25
_ADVICE = "is the address right, and does it run? `millstream kafka up` starts one on this machine"

_ADDRESS = r"([\w.-]+|\[[0-9A-Fa-f:.]+\]):([0-9]{1,5})"

_INHERITED: list[Client] = []
"""Connections of the process that this one was forked from: collecting them would end that process's waiting."""


def addresses(bootstrap: str) -> list[Address]:
    """The hosts and ports of `host:port,host:port`.

    >>> addresses("127.0.0.1:9092, [::1]:9093")
    [('127.0.0.1', 9092), ('::1', 9093)]
    """
    found = [re.fullmatch(_ADDRESS, part.strip()) for part in bootstrap.split(",")]
    if not all(one and 0 < int(one[2]) < 65_536 for one in found):
        message = "a broker is HOST:PORT, such as 127.0.0.1:9092; several have commas between them"
        raise ValueError(message)
    return [(one[1].strip("[]"), int(one[2])) for one in found if one]


def checked(code: int, what: str) -> None:
    """Raise what a broker's error code stands for, if it is one."""
    if code:
        raise kafka_errors.for_code(code)(what)


class Connection:
    """The connections of one process to one cluster, opened when first needed; any thread may ask.

    A question is a coroutine function that is given the `Broker`. What may pass is asked again until `patience`
    seconds are over; what will not (a wrong password, a forbidden topic) is told at once.
    """

    def __init__(
        self,
        bootstrap: str,
        security: Security | None,
        patience: float,
        base: Path,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self._bootstrap = bootstrap
        self._addresses = addresses(bootstrap)
        self._security, self._base = security, base
        self._patience = Patience(f"Kafka at {bootstrap}", patience, stopped=stopped)
        self._lock = threading.Lock()
        self._client: Client | None = None
        self._pending: dict[str, Pending[Any]] = {}

    def ask(self, what: str, question: Callable[[Broker], Awaitable[T]]) -> T:
        """The answer, however often it has to be asked for; `what` tells one kind of question from another."""
        pause = _SHORTEST_PAUSE
        while True:
            pending = self._open().put(question)
            while not pending.wait(_GLANCE_SECONDS):
                self._no_answer(what, pending)
            try:
                answer = pending.answer
            except kafka_errors.KafkaError as error:
                self._no_answer(what, pending, error)
            else:
                self._patience.over(what)
                return answer
            time.sleep(pause)
            pause = min(pause * 1.5, _LONGEST_PAUSE)

    def ask_briefly(self, what: str, question: Callable[[Broker], Awaitable[T]]) -> T | None:
        """The answer, or None if the broker is away or slow: then the next call looks whether it has come."""
        pending = self._pending.pop(what, None) or self._open().put(question)
        if not pending.wait(_GLANCE_SECONDS):
            self._pending[what] = pending
            self._no_answer(what, pending)
            return None
        try:
            answer: T = pending.answer
        except kafka_errors.KafkaError as error:
            self._no_answer(what, pending, error)
            return None
        self._patience.over(what)
        return answer

    def close(self) -> None:
        with self._lock:
            client, self._client = self._client, None
            self._pending.clear()
        if client is not None and client.process == os.getpid():
            client.close()

    def _open(self) -> Client:
        client = self._client
        if client is not None and client.process == os.getpid():
            return client
        if client is not None:  # we were forked: the sockets and the thread are the parent's
            _INHERITED.append(client)
            self._client, self._pending, self._lock = None, {}, threading.Lock()
        with self._lock:
            if self._client is None:
                options = self._security.options(self._base) if self._security is not None else {}
                seconds = min(_ANSWER_SECONDS, max(self._patience.seconds, 1.0))
                self._client = Client(self._addresses, options, seconds)
            return self._client

    def _no_answer(self, what: str, pending: Pending[Any], error: kafka_errors.KafkaError | None = None) -> None:
        """Raises if another try would be in vain, or patience is over."""
        reason = "no answer" if error is None else self._may_pass(error)
        advice = "" if isinstance(error, kafka_errors.BrokerResponseError) else _ADVICE
        self._patience.failed(what, reason, since=pending.since, advice=advice)

    def _may_pass(self, error: kafka_errors.KafkaError) -> str:
        """Why a try failed, in words; raises if another one would fail too."""
        cause = error.__cause__
        if isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLEOFError | ssl.SSLZeroReturnError):
            self._refuse(f"TLS failed: {cause.reason or cause}; see `security`")
        if isinstance(error, kafka_errors.SaslAuthenticationFailedError):
            told = str(error.args[0]).partition(": ")[2] if error.args else ""
            self._refuse(f"the brokers do not accept the user name and password of `security` ({told})")
        if isinstance(error, kafka_errors.UnsupportedSaslMechanismError):
            self._refuse("the brokers do not know the mechanism of `security`")
        if isinstance(error, kafka_errors.AuthorizationError):
            self._refuse(f"not allowed: {_words(error)}; grant it to this user")
        if isinstance(error, kafka_errors.UnsupportedVersionError):
            self._refuse(f"this needs a broker of Kafka 2.8 or newer ({_words(error)})")
        if isinstance(error, kafka_errors.InvalidReceiveError):
            self._refuse("what answers there is no Kafka broker, or wants TLS; see `security`")
        if not error.retriable and not isinstance(error, kafka_errors.UnknownBrokerIdError):
            self._refuse(_words(error))
        return _words(error)

    def _refuse(self, reason: str) -> NoReturn:
        message = f"Kafka at {self._bootstrap}: {reason}"
        raise MillstreamError(message)


def _words(error: kafka_errors.KafkaError) -> str:
    """An error of kafka-python as people say it: its name in words, and what it is about."""
    about = ": ".join(str(part) for part in error.args)
    if isinstance(error, kafka_errors.BrokerResponseError):
        name = (error.message or type(error).__name__).replace("_", " ").lower()
        return f"{about}: {name}" if about else name
    if about == "socket disconnected":
        return "it closed the connection, as it does without the TLS or the password that it wants"
    return about.replace("111 ECONNREFUSED", "connection refused") or type(error).__name__
