"""The state of an object of a library: saved without pickle, restored without a call of its class."""

from __future__ import annotations

import collections
import functools
import json
import random
from typing import Any

import numpy as np
import pytest
from river import linear_model, optim, proba, tree
from river.utils import VectorDict
from scipy.sparse import csr_matrix
from sklearn.linear_model import SGDClassifier

from millstream.errors import MillstreamError
from millstream.steps.contracts import State
from millstream_models.libraries.object_restore import restore_object
from millstream_models.libraries.object_state import NotSavable, save_object


def again(value: Any) -> Any:
    return restore_object(save_object(value).state, type(value))


def crafted(*entries: list[Any]) -> State:
    """The state with these entries, after one of a list that refers to the first of them."""
    return {"objects": json.dumps([["list", [["@", 1]]], *entries]).encode(), "floats": np.zeros(0)}


# ---------------------------------------------------------------- values


@pytest.mark.parametrize(
    "value",
    [
        [1, 2.5, -0.0, float("inf"), 2**90, "é\ud800", None, True, b"\x00\xff"],
        {"a": 0.1, "b": 1e-320},
        {1: {2: {3: []}}, (1, "a", (None,)): ()},
        collections.Counter("abracadabra"),
        collections.deque([1, 2], maxlen=3),
        [np.float64(0.1), np.float32(0.1), np.int64(7), np.bool_(True)],
    ],
)
def test_values_come_back_equal_and_of_the_same_types(value: Any) -> None:
    assert repr(again(value)) == repr(value)


def test_sets_come_back_equal() -> None:
    sets = [{3, 1, 2}, {"b", "a"}, {None, 1, "a", (2, b"c")}, frozenset({(1, "b"), (1, "a")}), set(), {frozenset({3})}]
    assert again(sets) == sets and isinstance(again(sets)[3], frozenset)


def test_numbers_that_are_no_numbers_come_back() -> None:
    assert np.isnan(again([float("nan")])[0]) and np.isnan(again({"a": float("nan"), "b": 0.0})["a"])


def test_a_set_is_saved_in_the_same_order_however_it_was_made() -> None:
    one, other = {8, 0}, {0, 8}  # which iterate in different orders
    assert list(one) != list(other)
    assert save_object([one]).state["objects"] == save_object([other]).state["objects"]


def test_dictionaries_keep_their_order_and_their_default() -> None:
    counts = collections.defaultdict(collections.Counter, {"b": collections.Counter("b"), "a": collections.Counter()})
    restored = again(counts)
    assert list(restored) == ["b", "a"] and restored["new"] == collections.Counter()
    nested = again(collections.defaultdict(functools.partial(collections.defaultdict, float)))
    assert nested["new"]["newer"] == 0.0


def test_shared_objects_and_cycles_stay_what_they_are() -> None:
    shared: dict[str, Any] = {"n": 1}
    whole: dict[str, Any] = {"one": shared, "other": [shared], "array": np.arange(3)}
    whole["view"], whole["self"] = whole["array"].view(), whole
    restored = again(whole)
    assert restored["one"] is restored["other"][0] and restored["self"] is restored
    restored["array"][0] = 9
    assert restored["view"][0] == 9


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3),
        np.asfortranarray(np.arange(6, dtype=np.int32).reshape(2, 3)),
        np.arange(12.0)[::2],
        np.array(["a", "bc"]),
        np.array([True, False]),
        np.zeros((0, 3)),
        np.array(1.5),
        np.array([["a", None], [1, 2.5]], object),
    ],
)
def test_arrays_come_back_with_their_type_shape_and_order(array: Any) -> None:
    restored = again([array])[0]
    assert restored.dtype == array.dtype and restored.shape == array.shape and restored.flags.writeable
    assert restored.tolist() == array.tolist()
    if array.flags.c_contiguous or array.flags.f_contiguous:
        assert restored.flags.c_contiguous == array.flags.c_contiguous


def test_generators_of_random_numbers_go_on() -> None:
    plain, numpys = random.Random(3), np.random.RandomState(3)
    plain.gauss(0, 1)  # each now has a second number in store
    numpys.randn()
    restored = again([plain, numpys])
    assert [plain.gauss(0, 1) for _ in range(5)] == [restored[0].gauss(0, 1) for _ in range(5)]
    assert numpys.randn(5).tolist() == restored[1].randn(5).tolist()


def test_objects_of_the_libraries_go_on() -> None:
    model: Any = linear_model.LogisticRegression(optimizer=optim.Adam(0.1))
    for number in range(20):
        model.learn_one({"a": number % 3, "b": 1.0}, bool(number % 2))
    restored = again(model)
    for each in (model, restored):
        each.learn_one({"a": 1.0, "c": 2.0}, True)
    assert restored.predict_proba_one({"a": 1, "c": 1}) == model.predict_proba_one({"a": 1, "c": 1})
    assert again([VectorDict({"a": 1.0})])[0] == {"a": 1.0}
    assert (again([csr_matrix(np.eye(2))])[0].toarray() == np.eye(2)).all()


def test_methods_of_a_model_belong_to_the_restored_model() -> None:
    model: Any = linear_model.PAClassifier(mode=1)  # type: ignore[no-untyped-call]
    restored = again(model)
    assert restored.calc_tau.__self__ is restored and restored.calc_tau.__func__ is model.calc_tau.__func__


