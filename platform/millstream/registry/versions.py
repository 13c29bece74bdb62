"""Registered versions, as commands and runs report them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["RegisteredVersion"]


@dataclass(frozen=True)
class RegisteredVersion:
    """A version of a model in a registry, whose address is `store`; `records` is the sum of its positions."""

    name: str
    version: int
    digest: str
    records: int
    store: str

    @property
    def uri(self) -> str:
        """The address with which MLflow loads the version."""
        return f"models:/{self.name}/{self.version}"
