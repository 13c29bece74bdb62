"""The `pipeline` of a config: a named pipeline with its options, or a list of steps."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationError,
    create_model,
    field_validator,
)
from pydantic_core import (
    CoreSchema,
    ErrorDetails,
    InitErrorDetails,
    PydanticCustomError,
    PydanticKnownError,
    core_schema,
)

from millstream.config.absent_plugin import AbsentPlugin
from millstream.config.plugins import PIPELINES, STEPS, plugin_field
from millstream.config.stream_names import READS, READS_SCHEMA, READS_TO_ALL_SCHEMA, StreamToAll, read_errors
from millstream.errors import ConfigError
from millstream.shadow_names import is_shadow, shadow_of

__all__ = [
    "DEFAULT_LIMITS",
    "NAME",
    "RUN_NAME",
    "TO_ALL",
    "CycleLimits",
    "NamedStep",
    "StepList",
    "cycle_limits",
    "duplicates",
    "init_details",
    "pipeline_field",
    "pipeline_steps",
]

NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"
"""The names of steps, sources and sinks: safe in file names and in key paths."""

RUN_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
"""The name of a pipeline: safe as the name of a folder."""

TO_ALL = "second stream to all"
"""A mark in the JSON Schema of a step that can read its second stream `to: all`; editors do not see it."""

_STEP = plugin_field(STEPS)
_PIPELINE = plugin_field(PIPELINES, key="use")


@dataclass(frozen=True)
class NamedStep:
    """A step: its name, its config, the key path of its options in `pipeline`, and the streams that it reads.

    Without `reads`, the first step reads all sources, and every other step the step before it; a step that is `beside`
    another one reads what that one reads. The records of the streams in `to_all` go to all processes that share the
    keys of the step.
    """

    name: str
    config: Any
    path: tuple[str | int, ...] = ()
    reads: tuple[str, ...] | None = None
    to_all: frozenset[str] = frozenset()
    beside: str | None = None

    @property
    def written_reads(self) -> list[str | dict[str, str]]:
        """The streams as `from` lists them in a config; none for a step that reads what it reads by default."""
        return [{"stream": name, "to": "all"} if name in self.to_all else name for name in self.reads or ()]


def _problem(where: tuple[str | int, ...], value: object, message: str) -> InitErrorDetails:
    error = PydanticCustomError("refused", "{message}", {"message": message})
    return InitErrorDetails(type=cast(Any, error), loc=where, input=value)


def init_details(found: ErrorDetails) -> InitErrorDetails:
    """Return the details with which pydantic raises an error again, together with others."""
    kind, context, where, value = found["type"], found.get("ctx", {}), found["loc"], found["input"]
    try:
        PydanticKnownError(cast(Any, kind), context)
    except KeyError:
        custom = PydanticCustomError(cast(Any, kind), "{message}", {**context, "message": found["msg"]})
        return InitErrorDetails(type=custom, loc=where, input=value)
    return InitErrorDetails(type=kind, loc=where, input=value, ctx=context)


def _default_name(kind: object) -> str:
    """The name of a step without a name of its own: its type, or the name of its class.

    >>> _default_name("hashed_text"), _default_name("my_package.my_steps:Shorten")
    ('hashed_text', 'Shorten')
    """
    name = str(kind)
    return name.rpartition(":")[2].rpartition(".")[2] if ":" in name else name


@dataclass(frozen=True)
class _StepField:
    """An item of `steps`: a step plug-in's mapping, with a `name`, the streams that it reads, and its options."""

    def validate(self, value: object) -> NamedStep:
        if isinstance(value, NamedStep):
            _STEP.validate(value.config)
            if isinstance(value.name, str) and re.match(NAME, value.name):
                return value
            message = f"a step has a name of letters, digits, `_` and `-`, at most 64, not {value.name!r}"
            raise ValidationError.from_exception_data("step", [_problem((), value.name, message)])
        if isinstance(value, BaseModel):
            _STEP.validate(value)
            name = value.step_name if isinstance(value, AbsentPlugin) else None
            return NamedStep(name or _default_name(getattr(value, "type", type(value).__name__)), value)
        model = _STEP.chosen(value)
        own = model is not None and "name" in model.model_fields  # the step's own options include its name
        if not isinstance(value, Mapping) or (not own and not {"name", "from"} & set(value)):
            step = _STEP.validate(value)
            return NamedStep(_default_name(step.type), step)
        problems: list[InitErrorDetails] = []
        streams: list[str | StreamToAll] | None = None
        try:
            streams = READS.validate_python(value["from"]) if "from" in value else None
        except ValidationError as wrong:
            problems += [init_details({**error, "loc": ("from", *error["loc"])}) for error in read_errors(wrong)]
        name = value.get("name", _default_name(value.get("type")))
        if not isinstance(name, str):
            problems.append(InitErrorDetails(type="string_type", loc=("name",), input=name))
        elif not re.match(NAME, name):
            context = {"pattern": NAME}
            problems.append(InitErrorDetails(type="string_pattern_mismatch", loc=("name",), input=name, ctx=context))
        options = {key: option for key, option in value.items() if key not in ("name", "from")}
        try:
            step = _STEP.validate({**options, "name": str(name)} if own else options)
        except ValidationError as wrong:
            problems += [init_details(error) for error in wrong.errors(include_url=False)]
        if problems:
            raise ValidationError.from_exception_data("step", problems)
        return NamedStep(name, step, reads=_names(streams), to_all=_to_all(streams))

    def chosen(self, value: object) -> type[BaseModel] | None:
        model: type[BaseModel] | None = _STEP.chosen(value)
        if model is None:
            return model
        name: dict[str, Any] = {} if "name" in model.model_fields else {"name": (str, ...)}
        reads: Any = (str | list[str | StreamToAll], Field(alias="from"))
        return create_model(model.__name__, __base__=model, **name, reads_=reads)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            self.validate,
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda step: {**step.config.model_dump(mode="json"), "name": step.name, **_from(step)}
            ),
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        described: dict[str, Any] = copy.deepcopy(_STEP.__get_pydantic_json_schema__(schema, handler))
        name = {"type": "string", "pattern": NAME, "description": "The name of the step. Default: its type."}
        for choice in described.get("oneOf", ()):
            choice.setdefault("properties", {})["name"] = name
            choice["properties"]["from"] = dict(READS_TO_ALL_SCHEMA if choice.pop(TO_ALL, False) else READS_SCHEMA)
            choice["title"] = f"{choice.get('title', '')}Step"
        return described


