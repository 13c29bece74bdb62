"""The worst effects of a crash under a delivery, point by point: computed from `delivery.effects` alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from millstream.guarantees.delivery import Crash, Delivery, Point, effects, order

__all__ = ["Outcome", "outcomes", "restart"]

_RESTARTS = {
    Delivery.EXACTLY_ONCE: (
        "loads the newest save that every sink has caught up with and replays from there; "
        "a guard before each sink drops the epochs that it has"
    ),
    Delivery.AT_LEAST_ONCE: "loads the newest save and repeats every epoch that is not committed",
    Delivery.AT_MOST_ONCE: "loads the newest save and goes on after the last committed epoch",
}


@dataclass(frozen=True)
class Outcome:
    """The worst effects of a crash right after a point, as numbers of epochs; rows by sink.

    `sink` is set for a crash in the midst of `deliver`, right after that sink.
    """

    point: Point
    sink: str | None
    trained_twice: int
    lost: int
    rows_repeated: Mapping[str, int]
    rows_missing: Mapping[str, int]

    @property
    def harmless(self) -> bool:
        """True if the crash cannot be seen in the results."""
        rows = [*self.rows_repeated.values(), *self.rows_missing.values()]
        return not any([self.trained_twice, self.lost, *rows])


def restart(delivery: Delivery) -> str:
    """The work of a start after a crash, in words."""
    return _RESTARTS[delivery]


def outcomes(delivery: Delivery, save_every: int, commit_every: int, sinks: Sequence[str]) -> list[Outcome]:
    """The worst that one crash does at each point, over all epochs; `sinks` in the order of their delivery.

    >>> for outcome in outcomes(Delivery.AT_LEAST_ONCE, 4, 4, ["predictions"]):
    ...     print(outcome.point, outcome.trained_twice, outcome.rows_repeated)
    cut 0 {'predictions': 3}
    process 0 {'predictions': 3}
    deliver 0 {'predictions': 4}
    save 4 {'predictions': 4}
    commit 0 {'predictions': 3}
    """
    result = []
    for point in order(delivery):
        halfway = sinks[:-1] if point is Point.DELIVER else ()
        for place, sink in enumerate(halfway):
            result.append(_worst(delivery, save_every, commit_every, sinks, point, (place, sink)))
        result.append(_worst(delivery, save_every, commit_every, sinks, point, None))
    return result


def _worst(
    delivery: Delivery,
    save_every: int,
    commit_every: int,
    sinks: Sequence[str],
    point: Point,
    halfway: tuple[int, str] | None,
) -> Outcome:
    place, sink = halfway if halfway is not None else (None, None)
    twice = lost = 0
    repeated, missing = dict.fromkeys(sinks, 0), dict.fromkeys(sinks, 0)
    for epoch in _telling_epochs(save_every, commit_every):
        found = effects(delivery, save_every, commit_every, [Crash(point, epoch, place)], len(sinks))
        twice, lost = max(twice, len(found.trained_twice)), max(lost, len(found.lost))
        for name, again, gone in zip(sinks, found.rows_repeated, found.rows_missing, strict=True):
            repeated[name] = max(repeated[name], len(again))
            missing[name] = max(missing[name], len(gone))
    return Outcome(point, sink, twice, lost, repeated, missing)


def _telling_epochs(save_every: int, commit_every: int) -> Iterable[int]:
    """The epochs of one whole cycle, after the first, at which something is due or is due next.

    Between them the effects only grow, so the worst is among them.
    """
    cycle = math.lcm(save_every, commit_every)
    due = {due for every in (save_every, commit_every) for due in range(cycle + every - 1, 2 * cycle, every)}
    return sorted(due | {epoch - 1 for epoch in due})
