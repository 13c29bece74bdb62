"""Crashes as input: a run crashes right after a given point of a given epoch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from millstream.errors import ConfigError
from millstream.guarantees.delivery import Point
from millstream.suggestions import suggestion

__all__ = ["CHECKPOINT_PARTS", "Armed", "CrashPoint"]

CHECKPOINT_PARTS = ("layers", "manifest")


@dataclass(frozen=True)
class CrashPoint:
    """The point of a crash, written `POINT[.PART]@EPOCH` for `--crash`.

    A part of deliver is a sink, right after its append. A part of checkpoint is `layers`, when the state is written, or
    `manifest`, when the manifest is written: the checkpoint does not count yet.

    >>> CrashPoint.parse("deliver.predictions@3")
    CrashPoint(point=<Point.DELIVER: 'deliver'>, epoch=3, part='predictions')
    """

    point: Point
    epoch: int
    part: str | None = None

    def __str__(self) -> str:
        return f"{self.point}{'.' + self.part if self.part else ''}@{self.epoch}"

    @staticmethod
    def parse(text: str) -> CrashPoint:
        where, at, epoch = text.partition("@")
        point, dot, part = where.partition(".")
        if not at or not epoch.isdecimal() or (dot and not part):
            message = f"--crash {text}: expected POINT[.PART]@EPOCH, as in deliver@3 or deliver.predictions@3"
            raise ConfigError(message)
        if point not in list(Point):
            message = f"--crash {text}: '{point}' is not one of {', '.join(Point)}{suggestion(point, Point)}"
            raise ConfigError(message)
        if part and point not in (Point.DELIVER, Point.CHECKPOINT):
            message = (
                f"--crash {text}: only the points deliver and checkpoint have parts, "
                "as in deliver.predictions@3 or checkpoint.layers@3"
            )
            raise ConfigError(message)
        return CrashPoint(Point(point), int(epoch), part or None)

    def check(self, sinks: Sequence[str]) -> None:
        """Refuse (`ConfigError`) a part that the point does not have in this pipeline."""
        if self.part is not None and self.point is Point.DELIVER and self.part not in sinks:
            message = f"--crash {self}: there is no sink '{self.part}'; the sinks are {', '.join(sinks)}"
            raise ConfigError(message)
        if self.part is not None and self.point is Point.CHECKPOINT and self.part not in CHECKPOINT_PARTS:
            message = f"--crash {self}: the parts of checkpoint are {', '.join(CHECKPOINT_PARTS)}"
            raise ConfigError(message)


@dataclass(frozen=True)
class Armed:
    """A crash that happens at its point. `fire` does not return: it kills the process or, in tests, raises."""

    point: CrashPoint
    fire: Callable[[], None]

    def pass_by(self, point: Point, epoch: int, part: str | None = None) -> None:
        """Crash if this is the point. A run calls this right after each point and each of its parts."""
        if self.point == CrashPoint(point, epoch, part):
            self.fire()
