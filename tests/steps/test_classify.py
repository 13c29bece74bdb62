"""Classify: every record is predicted at once, and mini-batches are learned in the order of the input."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pydantic import BaseModel

from millstream.errors import ConfigError
from millstream.log.epochs import Baselines
from millstream.state.digests import state_digest
from millstream.steps.classify import Classifier, Classify
from millstream.steps.contracts import Array, State
from millstream_models.baselines import Majority, NoChange
from millstream_models.hashed_text import HashedText
from millstream_models.naive_bayes import ComplementNB, MultinomialNB
from millstream_models.river_nb import RiverNB


class Diary(BaseModel):
    """A model that records its inputs. It predicts the class of the last label that it learned."""

    type: str = "diary"
    batch_size: int = 4

    def build(self, records: pa.Schema) -> DiaryModel:
        return DiaryModel()


class DiaryModel:
    reads = "text"

    def __init__(self) -> None:
        self.learned: list[list[tuple[str, int]]] = []
        self.asked: list[list[str]] = []
        self.classes: list[int] = []

    def prepare(self, column: pa.Array) -> Any:
        return np.array(column.to_pylist(), np.object_)

    def predict(self, inputs: Any) -> tuple[Array, Array]:
        self.asked.append(list(inputs))
        return np.full(len(inputs), self.learned[-1][-1][1], np.int64), np.full(len(inputs), 0.5)

    def learn(self, inputs: Any, labels: Array, classes: int) -> None:
        self.learned.append(list(zip(inputs, labels.tolist(), strict=True)))
        self.classes.append(classes)

    def save(self) -> State:
        return {"learned": json.dumps(self.learned).encode()}

    def restore(self, state: State) -> None:
        self.learned = json.loads(bytes(state.get("learned", b"[]")))


def records(labels: str, start: int = 0, column: str = "label") -> pa.Table:
    """Return records with the texts r0, r1, ... and labels of one letter; a dot is a record without a label."""
    size = len(labels)
    return pa.table(
        {
            "_rank": pa.array([0] * size, pa.int32()),
            "_offset": pa.array(range(start, start + size), pa.int64()),
            "_time": pa.nulls(size, pa.int64()),
            "text": pa.array([f"r{number}" for number in range(start, start + size)], pa.string()),
            column: pa.array([None if label == "." else label for label in labels], pa.string()),
        }
    )


def build_diary(labels: str = "ab", batch_size: int = 4) -> tuple[Classifier, DiaryModel]:
    step = Classify(model=Diary(batch_size=batch_size)).build(records(labels).schema)
    model = step._present._model
    assert isinstance(model, DiaryModel)
    return step, model


def news(size: int, seed: int = 0, gaps: float = 0.1) -> pa.Table:
    """Return records with `text` and `features`; the words of a text depend on its topic."""
    dice = random.Random(seed)
    topics = ["sport", "travel", "science"]
    rows = [(topic, " ".join(dice.choices([topic, f"{topic}s", "the", "a1", "b2"], k=6))) for topic in
            (dice.choice(topics[: 1 + number // 4]) for number in range(size))]  # fmt: skip
    table = records("." * size)
    labels = [None if dice.random() < gaps else topic for topic, _ in rows]
    table = table.set_column(3, "text", pa.array([text for _, text in rows]))
    table = table.set_column(4, "label", pa.array(labels, pa.string()))
    return HashedText(dimensions=128).build(table.schema).process(table).records


class PredictThenLearnDiaryModel(DiaryModel):
    """The same model with `predict_then_learn`, which predicts the correct class."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[list[str], list[int], int]] = []

    def predict_then_learn(self, inputs: Any, labels: Array, known: int) -> tuple[Array, Array]:
        self.calls.append((list(inputs), labels.tolist(), known))
        return labels, np.where(labels < 0, 0, 0.5)


class PredictThenLearnDiary(Diary):
    """The config of a diary with `predict_then_learn`."""

    def build(self, records: pa.Schema) -> DiaryModel:
        return PredictThenLearnDiaryModel()


def texts(learned: list[list[tuple[str, int]]]) -> list[list[str]]:
    return [[text for text, _ in batch] for batch in learned]


