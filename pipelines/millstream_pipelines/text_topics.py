"""Text, classified as it comes, and the popularity of the topics it is about."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from millstream.config.pipeline import NamedStep
from millstream.config.plugins import MODELS, STEPS, plugin_field
from millstream.steps.classify import Classify
from millstream.steps.popularity import Popularity
from millstream_models.hashed_text import HashedText
from millstream_models.online.learner import OnlineModel

__all__ = ["TextTopics"]


class TextTopics(BaseModel):
    """Classifies records by their `text`, learns from their `label` where they have one, and follows topics.

    The steps are `features`, left out if the model reads `text` itself; `classify`, which makes the output
    `predictions`; and `popularity`, which makes `topics` out of what was predicted. A compiled model counts words as
    `features` says, in its own step, as nobody else reads them: the results are the same.

    >>> [step.name for step in TextTopics().steps()]
    ['classify', 'popularity']
    >>> [step.name for step in TextTopics(model={"type": "sgd"}, popularity=None).steps()]
    ['features', 'classify']
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    use: Literal["text_topics"] = "text_topics"
    features: Annotated[Any, plugin_field(STEPS)] = Field(
        default={"type": "hashed_text"}, validate_default=True, description="The step that makes features of the text."
    )
    model: Annotated[Any, plugin_field(MODELS)] = Field(
        default={"type": "naive_bayes"}, validate_default=True, description="The model that learns the topics."
    )
    label: str = Field(default="label", description="The field that holds a record's topic, where it is known.")
    popularity: Popularity | None = Field(
        default=Popularity(window={"type": "tumbling", "size": "1h", "lateness": "10m"}),
        description="How popular topics are told from others; `null` for predictions only.",
    )

    @model_validator(mode="after")
    def _words_are_counted_once(self) -> TextTopics:
        own = getattr(self.model, "features", None)
        if own is not None and "features" in self.model_fields_set:
            message = (
                f"model.features: {self.model.type} counts words itself here, and `features` does too; leave one out"
            )
            raise PydanticCustomError("counted_twice", "{message}", {"message": message})
        return self

    def steps(self) -> list[NamedStep]:
        """The steps of this pipeline, written out."""
        model = self.model
        if isinstance(self.features, HashedText) and isinstance(model, OnlineModel) and model.features is None:
            model = model.model_copy(update={"features": self.features})
        steps = [NamedStep("classify", Classify(model=model, label=self.label), ("model",))]
        if getattr(model, "reads", "features") != "text":
            steps.insert(0, NamedStep("features", self.features, ("features",)))
        if self.popularity is not None:
            named = self.popularity.model_copy(update={"name": "popularity"})
            steps.append(NamedStep("popularity", named, ("popularity",)))
        return steps
