"""Crashes as input: a run crashes right after a given point of a given epoch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from millstream.errors import ConfigError
from millstream.guarantees.delivery import Point
from millstream.suggestions import suggestion

__all__ = ["Armed", "CrashPoint"]


@dataclass(frozen=True)
class CrashPoint:
    """The point of a crash, written `POINT[.SINK]@EPOCH` for `--crash`.

    >>> CrashPoint.parse("deliver.predictions@3")
    CrashPoint(point=<Point.DELIVER: 'deliver'>, epoch=3, sink='predictions')
    """

    point: Point
    epoch: int
    sink: str | None = None

    def __str__(self) -> str:
        return f"{self.point}{'.' + self.sink if self.sink else ''}@{self.epoch}"

    @staticmethod
    def parse(text: str) -> CrashPoint:
        where, at, epoch = text.partition("@")
        point, dot, sink = where.partition(".")
        if not at or not epoch.isdecimal() or (dot and not sink):
            message = f"--crash {text}: expected POINT[.SINK]@EPOCH, as in deliver@3 or deliver.predictions@3"
            raise ConfigError(message)
        if point not in list(Point):
            message = f"--crash {text}: '{point}' is not one of {', '.join(Point)}{suggestion(point, Point)}"
            raise ConfigError(message)
        if sink and point != Point.DELIVER:
            message = f"--crash {text}: only the point deliver has a sink, as in deliver.predictions@3"
            raise ConfigError(message)
        return CrashPoint(Point(point), int(epoch), sink or None)

    def check(self, sinks: Sequence[str]) -> None:
        """Refuse (`ConfigError`) a sink that the pipeline does not have."""
        if self.sink is not None and self.sink not in sinks:
            message = f"--crash {self}: there is no sink '{self.sink}'; the sinks are {', '.join(sinks)}"
            raise ConfigError(message)


@dataclass(frozen=True)
class Armed:
    """A crash that happens at its point. `fire` does not return: it kills the process or, in tests, raises."""

    point: CrashPoint
    fire: Callable[[], None]

    def pass_by(self, point: Point, epoch: int, sink: str | None = None) -> None:
        """Crash if this is the point. A run calls this right after each point and, within deliver, after each sink."""
        if self.point == CrashPoint(point, epoch, sink):
            self.fire()
