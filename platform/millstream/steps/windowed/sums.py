"""The sum of the panes of a sliding window, made from the sum of the window before it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millstream.steps.windowed.measures import SubtractableMeasure
from millstream.substreams.windows import Window

__all__ = ["PaneSum"]


class PaneSum:
    """The contents of a key's last closed window, while its panes stay as they were. It is no part of the state.

    The next window is this sum with the panes that enter and without those that leave. So it costs as much as the panes
    of one slide, and not as those of a whole window.
    """

    def __init__(self, measure: SubtractableMeasure) -> None:
        self._measure = measure
        self._first, self._last = 0, -1
        self._contents: Any = None

    def of(self, window: Window, panes: Mapping[int, Any]) -> Any:
        """The contents of a window, which does not come before the last one."""
        if self._contents is None or not self._first <= window.first <= self._last:
            contents = self._measure.merge([panes[pane] for pane in _present(panes, window.first, window.last)])
        else:
            entering = [panes[pane] for pane in _present(panes, self._last + 1, window.last)]
            contents = self._measure.merge([self._contents, *entering])
            for pane in _present(panes, self._first, window.first - 1):
                self._measure.subtract(contents, panes[pane])
        self._first, self._last, self._contents = window.first, window.last, contents
        return contents

    def change(self, pane: int) -> None:
        """Forget the sum, if this pane is in it and changes."""
        if self._first <= pane <= self._last:
            self._contents = None

    def drop(self, pane: int, contents: Any) -> None:
        """Subtract a pane that no open window has."""
        if self._contents is not None and self._first <= pane <= self._last:
            self._measure.subtract(self._contents, contents)


def _present(panes: Mapping[int, Any], first: int, last: int) -> list[int]:
    """The panes from `first` to `last` that have contents, in their order."""
    if last - first < len(panes):
        return [pane for pane in range(first, last + 1) if pane in panes]
    return sorted(pane for pane in panes if first <= pane <= last)
