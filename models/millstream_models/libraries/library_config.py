"""The options of a model that is a class of another library."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, cast

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from millstream.errors import ConfigError
from millstream.extras import need
from millstream_models.libraries.class_options import Wrong, find_class, make_object, wrong_options
from millstream_models.libraries.library_model import LibraryModel
from millstream_models.libraries.trial import check_class

__all__ = ["LibraryConfig"]


class LibraryConfig(BaseModel, ABC):
    """The class, its options, and the checks of both."""

    model_config = ConfigDict(extra="forbid", frozen=True, serialize_by_alias=True)

    extra: ClassVar[str]
    library: ClassVar[str]

    class_: str = Field(alias="class", description="The class by its module and name in the library.")
    options: dict[str, Any] = Field(
        default={},
        validate_default=True,
        description="The options of the class. A mapping with `class` and `options` is an object of the library.",
    )

    @classmethod
    @abstractmethod
    def problem_of(cls, kind: type) -> str | None:
        """Return the reason why a class of the library cannot be a model."""

    @abstractmethod
    def new_model(self, records: pa.Schema | None) -> LibraryModel:
        """Return a new model for these records; for a trial, without."""

    @field_validator("class_")
    @classmethod
    def _check_class(cls, name: str) -> str:
        if need(cls.extra, cls.library):  # `validate` reports that the library is not installed
            return name
        try:
            problem = cls.problem_of(find_class(cls.library, name))
        except Wrong as wrong:
            problem = wrong.message
        if problem is not None:
            raise PydanticCustomError("library_class", "{message}", {"message": problem})
        return name

    @field_validator("options")
    @classmethod
    def _check_options(cls, options: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        if "class_" not in info.data or need(cls.extra, cls.library):
            return options
        name = info.data["class_"]
        kind = find_class(cls.library, name)
        problems = list(wrong_options(cls.library, kind, options, name))
        if not problems:
            try:
                make_object(cls.library, kind, options)
            except Exception as error:  # whatever the class raises at its options
                problems = [Wrong((), f"{name} refuses its options: {type(error).__name__}: {error}", options)]
        if problems:
            raise ValidationError.from_exception_data("options", [_details(wrong) for wrong in problems])
        return options

    def build(self, records: pa.Schema) -> LibraryModel:
        model = self.new_model(records)
        key = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        if (problem := check_class(key, lambda: self.new_model(None))) is not None:
            message = f"{self.library}.{self.class_}: {problem}"
            raise ConfigError(message)
        return model

    def new_object(self) -> Any:
        """Return a new object of the class."""
        return make_object(self.library, find_class(self.library, self.class_), cast(Mapping[str, Any], self.options))


def _details(wrong: Wrong) -> InitErrorDetails:
    error = PydanticCustomError("library_option", "{message}", {"message": wrong.message})
    return InitErrorDetails(type=error, loc=wrong.path, input=wrong.value)