def test_the_first_mini_batches_double_until_the_full_size() -> None:
    step, model = build_diary(batch_size=4)
    step.process(records("a" * 15))
    assert [len(batch) for batch in model.learned] == [1, 2, 4, 4, 4]


def test_a_batch_size_that_is_not_a_power_of_two_is_reached_too() -> None:
    step, model = build_diary(batch_size=5)
    step.process(records("a" * 17))
    assert [len(batch) for batch in model.learned] == [1, 2, 4, 5, 5]


def test_a_batch_size_of_one_learns_after_every_record() -> None:
    step, model = build_diary(batch_size=1)
    step.process(records("aaa"))
    assert texts(model.learned) == [["r0"], ["r1"], ["r2"]]


def test_records_are_predicted_by_the_model_of_the_last_full_mini_batch() -> None:
    step, _ = build_diary(batch_size=2)
    found = step.process(records("abcdef")).records["predicted"].to_pylist()
    # learned: a | b c | d e; the sixth record is in a mini-batch that is not full
    assert found == [None, "a", "a", "c", "c", "e"]


def test_there_is_no_prediction_before_the_first_label_is_learned() -> None:
    step, _ = build_diary()
    result = step.process(records("...a..."))
    assert result.records["predicted"].to_pylist() == [None, None, None, None, None, None, None]
    assert result.records["probability"].null_count == 7
    assert step.process(records("b", start=7)).records["predicted"].to_pylist() == ["a"]


def test_a_mini_batch_continues_across_batches() -> None:
    step, model = build_diary(batch_size=4)
    for start, labels in ((0, "abc"), (3, "a"), (4, ""), (4, "ab"), (6, "abcab")):
        step.process(records(labels, start))
    assert texts(model.learned) == [["r0"], ["r1", "r2"], ["r3", "r4", "r5", "r6"], ["r7", "r8", "r9", "r10"]]


def test_unlabelled_records_count_for_a_mini_batch_and_are_not_learned() -> None:
    step, model = build_diary(batch_size=4)
    step.process(records("a.b...." + "...." + "a..b"))
    assert texts(model.learned) == [["r0"], ["r2"], ["r11", "r14"]]
    assert model.asked[1:] == [["r3", "r4", "r5", "r6"], ["r7", "r8", "r9", "r10"], ["r11", "r12", "r13", "r14"]]


def test_classes_are_numbered_by_the_first_appearance_of_their_labels() -> None:
    step, model = build_diary(batch_size=4)
    step.process(records("c" + "ba" + "abcd" + "e"))
    assert model.learned[1] == [("r1", 1), ("r2", 2)]
    assert model.learned[2] == [("r3", 2), ("r4", 1), ("r5", 0), ("r6", 3)]
    assert model.classes == [1, 3, 4]  # e is in a mini-batch that is not full


def test_a_labelled_record_without_a_prediction_counts_as_wrong() -> None:
    step, _ = build_diary(batch_size=1)
    result = step.process(records("aab.b"))
    assert result.records["predicted"].to_pylist() == [None, "a", "a", "b", "b"]
    assert (result.correct, result.labelled) == (2, 4)


def test_a_model_with_predict_then_learn_gets_each_batch_in_one_call() -> None:
    step = Classify(model=PredictThenLearnDiary(batch_size=1)).build(records("a").schema)
    result = step.process(records(".ba.b"))
    step.process(records("cb", start=5))
    model = step._present._model
    assert isinstance(model, PredictThenLearnDiaryModel)
    assert model.calls == [(["r0", "r1", "r2", "r3", "r4"], [-1, 0, 1, -1, 0], 0), (["r5", "r6"], [2, 0], 2)]
    assert (model.asked, model.learned) == ([], [])
    assert result.records["predicted"].to_pylist() == [None, "b", "a", None, "b"]
    assert (result.correct, result.labelled) == (3, 3)


def test_predict_then_learn_is_not_used_for_mini_batches_larger_than_one() -> None:
    step = Classify(model=PredictThenLearnDiary(batch_size=2)).build(records("a").schema)
    step.process(records("abab"))
    model = step._present._model
    assert isinstance(model, PredictThenLearnDiaryModel)
    assert (model.calls, texts(model.learned)) == ([], [["r0"], ["r1", "r2"]])


