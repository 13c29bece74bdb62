"""Sources, sinks, steps, models and pipelines that a config selects: by a registered name, or by their class.

A package registers a pydantic model under a name, in one of the groups below; a config selects the model by this name:

    [project.entry-points."millstream.models"]
    my_model = "my_package.models:MyModel"

Without a package, a config selects the class itself, as in `type: my_module:MyModel`: a subclass of a base class in
`millstream.plugin`.

A plug-in is imported when a config uses it, so a plug-in that fails to import affects only configs that use it.
"""

from __future__ import annotations

import functools
import importlib.metadata
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationError
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError, core_schema

from millstream.config.absent_plugin import AbsentPlugin
from millstream.config.imported_names import IMPORTED_NAME, import_name
from millstream.config.plugin_bases import ModelConfig, PluginConfig, SinkConfig, SourceConfig, StepConfig
from millstream.config.registered_model import RegisteredModel
from millstream.errors import ConfigError
from millstream.extras import explanation

__all__ = [
    "MODELS",
    "PIPELINES",
    "SINKS",
    "SOURCES",
    "STEPS",
    "NotAConfig",
    "PluginField",
    "load",
    "plugin_class",
    "plugin_field",
    "registered",
]

SOURCES = "millstream.sources"
SINKS = "millstream.sinks"
STEPS = "millstream.steps"
MODELS = "millstream.models"
PIPELINES = "millstream.pipelines"

_KINDS = {SOURCES: "source", SINKS: "sink", STEPS: "step", MODELS: "model", PIPELINES: "pipeline"}
_BASES: Mapping[str, type[PluginConfig]] = {
    SOURCES: SourceConfig,
    SINKS: SinkConfig,
    STEPS: StepConfig,
    MODELS: ModelConfig,
}
_MEMBERS: Mapping[str, Sequence[str]] = {
    SOURCES: ("bounded", "fields", "open", "problems", "reads"),
    SINKS: ("clear", "location", "may_clear", "open", "problems", "progress", "read"),
    STEPS: ("build",),
    MODELS: ("build",),
    PIPELINES: ("steps",),
}
"""The members of an object that is a plug-in; a class of a notebook may have them without a base class."""


class NotAConfig(ConfigError):
    """A program gives an object, such as a model, in place of its config. No class of pydantic holds such an object."""

    def __init__(self, kind: str, value: object) -> None:
        what = (
            f"the class {value.__name__}"
            if isinstance(value, type)
            else f"an object of the class {type(value).__name__}"
        )
        super().__init__(
            f"{what} is not the config of a {kind}: give an object of its config class, which builds the {kind}, or a "
            "mapping with `type`"
        )
        self.value = value


@functools.cache
def registered() -> Mapping[str, Mapping[str, tuple[importlib.metadata.EntryPoint, ...]]]:
    """Return the entry points of installed packages by group and name; several if packages register the same name."""
    found: dict[str, dict[str, list[importlib.metadata.EntryPoint]]] = {group: {} for group in _KINDS}
    everything = importlib.metadata.entry_points()
    for group, names in found.items():
        for point in everything.select(group=group):
            claims = names.setdefault(point.name, [])
            if all(point.value != claim.value for claim in claims):  # a folder twice on sys.path counts once
                claims.append(point)
    return {group: {name: tuple(found[group][name]) for name in sorted(found[group])} for group in found}


