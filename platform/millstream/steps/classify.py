"""Online classification: predict every record at once, and learn from mini-batches of records."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, field_validator, model_serializer

from millstream.config.plugins import MODELS, SOURCES, plugin_field
from millstream.config.registered_model import VERSION
from millstream.errors import ConfigError, MillstreamError
from millstream.records import no_records
from millstream.state.digests import state_digest
from millstream.state.model_version import OPTIONS, ModelVersion
from millstream.steps.column_checks import check_column
from millstream.steps.contracts import Array, Output, Result, Scope, State, Traits, position_fields
from millstream.steps.learning_model import ANSWER, LearningModel, labels_of

__all__ = ["Classifier", "Classify", "Shadow"]

_Model = Annotated[Any, plugin_field(MODELS)]
_MODELS: TypeAdapter[Any] = TypeAdapter(_Model)


class Promotion(BaseModel):
    """The rule by which a shadow takes the place of its champion, without a person who decides."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    better: float = Field(
        gt=0, lt=100, description="The percentage points by which the shadow's accuracy has to be higher."
    )
    over: int = Field(ge=1, description="The number of labelled records on which the accuracies are compared.")


class Shadow(BaseModel):
    """A registered version that learns and predicts beside the model of a step, which goes on as before."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    uri: str = Field(
        alias="from",
        pattern=VERSION,
        description="The version: models:/NAME/VERSION or models:/NAME@ALIAS.",
    )
    promote: Promotion | None = Field(
        default=None,
        description="The rule by which the shadow takes the model's place. Default: only a person decides.",
    )

    @model_serializer
    def _as_written(self) -> dict[str, Any]:
        return {"from": self.uri, "promote": None if self.promote is None else self.promote.model_dump()}


class Classify(BaseModel):
    """Predicts each record's label with a model that learns online from the labels in the stream.

    Every record gets `predicted` and its `probability` at once, from the model that has learned all full mini-batches;
    then the record joins the next mini-batch. The first mini-batches have 1, 2, 4, ... records, up to the model's
    `batch_size`, so a few records are enough for the first predictions. The labels need not be listed in advance.
    The model does not learn from a record without a label.

    The output `predictions`, with mini-batches of 1, 2 and then 2 records:

        _partition  _offset  label   predicted  probability
        0           0        sport                            no label has been learned yet
        0           1        travel  sport      1.0           the only label so far
        0           2        travel  sport      1.0           the second mini-batch ends with this record
        0           3        travel  travel     0.93

    >>> from millstream_models.naive_bayes import MultinomialNB
    >>> from millstream_models.hashed_text import HashedText
    >>> texts = {"text": ["a late goal", "a slow train", "the night train", "one goal"]}
    >>> position = {"_rank": [0] * 4, "_offset": range(4), "_time": [None] * 4}
    >>> records = pa.table({**position, **texts, "label": ["sport", "travel", "travel", None]})
    >>> records = HashedText(dimensions=1024).build(records.schema).process(records).records
    >>> step = Classify(model=MultinomialNB()).build(records.schema)
    >>> step.process(records).records["predicted"].to_pylist()
    [None, 'sport', 'sport', 'sport']
    >>> step.ask(records)["predicted"].to_pylist()
    ['sport', 'travel', 'travel', 'sport']
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["classify"] = "classify"
    model: _Model = Field(description="The model, one of those installed.")
    label: str = Field(
        default="label",
        description="The field with the correct label, or null where it is unknown.",
        json_schema_extra={"keeps_state": True},
    )

    warm_start: Annotated[Any, plugin_field(SOURCES)] = Field(
        default=None,
        description="A source that ends, such as files with old labels: the model of a new run learns its records "
        "once, before the first record of the stream.",
        json_schema_extra={"keeps_state": True},
    )

    @field_validator("warm_start", mode="wrap")
    @classmethod
    def _source_or_none(cls, source: Any, handler: Any) -> Any:
        return None if source is None else handler(source)

    shadow: Shadow | None = Field(
        default=None,
        description="A registered version that learns the same records, and whose predictions are an output.",
        json_schema_extra={"may_change": True, "keeps_state": True},
    )

    def shadow_step(self) -> ShadowClassify | None:
        """The step that the shadow is; its name is that of this step with `_shadow`."""
        return ShadowClassify(label=self.label) if self.shadow is not None else None

    def build(self, records: pa.Schema) -> Classifier:
        def make(options: Mapping[str, Any] | None) -> LearningModel:
            return _learning_model(self.model if options is None else _MODELS.validate_python(options), records)

        _check_columns(self.label, records)
        return Classifier(make, self.label, records, own=lambda: self.model_dump(mode="json")["model"])


