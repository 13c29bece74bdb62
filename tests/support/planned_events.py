"""An inbox of the cutter whose events enter at epochs that a test has chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from millstream.log.epochs import Event, NewModel, Totals
from millstream.state.model_version import ModelVersion
from millstream.state.version_store import VersionStore

__all__ = ["PlannedEvents", "entering"]


@dataclass
class PlannedEvents:
    """Has these events for the epoch of this number, and puts these versions into the store before."""

    events: Mapping[int, Sequence[Event]]
    versions: Sequence[ModelVersion]
    store: VersionStore
    _taken: set[int] = field(default_factory=set)

    def take(self, totals: Totals) -> Sequence[Event]:
        events = self.events.get(totals.next_epoch, ())
        if not events or totals.next_epoch in self._taken:
            return ()
        self._taken.add(totals.next_epoch)
        for version in self.versions:
            self.store.put(version)
        return events


def entering(step: str, version: ModelVersion) -> NewModel:
    """The event with which a version enters a step."""
    return NewModel(step, "models:/news/1", version.entered, {})