@pytest.mark.parametrize("model", [NoChange(), Majority()], ids=repr)
def test_predict_then_learn_gives_the_predictions_and_state_of_mini_batches_of_one(model: Any) -> None:
    table = news(120)
    at_once, by_row = (Classify(model=model).build(table.schema) for _ in range(2))
    assert at_once._present._predict_then_learn is not None
    by_row._present._predict_then_learn = None
    for start in range(0, 120, 40):
        found, expected = (step.process(table.slice(start, 40)) for step in (at_once, by_row))
        assert found == expected
        assert state_digest(at_once.save()) == state_digest(by_row.save())


def test_baselines_count_labelled_records_before_the_mini_batch_is_full() -> None:
    step, _ = build_diary(batch_size=100)
    counts = [step.process(records(labels)).baselines for labels in ("", "aa.b", "baa", "c.")]
    # correct with the previous label: -a.- b-a -; with the most common label: -a.- -aa -
    assert counts == [Baselines(), Baselines(1, 1), Baselines(2, 2), Baselines()]


def test_a_restored_step_continues_to_count_baselines() -> None:
    table = news(120)
    step, restored = (Classify(model=ComplementNB(batch_size=16)).build(table.schema) for _ in range(2))
    step.process(table.slice(0, 50))
    restored.restore(step.save())
    assert restored.process(table.slice(50)).baselines == step.process(table.slice(50)).baselines


def test_the_output_predictions_has_a_row_for_each_record() -> None:
    step, _ = build_diary(batch_size=1)
    rows = step.process(records("aa")).outputs["predictions"]
    assert rows.schema == step.outputs[0].schema
    assert rows.to_pylist()[1] == {
        "_rank": 0, "_offset": 1, "_time": None, "label": "a", "predicted": "a", "probability": 0.5,
    }  # fmt: skip


