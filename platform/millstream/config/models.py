"""What a config file may say: the models that it is validated into, with their defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, field_validator, model_validator
from pydantic_core import PydanticCustomError

from millstream.config.durations import Duration, parse_duration
from millstream.config.pipeline import NAME, RUN_NAME, NamedStep, pipeline_field, pipeline_steps
from millstream.config.plugins import SINKS, SOURCES, plugin_field

__all__ = ["Config", "Engine", "EpochSize", "Guarantee", "Mlflow"]

PlainName = Annotated[str, Field(pattern=NAME)]

_RECOVERIES: Mapping[str, Sequence[str]] = {"epochs": ("spark", "local"), "snapshots": (), "transactions": ()}


def _refuse(message: str) -> PydanticCustomError:
    return PydanticCustomError("refused", "{message}", {"message": message})


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Guarantee(_Section):
    """What a crash may do to results.

    >>> Guarantee().delivery, Guarantee().checkpoint_every
    ('exactly_once', 1)
    """

    delivery: Literal["exactly_once", "at_least_once", "at_most_once"] = Field(
        default="exactly_once", description="How often a record may count in the results of a run that crashes."
    )
    recovery: Literal["epochs", "snapshots", "transactions"] = Field(
        default="epochs", description="What is durable, and what a restart goes back to."
    )
    checkpoint_every: int = Field(default=1, ge=1, le=10_000, description="State is saved after every so many epochs.")
    commit_every: int = Field(
        default=1, ge=1, le=10_000, description="Progress is committed after every so many epochs."
    )

    @field_validator("recovery")
    @classmethod
    def _possible(cls, recovery: str) -> str:
        if not _RECOVERIES[recovery]:
            able = [f"{' and '.join(engines)} recover by {name}" for name, engines in _RECOVERIES.items() if engines]
            message = f"no engine recovers by {recovery} yet; {', '.join(able)}"
            raise _refuse(message)
        return recovery

    @field_validator("commit_every")
    @classmethod
    def _every_epoch(cls, commit_every: int, info: Any) -> int:
        if info.data.get("delivery") == "at_most_once" and commit_every != 1:
            message = (
                f"{commit_every} is not allowed with at_most_once, which commits every epoch before it is processed; "
                "leave commit_every out, or choose at_least_once"
            )
            raise _refuse(message)
        return commit_every


class EpochSize(_Section):
    """Where the stream is cut into epochs."""

    max_records: int = Field(default=5000, ge=1, le=1_000_000, description="The most records an epoch holds.")
    max_wait: Duration = Field(
        default=parse_duration("20ms"),
        ge=0,
        description="The longest a record waits for its epoch to fill up; 0, the default of the local engine, cuts as "
        "soon as records are there, so that epochs are small while it is quiet and grow under load.",
    )


class Engine(_Section):
    """What runs the pipeline. Results do not depend on it."""

    type: Literal["spark", "local"] = Field(default="spark", description="Spark, or this machine without it.")
    epoch: EpochSize = EpochSize()
    workers: int = Field(
        default=1, ge=1, le=64, description="How many processes the local engine shares the steps out to; 1 is alone."
    )
    placement: dict[str, Literal["driver", "worker"]] = Field(
        default={}, description="Where Spark runs a step, by its name; by default the engine's choice."
    )

    @model_validator(mode="before")
    @classmethod
    def _no_wait_on_local(cls, data: Any) -> Any:
        if not isinstance(data, Mapping) or data.get("type") != "local":
            return data
        epoch = data.get("epoch", {})
        return {**data, "epoch": {"max_wait": "0", **epoch}} if isinstance(epoch, Mapping) else data


class Mlflow(_Section):
    """Where runs and models are recorded."""

    experiment: str = Field(min_length=1, description="The MLflow experiment that runs are recorded in.")
    tracking_uri: str | None = Field(
        default=None, description="MLflow's server or store; by default MLflow's own choice."
    )


_MlflowOrNot = Annotated[
    Annotated[Mlflow, Tag("mlflow")]
    | Annotated[Literal[False], BeforeValidator(lambda value: False if value == "false" else value), Tag("nothing")],
    Discriminator(lambda value: "mlflow" if isinstance(value, Mapping | Mlflow) else "nothing"),
]


@dataclass(frozen=True)
class Source:
    """One source of a config: its name, which rows show as `_source`, and the registered model."""

    name: str
    config: Any
    path: tuple[str, ...]


class Config(_Section):
    """One pipeline, whole: where records come from, what happens to them, where rows go, and what is guaranteed."""

    name: str = Field(
        pattern=RUN_NAME,
        description="The pipeline's name, also that of its run directory: letters, digits, `.`, `_` and `-`.",
    )
    sources: dict[PlainName, Annotated[Any, plugin_field(SOURCES)]] = Field(
        default={}, description="Several sources, each with a name, instead of `source`."
    )
    source: Annotated[Any, plugin_field(SOURCES)] = Field(
        default=None, validate_default=True, description="Where records come from."
    )
    pipeline: Annotated[Any, pipeline_field()] = Field(
        description="`use:` a named pipeline, its parts tuned, or `steps:` written out."
    )
    sinks: dict[PlainName, Annotated[Any, plugin_field(SINKS)]] = Field(
        default={}, description="Where each output goes; one without a sink is kept in the run directory."
    )
    guarantee: Guarantee = Guarantee()
    engine: Engine = Engine()
    keep: Duration | None = Field(
        default=parse_duration("7d"),
        gt=0,
        description="How far back replay and audit can reach; `null` for everything.",
    )
    mlflow: _MlflowOrNot = Field(default=False, description="What is recorded in MLflow; `false` for nothing.")

    @field_validator("source", mode="wrap")
    @classmethod
    def _one_or_several(cls, source: Any, handler: Any, info: Any) -> Any:
        several = info.data.get("sources", True)
        if source is None and not several:
            raise _refuse("required; or `sources`, if there are several")
        if source is not None and several:
            raise _refuse("`sources` is given too; a config has one of them")
        return None if source is None else handler(source)

    @property
    def logs(self) -> tuple[Source, ...]:
        """The sources in the order in which their partitions count; a lone `source` is called `source`."""
        if self.source is not None:
            return (Source("source", self.source, ("source",)),)
        return tuple(Source(name, config, ("sources", name)) for name, config in self.sources.items())

    @property
    def steps(self) -> tuple[NamedStep, ...]:
        """The pipeline's steps, written out."""
        return pipeline_steps(self.pipeline)
