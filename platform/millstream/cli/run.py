"""`millstream run`: start a pipeline, or continue its run directory."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from millstream import __version__
from millstream.api.execution import Hooks, execute, make_options
from millstream.cli.epoch_lines import EpochLines
from millstream.cli.options import config_options
from millstream.cli.progress_figures import RunFigures
from millstream.cli.report import report
from millstream.cli.run_log import RunLog, log_options
from millstream.cli.screen import Screen
from millstream.cli.session import current_session
from millstream.cli.stop_signals import StopSignals
from millstream.config.load import Loaded, load_config
from millstream.extras import require
from millstream.plain_text import json_object, one_line
from millstream.runs.start import Options
from millstream.runs.summary import Summary
from millstream.runs.termination import kill_family
from millstream.runs.watch.observer import Observer, Watched
from millstream.runs.watch.run_stats import StatsCollector

if TYPE_CHECKING:
    from millstream.runs.watch.metrics_port import MetricsPort

__all__ = ["run"]


@click.command()
@config_options
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
@click.option(
    "--accept-build",
    is_flag=True,
    help="Replay epochs after a crash although versions of libraries have changed since.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON object; no progress.")
@log_options
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
    overlays: tuple[str, ...],
    directory: str | None,
    until_idle: bool | None,
    records: int | None,
    fresh: bool,
    replay: str | None,
    accept_build: bool,
    as_json: bool,
    log_form: str | None,
    verbose: bool,
    quiet: bool,
    metrics_port: int | None,
    crash: str | None,
) -> None:
    """Run the pipeline in CONFIG, or continue it if its run directory exists.

    Ctrl-C stops the run after the epoch in progress and writes a checkpoint; the same command continues from there.
    """
    if verbose and quiet:
        raise click.UsageError("-v and -q exclude each other; leave one of them out")
    log = RunLog(current_session(), log_form, verbose=verbose, warnings_only=as_json or quiet)
    loaded = load_config(config, sets, overlays=overlays)
    log.begin(loaded.config.name, loaded.redact)
    options = make_options(
        loaded,
        run=directory,
        follow=None if until_idle is None else not until_idle,
        records=records,
        fresh=fresh,
        replay=replay,
        crash=crash,
        accept_build=accept_build,
    )
    with ExitStack() as stack:
        screen = stack.enter_context(log.screen())
        port = None
        if metrics_port is not None:
            port = stack.enter_context(closing(_open_port(metrics_port)))
            (screen.say if metrics_port else screen.insist)(f"metrics are at {port.address}")
        watch = _Observers(screen, port, log.epoch_lines(screen))
        summary = _run(loaded, options, screen, watch)
    if as_json or not quiet:
        click.echo(json_object(summary.content()) if as_json else watch.report(summary))


def _open_port(port: int) -> MetricsPort:
    require("metrics", "--metrics-port")
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
    hooks = Hooks(stop=signals.event, observers=watch.observers, fire=fire, say=screen.say)
    with signals.install():
        return execute(loaded, replace(options, ends_on_signal=True), hooks)


class _FrozenHeap(Observer):
    """Takes the objects of a started run out of garbage collection: a walk over those of the libraries takes 50 ms."""

    def started(self, first: int) -> None:
        gc.freeze()


class _Observers:
    """Creates the observers of the command: screen and figures, and Prometheus if requested."""

    def __init__(self, screen: Screen, port: MetricsPort | None, epoch_lines: EpochLines) -> None:
        self._screen, self._port, self._epoch_lines = screen, port, epoch_lines
        self._watched: Watched | None = None
        self._run_figures: RunFigures | None = None

    def observers(self, watched: Watched, stats: StatsCollector) -> Sequence[Observer]:
        screen = self._screen
        if watched.archived is not None:
            screen.say(f"starting over; the previous run is in {watched.archived}")
        self._watched, self._run_figures = watched, RunFigures(watched, stats, say=screen.say, warn=screen.warn)
        screen.watch(self._run_figures.figures)
        if self._port is not None:
            from millstream.runs.watch.prometheus import RunCollector

            self._port.register(RunCollector(watched, stats, __version__))
        return [_FrozenHeap(), self._run_figures, self._epoch_lines]

    def waits_for(self) -> str:
        return self._run_figures.waits_for() if self._run_figures is not None else "for the sources to open"

    def report(self, summary: Summary) -> str:
        if self._watched is None or self._run_figures is None:
            return ""
        lines = report(summary, self._watched, self._run_figures.figures(), self._run_figures.speed())
        return "\n".join(map(one_line, lines))