def _from(step: NamedStep) -> dict[str, Any]:
    """The value of `from` in a config; nothing for a step that reads what it reads by default."""
    reads = step.written_reads
    if not reads:
        return {}
    return {"from": reads[0] if len(reads) == 1 else reads}


def _names(streams: Sequence[str | StreamToAll] | None) -> tuple[str, ...] | None:
    return streams if streams is None else tuple(each if isinstance(each, str) else each.stream for each in streams)


def _to_all(streams: Sequence[str | StreamToAll] | None) -> frozenset[str]:
    return frozenset(each.stream for each in streams or () if isinstance(each, StreamToAll))


def duplicates(names: Sequence[str]) -> list[tuple[int, str]]:
    """Return the index of each step whose name an earlier step has, with a message.

    >>> duplicates(["map", "classify", "map"])
    [(2, "step 'map' already exists; do you have two steps of one type? give each a `name`")]
    """
    hint = "do you have two steps of one type? give each a `name`"
    return [
        (index, f"step {name!r} already exists; {hint}") for index, name in enumerate(names) if name in names[:index]
    ]


def _reserved(names: Sequence[str]) -> list[tuple[int, str]]:
    """Return the index of each step whose name only a shadow can have, with a message."""
    return [
        (index, f"{name!r} can only be the name of a shadow, which the option `shadow` makes; choose another `name`")
        for index, name in enumerate(names)
        if is_shadow(name)
    ]


@dataclass(frozen=True)
class CycleLimits:
    """The most rounds of a cycle in one epoch, and the most records that it may send back in them."""

    rounds: int = 1000
    sent_back: int = 1_000_000


DEFAULT_LIMITS = CycleLimits()