def _package(point: importlib.metadata.EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else "an unknown package"


@functools.cache
def load(group: str, name: str, key: str = "type") -> type[BaseModel]:
    """Return the pydantic model registered as `name`; `ConfigError` if there is none or it is broken."""
    kind, points = _KINDS[group], registered()[group].get(name, ())
    if not points:
        message = f"no {kind} {name!r} is installed; there are {', '.join(registered()[group]) or 'none'}"
        raise ConfigError(message)
    if len(points) > 1:
        claims = " and ".join(f"{point.value} of {_package(point)}" for point in points)
        message = f"{claims} both register the {kind} {name!r}; uninstall one of them"
        raise ConfigError(message)
    [point] = points
    subject = f"the {kind} {name!r} of the package {_package(point)} ({point.value})"
    try:
        loaded = point.load()
    except (Exception, SystemExit) as error:
        reason = f"{subject} cannot be imported: {type(error).__name__}: {error}"
        raise ConfigError(explanation(error, f"the {kind} {name!r}") or reason) from error
    if not (isinstance(loaded, type) and issubclass(loaded, BaseModel) and key in loaded.model_fields):
        message = f"{subject} is not a pydantic model with a field {key!r}; its author has to register one"
        raise ConfigError(message)
    return loaded


def _is_class_name(group: str, name: object) -> bool:
    """True if a config names a class by its module, `module:Class`, in a group that allows it."""
    return isinstance(name, str) and ":" in name and group in _BASES


def plugin_class(group: str, name: str, key: str = "type") -> type[BaseModel]:
    """Return the class that a config selects: one registered as `name`, one that `module:Class` names, or a notebook's.

    A class of a notebook or a script, whose default of the field `type` is the name, is known to its process alone.
    """
    if _is_class_name(group, name):
        return _import_class(group, name)
    return _main_class(group, name, key) or load(group, name, key)


def _main_class(group: str, name: object, key: str) -> type[BaseModel] | None:
    """Return the class of the notebook or script of this process whose `type` has this default, unless registered."""
    if not isinstance(name, str) or name in registered()[group]:
        return None
    for found in list(vars(sys.modules["__main__"]).values()):
        if isinstance(found, type) and issubclass(found, BaseModel) and key in found.model_fields:
            needed = getattr(_BASES.get(group), "__abstractmethods__", ())
            if found.model_fields[key].default == name and all(hasattr(found, method) for method in needed):
                return found
    return None


def _import_class(group: str, name: str) -> type[BaseModel]:
    """Import a class by its module and name; `ConfigError` if it is not a plug-in of this group."""
    kind, base = _KINDS[group], _BASES[group]
    found = import_name(name)
    remedy = f"the class of a {kind} derives from millstream.plugin.{base.__name__}"
    if not isinstance(found, type):
        message = f"{name} is not a class but a value of the type {type(found).__name__}; {remedy}"
        raise ConfigError(message)
    if not issubclass(found, base):
        others = [_KINDS[other] for other, theirs in _BASES.items() if issubclass(found, theirs)]
        message = f"{name} is {f'a {others[0]}, ' if others else ''}not a {kind}; {remedy}"
        raise ConfigError(message)
    if missing := sorted(getattr(found, "__abstractmethods__", ())):
        message = f"{name} does not define {', '.join(missing)}, as every {kind} does"
        raise ConfigError(message)
    if found.model_fields["type"].annotation is not str:
        message = f"{name} has a field `type` of its own; leave it out, because `{name}` selects the class"
        raise ConfigError(message)
    return found


def _class_schema() -> dict[str, Any]:
    """The JSON Schema of a plug-in that a config selects by its class: an editor does not know its options."""
    name = {"type": "string", "pattern": IMPORTED_NAME, "description": "A class of your own: module:Class."}
    return {"type": "object", "required": ["type"], "properties": {"type": name}, "additionalProperties": True}


def _refusal(where: tuple[str | int, ...], kind: str, message: str, value: object, **context: Any) -> ValidationError:
    # The message is a value of the context, because pydantic would read braces in a template as placeholders.
    error = PydanticCustomError("plugin_" + kind, "{message}", {"message": message, **context})
    return ValidationError.from_exception_data("plug-in", [InitErrorDetails(type=error, loc=where, input=value)])


@dataclass(frozen=True)
class PluginField:
    """The annotation of a field that holds a plug-in of a group: a registered model, or a class by its module."""

    group: str
    key: str

    def validate(self, value: object) -> Any:
        kind, names = _KINDS[self.group], list(registered()[self.group])
        if isinstance(value, BaseModel):
            self._check_object(value)
            return value
        if value is not None and not isinstance(value, Mapping | str | int | float | list | tuple):
            raise NotAConfig(kind, value)
        if not isinstance(value, Mapping):
            message = f"a {kind} is a mapping with `{self.key}`, one of {', '.join(names)}"
            raise _refusal((), "shape", message, value)
        if self._is_registered(value):
            return RegisteredModel.model_validate(value)
        if self.group == MODELS and "from" in value:
            message = (
                f"a model has either `from`, an address in a registry, or `{self.key}` with options; leave out one"
            )
            raise _refusal(("from",), "shape", message, value["from"])
        if self.key not in value:
            message = f"missing; one of {', '.join(names)}"
            raise _refusal((self.key,), "missing", message, value)
        name = value[self.key]
        if name not in names and not _is_class_name(self.group, name) and not _main_class(self.group, name, self.key):
            message = f"no such {kind} is installed; one of {', '.join(names)}"
            raise _refusal((self.key,), "unknown", message, name, allowed=names)
        try:
            model = plugin_class(self.group, name, self.key)
        except ConfigError as error:
            raise _refusal((self.key,), "broken", str(error), name) from error
        return model.model_validate(value, extra="forbid")

    def _is_registered(self, value: object) -> bool:
        """True for the mapping of a model that comes from a registry."""
        return self.group == MODELS and isinstance(value, Mapping) and "from" in value and self.key not in value

    def _check_object(self, value: BaseModel) -> None:
        """Refuse an object that is no plug-in of this group; an absent plug-in refuses its use itself."""
        if isinstance(value, AbsentPlugin):
            return
        if missing := [member for member in (self.key, *_MEMBERS[self.group]) if not hasattr(value, member)]:
            kind, members = _KINDS[self.group], " and ".join(f"`{member}`" for member in missing)
            message = f"an object of the class {type(value).__name__} is not a {kind}, because it has no {members}"
            raise _refusal((), "shape", message, value)

    def chosen(self, value: object) -> type[BaseModel] | None:
        """Return the model that a mapping names; None if there is none or it is broken."""
        if self._is_registered(value):
            return RegisteredModel
        name = value.get(self.key) if isinstance(value, Mapping) else None
        try:
            return self.described(plugin_class(self.group, name, self.key)) if isinstance(name, str) else None
        except ConfigError:
            return None

    def described(self, model: type[BaseModel]) -> type[BaseModel]:
        """Return a model with all options that a config may give for this plug-in."""
        return model

    def dump(self, chosen: Any) -> dict[str, Any] | None:
        """Return the options of a validated value, for a config file."""
        return None if chosen is None else chosen.model_dump(mode="json")

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            self.validate, serialization=core_schema.plain_serializer_function_ser_schema(self.dump)
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        names, choices = [], []
        for name in registered()[self.group]:
            try:
                model = load(self.group, name, self.key)
            except ConfigError:
                continue  # `validate` refuses configs that use the plug-in; the other plug-ins keep their schema
            names.append(name)
            choice = handler(self.described(model).__pydantic_core_schema__)
            if "const" not in (given := choice.get("properties", {}).get(self.key, {})):
                given |= {"const": name, "default": name}  # a `type` for which the class allows every name
            choices.append(choice)
        if not names:
            return {"type": "object", "required": [self.key]}
        known: dict[str, Any] = {"enum": names}
        if self.group in _BASES:
            choices.append(_class_schema())
            known = {"anyOf": [known, {"type": "string", "pattern": IMPORTED_NAME}]}
        if self.group == MODELS:  # a registered model has no type
            choices.append(handler(RegisteredModel.__pydantic_core_schema__))
        return {
            "type": "object",
            "required": [] if self.group == MODELS else [self.key],
            "properties": {self.key: known},
            "oneOf": choices,
            "discriminator": {"propertyName": self.key},
        }


def plugin_field(group: str, key: str = "type") -> Any:
    """Return the annotation of a field that holds a plug-in of a group, selected by its `type`.

    A config has a mapping in this field; an instance of a model is accepted unchanged. All problems inside the mapping
    are reported, each at its own key path.

    >>> from typing import Annotated
    >>> class Pipeline(BaseModel):
    ...     model: Annotated[Any, plugin_field(MODELS)]
    >>> try:
    ...     Pipeline.model_validate({"model": {"type": "complement-nb"}})
    ... except ValidationError as wrong:
    ...     print(wrong.errors()[0]["loc"])
    ('model', 'type')
    """
    return PluginField(group, key)