@pytest.mark.parametrize("model", [ComplementNB(batch_size=16), MultinomialNB(batch_size=7), RiverNB()], ids=repr)
@pytest.mark.parametrize("seed", range(5))
def test_predictions_and_state_are_the_same_for_any_cut_into_batches(model: Any, seed: int) -> None:
    table = news(120, seed)
    whole = Classify(model=model).build(table.schema)
    expected = whole.process(table).records
    dice = random.Random(seed)
    for size in (1, 5, 40):
        step = Classify(model=model).build(table.schema)
        bounds = [0, *sorted(dice.choices(range(121), k=120 // size)), 120]
        batches = [step.process(table.slice(a, b - a)).records for a, b in itertools.pairwise(bounds)]
        assert pa.concat_tables(batches).combine_chunks().equals(expected.combine_chunks())
        assert state_digest(step.save()) == state_digest(whole.save())


@pytest.mark.parametrize("seen", [0, 1, 2, 15, 16, 50, 99])
def test_a_restored_step_continues_within_a_mini_batch(seen: int) -> None:
    table = news(120)
    step = Classify(model=ComplementNB(batch_size=16)).build(table.schema)
    step.process(table.slice(0, seen))
    restored = Classify(model=ComplementNB(batch_size=16)).build(table.schema)
    restored.restore(step.save())
    rest = table.slice(seen)
    assert restored.process(rest).records.equals(step.process(rest).records)
    assert state_digest(restored.save()) == state_digest(step.save())


def test_a_label_in_a_waiting_mini_batch_is_not_predicted_also_after_a_restore() -> None:
    step, _ = build_diary(batch_size=4)
    step.process(records(".a"))
    restored, model = build_diary(batch_size=4)
    restored.restore(step.save())
    assert restored.ask(records("."))["predicted"].to_pylist() == [None]
    assert restored.process(records("bb", start=2)).records["predicted"].to_pylist() == [None, "b"]
    assert model.learned == [[("r1", 0), ("r2", 1)]]


def test_the_state_of_a_waiting_mini_batch_does_not_depend_on_the_types_of_the_engine() -> None:
    table = news(45)
    pair = table.schema.field("features").type.value_type
    wide = table.schema.set(3, pa.field("text", pa.large_string())).set(4, pa.field("label", pa.large_string()))
    metadata = table.schema.field("features").metadata
    spark = pa.field("features", pa.list_(pa.field("element", pair)), metadata=metadata)
    wide = wide.set(5, spark)
    for model in (ComplementNB(batch_size=16), RiverNB(batch_size=16)):
        digests = []
        for schema in (table.schema, wide):
            step = Classify(model=model).build(schema)
            step.process(table.cast(schema))
            digests.append(state_digest(step.save()))
        assert digests[0] == digests[1]


def test_the_state_of_a_waiting_mini_batch_does_not_depend_on_the_bytes_under_a_null() -> None:
    digests = []
    table = records("aaab.b")
    _, offsets, data = pa.array([*"aaabcb"]).buffers()
    for label in (table["label"], pa.StringArray.from_buffers(6, offsets, data, pa.py_buffer(b"\x2f"))):
        step, _ = build_diary(batch_size=16)
        step.process(table.set_column(4, "label", label))
        digests.append(state_digest(step.save()))
    assert digests[0] == digests[1]


def test_columns_may_come_as_dictionaries() -> None:
    table = news(42)
    coded = table
    for index, name in ((3, "text"), (4, "label")):
        coded = coded.set_column(index, name, coded[name].dictionary_encode())
    plain, other = (Classify(model=RiverNB(batch_size=8)).build(each.schema) for each in (table, coded))
    plain.process(table)
    other.process(coded)
    assert state_digest(plain.save()) == state_digest(other.save())


def test_a_saved_state_does_not_change_when_the_step_continues() -> None:
    table = news(100)
    step = Classify(model=ComplementNB(batch_size=16)).build(table.schema)
    step.process(table.slice(0, 60))
    saved = step.save()
    digest = state_digest(saved)
    step.process(table.slice(60))
    assert state_digest(saved) == digest != state_digest(step.save())


def test_ask_learns_nothing_and_needs_no_label() -> None:
    table = news(100)
    step = Classify(model=ComplementNB(batch_size=16)).build(table.schema)
    assert step.ask(table.slice(0, 2))["predicted"].to_pylist() == [None, None]
    step.process(table)
    before = state_digest(step.save())
    answers = step.ask(table.select(["features"]))
    assert state_digest(step.save()) == before
    assert answers.schema.names == ["predicted", "probability"]
    agree = [a == b for a, b in zip(answers["predicted"].to_pylist(), table["label"].to_pylist(), strict=True) if b]
    assert sum(agree) / len(agree) > 0.9
    assert step.ask(table.slice(0, 0)).num_rows == 0


def test_the_fingerprint_depends_only_on_the_model() -> None:
    table = news(100, gaps=0)
    step = Classify(model=ComplementNB(batch_size=16)).build(table.schema)
    step.process(table.slice(0, 95))  # a mini-batch ends after 95 records
    fingerprint = step.fingerprint()
    step.process(table.slice(95))  # these five do not fill the next one
    assert step.fingerprint() == fingerprint
    other = Classify(model=ComplementNB(batch_size=16)).build(table.schema)
    other.process(table.slice(1))
    assert other.fingerprint() != fingerprint


def test_the_label_may_have_another_name() -> None:
    table = records("aab", column="topic")
    result = Classify(model=Diary(batch_size=1), label="topic").build(table.schema).process(table)
    assert (result.correct, result.labelled) == (1, 3)


def test_records_without_the_label_are_refused_with_a_similar_name() -> None:
    with pytest.raises(ConfigError, match="`label`: the records have no column 'labl' here; did you mean `label`"):
        Classify(model=Diary(), label="labl").build(records("a").schema)


def test_a_model_without_its_column_is_refused_with_a_step_that_makes_the_column() -> None:
    with pytest.raises(ConfigError, match=r"no column 'features', .*hashed_text"):
        Classify(model=ComplementNB()).build(records("a").schema)
    with pytest.raises(ConfigError, match=r"`model` \(river_nb\): the records have no column 'text' here"):
        Classify(model=RiverNB()).build(records("a").drop_columns(["text"]).schema)


def test_records_that_have_predictions_already_are_refused() -> None:
    step = Classify(model=Diary())
    made = step.build(records("a").schema).process(records("a")).records
    with pytest.raises(ConfigError, match="'predicted', but the records have it; read the records from before"):
        step.build(made.schema)


def test_the_model_is_selected_by_its_type() -> None:
    config = Classify.model_validate({"model": {"type": "complement_nb", "batch_size": 8}})
    assert config.model == ComplementNB(batch_size=8)
    assert Classify.model_validate(config.model_dump(mode="json")) == config
