"""The pipeline `text_topics`: online classification of text, and the popularity of the topics."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)
from pydantic_core import PydanticCustomError

from millstream.config.partial_defaults import PartialDefault
from millstream.config.pipeline import NamedStep
from millstream.config.plugins import MODELS, STEPS, plugin_field
from millstream.steps.classify import Classify, Shadow
from millstream.steps.popularity import Popularity
from millstream.substreams.windows import TumblingWindow, WindowConfig
from millstream_models.hashed_text import HashedText
from millstream_models.online.learner import OnlineModel

__all__ = ["TextTopics"]

_FEATURES = {"type": "hashed_text"}
_MODEL = {"type": "naive_bayes"}
_WINDOW = {"type": "tumbling", "size": "1h", "lateness": "10m"}


class TopicPopularity(Popularity):
    """The options of `popularity` in this pipeline: its windows are an hour long by default."""

    window: Annotated[WindowConfig, PartialDefault(_WINDOW)] = TumblingWindow.model_validate(_WINDOW)


def _check_features(value: Any) -> Any:
    """Refuse a value that is no mapping; the message names the one step that makes features here."""
    if not isinstance(value, Mapping | BaseModel):
        message = (
            f"{json.dumps(value, default=str)} is not a mapping with options of hashed_text; "
            "leave `features` out if the model counts the words itself"
        )
        raise PydanticCustomError("features_shape", "{message}", {"message": message})
    return value


class TextTopics(BaseModel):
    """Classifies records by their `text`, learns from the `label` of labelled records, and follows topics.

    The steps are `features`, left out if the model reads `text` itself; `classify`, which makes the output
    `predictions`; and `popularity`, which makes the outputs `topics` and `late` from the predicted topics. A compiled
    model counts the words itself, with the options in `features`, and no step `features` is needed: the results are
    the same.

    >>> [step.name for step in TextTopics().steps()]
    ['classify', 'popularity']
    >>> [step.name for step in TextTopics(model={"type": "sgd"}, popularity=None).steps()]
    ['features', 'classify']
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    use: Literal["text_topics"] = "text_topics"
    features: Annotated[Any, plugin_field(STEPS), PartialDefault(_FEATURES), BeforeValidator(_check_features)] = Field(
        default=_FEATURES,
        validate_default=True,
        description="The step that makes features of the text.",
    )
    model: Annotated[Any, plugin_field(MODELS), PartialDefault(_MODEL)] = Field(
        default=_MODEL, validate_default=True, description="The model that learns the topics."
    )
    label: str = Field(default="label", description="The field with the record's topic, or null where it is unknown.")
    shadow: Shadow | None = Field(
        default=None, description="A registered version that learns beside the model, as the option of `classify`."
    )
    popularity: TopicPopularity | None = Field(
        default=TopicPopularity(),
        description="The windows and the threshold for popular topics; `null` for predictions only.",
    )

    @model_validator(mode="after")
    def _check_single_features(self) -> TextTopics:
        own = getattr(self.model, "features", None)
        if own is not None and "features" in self.model_fields_set and own != self.features:
            message = (
                f"model.features: {self.model.type} counts words itself here, with other options than `features`; "
                "leave one of them out"
            )
            raise PydanticCustomError("counted_twice", "{message}", {"message": message})
        return self

    @model_serializer(mode="wrap")
    def _without_unused_features(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out `features` if the model has its own: both are refused when a config is read back."""
        dumped: dict[str, Any] = handler(self)
        if getattr(self.model, "features", None) is not None:
            del dumped["features"]
        return dumped

    def steps(self) -> list[NamedStep]:
        """Return the steps of this pipeline."""
        model = self.model
        if isinstance(self.features, HashedText) and isinstance(model, OnlineModel) and model.features is None:
            model = model.model_copy(update={"features": self.features})
        steps = [NamedStep("classify", Classify(model=model, label=self.label, shadow=self.shadow), ("model",))]
        if getattr(model, "reads", "features") != "text":
            steps.insert(0, NamedStep("features", self.features, ("features",)))
        if self.popularity is not None:
            popularity = self.popularity.model_copy(update={"name": "popularity"})
            steps.append(NamedStep("popularity", popularity, ("popularity",)))
        return steps
