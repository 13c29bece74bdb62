"""`ms.run` and `ms.start`: one start of a run, in the thread of the caller or in a thread of its own."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from millstream import arguments
from millstream.api.argument_names import naming_arguments
from millstream.api.claims import Claim
from millstream.api.config import Overlays, Source, loaded_of
from millstream.api.observers import MoreObservers, make_observers
from millstream.api.progress_lines import ProgressLines
from millstream.api.run import Run, run_path
from millstream.api.running import Running
from millstream.config.load import Loaded
from millstream.engines.cutter import Inbox
from millstream.engines.job import Engine
from millstream.engines.script_import import refuse_run_in_import
from millstream.errors import ConfigError
from millstream.guarantees.crash_point import CrashPoint
from millstream.guarantees.delivery import Point, due
from millstream.registry.config_versions import names_versions
from millstream.runs.directory import RunDirectory
from millstream.runs.start import Options, exits_as_errors
from millstream.runs.start import start as start_run
from millstream.runs.summary import Summary
from millstream.runs.termination import kill_family
from millstream.runs.watch.observer import Observer, Watched
from millstream.runs.watch.run_stats import StatsCollector
from millstream.state.version_store import VersionStore
from millstream.system_errors import system_error
from millstream.timestamps import wall_clock

__all__ = ["Hooks", "execute", "make_options", "run", "start"]

_LOGGER = logging.getLogger(__name__)


def _no_observers(watched: Watched, stats: StatsCollector) -> Sequence[Observer]:
    return ()


def _say_nothing(line: str) -> None:
    """The progress before the first epoch is not shown."""


def _print_line(line: str) -> None:
    sys.stderr.write(f"{line}\n")


@dataclass(frozen=True)
class Hooks:
    """The parts of a start that the command line and the tests replace; they are no part of the API."""

    engine: Engine | None = None
    fire: Callable[[], None] = kill_family
    """Called by an armed crash; it does not return."""
    wall_clock: Callable[[], int] = wall_clock
    stop: threading.Event | None = None
    """The run stops after the epoch in progress when this event is set."""
    observers: MoreObservers = _no_observers
    inbox: Callable[[VersionStore], Inbox] | None = None
    """Makes the inbox of the cutter, in place of the watch over the shadows of the config."""
    say: Callable[[str], None] = _say_nothing
    """Gets lines of progress before the first epoch."""


def run(
    config: Source,
    *,
    run: str | os.PathLike[str] | None = None,
    set: Mapping[str, Any] | None = None,
    overlays: Overlays = (),
    follow: bool | None = None,
    records: int | None = None,
    fresh: bool = False,
    replay: Run | str | os.PathLike[str] | None = None,
    crash: str | None = None,
    accept_build: bool = False,
    progress: bool = False,
    _hooks: Hooks | None = None,
) -> Run:
    """Run a pipeline, or continue its run directory, and wait for the end.

    The arguments are the options of `millstream run`: `run` is the run directory, by default `runs/NAME`; `set` changes
    values of the config by key path, and `overlays`, a path or several, are merged over it before; `follow` waits for
    new records, and false stops at the end of the logs; `records` stops after so many more; `fresh` starts over;
    `replay` cuts the epochs of another run, given as a `Run` or as its directory; `crash` kills this process right
    after a point of an epoch, as in `deliver@3`; `accept_build` replays epochs of other versions of libraries.
    `progress` prints a line to standard error now and then.

    An error is a `MillstreamError`; for a wrong argument it is a `ConfigError`, before anything is written. After an
    interrupt (Ctrl-C, or the stop button of a notebook), the run finishes the epoch in progress and writes a
    checkpoint; then `KeyboardInterrupt` is raised.

    With hooks, the run is in the thread of the caller, which handles interrupts itself.
    """
    loaded = loaded_of(config, set, overlays)
    options = _options(
        loaded,
        progress,
        run=run,
        follow=follow,
        records=records,
        fresh=fresh,
        replay=replay,
        crash=crash,
        accept_build=accept_build,
    )
    if _hooks is not None:
        return Run(options.run, _known(loaded), execute(loaded, options, _hooks))
    with _in_thread(loaded, options, progress) as running:
        return running.wait()


def start(
    config: Source,
    *,
    run: str | os.PathLike[str] | None = None,
    set: Mapping[str, Any] | None = None,
    overlays: Overlays = (),
    follow: bool | None = None,
    records: int | None = None,
    fresh: bool = False,
    replay: Run | str | os.PathLike[str] | None = None,
    crash: str | None = None,
    accept_build: bool = False,
    progress: bool = False,
) -> Running:
    """Run a pipeline in a thread, with the arguments of `run`; the config is checked before this function returns.

    The thread ends with the process, as in a crash: `with start(...) as running` stops the run in time.
    """
    loaded = loaded_of(config, set, overlays)
    options = _options(
        loaded,
        progress,
        run=run,
        follow=follow,
        records=records,
        fresh=fresh,
        replay=replay,
        crash=crash,
        accept_build=accept_build,
    )
    return _in_thread(loaded, options, progress)


def make_options(
    loaded: Loaded,
    *,
    run: str | os.PathLike[str] | None,
    follow: bool | None,
    records: int | None,
    fresh: bool,
    replay: Run | str | os.PathLike[str] | None,
    crash: str | None,
    accept_build: bool,
) -> Options:
    """Return the options of a start; `ConfigError` for a wrong one."""
    options = Options(
        run=_folder("run", run) if run is not None else Path("runs") / loaded.config.name,
        follow=arguments.flag("follow", follow, "True, False or None") if follow is not None else None,
        records=arguments.whole_number("records", records) if records is not None else None,
        fresh=arguments.flag("fresh", fresh),
        replay=run_path("replay", replay) if replay is not None else None,
        crash=CrashPoint.parse(arguments.text("crash", crash, "deliver@3")) if crash is not None else None,
        accept_build=arguments.flag("accept_build", accept_build),
    )
    if replay is not None and (follow or records is not None):
        message = "--replay ends after the last epoch of the replayed run; leave out --follow and --records"
        raise ConfigError(message)
    if fresh and Path.cwd().is_relative_to(options.run.resolve()):
        message = (
            f"--fresh moves the content of the run directory, and {options.run} is the current folder or holds it; "
            "give another --run, or change the current folder"
        )
        raise ConfigError(message)
    return options


def _folder(name: str, value: object) -> Path:
    """Return the path of a folder, without `.` or `..` in it: the folder has a name and a parent."""
    path = arguments.path(name, value)
    return path.resolve() if not path.name or ".." in path.parts else path


def _options(loaded: Loaded, progress: bool, **given: Any) -> Options:
    """Return the options of a program; its run directory stays the same when the current folder changes."""
    arguments.flag("progress", progress)
    with naming_arguments():
        options = make_options(loaded, **given)
    return replace(options, run=options.run.absolute())


def _known(loaded: Loaded) -> Loaded | None:
    """Return the config for reading the run; None if only the run directory knows the models that it names."""
    return None if names_versions(loaded) else loaded


def execute(loaded: Loaded, options: Options, hooks: Hooks) -> Summary:
    """Make one start of a run in this thread."""
    try:
        with exits_as_errors(), loaded.redacting():
            summary = start_run(
                loaded,
                options,
                engine=hooks.engine,
                stop=hooks.stop,
                observers=lambda watched: make_observers(watched, hooks.observers),
                fire=hooks.fire,
                wall_clock=hooks.wall_clock,
                inbox=hooks.inbox,
                say=hooks.say,
            )
    except OSError as error:
        if (known := system_error(error)) is None:
            raise
        raise known from error
    if missed := _missed_crash(options, summary, loaded.config.guarantee.checkpoint_every):
        _LOGGER.warning(missed)
    return summary


def _in_thread(loaded: Loaded, options: Options, progress: bool) -> Running:
    refuse_run_in_import()  # before a thread could outlive the import
    with naming_arguments():
        claim = Claim(options.run)

    def work(stop: threading.Event, opened: Callable[[], None]) -> Run:
        def more(watched: Watched, stats: StatsCollector) -> Sequence[Observer]:
            opened()
            return [ProgressLines(watched)] if progress else []

        try:
            with naming_arguments():
                hooks = Hooks(stop=stop, observers=more, say=_print_line if progress else _say_nothing)
                return Run(options.run, _known(loaded), execute(loaded, options, hooks))
        finally:
            claim.release()

    try:
        return Running(Run(options.run, _known(loaded)), work)
    except RuntimeError:  # no thread could be started
        claim.release()
        raise


def _missed_crash(options: Options, summary: Summary, checkpoint_every: int) -> str:
    """Return a warning if the requested crash happened neither in this start nor in an earlier one."""
    crash = options.crash
    if crash is None or str(crash) in RunDirectory(options.run).crashes():
        return ""
    why = "the run ended before it" if crash.epoch >= summary.epochs else "an earlier start had passed it"
    if crash.point is Point.CHECKPOINT and crash.part and not due(crash.epoch, checkpoint_every):
        why = f"no checkpoint is taken after this epoch, with `checkpoint_every: {checkpoint_every}`"
    return f"the crash at {crash} did not happen: {why}"
