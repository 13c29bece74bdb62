"""The versions of models that run now, and the scores of shadows and their champions, by the lines of an epoch log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from millstream.log.epochs.epoch import Epoch, NewModel, Swap
from millstream.log.epochs.receipt import EpochReceipt
from millstream.log.epochs.scores import Scores
from millstream.shadow_names import champion_of, is_shadow, shadow_of

__all__ = ["RunningModels", "RunningVersion", "Trial"]


@dataclass(frozen=True)
class RunningVersion:
    """The version that entered a step, by its address in the registry and the digest in the run directory.

    Its model is that of the step from the first record of the epoch `since` on.
    """

    version: str
    digest: str
    since: int


@dataclass(frozen=True)
class Trial:
    """The scores of a champion and of its shadow since the epoch `since`, with which a version entered the shadow.

    An epoch counts once its receipt is written.
    """

    since: int
    champion: Scores = field(default_factory=Scores)
    shadow: Scores = field(default_factory=Scores)

    def line(self) -> dict[str, Any]:
        return {"since": self.since, "champion": self.champion.counts(), "shadow": self.shadow.counts()}

    @staticmethod
    def from_line(line: Mapping[str, Any]) -> Trial:
        return Trial(line["since"], Scores.from_counts(line["champion"]), Scores.from_counts(line["shadow"]))


@dataclass
class RunningModels:
    """By step the version that runs, and by champion the trial of its shadow.

    A step without a version has the model of the config. `named` has by digest the last epoch that names the version,
    and `shadows` by champion the last epoch with an event of its shadow.
    """

    versions: dict[str, RunningVersion] = field(default_factory=dict)
    trials: dict[str, Trial] = field(default_factory=dict)
    named: dict[str, int] = field(default_factory=dict)
    shadows: dict[str, int] = field(default_factory=dict)

    def add_epoch(self, epoch: Epoch) -> None:
        for event in epoch.events:
            if isinstance(event, NewModel):
                self.versions[event.step] = RunningVersion(event.version, event.digest, epoch.number)
                self.named[event.digest] = epoch.number
                if is_shadow(event.step):
                    self.trials[champion_of(event.step)] = Trial(epoch.number)
                    self.shadows[champion_of(event.step)] = epoch.number
            elif isinstance(event, Swap):
                self.shadows[event.step] = epoch.number
                self.trials.pop(event.step, None)
                shadow = self.versions.pop(shadow_of(event.step), None)
                if shadow is not None:
                    self.versions[event.step] = replace(shadow, since=epoch.number)

    def add_receipt(self, receipt: EpochReceipt) -> None:
        """Add the first receipt of an epoch."""
        for step, trial in self.trials.items():
            if receipt.epoch >= trial.since:
                champion, shadow = (receipt.scores.get(name, Scores()) for name in (step, shadow_of(step)))
                self.trials[step] = Trial(trial.since, trial.champion + champion, trial.shadow + shadow)

    def named_since(self, epoch: int) -> set[str]:
        """The digests of the versions that epochs after this one name."""
        return {digest for digest, last in self.named.items() if last > epoch}

    def begun_at_base(self) -> RunningModels:
        """A copy for a new log that begins after the base: without counts."""
        trials = {step: Trial(trial.since) for step, trial in self.trials.items()}
        return RunningModels(dict(self.versions), trials)

    def of_steps(self, steps: set[str]) -> RunningModels:
        """A copy with these steps only."""
        return RunningModels(
            {step: version for step, version in self.versions.items() if step in steps},
            {step: trial for step, trial in self.trials.items() if shadow_of(step) in steps},
            dict(self.named),
            dict(self.shadows),
        )

    def line(self) -> dict[str, Any]:
        """The models as a part of the header of a segment."""
        trials = {step: trial.line() for step, trial in self.trials.items()}
        versions = {step: asdict(version) for step, version in self.versions.items()}
        return {"versions": versions, "trials": trials, "named": self.named, "shadows": self.shadows}

    @staticmethod
    def from_line(line: Mapping[str, Any]) -> RunningModels:
        return RunningModels(
            {step: RunningVersion(**version) for step, version in line["versions"].items()},
            {step: Trial.from_line(trial) for step, trial in line["trials"].items()},
            dict(line["named"]),
            dict(line["shadows"]),
        )
