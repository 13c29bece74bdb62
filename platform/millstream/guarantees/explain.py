"""The worst effects of one crash under a delivery, for each point, computed only with `delivery.effects`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from millstream.guarantees.delivery import Crash, Delivery, Point, effects, order

__all__ = ["Outcome", "outcomes", "restart"]

_RESTARTS = {
    Delivery.EXACTLY_ONCE: (
        "loads the newest checkpoint whose epochs every sink has, and replays from there; "
        "a guard before each sink drops the epochs that the sink has"
    ),
    Delivery.AT_LEAST_ONCE: "loads the newest checkpoint and repeats every epoch that is not committed",
    Delivery.AT_MOST_ONCE: "loads the newest checkpoint and continues after the last committed epoch",
}


@dataclass(frozen=True)
class Outcome:
    """The worst effects of a crash right after a point, as numbers of epochs; rows are counted by sink.

    `sink` is set for a crash within the point deliver, right after this sink.
    """

    point: Point
    sink: str | None
    trained_twice: int
    lost: int
    rows_repeated: Mapping[str, int]
    rows_missing: Mapping[str, int]


def restart(delivery: Delivery) -> str:
    """Describe the start after a crash."""
    return _RESTARTS[delivery]


def outcomes(delivery: Delivery, checkpoint_every: int, commit_every: int, sinks: Sequence[str]) -> list[Outcome]:
    """Return the worst effects of one crash at each point, over all epochs; `sinks` are in the order of delivery.

    >>> for outcome in outcomes(Delivery.AT_LEAST_ONCE, 4, 4, ["predictions"]):
    ...     print(outcome.point, outcome.trained_twice, outcome.rows_repeated)
    cut 0 {'predictions': 3}
    process 0 {'predictions': 3}
    deliver 0 {'predictions': 4}
    checkpoint 4 {'predictions': 4}
    commit 0 {'predictions': 3}
    """
    result = []
    for point in order(delivery):
        within = sinks[:-1] if point is Point.DELIVER else ()
        for index, sink in enumerate(within):
            result.append(_worst(delivery, checkpoint_every, commit_every, sinks, point, (index, sink)))
        result.append(_worst(delivery, checkpoint_every, commit_every, sinks, point, None))
    return result


def _worst(
    delivery: Delivery,
    checkpoint_every: int,
    commit_every: int,
    sinks: Sequence[str],
    point: Point,
    after_sink: tuple[int, str] | None,
) -> Outcome:
    index, sink = after_sink if after_sink is not None else (None, None)
    twice = lost = 0
    repeated, missing = dict.fromkeys(sinks, 0), dict.fromkeys(sinks, 0)
    for epoch in _decisive_epochs(checkpoint_every, commit_every):
        found = effects(delivery, checkpoint_every, commit_every, [Crash(point, epoch, index)], len(sinks))
        twice, lost = max(twice, len(found.trained_twice)), max(lost, len(found.lost))
        for name, again, gone in zip(sinks, found.rows_repeated, found.rows_missing, strict=True):
            repeated[name] = max(repeated[name], len(again))
            missing[name] = max(missing[name], len(gone))
    return Outcome(point, sink, twice, lost, repeated, missing)


def _decisive_epochs(checkpoint_every: int, commit_every: int) -> Iterable[int]:
    """Return the epochs of the second cycle after which a checkpoint or commit is due, and the epoch before each.

    A cycle is the least common multiple of the two intervals. Between these epochs the effects only grow, so one of
    these epochs has the worst effects.
    """
    cycle = math.lcm(checkpoint_every, commit_every)
    due = {due for every in (checkpoint_every, commit_every) for due in range(cycle + every - 1, 2 * cycle, every)}
    return sorted(due | {epoch - 1 for epoch in due})
