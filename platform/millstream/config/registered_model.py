"""A model that a config takes from a registry: the place of its type and options until the version is known."""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn

from pydantic import BaseModel, ConfigDict, Field, model_serializer

from millstream.errors import ConfigError

__all__ = ["VERSION", "RegisteredModel"]

VERSION = r"^models:/[^/@]+(/\d+|@[^/@]+)$"
"""The address of a version in a registry."""


class RegisteredModel(BaseModel):
    """A registered version of a model: its type, its options, its state, and the positions up to which it was trained.

    >>> RegisteredModel.model_validate({"from": "models:/news@champion"}).uri
    'models:/news@champion'
    """

    model_config = ConfigDict(extra="forbid", frozen=True, title="RegisteredModel")

    type: ClassVar[str] = "registered"
    extra: ClassVar[str] = "mlflow"

    uri: str = Field(
        alias="from",
        pattern=VERSION,
        description="The version: models:/NAME/VERSION or models:/NAME@ALIAS.",
    )

    def build(self, records: Any) -> NoReturn:
        message = f"the model {self.uri} is not known here; give its `type` and options instead of `from`"
        raise ConfigError(message)

    @model_serializer
    def _as_written(self) -> dict[str, str]:
        return {"from": self.uri}
