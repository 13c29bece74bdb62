"""The base classes of a plug-in's options: of sources, sinks, steps and models that a config names by their class.

`millstream.plugin` exports these classes to authors. The options are fields, and the methods have defaults; a subclass
defines those that are abstract. A class whose name is registered by an entry point may derive from pydantic's
`BaseModel` and define all members of the contract itself.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, field_validator

if TYPE_CHECKING:
    import pyarrow as pa

    from millstream.log.contracts import Log, OpenContext, Progress, Sink

__all__ = ["JoinStepConfig", "ModelConfig", "PluginConfig", "SinkConfig", "SourceConfig", "StepConfig"]


class PluginConfig(BaseModel):
    """The options of a plug-in: each is a field with a type, and may have a default and limits.

    `type` is the name by which a config selects the class: `module:Class`, or the name that an entry point registers.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: str = Field(default="", validate_default=True, description="The class: module:Class.")

    @field_validator("type")
    @classmethod
    def _name_of_class(cls, name: str) -> str:
        return name or f"{cls.__module__}:{cls.__qualname__}"


class SourceConfig(PluginConfig):
    """The options of a source. `open` returns the log that a run reads.

    `bounded`: a run stops at the end of the log. `fields` are the names of the fields of a record; with `time` among
    them, records have a time. The options must not change between two starts of a run, except fields with
    `json_schema_extra={"may_change": True}`.
    """

    bounded: ClassVar[bool] = True
    fields: ClassVar[Sequence[str]] = ("text", "label")

    @abstractmethod
    def open(self, context: OpenContext) -> Log:
        """Open the log."""

    def problems(self, context: OpenContext) -> Iterable[tuple[str, str]]:
        """Problems that `validate` reports, such as a missing file: for each the option and a message."""
        return ()

    def reads(self, context: OpenContext, location: str) -> bool:
        """True if this source would read the rows that a sink writes to `location`."""
        return False


class SinkConfig(PluginConfig):
    """The options of a sink. `open` returns the sink that a run appends to, one for each output.

    `read` and `progress` are for readers beside the run: they work at any time, and change nothing.
    """

    @abstractmethod
    def open(
        self,
        context: OpenContext,
        output: str,
        schema: pa.Schema,
        *,
        identity: Sequence[str] = (),
        guarded: bool = True,
    ) -> Sink:
        """Open the sink for the one run that appends to it. `identity`: the columns that identify a row."""

    @abstractmethod
    def read(self, context: OpenContext, output: str, schema: pa.Schema) -> Iterator[pa.Table]:
        """All rows, in the order in which they were appended; no rows if there is nothing yet."""

    @abstractmethod
    def progress(self, context: OpenContext, output: str) -> Progress | None:
        """The progress that was stored with the last rows; None if nothing was ever appended."""

    @abstractmethod
    def location(self, context: OpenContext, output: str) -> str:
        """The address of the rows, as users read it, such as a path or a URL."""

    @abstractmethod
    def clear(self, context: OpenContext, output: str) -> None:
        """Remove all rows and the progress, for `--fresh`."""

    def problems(self, context: OpenContext) -> Iterable[tuple[str, str]]:
        """Problems that `validate` reports: for each the option and a message."""
        return ()

    def may_clear(self, context: OpenContext, output: str) -> None:
        """Raise the error that `clear` would raise; changes nothing."""


class StepConfig(PluginConfig):
    """The options of a step. `build` returns the step for records with this schema.

    The options must not change between two starts of a run, except fields with `json_schema_extra={"may_change": True}`
    """

    @abstractmethod
    def build(self, records: pa.Schema) -> Any:
        """Build the step; raise `ConfigError` if it cannot use these records."""


class JoinStepConfig(StepConfig):
    """The options of a step that reads several streams, two unless `inputs` says otherwise.

    `build` gets the schema of each stream, in the order of `from`.
    """

    inputs: ClassVar[int] = 2

    @abstractmethod
    def build(self, records: Sequence[pa.Schema]) -> Any:
        """Build the step; raise `ConfigError` if it cannot use these streams."""


class ModelConfig(PluginConfig):
    """The options of a model. `build` returns the model for records with this schema.

    `reads` is the column that the model learns from: `text`, or `features`, which a step makes before.
    """

    reads: ClassVar[str] = "text"

    batch_size: int = Field(
        default=32,
        ge=1,
        description="The model learns from this many records at a time.",
        json_schema_extra={"keeps_state": True},
    )

    @abstractmethod
    def build(self, records: pa.Schema) -> Any:
        """Build the model; raise `ConfigError` if it cannot use these records."""
