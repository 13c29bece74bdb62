"""The models of a config file, with defaults and limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from millstream.config.durations import Duration, parse_duration
from millstream.config.partial_windows import marking_partial
from millstream.config.pipeline import (
    NAME,
    RUN_NAME,
    CycleLimits,
    NamedStep,
    cycle_limits,
    pipeline_field,
    pipeline_steps,
)
from millstream.config.plugins import SINKS, plugin_field
from millstream.config.search import Search
from millstream.config.sources import NamedSource, SourceTime, TimedSource, source_field
from millstream.config.stream_names import STREAM
from millstream.timestamps import in_utc

__all__ = ["Config", "EngineConfig", "EpochSize", "Guarantee", "Mlflow", "RunMlflow"]

PlainName = Annotated[str, Field(pattern=NAME)]
StreamName = Annotated[str, Field(pattern=STREAM)]

_RECOVERIES: Mapping[str, Sequence[str]] = {"epochs": ("spark", "local"), "snapshots": (), "transactions": ()}


def _refuse(message: str) -> PydanticCustomError:
    return PydanticCustomError("refused", "{message}", {"message": message})


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Guarantee(_Section):
    """The allowed effects of a crash on results.

    >>> Guarantee().delivery, Guarantee().checkpoint_every
    ('exactly_once', 1)
    """

    delivery: Literal["exactly_once", "at_least_once", "at_most_once"] = Field(
        default="exactly_once", description="How often the results may count a record if the run crashes."
    )
    recovery: Literal["epochs", "snapshots", "transactions"] = Field(
        default="epochs",
        description="The durable data that a restart begins with; `epochs` is the epoch log and checkpoints.",
    )
    checkpoint_every: int = Field(
        default=1, ge=1, le=10_000, description="Number of epochs between two checkpoints of the state."
    )
    commit_every: int = Field(
        default=1, ge=1, le=10_000, description="Number of epochs between two commits in the epoch log."
    )
    shards: int = Field(
        default=64,
        ge=1,
        le=4096,
        description="Number of shards into which state by key is divided. It never changes during a run's life, and "
        "limits the number of processes that can share a keyed step.",
    )

    @field_validator("recovery")
    @classmethod
    def _check_recovery(cls, recovery: str) -> str:
        if not _RECOVERIES[recovery]:
            supported = [
                f"{' and '.join(engines)} recover by {name}" for name, engines in _RECOVERIES.items() if engines
            ]
            message = f"no engine recovers by {recovery} yet; {', '.join(supported)}"
            raise _refuse(message)
        return recovery

    @field_validator("commit_every")
    @classmethod
    def _check_commit_every(cls, commit_every: int, info: Any) -> int:
        if info.data.get("delivery") == "at_most_once" and commit_every != 1:
            message = (
                f"{commit_every} is not allowed with at_most_once, which commits every epoch before it is processed; "
                "leave commit_every out, or choose at_least_once"
            )
            raise _refuse(message)
        return commit_every


class EpochSize(_Section):
    """The limits at which the stream is cut into epochs."""

    max_records: int = Field(default=5000, ge=1, le=1_000_000, description="The maximum number of records in an epoch.")
    max_wait: Duration = Field(
        default=parse_duration("20ms"),
        ge=0,
        description="The maximum time that a record waits for its epoch to fill up. 0, the default of the local "
        "engine, cuts an epoch as soon as records arrive: epochs are small while the stream is quiet, and grow under "
        "load.",
    )


class EngineConfig(_Section):
    """The engine that runs the pipeline. Results do not depend on the engine."""

    type: Literal["spark", "local"] = Field(
        default="spark", description="`spark`, or `local`: this machine without Spark."
    )
    epoch: EpochSize = EpochSize()
    workers: int = Field(
        default=1,
        ge=1,
        le=64,
        description="Number of processes of the local engine that run steps; 1 runs all steps in one process.",
    )
    placement: dict[str, Literal["driver", "worker"]] = Field(
        default={},
        description="The process of Spark that runs a step, by the step's name. Default: the engine decides.",
    )

    @model_validator(mode="before")
    @classmethod
    def _no_wait_on_local(cls, data: Any) -> Any:
        if not isinstance(data, Mapping) or data.get("type") != "local":
            return data
        epoch = data.get("epoch", {})
        return {**data, "epoch": {"max_wait": "0", **epoch}} if isinstance(epoch, Mapping) else data


class Mlflow(_Section):
    """The MLflow experiment and server that record runs or a study."""

    experiment: str = Field(min_length=1, description="The MLflow experiment that records the runs.")
    tracking_uri: str | None = Field(
        default=None, description="The server or store of MLflow. Default: MLflow decides."
    )


class RunMlflow(Mlflow):
    """Recording of a run in MLflow, and the name under which it registers its model."""

    experiment: str = Field(
        default="", description="The MLflow experiment that records the runs. Default: the name of the pipeline."
    )
    model: str | None = Field(
        default=None,
        pattern=RUN_NAME,
        description="The name under which a running pipeline registers versions of its model. Default: it does not.",
    )
    every: Duration = Field(
        default=parse_duration("1h"), gt=0, description="The time between two registered versions, by wall clock."
    )


def _nothing(value: Any) -> bool:
    if value is False or value == "false":
        return False
    message = "false, or a mapping with `experiment` or `model`"
    raise ValueError(message)


_MlflowOrNot = Annotated[
    Annotated[RunMlflow, Tag("mlflow")] | Annotated[Literal[False], BeforeValidator(_nothing), Tag("nothing")],
    Discriminator(lambda value: "mlflow" if isinstance(value, Mapping | Mlflow) else "nothing"),
]


class Config(_Section):
    """A pipeline: its sources, steps, sinks, guarantee and engine."""

    name: str = Field(
        pattern=RUN_NAME,
        description="The name of the pipeline and of its run directory: letters, digits, `.`, `_` and `-`.",
    )
    sources: dict[PlainName, Annotated[Any, source_field()]] = Field(
        default={}, description="Several sources by name, instead of `source`."
    )
    source: Annotated[Any, source_field()] = Field(
        default=None, validate_default=True, description="The source of the records."
    )
    pipeline: Annotated[Any, pipeline_field()] = Field(
        description="A named pipeline (`use`) with its options, or a list of steps (`steps`)."
    )
    sinks: dict[StreamName, Annotated[Any, plugin_field(SINKS)]] = Field(
        default={},
        description="The sink of each output, or of a step's records; outputs without a sink are files in the run "
        "directory.",
    )
    guarantee: Guarantee = Guarantee()
    engine: EngineConfig = EngineConfig()
    keep: Duration | None = Field(
        default=parse_duration("7d"),
        gt=0,
        description="The period that replay and audit can reach back. Older epochs are removed from the epoch log, and "
        "older checkpoints; `null` keeps everything.",
    )
    partial_until: Annotated[datetime, AfterValidator(in_utc)] | None = Field(
        default=None,
        description="Rows of windows get a column `_partial`, which is true for windows that may have records up to "
        "this event time. A run that begins with a registered model sets it to the latest time that the model has "
        "learned; null for no column.",
    )
    mlflow: _MlflowOrNot = Field(default=False, description="Recording in MLflow; `false` records nothing.")
    search: Search | None = Field(
        default=None, description="The options that `millstream train --how search` tries. Default: none."
    )

    @field_validator("mlflow", mode="before")
    @classmethod
    def _default_experiment(cls, mlflow: Any, info: Any) -> Any:
        """The experiment has by default the name of the pipeline."""
        if isinstance(mlflow, Mapping) and "name" in info.data:
            return {"experiment": info.data["name"], **mlflow}
        return mlflow

    @field_validator("source", mode="wrap")
    @classmethod
    def _one_or_several(cls, source: Any, handler: Any, info: Any) -> Any:
        several = info.data.get("sources", True)
        if source is None and not several:
            raise _refuse("required; or `sources`, if there are several")
        if source is not None and several:
            raise _refuse("`source` and `sources` are both given; keep one of the two")
        return None if source is None else handler(source)

    @property
    def logs(self) -> tuple[NamedSource, ...]:
        """The sources in the order of their partitions in an epoch; a single `source` has the name `source`."""
        if self.source is not None:
            return (NamedSource("source", self.source.config, ("source",), self.source.times),)
        return tuple(
            NamedSource(name, source.config, ("sources", name), source.times) for name, source in self.sources.items()
        )

    @property
    def source_times(self) -> dict[str, SourceTime]:
        """The event time of each source."""
        return {source.name: source.time for source in self.logs}

    def with_idle(self, idle: int | None) -> Config:
        """Return this config with another `idle` of all sources, in microseconds."""

        def changed(source: TimedSource | None) -> TimedSource | None:
            return None if source is None else replace(source, times=source.times.model_copy(update={"idle": idle}))

        sources = {name: changed(source) for name, source in self.sources.items()}
        return self.model_copy(update={"source": changed(self.source), "sources": sources})

    @property
    def steps(self) -> tuple[NamedStep, ...]:
        """The steps of the pipeline."""
        return marking_partial(pipeline_steps(self.pipeline), self.partial_until)

    @property
    def cycle_limits(self) -> CycleLimits:
        """The limits of the pipeline's cycles."""
        return cycle_limits(self.pipeline)
