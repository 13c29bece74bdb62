"""The sources of a config: the options of a plug-in, and the options of event time that every source has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from millstream.config.durations import Duration, parse_duration
from millstream.config.pipeline import init_details
from millstream.config.plugins import SOURCES, PluginField

__all__ = ["NamedSource", "SourceTime", "TimeOptions", "TimedSource", "source_field"]


class TimeOptions(BaseModel):
    """The options of event time, which every source has.

    >>> TimeOptions(idle=None, ahead="2h").model_dump()
    {'idle': None, 'ahead': '2h'}
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    idle: Duration | None = Field(
        default=parse_duration("1m"),
        gt=0,
        description="The watermark stops waiting for a partition that is read to its end and gets no record for this "
        "time; in a run that stops at the end of its logs, at once. `null`: the watermark waits until it ends.",
        json_schema_extra={"may_change": True},
    )
    ahead: Duration | None = Field(
        default=parse_duration("1d"),
        ge=0,
        description="A record whose time is later than the clock by more than this becomes a reject. `null`: never.",
    )


@dataclass(frozen=True)
class SourceTime:
    """The event time of a source's records: `timed` records may have a time, at most `ahead` of the clock.

    `fields` are the source's; None: the fields of all sources.
    """

    timed: bool = True
    ahead: int | None = None
    fields: tuple[str, ...] | None = None


@dataclass(frozen=True)
class TimedSource:
    """A source as a config has it: the plug-in's options, and those of event time."""

    config: Any
    times: TimeOptions


@dataclass(frozen=True)
class NamedSource:
    """One source of a config: its name, which is the value of `_source` in rows, its config and its key path."""

    name: str
    config: Any
    path: tuple[str, ...]
    times: TimeOptions

    @property
    def time(self) -> SourceTime:
        return SourceTime("time" in self.config.fields, self.times.ahead, tuple(self.config.fields))


@dataclass(frozen=True)
class _SourceField(PluginField):
    """A field with a source plug-in's mapping and the options of event time.

    A plug-in that has one of these options itself, with another default, keeps it.
    """

    def validate(self, value: object) -> TimedSource:
        if isinstance(value, TimedSource):
            super().validate(value.config)
            return value
        if not isinstance(value, Mapping):
            return _timed(super().validate(value), {})
        plugin = PluginField(self.group, self.key).chosen(value)
        added = TimeOptions.model_fields if plugin is None else _added(plugin)
        given = {key: option for key, option in value.items() if key in added}
        problems = []
        try:
            TimeOptions.model_validate(given)
        except ValidationError as wrong:
            problems += wrong.errors(include_url=False)
        try:
            source = super().validate({key: option for key, option in value.items() if key not in given})
        except ValidationError as wrong:
            problems += wrong.errors(include_url=False)
        if problems:
            raise ValidationError.from_exception_data("source", [init_details(problem) for problem in problems])
        return _timed(source, given)

    def described(self, model: type[BaseModel]) -> type[BaseModel]:
        added: dict[str, Any] = {name: (field.annotation, field) for name, field in _added(model).items()}
        return create_model(model.__name__, __base__=model, __doc__=model.__doc__, **added)

    def dump(self, chosen: Any) -> dict[str, Any] | None:
        if chosen is None:
            return None
        return {**chosen.config.model_dump(mode="json"), **chosen.times.model_dump(mode="json")}


def _added(model: type[BaseModel]) -> dict[str, Any]:
    """The options of event time that a plug-in does not have itself."""
    return {name: field for name, field in TimeOptions.model_fields.items() if name not in model.model_fields}


def _timed(source: BaseModel, given: Mapping[str, Any]) -> TimedSource:
    own = {name: getattr(source, name) for name in TimeOptions.model_fields if name in type(source).model_fields}
    return TimedSource(source, TimeOptions.model_validate(given).model_copy(update=own))


def source_field() -> Any:
    """Return the annotation of a field that holds a source: a registered model, and the options of event time."""
    return _SourceField(SOURCES, "type")