class StepList(BaseModel):
    """A pipeline as a list of steps."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    steps: Annotated[list[Annotated[Any, _StepField()]], Field(min_length=1)] = Field(
        description="The steps in their order, each with a `type`, its options, and optionally a `name`."
    )
    rounds: int = Field(
        default=DEFAULT_LIMITS.rounds,
        ge=1,
        le=100_000,
        description="The most rounds of a cycle in an epoch; more are an error.",
    )
    sent_back: int = Field(
        default=DEFAULT_LIMITS.sent_back,
        ge=1,
        description="The most records that a cycle sends back in an epoch; more are an error.",
    )

    @field_validator("steps")
    @classmethod
    def _check_names(cls, steps: list[NamedStep]) -> list[NamedStep]:
        names = [step.name for step in steps]
        wrong = [*duplicates(names), *_reserved(names)]
        if wrong:
            problems = [_problem((index, "name"), names[index], message) for index, message in wrong]
            raise ValidationError.from_exception_data("steps", problems)
        return steps


@dataclass(frozen=True)
class _PipelineField:
    """A field that holds `use` and the options of a named pipeline, or `steps`."""

    def validate(self, value: object) -> BaseModel:
        if isinstance(value, StepList):
            return value
        if isinstance(value, BaseModel):
            return cast(BaseModel, _PIPELINE.validate(value))
        if not isinstance(value, Mapping) or not {"use", "steps"} & set(value):
            message = "a pipeline is a mapping with `use`, a named pipeline, or `steps`, a list"
            raise ValidationError.from_exception_data("pipeline", [_problem((), value, message)])
        if "steps" in value and "use" not in value:
            return StepList.model_validate(value)
        named: BaseModel = _PIPELINE.validate(value)
        return named

    def chosen(self, value: object) -> type[BaseModel] | None:
        model: type[BaseModel] | None = _PIPELINE.chosen(value)
        return StepList if model is None else model

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            self.validate,
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda chosen: chosen.model_dump(mode="json")
            ),
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        named = _PIPELINE.__get_pydantic_json_schema__(schema, handler)
        return {"oneOf": [named, handler(StepList.__pydantic_core_schema__)]}


def pipeline_field() -> Any:
    """Return the annotation of a field that holds a pipeline: the model of a named pipeline, or a `StepList`."""
    return _PipelineField()


def cycle_limits(pipeline: Any) -> CycleLimits:
    """The limits of cycles; a named pipeline has the defaults."""
    return CycleLimits(pipeline.rounds, pipeline.sent_back) if isinstance(pipeline, StepList) else DEFAULT_LIMITS


def pipeline_steps(pipeline: Any) -> tuple[NamedStep, ...]:
    """Return the steps of a pipeline, with the key paths of their options from the top of the config.

    The shadows of steps are at the end.
    """
    steps = _own_steps(pipeline)
    return (*steps, *_shadows(steps))


def _shadows(steps: Sequence[NamedStep]) -> Iterator[NamedStep]:
    """The shadows of these steps, each of which reads what its champion reads."""
    for step in steps:
        config = step.config.shadow_step() if hasattr(step.config, "shadow_step") else None
        if config is not None:
            yield NamedStep(shadow_of(step.name), config, (*step.path, "shadow"), beside=step.name)


def _own_steps(pipeline: Any) -> tuple[NamedStep, ...]:
    if isinstance(pipeline, StepList):
        return tuple(replace(step, path=("pipeline", "steps", index)) for index, step in enumerate(pipeline.steps))
    try:
        made = pipeline.steps()
    except ValidationError as error:
        first = error.errors()[0]
        option = ".".join(map(str, first["loc"]))
        message = f"pipeline: the pipeline {pipeline.use!r} makes a wrong {error.title}: {option}: {first['msg']}"
        raise ConfigError(message) from error
    steps = [step if isinstance(step, NamedStep) else NamedStep(_default_name(step.type), step) for step in made]
    if wrong := _reserved([step.name for step in steps]):
        raise ConfigError(f"pipeline: the pipeline {pipeline.use!r}: {wrong[0][1]}")
    return tuple(replace(step, path=("pipeline", *step.path)) for step in steps)
