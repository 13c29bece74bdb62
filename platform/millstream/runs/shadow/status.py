"""The status of the shadows of a run, from its epoch log and shadow.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from millstream.config.load import Loaded
from millstream.log.epochs import Totals
from millstream.runs.directory import RunDirectory
from millstream.runs.shadow.notes import NextVersion, StepNotes, read_notes
from millstream.shadow_names import shadow_of

__all__ = ["ShadowStatus", "shadow_status"]


@dataclass(frozen=True)
class ShadowStatus:
    """The versions of a step with a shadow: None where the step has the model of the config, or no shadow yet.

    `labelled` are the labelled records since the version entered the shadow, in the epoch `since`, and the accuracies
    are those over these records. `better` and `over` are the rule. `next` is the version that is to enter.
    """

    champion: str | None
    shadow: str | None
    since: int | None
    labelled: int
    champion_accuracy: float | None
    shadow_accuracy: float | None
    better: float | None
    over: int | None
    next: NextVersion | None


def shadow_status(loaded: Loaded, directory: RunDirectory, totals: Totals) -> Mapping[str, ShadowStatus]:
    """The shadows of a run by step."""
    notes = read_notes(directory.shadow)
    found: dict[str, ShadowStatus] = {}
    for step in loaded.config.steps:
        config = getattr(step.config, "shadow", None)
        if config is None:
            continue
        running, trial = totals.models.versions, totals.models.trials.get(step.name)
        champion, shadow = running.get(step.name), running.get(shadow_of(step.name))
        found[step.name] = ShadowStatus(
            champion=None if champion is None else champion.version,
            shadow=None if shadow is None else shadow.version,
            since=None if trial is None else trial.since,
            labelled=0 if trial is None else trial.shadow.labelled,
            champion_accuracy=None if trial is None else trial.champion.accuracy,
            shadow_accuracy=None if trial is None else trial.shadow.accuracy,
            better=None if config.promote is None else config.promote.better,
            over=None if config.promote is None else config.promote.over,
            next=notes.get(step.name, StepNotes()).next,
        )
    return found
