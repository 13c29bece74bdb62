"""The streams of a study: orders of a collection that a seed decides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from millstream.errors import ConfigError
from millstream.study.factors import Blocks, Drift, Iid, Natural, Swap, Tail
from millstream.study.streams import OrderedStream, label_number, order_stream

NAMES = ["a", "b", "c"]
LABELS = np.random.default_rng(0).choice(3, 3000, p=[0.5, 0.3, 0.2])
ORDERS = [
    Iid(order="iid"),
    Blocks(order="blocks", size=100),
    Natural(order="natural"),
    Drift(order="drift"),
    Swap(order="swap"),
    Tail(order="tail", label="b", share=0.2),
]


def ordered(config: Iid | Blocks | Natural | Drift | Swap | Tail, seed: int = 1, records: int = 1000) -> OrderedStream:
    return order_stream(config, LABELS, NAMES, records=records, holdout=300, seed=seed)


@pytest.mark.parametrize("config", ORDERS, ids=lambda config: config.order)
def test_no_record_is_there_twice_and_hold_out_records_are_others(config: Iid) -> None:
    stream = ordered(config)
    everything = np.concatenate([stream.positions, stream.holdout])
    assert len(np.unique(everything)) == len(everything) == 1300


@pytest.mark.parametrize("config", ORDERS, ids=lambda config: config.order)
def test_a_seed_decides_the_order(config: Iid) -> None:
    assert np.array_equal(ordered(config).positions, ordered(config).positions)
    assert not np.array_equal(ordered(config).positions, ordered(config, seed=2).positions)


def test_blocks_are_bursts_of_one_label() -> None:
    labels = ordered(Blocks(order="blocks", size=100, share=0.7)).labels
    shares = [np.bincount(labels[start : start + 100], minlength=3).max() / 100 for start in range(0, 1000, 100)]
    assert shares == [0.7] * 10


def test_natural_order_is_a_piece_of_the_collection_and_the_hold_out_records_follow() -> None:
    stream = ordered(Natural(order="natural"))
    assert (np.diff(np.concatenate([stream.positions, stream.holdout])) == 1).all()


def test_drift_covers_the_whole_collection_in_order() -> None:
    stream = ordered(Drift(order="drift"))
    positions = np.concatenate([stream.positions, stream.holdout])
    assert (np.diff(positions) > 0).all() and positions[0] < 30 and positions[-1] > 2970


def test_a_swap_exchanges_two_labels_in_the_middle_and_in_the_hold_out_records() -> None:
    stream = ordered(Swap(order="swap", swapped=("a", "c")))
    true = LABELS[stream.positions]
    exchanged = np.array([2, 1, 0])
    assert np.array_equal(stream.labels[:500], true[:500])
    assert np.array_equal(stream.labels[500:], exchanged[true[500:]])
    assert np.array_equal(stream.holdout_labels, exchanged[LABELS[stream.holdout]])


def test_a_swap_exchanges_the_most_common_labels_of_the_data_with_every_seed() -> None:
    data = np.repeat([0, 1, 2], [1000, 990, 980])  # a short stream may have any order of its three labels
    for seed in range(8):
        stream = order_stream(Swap(order="swap"), data, NAMES, records=100, holdout=100, seed=seed)
        assert np.array_equal(stream.holdout_labels, np.array([1, 0, 2])[data[stream.holdout]])


def test_a_tail_has_all_records_of_its_label() -> None:
    labels = ordered(Tail(order="tail", label="b", share=0.2)).labels
    assert np.flatnonzero(labels == 1).tolist() == [*range(800, 1000)]


@pytest.mark.parametrize("config", ORDERS, ids=lambda config: config.order)
def test_records_to_train_first_are_others_and_in_natural_order_they_come_before(config: Any) -> None:
    stream = order_stream(config, LABELS, NAMES, records=500, holdout=300, before=400, seed=1)
    everything = np.concatenate([stream.before, stream.positions, stream.holdout])
    assert len(np.unique(everything)) == len(everything) == 1200
    assert np.array_equal(stream.before_labels, LABELS[stream.before])
    if isinstance(config, Natural):
        assert (np.diff(everything) == 1).all()


def test_a_stream_may_have_only_some_labels() -> None:
    assert set(ordered(Iid(order="iid", labels=["b", "c"])).labels.tolist()) == {1, 2}


@pytest.mark.parametrize(
    ("config", "records", "message"),
    [
        (Iid(order="iid"), 2800, "needs 3,100, and the data has 3,000; lower `records`, or give more data"),
        (Iid(order="iid", labels=["a", "d"]), 1000, "the data has no label 'd'; there are 'a', 'b', 'c'"),
        (Swap(order="swap", swapped=("a", "d")), 1000, "the data has no label 'd'"),
        (Tail(order="tail", label="c", share=0.9), 1000, "needs 900 records of 'c' and 100 others, and the data has"),
        (Blocks(order="blocks", size=900, share=1.0), 2700, "of one label, and the data has"),
    ],
)
def test_a_stream_that_the_data_cannot_make_is_refused(config: Iid, records: int, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ordered(config, records=records)


def test_an_unknown_label_of_many_is_compared_with_them_and_few_are_shown() -> None:
    names = [f"topic {number} {'x' * 100}" for number in range(500)]
    with pytest.raises(ConfigError) as refused:
        label_number("sport", names)
    assert str(refused.value).endswith("xxx...' and 480 more") and len(str(refused.value)) < 1200
    with pytest.raises(ConfigError, match="no label 'sports'; did you mean `sport`"):
        label_number("sports", ["travel", "sport", *names])


def test_a_message_shows_labels_on_one_line() -> None:
    with pytest.raises(ConfigError, match=r"no label 'd'; there are 'a\\nb', ''$"):
        label_number("d", ["a\nb", ""])
    with pytest.raises(ConfigError, match=r"no label 'sport tennis'; did you mean `sport\\ntennis`\?$"):
        label_number("sport tennis", ["sport\ntennis", "music"])
