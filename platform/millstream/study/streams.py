"""The streams of a study: orders of a collection of labelled records, each made from a seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from millstream.arrays import Array
from millstream.errors import ConfigError
from millstream.plain_text import short
from millstream.study.factors import Blocks, Drift, Iid, Natural, Swap, Tail
from millstream.suggestions import suggestion

__all__ = ["OrderedStream", "label_number", "order_stream"]

_FEW = 20
"""The number of labels that an error shows."""


@dataclass(frozen=True)
class OrderedStream:
    """A stream: positions in the collection, and the label of each; so too the hold-out records, and those before."""

    positions: Array
    labels: Array
    holdout: Array
    holdout_labels: Array
    before: Array
    before_labels: Array


def order_stream(
    config: Iid | Blocks | Natural | Drift | Swap | Tail,
    labels: Array,
    names: Sequence[str],
    *,
    records: int,
    holdout: int,
    before: int = 0,
    seed: int,
) -> OrderedStream:
    """Order `records` records of a collection; `holdout` others are held out, and `before` others come first.

    `labels` are in the order of time. `natural` and `drift` hold out the records that follow, and take those before
    the stream; every other order takes random records.

    >>> labels = np.array([0, 1] * 10)
    >>> stream = order_stream(Natural(order="natural"), labels, ["a", "b"], records=4, holdout=2, seed=1)
    >>> (np.diff(stream.positions) == 1).all(), stream.holdout[0] - stream.positions[-1]
    (np.True_, np.int64(1))
    """
    pool = _pool(config.labels, labels, names)
    needed = before + records + holdout
    if len(pool) < needed:
        others = (
            f", {before:,} to train first and {holdout:,} to hold out" if before else f" and {holdout:,} to hold out"
        )
        message = f"a stream of {records:,} records{others} needs {needed:,}"
        raise ConfigError(f"{message}, and the data has {len(pool):,}; lower `records`, or give more data")
    rng = np.random.default_rng([seed, 1])
    if isinstance(config, Natural):
        start = int(rng.integers(0, len(pool) - needed + 1))
        chosen = pool[start : start + needed]
    elif isinstance(config, Drift):
        chosen = pool[np.sort(rng.choice(len(pool), needed, replace=False))]
    else:
        chosen = pool[rng.permutation(len(pool))]
    first, rest = chosen[:before], chosen[before:]
    if isinstance(config, Blocks):
        rest = np.concatenate([_blocks(config, rest[holdout:], labels, records, rng), rest[:holdout]])
    if isinstance(config, Tail):
        rest = np.concatenate([_tail(config, rest[holdout:], labels, names, records), rest[:holdout]])
    positions, held_out = rest[:records], rest[records : records + holdout]
    stream = OrderedStream(positions, labels[positions], held_out, labels[held_out], first, labels[first])
    return _swapped(config, stream, labels[pool], names) if isinstance(config, Swap) else stream


def _pool(wanted: Sequence[str] | None, labels: Array, names: Sequence[str]) -> Array:
    """Return the positions of the records with one of these labels."""
    if wanted is None:
        return np.arange(len(labels))
    numbers = [label_number(name, names) for name in wanted]
    return np.flatnonzero(np.isin(labels, numbers))


def _blocks(config: Blocks, pool: Array, labels: Array, records: int, rng: np.random.Generator) -> Array:
    """Arrange records of a pool in random order in blocks, each with one label that dominates.

    A label dominates as many blocks as its share of the pool says, up to rounding.
    """
    queues = {int(label): pool[labels[pool] == label] for label in np.unique(labels[pool])}
    taken = dict.fromkeys(queues, 0)
    shares = np.array([len(queue) for queue in queues.values()]) / len(pool)
    count = -(-records // config.size)
    dominant = rng.permutation(np.repeat(list(queues), _apportioned(shares, count)))
    made = []
    for number, main in enumerate(dominant.tolist()):
        size = min(config.size, records - number * config.size)
        of_main = round(size * config.share) if len(queues) > 1 else size
        others = [label for label in queues if label != main]
        left = np.array([max(0, len(queues[label]) - taken[label]) for label in others], np.float64)
        each = _apportioned(left / max(left.sum(), 1), size - of_main)
        block = []
        for label, wanted in [(main, of_main), *zip(others, each.tolist(), strict=True)]:
            queue, start = queues[label], taken[label]
            if start + wanted > len(queue):
                message = f"blocks need {start + wanted:,} records of one label, and the data has {len(queue):,} of it"
                raise ConfigError(f"{message}; lower `records` or the `share` of the blocks, or give more data")
            block.append(queue[start : start + wanted])
            taken[label] += wanted
        made.append(rng.permutation(np.concatenate(block)))
    return np.concatenate(made)


def _tail(config: Tail, pool: Array, labels: Array, names: Sequence[str], records: int) -> Array:
    """Arrange records of a pool in random order so that all those of one label come last."""
    last = labels[pool] == label_number(config.label, names)
    wanted = round(config.share * records)
    if last.sum() < wanted or (~last).sum() < records - wanted:
        message = (
            f"the stream needs {wanted:,} records of {config.label!r} and {records - wanted:,} others, and the data"
        )
        raise ConfigError(f"{message} has {last.sum():,} and {(~last).sum():,}; lower `records`, or give more data")
    return np.concatenate([pool[~last][: records - wanted], pool[last][:wanted]])


def _apportioned(shares: Array, count: int) -> Array:
    """Divide a number into whole numbers by shares, by largest remainders.

    >>> _apportioned(np.array([0.5, 0.3, 0.2]), 4).tolist()
    [2, 1, 1]
    """
    exact = shares * count
    whole: Array = np.floor(exact).astype(np.int64)
    rest = count - int(whole.sum())
    whole[np.argsort(whole - exact, kind="stable")[:rest]] += 1
    return whole


def _swapped(config: Swap, stream: OrderedStream, there: Array, names: Sequence[str]) -> OrderedStream:
    """Exchange two labels in the second half of the stream and in the hold-out records.

    The most common labels are those of all labels `there`, so they are the same ones with every seed.
    """
    if config.swapped is None:
        common = np.argsort(-np.bincount(there, minlength=len(names)), kind="stable")
        one, other = int(common[0]), int(common[1])
    else:
        one, other = (label_number(name, names) for name in config.swapped)
    exchanged = np.arange(len(names))
    exchanged[[one, other]] = other, one
    half = len(stream.labels) // 2
    labels = np.concatenate([stream.labels[:half], exchanged[stream.labels[half:]]])
    return replace(stream, labels=labels, holdout_labels=exchanged[stream.holdout_labels])


def label_number(name: str, names: Sequence[str]) -> int:
    """Return the index of a label; `ConfigError` if the data does not have it."""
    if name not in names:
        shown = map(short, names[:_FEW])
        more = f" and {len(names) - _FEW:,} more" if len(names) > _FEW else ""
        there = f"there are {', '.join(shown)}{more}"
        message = f"the data has no label {name!r}{suggestion(name, names, there)}"
        raise ConfigError(message)
    return list(names).index(name)
