"""The rule by which a shadow takes the place of its champion, judged on the receipts since it entered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from millstream.log.epochs import Trial

__all__ = ["Rule"]


@dataclass(frozen=True)
class Rule:
    """The shadow has to be right in `better` percentage points more of at least `over` labelled records.

    >>> from millstream.log.epochs import Scores
    >>> rule = Rule(better=0.5, over=1000)
    >>> [rule.holds(Trial(0, Scores(n, 900), Scores(n, right))) for n, right in ((999, 999), (1000, 904), (1000, 905))]
    [False, False, True]
    """

    better: float
    over: int

    def holds(self, trial: Trial) -> bool:
        ours, theirs = trial.shadow, trial.champion
        if min(ours.labelled, theirs.labelled) < self.over:
            return False
        gained = ours.correct * theirs.labelled - theirs.correct * ours.labelled
        return 100 * gained >= self.better * ours.labelled * theirs.labelled

    def counts(self, trial: Trial) -> Mapping[str, int]:
        """The counts on which it was judged, for the epoch log."""
        return {
            "labelled": trial.shadow.labelled,
            "champion": trial.champion.correct,
            "shadow": trial.shadow.correct,
        }

    def described(self) -> str:
        return f"{self.better:g} points better over {self.over:,} labelled records"
