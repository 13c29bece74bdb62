"""TLS and passwords of a Kafka connection; a config names the environment variables that hold secrets, never those.

Somebody may type a secret where its variable's name belongs. So no message has what is given there, whether it could be
a name or not; nor has pydantic's own, which would show it as input.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from millstream.errors import MillstreamError

__all__ = ["Security"]


def _variable(value: object) -> object:
    if isinstance(value, str) and re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", value, re.ASCII):
        return value
    kind = "variable_name"
    message = "it has to be the name of an environment variable: letters, digits and `_`; never the secret itself"
    raise PydanticCustomError(kind, message)


_Variable = Annotated[str, BeforeValidator(_variable)]
_File = Annotated[str, Field(min_length=1)]


class Security(BaseModel):
    """How a client and the brokers know each other.

    >>> security = Security(
    ...     protocol="SASL_SSL", mechanism="SCRAM-SHA-512", username="me", password_env="MY_KAFKA_PASSWORD"
    ... )
    >>> list(security.problems(Path()))
    ['password_env: the environment has no variable of the name given there; set it to the password']
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    protocol: Literal["SSL", "SASL_SSL", "SASL_PLAINTEXT"] = Field(
        description="TLS, TLS and a password, or a password alone, which then crosses the network unencrypted."
    )
    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = Field(
        default=None, description="How the password is proved."
    )
    username: str | None = Field(default=None, min_length=1, description="Who connects.")
    password_env: _Variable | None = Field(
        default=None, description="The environment variable that holds the password; never the password itself."
    )
    ca_file: _File | None = Field(
        default=None, description="Certificates (PEM) that sign the brokers' own; by default those of this machine."
    )
    cert_file: _File | None = Field(default=None, description="Our own certificate (PEM), if the brokers want one.")
    key_file: _File | None = Field(default=None, description="Its key (PEM), if it is not in `cert_file`.")
    key_password_env: _Variable | None = Field(
        default=None, description="The environment variable that holds the key's password."
    )

    @model_validator(mode="after")
    def _whole(self) -> Self:
        password = {"mechanism": self.mechanism, "username": self.username, "password_env": self.password_env}
        tls = {
            "ca_file": self.ca_file,
            "cert_file": self.cert_file,
            "key_file": self.key_file,
            "key_password_env": self.key_password_env,
        }
        if self._by_password:
            if missing := [key for key, value in password.items() if value is None]:
                message = f"{self.protocol} needs {', '.join(missing)}"
                raise ValueError(message)
        elif given := [key for key, value in password.items() if value is not None]:
            message = f"{self.protocol} knows no passwords: leave out {', '.join(given)}, or choose SASL_SSL"
            raise ValueError(message)
        if not self._by_tls and (given := [key for key, value in tls.items() if value is not None]):
            message = f"{self.protocol} does without TLS: leave out {', '.join(given)}, or choose SASL_SSL"
            raise ValueError(message)
        if self.cert_file is None and (self.key_file or self.key_password_env):
            message = "a key belongs to a certificate: give cert_file too"
            raise ValueError(message)
        return self

    @model_validator(mode="wrap")
    @classmethod
    def _discreet(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """The same complaints without what they are about; the last validator, so that it has those of all others."""
        try:
            return handler(value)
        except ValidationError as error:
            complaints = [
                InitErrorDetails(
                    # The message is itself a value, because pydantic would take braces in it for placeholders.
                    type=PydanticCustomError(one["type"], "{message}", {**one.get("ctx", {}), "message": one["msg"]}),
                    loc=one["loc"],
                    input="(not shown)",
                )
                for one in error.errors(include_url=False)
            ]
        raise ValidationError.from_exception_data(cls.__name__, complaints)

    @property
    def _by_password(self) -> bool:
        return self.protocol != "SSL"

    @property
    def _by_tls(self) -> bool:
        return self.protocol != "SASL_PLAINTEXT"

    def problems(self, base: Path) -> Iterator[str]:
        """What can be found wrong without connecting; files are relative to `base`."""
        for key, variable, what in (
            ("password_env", self.password_env, "the password"),
            ("key_password_env", self.key_password_env, "the key's password"),
        ):
            if variable is not None and not os.environ.get(variable):
                yield f"{key}: the environment has no variable of the name given there; set it to {what}"
        for key, file in (("ca_file", self.ca_file), ("cert_file", self.cert_file), ("key_file", self.key_file)):
            if file is not None and not _at(base, file).is_file():
                yield f"{key}: there is no {_at(base, file)}"

    def options(self, base: Path) -> Mapping[str, Any]:
        """kafka-python's options, secrets included: for the process that connects, and never shown."""
        if problems := list(self.problems(base)):
            message = f"security.{'; security.'.join(problems)}"
            raise MillstreamError(message)
        options: dict[str, Any] = {"security_protocol": self.protocol}
        if self._by_tls:
            options["ssl_context"] = self._tls(base)
        if self._by_password:
            options["sasl_mechanism"] = self.mechanism
            options["sasl_plain_username"] = self.username
            options["sasl_plain_password"] = os.environ[self.password_env or ""]
        return options

    def _tls(self, base: Path) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=None if self.ca_file is None else _at(base, self.ca_file))
        except (ssl.SSLError, OSError) as error:
            message = f"security.ca_file: {self.ca_file} holds no certificates in PEM: {error}"
            raise MillstreamError(message) from None
        if self.cert_file is not None:
            key = None if self.key_file is None else _at(base, self.key_file)
            password = "" if self.key_password_env is None else os.environ[self.key_password_env]
            try:
                context.load_cert_chain(_at(base, self.cert_file), key, password)
            except (ssl.SSLError, OSError) as error:
                message = (
                    f"security.cert_file: {self.cert_file} and its key cannot be used: {error}; "
                    "both in PEM, and key_password_env if the key has a password"
                )
                raise MillstreamError(message) from None
        return context


def _at(base: Path, file: str) -> Path:
    return base / Path(file).expanduser()
