"""The versions of one step: the next one, which catches up; the shadow and its rule; and the alias of the champion.

Two threads use a step: that of the run takes its events (`take`), and one in the background does all that may last.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from millstream.config.load import Loaded
from millstream.errors import MillstreamError, Unavailable
from millstream.log.epochs import Decided, EpochLog, Event, NewModel, RunningVersion, Swap, Totals
from millstream.registry.client import Registry, parsed_uri
from millstream.registry.promotion import CHAMPION, Promotion
from millstream.runs.directory import RunDirectory
from millstream.runs.shadow.catch_up import CatchUp
from millstream.runs.shadow.learner import LearnerSpec
from millstream.runs.shadow.messages import Refused
from millstream.runs.shadow.notes import Change, NextVersion, ShadowNotes
from millstream.runs.shadow.rule import Rule
from millstream.runs.version_checks import check_version
from millstream.shadow_names import shadow_of
from millstream.steps.graph import Graph

__all__ = ["FETCHED", "ShadowedRun", "ShadowedStep", "StepVersions"]

FETCHED = ".versions"
"""The folder of fetched versions in the cache; no source has such a name."""

_NOTE_SECONDS = 1.0
"""The time between two notes of the progress of a version."""
_AGAIN_SECONDS = 5.0
"""The time after which a version that could not catch up tries again."""


@dataclass(frozen=True)
class ShadowedStep:
    """A step with a shadow: the address of the shadow's version, that of its own model if it has one, and the rule."""

    name: str
    shadow_from: str
    model_from: str | None
    rule: Rule | None

    @property
    def alias(self) -> str:
        """The alias that names the version of the champion."""
        named = None if self.model_from is None else parsed_uri(self.model_from).alias
        return named or CHAMPION

    @property
    def models(self) -> Sequence[str]:
        """The names of the registered models whose promotions the step follows."""
        uris = [self.shadow_from, *([self.model_from] if self.model_from is not None else [])]
        return list(dict.fromkeys(parsed_uri(uri).name for uri in uris))


@dataclass(frozen=True)
class ShadowedRun:
    """The parts of a start of a run that its shadows need; `said` and `warn` log a line."""

    loaded: Loaded
    graph: Graph
    directory: RunDirectory
    epoch_log: EpochLog
    notes: ShadowNotes
    said: Callable[[str], None]
    warn: Callable[[str], None]


@dataclass(frozen=True)
class _Next:
    """The version that catches up, in the folder `folder`; `promotion` is the one that asks for it."""

    uri: str
    promotion: Promotion | None
    folder: Path
    catch_up: CatchUp