class ShadowClassify(BaseModel):
    """The step of a shadow: as that of its champion, but it has no model until a version enters it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["classify"] = "classify"
    label: str

    def build(self, records: pa.Schema) -> Classifier:
        def make(options: Mapping[str, Any] | None) -> LearningModel:
            assert options is not None, "the model of a shadow is that of a version"
            return _learning_model(_MODELS.validate_python(options), records)

        _check_columns(self.label, records)
        return Classifier(make, self.label, records, shadow=True)


def _check_columns(label: str, records: pa.Schema) -> None:
    source = f"; name the field that holds it in the source's `fields: {{{label}: ...}}`"
    check_column("classify, `label`", label, records, source)
    for column in ANSWER:
        if column.name in records.names:
            hint = "read the records from before the step that makes it, or rename it in the `fields` of the source"
            message = f"classify makes the column {column.name!r}, but the records have it; {hint}"
            raise ConfigError(message)


def _learning_model(config: Any, records: pa.Schema) -> LearningModel:
    model = config.build(records)
    check_column(f"classify, `model` ({config.type})", model.reads, records)
    return LearningModel(model, config.batch_size, records)


class Classifier:
    """The step that `Classify` builds: its model, and the rows that it makes of the model's answers.

    The model is that of the config, until a version of a model enters the step, perhaps of another type or with other
    options than `own`, those of the config; then the state has the type and the options. `make` makes the model for
    these, or that of the config. A `shadow` begins without a model: it passes no record on, and its state is empty.
    """

    def __init__(
        self,
        make: Callable[[Mapping[str, Any] | None], LearningModel],
        label: str,
        records: pa.Schema,
        *,
        own: Callable[[], Mapping[str, Any] | None] = lambda: None,
        shadow: bool = False,
    ) -> None:
        self.traits = Traits(Scope.GLOBAL, keeps_all=not shadow)
        self._make, self._own, self._is_shadow = make, own, shadow
        self._options: bytes | None = None
        self._learning: LearningModel | None = None if shadow else make(None)
        self._label = label
        schema = records
        for column in ANSWER:
            schema = schema.append(column)
        self._no_records = no_records(schema)
        self._position = position_fields(records)
        self._predictions = pa.schema([*self._position, pa.field("label", pa.string()), *ANSWER])
        self.outputs: Sequence[Output] = [Output("predictions", self._predictions)]

    def process(self, records: pa.Table) -> Result:
        if self._learning is None:
            return Result(self._no_records)
        labels = labels_of(records, self._label)
        answer, scores = self._learning.process(records, labels)
        made = records
        for field, values in zip(ANSWER, answer, strict=True):
            made = made.append_column(field, values)
        rows = [*(_as(records[field.name], field.type) for field in self._position), labels, *answer]
        predictions = pa.Table.from_arrays(rows, schema=self._predictions)
        return replace(scores, records=made, outputs={"predictions": predictions})

    def ask(self, records: pa.Table) -> pa.Table:
        """Return `predicted` and `probability` from the current model, without learning; records need no label."""
        return self._present.ask(records)

    def ask_all(self, records: pa.Table) -> tuple[list[str], Array]:
        """Return the learned labels, and for each record their probabilities from the current model."""
        return self._present.ask_all(records)

    def fingerprint(self) -> str | None:
        """Return a digest of the model's parameters; None without a model."""
        return None if self._learning is None else str(state_digest(self._learning.learned()))

    def ended(self, substream: Any) -> Result:
        return Result(self._no_records)

    def save(self) -> State:
        own: dict[str, Any] = {} if self._options is None else {OPTIONS: self._options}
        return {**self.version_state(), **own}

    def version_state(self) -> State:
        """The state as a version has it, without the options of the model; empty without a model."""
        return {} if self._learning is None else self._learning.save()

    def restore(self, state: State) -> None:
        if self._is_shadow and not state:
            self._learning = self._options = None
            return
        found = state.get(OPTIONS)
        options = None if found is None else bytes(found)
        if self._learning is None or options != self._options:
            self._learning, self._options = self._make(None if options is None else json.loads(options)), options
        self._learning.restore({name: value for name, value in state.items() if name != OPTIONS})

    @property
    def model_options(self) -> Mapping[str, Any] | None:
        """The type and the options of the model that has entered; None if the model is that of the config."""
        options: Mapping[str, Any] | None = None if self._options is None else json.loads(self._options)
        return options

    def enter(self, version: ModelVersion) -> None:
        """Continue with the state and the options of a version."""
        entered = self._make(version.model)
        entered.restore(version.state)
        self._learning, self._options = entered, self._kept(version.options)

    def take_over(self, shadow: Classifier) -> None:
        """Continue with the model of a shadow, which has none afterwards. Nothing is copied.

        With at_least_once, the state may have this swap already: then the shadow is empty, and nothing changes.
        """
        if shadow._learning is None:
            return
        self._learning, self._options = shadow._learning, self._kept(shadow._options)
        shadow._learning = shadow._options = None

    def _kept(self, options: bytes | None) -> bytes | None:
        """The options that the state needs: none if they are those of the config, which a fork may change."""
        return None if options is None or json.loads(options) == self._own() else options

    @property
    def adds_up(self) -> bool:
        """True if the state is the sum of what the records add to it."""
        return self._present.adds_up

    def part(self, records: pa.Table, labels: Sequence[str]) -> State:
        """The part of these records in the state; `labels` are those of all records, by their first appearance."""
        return self._present.part(records, labels_of(records, self._label), labels)

    def add(self, parts: Sequence[State], labels: Sequence[str]) -> None:
        """Add parts in the order of the stream to the state of a new step: the state after all of their records."""
        self._present.add(parts, labels)

    @property
    def averages(self) -> bool:
        """True if replicas of the step can learn parts of the records, and then be averaged."""
        return self._present.averages

    def begin_part(self, labels: Sequence[str]) -> None:
        """Number the labels of all earlier records, some of which only other replicas learn."""
        self._present.begin_part(labels)

    def end_part(self) -> None:
        """Learn the mini-batch that is not yet full."""
        self._present.end_part()

    def average(self, parts: Iterable[tuple[State, int]], labels: Sequence[str]) -> None:
        """Average the states of replicas after their parts, each with its labelled records; parts are in order."""
        self._present.average(parts, labels)

    @property
    def _present(self) -> LearningModel:
        if self._learning is None:
            message = "the shadow has no model: no version has entered it yet, or it was promoted"
            raise MillstreamError(message)
        return self._learning


def _as(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    return column if column.type == kind else column.cast(kind)
