"""The compiled models compute the results of their formulas, and refuse input that they cannot process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError
from support.reference_models import FTRLReference, NaiveBayesReference, SoftmaxReference, play

from millstream.arrays import Array
from millstream.errors import ConfigError, StepFailed
from millstream.state.digests import state_digest
from millstream.steps.classify import Classify
from millstream_models.compiled.naive_bayes import MOST
from millstream_models.features import Counted, features_field
from millstream_models.hashed_text import HashedText
from millstream_models.online.ftrl import FTRL
from millstream_models.online.learner import Learner, OnlineModel
from millstream_models.online.naive_bayes import NaiveBayes
from millstream_models.online.softmax import Softmax
from millstream_pipelines.text_topics import TextTopics

WORDS = HashedText(dimensions=512)
TEXT = pa.schema([("text", pa.string())])
ONE_OF_EACH = [NaiveBayes(features=WORDS), Softmax(features=WORDS), FTRL(features=WORDS)]


def built(config: Any) -> Learner:
    model: Learner = config.model_copy(update={"features": WORDS}).build(TEXT)
    return model


def long_and_short(texts: Callable[..., pa.Table], size: int) -> pa.Table:
    """Records of a few words each, except two that have several hundred different words, some words often."""
    records = texts(size, topics=5)
    lines = records["text"].to_pylist()
    for row in (size // 3, size // 2):
        lines[row] = " ".join([*(f"common{number}" for number in range(350)), *["sport1"] * 9, *["music2"] * 3])
    return records.set_column(records.schema.get_field_index("text"), "text", pa.array(lines))


def trained(config: Any, records: pa.Table) -> tuple[Learner, Counted, Array, tuple[Array, Array]]:
    """A model that has predicted and learned all records; its rows, their labels, and its predictions."""
    model = built(config)
    rows = model.prepare(records["text"].combine_chunks())
    codes = records["label"].combine_chunks().dictionary_encode().indices
    labels = codes.fill_null(-1).to_numpy().astype(np.int64)
    return model, rows, labels, model.predict_then_learn(rows, labels, 0)


def assert_alike(found: tuple[Array, Array], expected: tuple[Array, Array]) -> None:
    """The classes are equal, and the probabilities differ by at most a hundred-thousandth."""
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_allclose(found[1], expected[1], rtol=0, atol=1e-5)


def assert_close(found: Array, expected: Array) -> None:
    """The numbers differ by at most a millionth of the largest expected number."""
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("complement", [False, True])
@pytest.mark.parametrize("half_life", [None, 30.0, 2.0])
def test_naive_bayes_counts_and_predicts_as_its_formula(
    texts: Callable[..., pa.Table], complement: bool, half_life: float | None
) -> None:
    config = NaiveBayes(complement=complement, half_life=half_life, alpha=0.3)
    model, rows, labels, found = trained(config, long_and_short(texts, 250))
    plain = NaiveBayesReference(512, 5, 0.3, complement, half_life)
    assert_alike(found, play(plain, rows, labels))
    weight = np.asarray(model.save()["numbers"])[1]  # the weight of the next record
    assert_close(model.table[:, :5] / weight, plain.table)


@pytest.mark.parametrize(("rate", "step"), [("adaptive", 0.5), ("decaying", 5.0), ("constant", 1.0)])
def test_softmax_weighs_and_predicts_as_its_formula(texts: Callable[..., pa.Table], rate: Any, step: float) -> None:
    model, rows, labels, found = trained(Softmax(rate=rate, learning_rate=step), long_and_short(texts, 400))
    plain = SoftmaxReference(512, 5, rate, step)
    assert_alike(found, play(plain, rows, labels))
    assert_close(model.table[:, :5], plain.table)


@pytest.mark.parametrize(("l1", "l2"), [(0.0, 0.0), (0.05, 0.5)])
def test_ftrl_weighs_and_predicts_as_its_formula(texts: Callable[..., pa.Table], l1: float, l2: float) -> None:
    model, rows, labels, found = trained(FTRL(alpha=1.5, beta=0.5, l1=l1, l2=l2), long_and_short(texts, 400))
    plain = FTRLReference(512, 5, 1.5, 0.5, l1, l2)
    assert_alike(found, play(plain, rows, labels))
    z, roots = model.table[:, :5], model.table[:, 8:13]
    shrunk = np.sign(z) * np.maximum(np.abs(z) - l1, 0)
    assert_close(-shrunk / ((0.5 + roots) / 1.5 + l2), plain.weights(np.arange(513)))


def test_l1_leaves_words_with_little_evidence_without_a_weight(texts: Callable[..., pa.Table]) -> None:
    model, *_ = trained(FTRL(l1=0.2), texts(400))
    there = model.table[:, :4] != 0
    assert 0 < np.count_nonzero(np.abs(model.table[:, :4][there]) > 0.2) < np.count_nonzero(there)


@pytest.mark.parametrize("config", ONE_OF_EACH, ids=lambda config: config.type)
def test_a_model_that_hashes_the_text_itself_equals_one_after_a_hashing_step(
    texts: Callable[..., pa.Table], config: OnlineModel
) -> None:
    records = texts(300, topics=5)
    behind = WORDS.build(records.schema).process(records).records
    plain = config.model_copy(update={"features": None})
    one, other = Classify(model=config).build(records.schema), Classify(model=plain).build(behind.schema)
    left, right = one.process(records), other.process(behind)
    assert left.outputs["predictions"].equals(right.outputs["predictions"])
    assert one.fingerprint() == other.fingerprint()


@pytest.mark.parametrize("config", ONE_OF_EACH, ids=lambda config: config.type)
def test_the_table_grows_with_the_number_of_classes(config: OnlineModel) -> None:
    model = config.model_copy(update={"features": HashedText(dimensions=8192)}).build(TEXT)
    rows = model.prepare(pa.array([f"word{number}" for number in range(40)] * 3))
    labels = np.tile(np.arange(40), 3)
    model.predict_then_learn(rows, labels, 0)
    assert model.predict(rows)[0].tolist() == labels.tolist()
    at_once = model.save()
    model.restore({})
    for start in range(0, 120, 7):
        model.predict_then_learn(rows[start : start + 7], labels[start : start + 7], model.known)
    assert state_digest(model.save()) == state_digest(at_once)


@pytest.mark.parametrize("config", ONE_OF_EACH, ids=lambda config: config.type)
def test_a_class_that_comes_after_a_million_records_is_learned(config: OnlineModel) -> None:
    model = config.build(TEXT)
    rows = model.prepare(pa.array(["rain all day", "goal in the last minute"] * 1000))
    for _ in range(500):
        model.predict_then_learn(rows, np.tile([0, 1], 1000), model.known)
    new = model.prepare(pa.array(["the orchestra plays"] * 20))
    model.predict_then_learn(new, np.full(20, 2), 2)
    assert model.predict(new)[0].tolist() == [2] * 20
    assert model.predict(rows)[0].tolist() == [0, 1] * 1000


def test_counts_go_on_where_float32_would_stop() -> None:
    model = built(NaiveBayes())
    rows = Counted(np.array([0, 1], np.int32), np.array([7], np.int32), np.array([1], np.float32), (1, 512))
    model.learn(rows, np.array([0]), 1)
    model.table[7, 0] = 2**24
    model.learn(rows, np.array([0]), 1)
    assert model.table[7, 0] == 2**24 + 1


def test_all_counts_are_halved_before_one_is_too_large() -> None:
    model = built(NaiveBayes())
    rows = model.prepare(pa.array(["rain", "goal", "goal"]))
    model.predict_then_learn(rows, np.array([0, 1, 1]), 0)
    before = model.predict(rows)
    model.table[:] *= MOST // 2
    model.predict_then_learn(rows[:1], np.array([0]), 2)
    assert model.table[rows.indices[0], 0] == MOST // 2 + 1
    model.predict_then_learn(rows[1:2], np.array([1]), 2)
    assert (model.table[rows.indices[0], 0], model.table[rows.indices[1], 1]) == (MOST // 4 + 1, MOST // 2 + 1)
    assert model.dirty.all()
    np.testing.assert_array_equal(model.predict(rows)[0], before[0])


def test_a_count_whose_weight_has_become_0_is_gone(texts: Callable[..., pa.Table]) -> None:
    model, rows, *_ = trained(NaiveBayes(half_life=1.0), texts(30))
    late = model.prepare(pa.array(["wholly new"] * 400))
    model.predict_then_learn(late, np.zeros(400, np.int64), model.known)
    assert np.count_nonzero(model.table.any(axis=1)) == 2 == np.asarray(model.save()["numbers"])[0]
    assert np.isfinite(model.predict(rows)[1]).all()


@pytest.mark.parametrize("config", ONE_OF_EACH, ids=lambda config: config.type)
def test_texts_without_words_get_a_class_and_change_no_word(config: OnlineModel) -> None:
    model = config.build(TEXT)
    rows = model.prepare(pa.array(["", None, "a ! b", "rain"]))
    classes, probability = model.predict_then_learn(rows, np.array([0, 0, 1, 1]), 0)
    assert classes[0] == -1 and probability[0] == 0
    assert ((classes[1:] >= 0) & (probability[1:] > 0) & (probability[1:] <= 1)).all()
    assert np.flatnonzero(model.table.any(axis=1)).tolist() in ([int(rows.indices[0])], [int(rows.indices[0]), 512])


def test_more_than_half_of_the_memory_is_refused_with_what_it_would_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millstream_models.online.learner.usable_memory", lambda: 24 << 30)
    with pytest.raises(ConfigError, match=r"1,073,741,824 dimensions and 8 .* takes 64\.0 GiB .* of the 24\.0 GiB"):
        NaiveBayes(features=HashedText(dimensions=2**30)).build(TEXT)


def test_classes_for_which_there_is_no_memory_stop_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    model = built(Softmax())
    monkeypatch.setattr("millstream_models.online.learner.usable_memory", lambda: 64 << 12)
    with pytest.raises(StepFailed, match="with 512 dimensions and 64 classes takes"):
        model.predict_then_learn(model.prepare(pa.array(["rain"])), np.array([40]), 0)


def test_weights_that_grow_beyond_all_numbers_stop_the_run() -> None:
    model = built(Softmax(rate="constant", learning_rate=1e39))
    rows = model.prepare(pa.array(["rain", "goal", "rain goal"] * 3))
    with pytest.raises(StepFailed, match=r"softmax has diverged: .* lower its `learning_rate`"):
        model.predict_then_learn(rows, np.array([0, 1, 2] * 3), 0)


FIELD = features_field(16)


@pytest.mark.parametrize(
    ("config", "entry", "says"),
    [
        (NaiveBayes(), {"index": 16, "count": 1.0}, r"indexes from 0 to 16, and 16 dimensions; correct the step"),
        (Softmax(), {"index": -1, "count": 1.0}, r"indexes from -1 to 0, and 16 dimensions"),
        (FTRL(), {"index": 2_000_000_000, "count": 1.0}, r"indexes from 0 to 2,000,000,000"),
        (Softmax(), {"index": None, "count": 1.0}, r"an index of a feature is missing"),
        (FTRL(), {"index": 3, "count": float("nan")}, r"a count of a feature is NaN"),
        (Softmax(), {"index": 3, "count": None}, r"a count of a feature is NaN"),
        (NaiveBayes(), {"index": 3, "count": 0.5}, r"naive_bayes counts words, and 0\.5 is no count; softmax and ftrl"),
        (NaiveBayes(), {"index": 3, "count": 0.0}, r"0\.0 is no count"),
        (NaiveBayes(), {"index": 3, "count": -1.0}, r"-1\.0 is no count"),
        (NaiveBayes(), {"index": 3, "count": 2.0**31}, r"up to 1,073,741,824 words in a text, and .* of 2,147,483,648"),
        (NaiveBayes(complement=True), {"index": 3, "count": 1e38}, r"up to 1,073,741,824 words in a text"),
    ],
)
def test_invalid_features_are_refused(config: OnlineModel, entry: Any, says: str) -> None:
    column = pa.array([[{"index": 0, "count": 1.0}], [entry]], FIELD.type)
    with pytest.raises(StepFailed, match=says):
        config.build(pa.schema([FIELD])).prepare(column)


def test_ftrl_without_beta_and_l2_gives_words_that_are_new_no_weight() -> None:
    model = built(FTRL(beta=0, l2=0))
    rows = model.prepare(pa.array(["rain", "goal", "rain goal"] * 5))
    classes, _ = model.predict_then_learn(rows, np.array([0, 1, 0] * 5), 0)
    assert classes[-3:-1].tolist() == [0, 1]


def test_records_without_features_are_refused_with_the_two_ways_to_have_them() -> None:
    with pytest.raises(ConfigError, match=r"let ftrl count the words itself with `features: {}`, or put a step before"):
        FTRL().build(pa.schema([("text", pa.string())]))


def test_features_with_indexes_of_another_type_are_refused_before_the_first_record() -> None:
    other = pa.field("features", pa.list_(pa.struct([("index", pa.int64()), ("count", pa.float32())])), True)
    with pytest.raises(ConfigError, match=r"softmax: the indexes of the column 'features' are int64, not int32"):
        Softmax().build(pa.schema([other.with_metadata(FIELD.metadata)]))


@pytest.mark.parametrize("config", ONE_OF_EACH, ids=lambda config: config.type)
def test_a_column_that_is_not_text_is_refused_before_the_first_record(config: OnlineModel) -> None:
    with pytest.raises(ConfigError, match=r"reads text, but the column 'text' is int64; a `map` step"):
        config.build(pa.schema([("text", pa.int64())]))


def test_a_text_with_the_most_words_is_counted_and_the_next_halves_the_counts() -> None:
    model = NaiveBayes().build(pa.schema([FIELD]))
    rows = model.prepare(pa.array([[{"index": 3, "count": 2.0**30 - 64}]] * 3, FIELD.type))
    model.predict_then_learn(rows, np.zeros(3, np.int64), 0)
    assert model.table.min() == 0 and model.table[3, 0] > 2**29


@pytest.mark.parametrize("config", [FTRL(beta=0), FTRL(alpha=1e-6, beta=0), FTRL(alpha=1e6, beta=0, l1=0.1)], ids=str)
def test_gradients_too_small_for_a_number_leave_ftrl_with_numbers(config: FTRL) -> None:
    model = built(config)
    long = " ".join(f"w{word}" for word in range(700))
    rows = model.prepare(pa.array([long, long, f"{long} new", "new", long]))
    model.predict_then_learn(rows, np.array([0, 0, 0, 1, 0]), 0)
    assert np.isfinite(model.table).all()
    built(config).restore(model.save())


def test_an_ftrl_whose_weights_are_nan_stops_the_run() -> None:
    model = built(FTRL())
    rows = model.prepare(pa.array(["rain"]))
    model.predict_then_learn(rows, np.array([0]), 0)
    model.table[rows.indices[0], 0] = np.nan
    with pytest.raises(StepFailed, match=r"ftrl has diverged: .* lower its `alpha`"):
        model.predict_then_learn(rows, np.array([0]), 1)


@pytest.mark.parametrize("config", [Softmax(), FTRL()], ids=lambda config: config.type)
def test_a_state_with_a_nan_is_refused(texts: Callable[..., pa.Table], config: OnlineModel) -> None:
    model, *_ = trained(config, texts(20))
    table = np.array(model.save()["table"])
    table[3, 1] = np.nan
    with pytest.raises(ConfigError, match=f"state of {model.name} holds numbers that are NaN"):
        built(config).restore({**model.save(), "table": table})


@pytest.mark.parametrize("name", ["totals", "numbers"])
def test_a_state_of_naive_bayes_with_a_nan_is_refused(texts: Callable[..., pa.Table], name: str) -> None:
    config = NaiveBayes(half_life=10)
    model, *_ = trained(config, texts(20))
    state = dict(model.save())
    with pytest.raises(ConfigError, match="state of naive_bayes holds numbers that are NaN"):
        built(config).restore({**state, name: np.full_like(state[name], np.nan)})


@pytest.mark.parametrize("config", ONE_OF_EACH, ids=lambda config: config.type)
def test_a_state_of_other_dimensions_is_refused(config: OnlineModel) -> None:
    other = config.model_copy(update={"features": HashedText(dimensions=64)}).build(TEXT)
    with pytest.raises(ConfigError, match="has 64 dimensions, and the features have 512; set `dimensions` back"):
        config.build(TEXT).restore(other.save())


def test_a_numba_that_cannot_be_used_is_an_error_with_advice_before_anything_is_written(tmp_path: Path) -> None:
    (tmp_path / "numba.py").write_text("raise ImportError('libllvmlite is missing')\n")
    pipeline = "pipeline: {use: text_topics}\nengine: {type: local}\n"
    (tmp_path / "small.yaml").write_text("name: small\nsource: {type: generator, records: 10}\n" + pipeline)
    paths = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-m", "millstream", "run", "small.yaml"],
        env={**os.environ, "PYTHONPATH": paths},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "numba cannot be used here (ImportError: libllvmlite is missing)" in done.stderr
    assert not (tmp_path / "runs").exists()
    assert "pip install --force-reinstall numba" in done.stderr


def test_a_pipeline_whose_words_are_counted_twice_is_refused() -> None:
    model = {"type": "naive_bayes", "features": {"type": "hashed_text"}}
    with pytest.raises(
        ValidationError, match=r"model\.features: naive_bayes counts words itself here, .*; leave one of them out"
    ):
        TextTopics(features={"type": "hashed_text", "dimensions": 1024}, model=model)
    assert TextTopics(model=model).steps()[0].config.model.features == HashedText()
