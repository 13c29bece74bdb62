"""TLS and passwords of a Kafka connection. The options name the environment variables that hold the secrets.

A user may type a secret in place of its variable's name. So no error message contains the value of such an option,
whether it could be a name or not. This includes pydantic's own messages, which normally contain the input.
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

from millstream_connectors.kafka.client.errors import InvalidSecurity

__all__ = ["Security"]


def _variable(value: object) -> object:
    if isinstance(value, str) and re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", value, re.ASCII):
        return value
    kind = "variable_name"
    message = "this must be the name of an environment variable: letters, digits and `_`; never the secret itself"
    raise PydanticCustomError(kind, message)


_Variable = Annotated[str, BeforeValidator(_variable)]
_File = Annotated[str, Field(min_length=1)]


class Security(BaseModel):
    """The protocol, and the names of the files and variables by which a client and the brokers authenticate each other.

    >>> security = Security(
    ...     protocol="SASL_SSL", mechanism="SCRAM-SHA-512", username="me", password_env="MY_KAFKA_PASSWORD"
    ... )
    >>> list(security.problems(Path()))
    ['password_env: the environment has no variable of this name; set it to the password']
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    protocol: Literal["SSL", "SASL_SSL", "SASL_PLAINTEXT"] = Field(
        description="TLS, TLS and a password, or a password alone, which then is sent over the network unencrypted."
    )
    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = Field(
        default=None, description="The SASL mechanism that checks the password."
    )
    username: str | None = Field(default=None, min_length=1, description="The user name.")
    password_env: _Variable | None = Field(
        default=None, description="The environment variable that holds the password; never the password itself."
    )
    ca_file: _File | None = Field(
        default=None,
        description="Certificates (PEM) that sign the brokers' certificates; by default those of this machine.",
    )
    cert_file: _File | None = Field(
        default=None, description="The client's certificate (PEM), if the brokers require one."
    )
    key_file: _File | None = Field(
        default=None, description="The certificate's key (PEM), if it is not in `cert_file`."
    )
    key_password_env: _Variable | None = Field(
        default=None, description="The environment variable that holds the key's password."
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        password = {"mechanism": self.mechanism, "username": self.username, "password_env": self.password_env}
        tls = {
            "ca_file": self.ca_file,
            "cert_file": self.cert_file,
            "key_file": self.key_file,
            "key_password_env": self.key_password_env,
        }
        if self._has_password:
            if missing := [key for key, value in password.items() if value is None]:
                message = f"{self.protocol} needs {', '.join(missing)}"
                raise ValueError(message)
        elif given := [key for key, value in password.items() if value is not None]:
            message = f"{self.protocol} has no password: leave out {', '.join(given)}, or choose SASL_SSL"
            raise ValueError(message)
        if not self._has_tls and (given := [key for key, value in tls.items() if value is not None]):
            message = f"{self.protocol} has no TLS: leave out {', '.join(given)}, or choose SASL_SSL"
            raise ValueError(message)
        if self.cert_file is None and (self.key_file or self.key_password_env):
            message = "a key needs its certificate: add cert_file"
            raise ValueError(message)
        return self

    @model_validator(mode="wrap")
    @classmethod
    def _without_input(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Remove the input from all error messages; the last validator, so that it gets the errors of all others."""
        try:
            return handler(value)
        except ValidationError as error:
            errors = [
                InitErrorDetails(
                    # The message is passed as a value, because pydantic would treat braces in it as placeholders.
                    type=PydanticCustomError(one["type"], "{message}", {**one.get("ctx", {}), "message": one["msg"]}),
                    loc=one["loc"],
                    input="(not shown)",
                )
                for one in error.errors(include_url=False)
            ]
        raise ValidationError.from_exception_data(cls.__name__, errors)

    @property
    def _has_password(self) -> bool:
        return self.protocol != "SSL"

    @property
    def _has_tls(self) -> bool:
        return self.protocol != "SASL_PLAINTEXT"

    def problems(self, folder: Path) -> Iterator[str]:
        """Mistakes that are visible without a connection; files are relative to `folder`."""
        for key, variable, secret in (
            ("password_env", self.password_env, "the password"),
            ("key_password_env", self.key_password_env, "the key's password"),
        ):
            if variable is not None and not os.environ.get(variable):
                yield f"{key}: the environment has no variable of this name; set it to {secret}"
        for key, file in (("ca_file", self.ca_file), ("cert_file", self.cert_file), ("key_file", self.key_file)):
            if file is not None and not _resolve(folder, file).is_file():
                yield f"{key}: there is no file {_resolve(folder, file)}"

    def options(self, folder: Path) -> Mapping[str, Any]:
        """kafka-python's options, secrets included: only for the process that connects, never for messages or logs."""
        if problems := list(self.problems(folder)):
            message = f"security.{'; security.'.join(problems)}"
            raise InvalidSecurity(message)
        options: dict[str, Any] = {"security_protocol": self.protocol}
        if self._has_tls:
            options["ssl_context"] = self._tls(folder)
        if self._has_password:
            options["sasl_mechanism"] = self.mechanism
            options["sasl_plain_username"] = self.username
            options["sasl_plain_password"] = os.environ[self.password_env or ""]
        return options

    def _tls(self, folder: Path) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(
                cafile=None if self.ca_file is None else _resolve(folder, self.ca_file)
            )
        except (ssl.SSLError, OSError) as error:
            message = f"security.ca_file: {self.ca_file} has no certificates in PEM format: {error}"
            raise InvalidSecurity(message) from None
        if self.cert_file is not None:
            key = None if self.key_file is None else _resolve(folder, self.key_file)
            password = "" if self.key_password_env is None else os.environ[self.key_password_env]
            try:
                context.load_cert_chain(_resolve(folder, self.cert_file), key, password)
            except (ssl.SSLError, OSError) as error:
                message = (
                    f"security.cert_file: {self.cert_file} and its key cannot be used: {error}; "
                    "both must be in PEM format, and a key with a password needs key_password_env"
                )
                raise InvalidSecurity(message) from None
        return context


def _resolve(folder: Path, file: str) -> Path:
    return folder / Path(file).expanduser()
