"""Outcomes of learners after failures, and their table: one row for each stream, system and failure, over all seeds."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

__all__ = ["Outcome", "read", "table_lines", "write"]


@dataclass(frozen=True)
class Outcome:
    """The last model of one run beside that of the clean run of the same system, stream and seed.

    `distance` is the relative L2 distance of the coefficients. `version` is the number of the last model version where
    the system counts versions. `unexplained` is the distance to a reference whose optimiser state starts over at the
    last checkpoint, relative too. `in_order` is true if the system's own count and digest show each record once.
    """

    stream: str
    system: str
    failure: str
    at: tuple[int, ...]
    seed: int
    distance: float
    same: bool
    in_order: bool
    clean_log_loss: float
    log_loss: float
    version: int | None = None
    unexplained: float | None = None

    @property
    def row(self) -> tuple[str, str, str, tuple[int, ...]]:
        return self.stream, self.system, self.failure, self.at


_HEAD = (
    "stream",
    "system",
    "failure",
    "at record",
    "each record once",
    "same model",
    "relative L2, %",
    "unexplained",
    "last version",
    "log-loss, clean",
    "after",
    "worse",
)


def table_lines(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """A table in Markdown: means over the seeds, in brackets the least and the greatest value."""
    yield f"| {' | '.join(_HEAD)} |"
    yield "|---" * len(_HEAD) + "|"
    for row in dict.fromkeys(outcome.row for outcome in outcomes):
        yield f"| {' | '.join(_cells([outcome for outcome in outcomes if outcome.row == row]))} |"


def _cells(found: Sequence[Outcome]) -> Iterator[str]:
    """The cells of the outcomes of one row."""

    def share(values: Iterable[bool]) -> str:
        return f"{sum(values)} of {len(found)}"

    stream, system, failure, at = found[0].row
    yield from (stream, system, failure, ", ".join(f"{record:,}" for record in at) or "-")
    yield share(outcome.in_order for outcome in found)
    yield share(outcome.same for outcome in found)
    yield _range([100 * outcome.distance for outcome in found])
    unexplained = [outcome.unexplained for outcome in found if outcome.unexplained is not None]
    yield _limit(max(unexplained)) if unexplained else "-"
    yield ", ".join(dict.fromkeys(str(each.version) for each in found if each.version is not None)) or "-"
    yield f"{_mean([outcome.clean_log_loss for outcome in found]):.3f}"
    yield f"{_mean([outcome.log_loss for outcome in found]):.3f}"
    yield share(outcome.log_loss > outcome.clean_log_loss for outcome in found)


def _limit(value: float) -> str:
    """A limit with one digit, rounded up.

    >>> _limit(2.1e-16), _limit(9.5e-16), _limit(0.0)
    ('<= 3e-16', '<= 1e-15', '0')
    """
    if not value:
        return "0"
    step = 10.0 ** math.floor(math.log10(value))
    return f"<= {math.ceil(value / step) * step:.0e}"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _range(values: Sequence[float]) -> str:
    """The mean, with the least and the greatest value if they differ.

    >>> _range([2.0, 4.0]), _range([0.0, 0.0])
    ('3.0 (2.0-4.0)', '0')
    """
    if not any(values):
        return "0"
    return f"{_mean(values):.1f} ({min(values):.1f}-{max(values):.1f})"


def write(path: Path, outcomes: Sequence[Outcome], **about: Any) -> None:
    """Write all outcomes, one a line, after a mapping `about` them: versions, command, sizes."""
    lines = ",\n  ".join(json.dumps(asdict(outcome)) for outcome in outcomes)
    path.write_text(f'{{\n "about": {json.dumps(about)},\n "outcomes": [\n  {lines}\n ]\n}}\n')


def read(path: Path) -> tuple[Mapping[str, Any], list[Outcome]]:
    """Return the mapping `about` the outcomes of a file, and the outcomes."""
    found = json.loads(path.read_text())
    return found["about"], [Outcome(**{**line, "at": tuple(line["at"])}) for line in found["outcomes"]]