def test_unseeded_distributions_do_not_save_their_generators() -> None:
    gaussian: Any = proba.Gaussian
    one, other = save_object([gaussian()]), save_object([gaussian()])
    assert one.state["objects"] == other.state["objects"]
    assert again([gaussian()])[0].sample() is not None
    seeded = again([gaussian(seed=5)])[0]
    assert seeded._rng.random() == random.Random(5).random()


# ---------------------------------------------------------------- what cannot be saved


class Stranger:
    pass


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (lambda x: x, "the attribute loss is the function .*<lambda>, which cannot be saved without pickle"),
        (print, "the attribute loss is the function print"),
        (Stranger(), "the attribute loss is an object of the class .*Stranger"),
        (np.array([1], "M8[s]"), "the attribute loss is an array of the type datetime64"),
        ({Stranger: 1}, "the attribute loss is a dictionary or set with keys of the class builtins.type"),
        ([1, {"a": iter(())}], r"the attribute loss\[1\]\['a'\] is an object of the class builtins.tuple_iterator"),
    ],
)
def test_a_value_that_cannot_be_saved_is_named_with_its_attribute(value: Any, message: str) -> None:
    model = linear_model.LogisticRegression()
    model.loss = value
    with pytest.raises(NotSavable, match=message):
        save_object(model)


def test_a_view_of_a_part_of_another_array_is_refused() -> None:
    model = SGDClassifier()
    model.coef_ = np.zeros((2, 3))
    model.part_ = model.coef_[0]
    with pytest.raises(NotSavable, match="the attribute part_ is a view of another array of the model"):
        save_object(model)


# ---------------------------------------------------------------- what is not restored


@pytest.mark.parametrize(
    "name",
    [
        "os:system",
        "builtins:eval",
        "subprocess:Popen",
        "river.base.base:inspect.os.system",
        "river.base.base:inspect",
        "numpy:load",
        "sklearn.datasets._svmlight_format_io:load_svmlight_file",
        "river.stream.iter_csv:iter_csv",
        "river.datasets.trec07:TREC07",
        "riverbed:River",
        "river.no_such_module:Thing",
        "river:",
        ":",
        "..river:base",
    ],
)
def test_a_name_outside_the_libraries_is_refused(name: str) -> None:
    factory: list[Any] = ["dict", "collections:defaultdict", [], [], ["name", name]]
    others: list[list[Any]] = [["object", name, [], []], ["compiled", name, [], None], ["dict", name, [], [], None]]
    for entry in (factory, *others):
        with pytest.raises(MillstreamError, match=r"no class of River or scikit-learn|cannot be restored"):
            restore_object(crafted(entry), list)


def test_nothing_is_imported_for_a_refused_name(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "riverboat.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MillstreamError, match="names 'riverboat:Boat'"):
        restore_object(crafted(["object", "riverboat:Boat", [], []]), list)
    assert not (tmp_path / "imported").exists()


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (["object", "river.optim.sgd:SGD", ["__class__"], [1]], "it sets __class__ of a SGD"),
        (["object", "builtins:dict", [], []], "dict is no class of a library"),
        (["compiled", "river.optim.sgd:SGD", [1], None], "is no compiled class"),
        (["partial", ["method", ["@", 0], "append"], [], {}], "'append', which is no method of a list"),
        (["pickle", "gASVAAAAAA=="], "unknown kind 'pickle'"),
        (["list", [["call", "os:system", "true"]]], "unknown kind 'call'"),
        (["list", [["@", 99]]], "IndexError"),
        (["random_state", [0] * 624, 10**6, 0, 0.0], "no valid position"),
    ],
)
def test_a_crafted_entry_is_refused(entry: list[Any], message: str) -> None:
    with pytest.raises(MillstreamError, match=message):
        restore_object(crafted(entry), list)


def test_no_class_is_called_when_its_objects_are_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    model: Any = tree.HoeffdingTreeClassifier(grace_period=5)
    for number in range(40):
        model.learn_one({"a": number % 3, "b": number % 2}, number % 2)
    state = save_object(model).state
    for kind in (tree.HoeffdingTreeClassifier, optim.SGD, type(model._root)):
        monkeypatch.setattr(kind, "__init__", None)
    assert restore_object(state, type(model)).predict_proba_one({"a": 1, "b": 1}) == model.predict_proba_one(
        {"a": 1, "b": 1}
    )


def test_a_state_of_another_class_is_refused() -> None:
    with pytest.raises(MillstreamError, match="the state is that of a list, not of a dict; start over with --fresh"):
        restore_object(save_object([1]).state, dict)


# ---------------------------------------------------------------- differences


def test_a_difference_names_the_attribute() -> None:
    one, other = linear_model.LogisticRegression(), linear_model.LogisticRegression()
    assert save_object(one).difference(save_object(other)) is None
    other.optimizer.n_iterations = 3
    assert save_object(one).difference(save_object(other)) == "optimizer.n_iterations"
    first, second = SGDClassifier(), SGDClassifier()
    first.coef_, second.coef_ = np.zeros(3), np.array([0.0, 0.0, 1.0])
    assert save_object(first).difference(save_object(second)) == "coef_"
    weights = [{"w": {"a": 1.0, "b": 2.0}}, {"w": {"a": 1.0, "b": 2.5}}]
    assert save_object(weights[0]).difference(save_object(weights[1])) == "['w']"