class StepVersions:
    """The versions of one step in one start of a run."""

    def __init__(self, step: ShadowedStep, run: ShadowedRun) -> None:
        self.step, self._run = step, run
        self._lock = threading.RLock()
        """Protects the values below; nobody holds it while the registry is asked."""
        self._next: _Next | None = None
        self._promotion: Promotion | None = None
        """A promotion that is not followed yet."""
        self._dropped: list[_Next] = []
        self._entered = False
        """True after a version has entered, until the notes say so."""
        self._refused: set[str] = set()
        self._not_before = self._note_at = 0.0
        self._durable = run.epoch_log.totals.next_epoch - 1
        """The last epoch that is known to be durable."""
        self._told: dict[str, str] = {}
        """By subject, the last line about it: it is not said again."""

    # ------------------------------------------------------------ the thread of the run

    def take(self, totals: Totals) -> Sequence[Event]:
        """The events of this step for the epoch `totals.next_epoch`."""
        with self._lock:
            upcoming, promotion = self._next, self._promotion
            if upcoming is not None and upcoming.catch_up.is_close:
                return self._enter(upcoming, totals)
        shadow = totals.models.versions.get(shadow_of(self.step.name))
        if shadow is None:
            return ()
        if promotion is not None and not promotion.as_is and shadow.version == promotion.uri:
            self._note(Change(totals.next_epoch, shadow.version, promotion.at))
            with self._lock:
                self._promotion = None
            self._run.said(f"{self.step.name}: {shadow.version} takes the model's place, because it was promoted")
            return (Swap(self.step.name, shadow.version),)
        trial, rule = totals.models.trials.get(self.step.name), self.step.rule
        if rule is None or trial is None or not rule.holds(trial):
            return ()
        seen = self._run.notes[self.step.name].seen
        self._note(Change(totals.next_epoch, shadow.version, None, self.step.alias, seen, settled=False))
        self._run.said(
            f"{self.step.name}: {shadow.version} takes the model's place: {trial.shadow.accuracy:.2%} of "
            f"{trial.shadow.labelled:,} labelled records right, and {trial.champion.accuracy:.2%} before"
        )
        counts = rule.counts(trial)
        return (
            Decided(self.step.name, {"better": rule.better, "over": rule.over}, counts),
            Swap(self.step.name, shadow.version),
        )

    def _enter(self, upcoming: _Next, totals: Totals) -> Sequence[Event]:
        """Let the version learn the last epochs, and enter with the next one."""
        began = time.perf_counter()
        entry = upcoming.catch_up.finish(totals.next_epoch - 1, self._run.directory.models)
        self._drop()
        if isinstance(entry, Refused):
            self._on_refused(upcoming.uri, entry)
            return ()
        seconds = time.perf_counter() - began
        epoch, name, promotion = totals.next_epoch, self.step.name, upcoming.promotion
        self._entered = True
        if promotion is None or not promotion.as_is:
            self._run.said(
                f"{name}: {upcoming.uri} enters as its shadow with epoch {epoch:,}; the run waited {seconds:.3f} s"
            )
            return (NewModel(shadow_of(name), entry.uri, entry.digest, entry.trained),)
        self._note(Change(epoch, entry.uri, promotion.at))
        self._promotion = None
        self._run.said(
            f"{name}: {entry.uri} is its model from epoch {epoch:,} on, as it is: {entry.skipped:,} records before are "
            f"skipped, and {entry.repeated:,} after it are repeated; the run waited {seconds:.3f} s"
        )
        return (NewModel(name, entry.uri, entry.digest, entry.trained, entry.skipped, entry.repeated),)

    def _note(self, change: Change) -> None:
        """Note a change before its epoch is cut."""
        self._run.notes.note(self.step.name, change=change, followed=self._followed)

    def finished(self, epoch: int) -> None:
        """An epoch is durable, and so are its events."""
        self._durable = max(epoch, self._durable)

    # ------------------------------------------------------------ the thread in the background

    @property
    def is_busy(self) -> bool:
        """True while a version catches up."""
        return self._next is not None

    def work(self) -> None:
        """Read what the process of the next version reports, and end processes that are needed no more."""
        self._end_dropped()
        if self._entered:
            self._entered = False
            self._note_next(None)
        with self._lock:
            upcoming = self._next
            refused = upcoming.catch_up.poll() if upcoming is not None else None
            if upcoming is None:
                return
            if refused is not None:
                self._drop()
            progress = upcoming.catch_up.progress
        if refused is not None:
            self._on_refused(upcoming.uri, refused)
        elif progress is not None and time.monotonic() >= self._note_at:
            self._note_at = time.monotonic() + _NOTE_SECONDS
            as_is = upcoming.promotion is not None and upcoming.promotion.as_is
            state = "waits for the stream" if progress.ahead and not as_is else "catches up"
            self._note_next(NextVersion(upcoming.uri, state, None, progress.records, progress.ahead))

    def look(self, registry: Registry) -> None:
        """Ask the registry for the versions of this step, and for promotions; move the alias if a rule has decided."""
        now = registry.address(self.step.shadow_from)
        champion = f"models:/{parsed_uri(self.step.shadow_from).name}@{self.step.alias}"
        if (change := self._run.notes[self.step.name].change) is not None and not change.settled:
            self._settle(registry, change)
        self._run.notes.note(self.step.name, seen=registry.address(champion))
        promotion = self._asked_for(registry)
        if now is None:
            self._tell("alias", f"{self.step.shadow_from} names no version; the shadow waits for one")
        else:
            self._told.pop("alias", None)
        with self._lock:
            running = dict(self._run.epoch_log.totals.models.versions)
            versions = {step: each.version for step, each in running.items()}
            own, shadow = versions.get(self.step.name), versions.get(shadow_of(self.step.name))
            if promotion is not None and promotion.at <= self._followed:
                promotion = None  # the thread of the run has followed it meanwhile
            self._promotion = promotion
            if promotion is None:
                wanted = now if now not in (own, shadow) else None
            else:
                wanted = promotion.uri if promotion.as_is or shadow != promotion.uri else None
            if self._next is not None and (self._next.uri, self._next.promotion) != (wanted, promotion):
                self._drop()
            if self._next is not None or wanted is None or wanted in self._refused:
                return
        if time.monotonic() >= self._not_before:
            self._begin(registry, wanted, promotion)

    def _asked_for(self, registry: Registry) -> Promotion | None:
        """The last promotion of this step's models, if it was made during the run and is not followed yet."""
        found = [each for name in self.step.models if (each := registry.promotion(name)) is not None]
        last = max(found, key=lambda each: each.at, default=None)
        if last is None or last.uri in self._refused or last.at <= max(self._followed, self._begun):
            return None
        running = self._run.epoch_log.totals.models.versions.get(self.step.name)
        if running is not None and running.version == last.uri:
            self._run.notes.note(self.step.name, followed=last.at)
            self._run.said(f"{self.step.name}: {last.uri} was promoted, and is the model already")
            return None
        return last

    @property
    def _followed(self) -> int:
        """The time of the last promotion that the model of this step has followed."""
        notes = self._run.notes[self.step.name]
        running = self._run.epoch_log.totals.models.versions.get(self.step.name)
        if notes.change is None or notes.change.promotion is None or not _came_about(notes.change, running):
            return notes.followed
        return max(notes.followed, notes.change.promotion)

    @property
    def _begun(self) -> int:
        """The time at which the run began, as far as its directory knows; later than now, if it has not begun."""
        origin: Path = self._run.directory.origin
        if origin.exists():  # its first epochs may be those of another run
            return origin.stat().st_mtime_ns // 1000
        reader = self._run.epoch_log.reader()
        totals = reader.base_totals()
        if totals.base.epoch >= 0:
            return totals.at
        return next((epoch.at for epoch in reader.epochs()), 1 << 62)

    def _begin(self, registry: Registry, uri: str, promotion: Promotion | None) -> None:
        """Fetch and check a version, and let it catch up."""
        run = self._run
        folder = Path(tempfile.mkdtemp(dir=run.directory.cache(FETCHED)))
        try:
            address, version = registry.fetch(uri, folder)
            check_version(run.loaded, run.graph, shadow_of(self.step.name), address, version)
            [facts] = folder.rglob("version.json")
        except MillstreamError as error:
            shutil.rmtree(folder, ignore_errors=True)
            refused = Refused(str(error), again=isinstance(error, Unavailable))
            self._on_refused(uri, refused)
            return
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        spec = LearnerSpec(
            config=run.loaded.config,
            fields=run.graph.fields,
            contexts={
                source.name: (run.loaded.folder, run.directory.cache(source.name), run.loaded.config.name)
                for source in run.loaded.config.logs
            },
            step=self.step.name,
            uri=address,
            version=facts.parent,
            epochs=run.directory.epochs,
            as_is=promotion is not None and promotion.as_is,
        )
        run.said(f"{self.step.name}: {address} catches up with the stream in the background")
        self._note_next(NextVersion(address, "catches up"))
        catch_up = CatchUp(spec)
        with self._lock:
            self._next = _Next(address, promotion, folder, catch_up)

    def _settle(self, registry: Registry, change: Change) -> None:
        """Move the alias to the version of a decided change, unless somebody else has moved it since."""
        if change.epoch > self._durable:
            return
        if _came_about(change, self._run.epoch_log.totals.models.versions.get(self.step.name)):
            version = parsed_uri(change.version)
            alias = f"models:/{version.name}@{change.alias}"
            now = registry.address(alias)
            if now not in (change.before, change.version):
                self._run.warn(
                    f"{self.step.name}: {change.version} is the model, and {alias} stays {now}: somebody has moved it "
                    f"since the decision; `millstream promote` lets this run follow"
                )
            elif now != change.version and version.version is not None:
                registry.set_alias(version.name, str(change.alias), version.version)
                self._run.said(f"{self.step.name}: {alias} is now version {version.version}")
        self._run.notes.note(self.step.name, change=replace(change, settled=True))

    def close(self) -> None:
        """End the process of the next version."""
        with self._lock:
            self._drop()
        self._end_dropped()
        if self._entered:
            self._note_next(None)

    def _drop(self) -> None:
        """Give up the next version, or the process in which it caught up; `_end_dropped` ends that process."""
        if (upcoming := self._next) is not None:
            self._next = None
            self._dropped.append(upcoming)

    def _end_dropped(self) -> None:
        while self._dropped:
            dropped = self._dropped.pop()
            dropped.catch_up.close()
            shutil.rmtree(dropped.folder, ignore_errors=True)

    def _on_refused(self, uri: str, refused: Refused) -> None:
        """Say why a version cannot enter, or cannot do so now."""
        reason = self._run.loaded.redact(refused.reason)
        if refused.again:
            self._not_before = time.monotonic() + _AGAIN_SECONDS
            self._tell(uri, f"{uri} cannot catch up now, and tries again: {reason}")
        else:
            self._refused.add(uri)
            self._tell(uri, f"{uri} is refused, and the run goes on without it: {reason}")
        self._note_next(NextVersion(uri, "tries again" if refused.again else "refused", reason))

    def _note_next(self, upcoming: NextVersion | None) -> None:
        with suppress(OSError):  # only `millstream status` reads it
            self._run.notes.note(self.step.name, next=upcoming)

    def _tell(self, subject: str, line: str) -> None:
        """Warn once."""
        if self._told.get(subject) != line:
            self._told[subject] = line
            self._run.warn(f"{self.step.name}: {line}")


def _came_about(change: Change, running: RunningVersion | None) -> bool:
    """True if the epoch log has the change; a later change has its own note."""
    return running is not None and (running.since, running.version) == (change.epoch, change.version)
