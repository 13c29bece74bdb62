"""`millstream run`: start a pipeline, or continue its run directory."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from millstream import __version__
from millstream.cli.log_bridge import show_warnings
from millstream.cli.options import config_file, sets
from millstream.cli.progress_figures import RunFigures
from millstream.cli.report import report
from millstream.cli.screen import Screen, Show, standard_error
from millstream.cli.stop_signals import StopSignals
from millstream.config.load import Loaded, load_config
from millstream.guarantees.crash_point import CrashPoint
from millstream.guarantees.delivery import Point, due
from millstream.runs.directory import RunDirectory
from millstream.runs.start import Options, start, versions
from millstream.runs.summary import Summary
from millstream.runs.termination import kill_family
from millstream.runs.watch.metrics import Metrics
from millstream.runs.watch.observer import Observer, Watched
from millstream.runs.watch.progress_file import ProgressFile
from millstream.runs.watch.run_stats import StatsCollector
from millstream.state.checkpoints import Checkpoint, CheckpointReader

if TYPE_CHECKING:
    from millstream.runs.watch.metrics_port import MetricsPort

__all__ = ["run"]


@click.command()
@config_file
@sets
@click.option("--run", "directory", metavar="DIR", help="The run directory. Default: runs/NAME.")
@click.option(
    "--until-idle/--follow",
    "until_idle",
    default=None,
    help="Stop where the log ends when the run starts (default for sources that end), or wait for new records.",
)
@click.option("--records", type=click.IntRange(min=1), metavar="N", help="Stop after N more records.")
@click.option("--fresh", is_flag=True, help="Move the run directory aside, clear the sinks and start over.")
@click.option("--replay", metavar="RUN", help="Cut the same epochs as RUN, and stop after its last epoch.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON object; no progress.")
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Serve metrics to Prometheus on 127.0.0.1:PORT during the run; 0 takes a free port.",
)
@click.option(
    "--crash", metavar="POINT[.PART]@EPOCH", help="Kill the run once, right after a point of an epoch, as in deliver@3."
)
def run(
    config: str,
    sets: tuple[str, ...],
    directory: str | None,
    until_idle: bool | None,
    records: int | None,
    fresh: bool,
    replay: str | None,
    as_json: bool,
    metrics_port: int | None,
    crash: str | None,
) -> None:
    """Run the pipeline in CONFIG, or continue it if its run directory exists.

    Ctrl-C stops the run after the epoch in progress and writes a checkpoint; the same command continues from there.
    """
    loaded = load_config(config, sets)
    options = Options(
        run=Path(directory) if directory is not None else Path("runs") / loaded.config.name,
        follow=None if until_idle is None else not until_idle,
        records=records,
        fresh=fresh,
        replay=Path(replay) if replay is not None else None,
        crash=CrashPoint.parse(crash) if crash is not None else None,
    )
    with ExitStack() as stack:
        file = standard_error()
        if file is not sys.stderr:
            stack.callback(file.close)
        screen = Screen(file, Show.WARNINGS if as_json else Show.LIVE if file.isatty() else Show.LINES)
        stack.callback(screen.close)
        stack.enter_context(show_warnings(screen.warn))
        port = None
        if metrics_port is not None:
            port = stack.enter_context(closing(_open_port(metrics_port)))
            (screen.say if metrics_port else screen.insist)(f"metrics are at {port.address}")
        watch = _Observers(screen, port)
        summary = _run(loaded, options, screen, watch)
        if missed := _missed_crash(options, summary, loaded.config.guarantee.checkpoint_every):
            screen.warn(missed)
    click.echo(summary.json() if as_json else watch.report(summary))


def _open_port(port: int) -> MetricsPort:
    from millstream.runs.watch.metrics_port import MetricsPort  # few runs need this import

    return MetricsPort(port)


def _run(loaded: Loaded, options: Options, screen: Screen, watch: _Observers) -> Summary:
    config = loaded.config
    starting = "starting Spark, which takes some seconds" if config.engine.type == "spark" else "starting"
    screen.show_activity(starting)
    screen.say(f"{config.name} in {options.run}, {config.guarantee.delivery}: {starting}")

    def fire() -> None:
        screen.insist(
            f"crash at {options.crash}, requested by --crash; the same command continues from the newest checkpoint"
        )
        screen.close()
        kill_family()

    signals = StopSignals(screen.insist, watch.waits_for, screen.close)
    with signals.install():
        return start(loaded, options, stop=signals.event, observers=watch.observers, fire=fire)


def _missed_crash(options: Options, summary: Summary, checkpoint_every: int) -> str:
    """Return a warning if the requested crash happened neither in this start nor in an earlier one."""
    crash = options.crash
    if crash is None or str(crash) in RunDirectory(options.run).crashes():
        return ""
    why = "the run ended before it" if crash.epoch >= summary.epochs else "an earlier start had passed it"
    if crash.point is Point.CHECKPOINT and crash.part and not due(crash.epoch, checkpoint_every):
        why = f"no checkpoint is taken after this epoch, with `checkpoint_every: {checkpoint_every}`"
    return f"the crash at {crash} did not happen: {why}"


class _FrozenHeap(Observer):
    """Takes the objects of a started run out of garbage collection: a walk over those of the libraries takes 50 ms."""

    def started(self, first: int) -> None:
        gc.freeze()


class _Observers:
    """Creates the observers of one start: screen, metrics, and Prometheus and MLflow if requested."""

    def __init__(self, screen: Screen, port: MetricsPort | None) -> None:
        self._screen, self._port = screen, port
        self._watched: Watched | None = None
        self._run_figures: RunFigures | None = None

    def observers(self, watched: Watched) -> Sequence[Observer]:
        screen = self._screen
        if watched.archived is not None:
            screen.say(f"starting over; the previous run is in {watched.archived}")
        stats = StatsCollector(watched)
        self._watched, self._run_figures = watched, RunFigures(watched, stats, say=screen.say, warn=screen.warn)
        screen.watch(self._run_figures.figures)
        if changed := changed_libraries(_newest_checkpoint(watched)):
            screen.warn(f"the newest checkpoint was written with {changed}; results may differ in their last bits")
        if self._port is not None:
            from millstream.runs.watch.prometheus import RunCollector

            self._port.register(RunCollector(watched, stats, __version__))
        live = ProgressFile(watched.directory, stats.run_stats, warn=screen.warn)
        always = [_FrozenHeap(), stats, self._run_figures, live]
        config = watched.loaded.config.mlflow
        if not config:
            return [Metrics(watched, warn=screen.warn), *always]
        from millstream.runs.watch.mlflow import MlflowObserver  # a slow import

        mirror = MlflowObserver(watched, config, warn=screen.warn)
        return [Metrics(watched, warn=screen.warn, then=mirror.window), *always, mirror]

    def waits_for(self) -> str:
        return self._run_figures.waits_for() if self._run_figures is not None else "for the sources to open"

    def report(self, summary: Summary) -> str:
        if self._watched is None or self._run_figures is None:
            return ""
        return "\n".join(report(summary, self._watched, self._run_figures.figures(), self._run_figures.speed()))


def _newest_checkpoint(watched: Watched) -> Checkpoint | None:
    return CheckpointReader(watched.directory.path, watched.epoch_log.totals.checkpoint).newest()


def changed_libraries(checkpoint: Checkpoint | None) -> str:
    """Return the libraries whose version changed since this checkpoint was written, as text."""
    now = versions()
    before = checkpoint.versions if checkpoint is not None else now
    return ", ".join(
        f"{name} {before[name]} (now {now[name]})" for name in before if now.get(name, before[name]) != before[name]
    )
