"""A learner of a trial is the model that a pipeline has: the same records leave the same state, to the bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from millstream.arrays import Array
from millstream.log.contracts import OpenContext
from millstream.state.digests import state_digest
from millstream.steps.classify import Classify
from millstream.study.learner import Learner
from millstream_connectors.generator import GeneratorSource
from millstream_models.baselines import NoChange
from millstream_models.hashed_text import HashedText
from millstream_models.naive_bayes import ComplementNB
from millstream_models.online.ftrl import FTRL
from millstream_models.online.naive_bayes import NaiveBayes
from millstream_models.online.softmax import Softmax
from millstream_models.river_nb import RiverNB
from millstream_models.sgd import SGD

MODELS = [
    NaiveBayes(),
    NaiveBayes(half_life=100.0),
    Softmax(),
    Softmax(rate="constant", learning_rate=1.0),
    Softmax(batch_size=7),
    FTRL(l1=0.001),
    ComplementNB(batch_size=16),
    SGD(batch_size=32),
    RiverNB(),
    NoChange(),
]
WITH_OPTIMISER = [Softmax(), Softmax(rate="decaying"), FTRL(), FTRL(l1=0.01, l2=0.1), SGD(batch_size=16)]
WITHOUT = [NaiveBayes(), Softmax(rate="constant"), SGD(decay=0.0), FTRL(beta=0.0), RiverNB(), ComplementNB()]


@pytest.fixture(scope="module")
def records() -> pa.Table:
    log = GeneratorSource(records=700, topics=10).open(OpenContext(Path(), Path()))
    table = pa.Table.from_batches([*log.read("0", 0, 700)]).add_column(0, "_rank", pa.array([0] * 700))
    return HashedText(dimensions=512).build(table.schema).process(table).records.combine_chunks()


@pytest.fixture(scope="module")
def labels(records: pa.Table) -> Array:
    coded = records["label"].combine_chunks().dictionary_encode()
    array = coded.chunk(0) if isinstance(coded, pa.ChunkedArray) else coded
    found: Array = array.indices.to_numpy().astype(np.int64)[::1]
    return found


def made(model: Any, records: pa.Table) -> tuple[Learner, Any]:
    learner = Learner(model, records.schema, 10)
    return learner, learner.prepare(records[learner.reads].combine_chunks())


def digest(learner: Learner) -> str:
    return str(state_digest(learner.save().model))


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_a_learner_predicts_and_learns_as_the_step_classify(model: Any, records: pa.Table, labels: Array) -> None:
    # Records are repeated and left out, as after a crash.
    sequence = np.concatenate([np.arange(200), np.arange(150, 330), np.arange(400, 700)])
    step = Classify(model=model).build(records.schema)
    learner, prepared = made(model, records)
    predicted = [
        learner.process(prepared, some, labels[some]) for some in np.array_split(sequence, [50, 51, 200, 300, 500])
    ]
    shown = step.process(records.take(pa.array(sequence))).records
    names = [*dict.fromkeys(records["label"].to_pylist()), None]
    assert [names[label] for label in np.concatenate(predicted)] == shown["predicted"].to_pylist()
    assert digest(learner) == step.fingerprint()


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_a_restored_learner_goes_on_as_if_nothing_had_happened(model: Any, records: pa.Table, labels: Array) -> None:
    learner, prepared = made(model, records)
    first, wrong, second = np.arange(230), np.arange(400, 600), np.arange(230, 400)
    learner.process(prepared, first, labels[first])
    kept = learner.save()
    learner.process(prepared, wrong, labels[wrong])
    learner.restore(kept)
    after = learner.process(prepared, second, labels[second])
    other, prepared = made(model, records)
    both = other.process(prepared, np.arange(400), labels[:400])
    assert np.array_equal(after, both[230:])
    assert digest(learner) == digest(other)


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_a_learner_is_new_after_a_restart(model: Any, records: pa.Table, labels: Array) -> None:
    learner, prepared = made(model, records)
    rows = np.arange(120)
    once = learner.process(prepared, rows, labels[rows])
    learner.restart()
    assert np.array_equal(learner.process(prepared, rows, labels[rows]), once)


def test_rows_in_any_order_are_the_same_as_rows_that_follow_each_other(records: pa.Table, labels: Array) -> None:
    learner, prepared = made(Softmax(), records)
    rows = np.random.default_rng(0).permutation(700)
    learner.process(prepared, rows, labels[rows])
    other, _ = made(Softmax(), records)
    ordered = other.prepare(records["features"].combine_chunks().take(pa.array(rows)))
    other.process(ordered, np.arange(700), labels[rows])
    assert digest(learner) == digest(other)


@pytest.mark.parametrize("model", WITH_OPTIMISER, ids=repr)
def test_a_lost_optimiser_state_leaves_all_predictions_and_changes_what_follows(
    model: Any, records: pa.Table, labels: Array
) -> None:
    learner, prepared = made(model, records)
    rows, rest = np.arange(500), np.arange(500, 600)
    learner.process(prepared, rows, labels[rows])
    before, (judged, loss) = learner.save(), learner.judge(prepared[600:700], labels[600:700])
    learner.lose_optimiser()
    again, loss_again = learner.judge(prepared[600:700], labels[600:700])
    assert np.array_equal(judged, again)
    assert loss is not None and loss_again == pytest.approx(loss, rel=1e-4)
    learner.process(prepared, rest, labels[rest])
    lost = digest(learner)
    learner.restore(before)
    learner.process(prepared, rest, labels[rest])
    assert digest(learner) != lost


@pytest.mark.parametrize("model", WITHOUT, ids=repr)
def test_a_learner_without_optimiser_state_has_none_to_lose(model: Any, records: pa.Table) -> None:
    assert made(model, records)[0].without_optimiser() is None


@pytest.mark.parametrize("model", [NaiveBayes(), Softmax(), FTRL(), SGD(batch_size=8)], ids=repr)
def test_a_part_of_the_parameters_returns_and_the_rest_stays(model: Any, records: pa.Table, labels: Array) -> None:
    learner, prepared = made(model, records)
    learner.process(prepared, np.arange(4), labels[:4])  # few classes are known, so the older arrays are narrower
    older = learner.save()
    learner.process(prepared, np.arange(4, 500), labels[4:500])
    newer = learner.save()
    name = "table" if "table" in newer.model else "weights"
    learner.return_part(older, 0.5, np.random.default_rng(1))
    mixed, now = np.asarray(learner.save().model[name]), np.asarray(newer.model[name])
    axis = mixed.shape.index(max(mixed.shape))
    stayed = (mixed == now).all(axis=1 - axis)
    changed = (now != 0).any(axis=1 - axis)
    assert 0.4 < stayed[changed].mean() < 0.65
    learner.process(prepared, np.arange(500, 600), labels[500:600])


def test_the_log_loss_is_that_of_the_true_labels(records: pa.Table, labels: Array) -> None:
    learner, prepared = made(NaiveBayes(), records)
    learner.process(prepared, np.arange(300), labels[:300])
    step = Classify(model=NaiveBayes()).build(records.schema)
    step.process(records.slice(0, 300))
    names, chances = step.ask_all(records.slice(300, 100))
    right = [row[names.index(name)] for row, name in zip(chances, records["label"].to_pylist()[300:400], strict=True)]
    judged, loss = learner.judge(prepared[300:400], labels[300:400])
    assert loss == pytest.approx(-np.log(right).mean())
    expected = step.ask(records.slice(300, 100))["predicted"].to_pylist()
    assert [[*dict.fromkeys(records["label"].to_pylist())][label] for label in judged] == expected


def test_a_learner_that_knows_nothing_predicts_nothing(records: pa.Table, labels: Array) -> None:
    learner, prepared = made(Softmax(), records)
    new = learner.save()
    learner.process(prepared, np.arange(100), labels[:100])
    learner.return_part(new, 1.0, np.random.default_rng(1))
    judged, loss = learner.judge(prepared[100:200], labels[100:200])
    assert (judged == -1).all() and loss is not None and loss > 30
