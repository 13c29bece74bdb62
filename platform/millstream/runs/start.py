"""One start of a run: from a config to a job for an engine, and to the summary at its end."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from millstream.config.load import Loaded
from millstream.config.models import Config
from millstream.engines.backpressure import Backpressure
from millstream.engines.cutter import Cutter
from millstream.engines.job import CutOptions, Engine, Storage, make_job
from millstream.errors import ConfigError, Contradiction, ForeignSink, MillstreamError, UnknownFormat
from millstream.guarantees.crash_point import Armed, CrashPoint
from millstream.guarantees.delivery import Delivery
from millstream.guarantees.validation import checked_graph
from millstream.log.contracts import Log, OpenContext, Sink
from millstream.log.epochs import EpochLog, EpochReader
from millstream.log.journal.durability import write_whole
from millstream.runs.directory import RunDirectory
from millstream.runs.identities import check_sources, refuse_altered, remember_sources
from millstream.runs.sinks import lies_in_run, sink_configs, sink_key
from millstream.runs.summary import Summary, summarise
from millstream.runs.termination import kill_family
from millstream.runs.watch.observer import Observers, Watched, Watching
from millstream.state.checkpoints import CheckpointStore
from millstream.steps.graph import Graph
from millstream.steps.output_rows import identity_columns, row_schema

__all__ = ["Options", "engine_of", "start", "versions"]


@dataclass(frozen=True)
class Options:
    """The options of a start beside its config. `follow` None: as the sources have it."""

    run: Path
    follow: bool | None = None
    records: int | None = None
    fresh: bool = False
    replay: Path | None = None
    replay_last: int | None = None
    crash: CrashPoint | None = None


@cache
def versions() -> Mapping[str, str]:
    """The libraries that results depend on to the bit."""
    names = ("millstream", "pyspark", "scikit-learn", "river", "numba", "numpy", "scipy", "pyarrow")
    found = {name: importlib.metadata.version(name) for name in names}
    return {"python": platform.python_version(), **found}


def _fixed_parts(loaded: Loaded) -> dict[str, Any]:
    """The parts of a config that may not change while a run directory is resumed."""
    resolved = loaded.resolved()
    config = loaded.config
    several = resolved.get("sources")
    sources = several or {source.name: resolved["source"] for source in config.logs}
    fixed = {source.name: _fixed_options(source.config, sources[source.name]) for source in config.logs}
    steps = json.dumps(
        [{"name": s.name, **_fixed_options(s.config, s.config.model_dump(mode="json"))} for s in config.steps]
    )
    return {
        "pipeline name": config.name,
        "source": fixed if several else next(iter(fixed.values())),
        "steps": json.loads(loaded.redact(steps)),
        "delivery": str(config.guarantee.delivery),
        "recovery": config.guarantee.recovery,
    }


def _fixed_options(config: BaseModel, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a source or a step that say what it does; those marked as `may_change` only say how."""
    free = {
        field.alias or name
        for name, field in type(config).model_fields.items()
        if isinstance(field.json_schema_extra, dict) and field.json_schema_extra.get("may_change")
    }
    return {name: value for name, value in options.items() if name not in free}


def engine_of(loaded: Loaded) -> Engine:
    """The engine that the config names; imported only now, Spark is large."""
    if loaded.config.engine.type == "local":
        from millstream.engines.local.engine import LocalEngine

        return LocalEngine()
    from millstream.engines.spark.engine import SparkEngine

    return SparkEngine()


def start(
    loaded: Loaded,
    options: Options,
    *,
    engine: Engine | None = None,
    stop: threading.Event | None = None,
    observers: Observers = lambda watched: [],
    fire: Callable[[], None] = kill_family,
) -> Summary:
    """Run a pipeline until it is idle, stopped or has its records; the summary of the run directory's life.

    `fire` is what an armed crash does: SIGKILL, or an exception that drops all memory.
    """
    config = loaded.config
    graph = checked_graph(loaded)
    directory = RunDirectory(options.run)
    directory.lock()
    with ExitStack() as ending:
        ending.callback(directory.release)
        archived = _begin(directory, loaded, graph, options)
        stop = stop or threading.Event()
        contexts = {
            source.name: OpenContext(loaded.base, directory.cache(source.name), config.name, stopped=stop.is_set)
            for source in config.logs
        }
        logs: dict[str, Log] = {}
        for source in config.logs:
            logs[source.name] = source.config.open(contexts[source.name])
            ending.callback(logs[source.name].close)
        epoch_log = EpochLog(directory.epochs)
        ending.callback(epoch_log.close)
        if options.replay is not None:
            refuse_altered(RunDirectory.find(options.replay), logs, replay=True)
        check_sources(directory, logs, epoch_log.totals)
        context = OpenContext(loaded.base, directory.path, config.name, stopped=stop.is_set)
        sinks, keys = _open_sinks(config, graph, context, ending)
        storage = Storage(
            folder=directory.path,
            logs=logs,
            epoch_log=epoch_log,
            checkpoints=CheckpointStore(directory.checkpoints, versions()),
            sinks=sinks,
            sink_keys=keys,
            contexts=contexts,
        )
        watching = Watching()
        ending.callback(watching.close)

        def observe(cutter: Cutter, backpressure: Backpressure) -> Watching:
            watched = Watched(loaded, graph, directory, epoch_log, cutter, backpressure, archived)
            watching.observers = observers(watched)
            return watching

        job = make_job(
            config,
            graph,
            storage,
            _cuts(loaded, options),
            stop=stop,
            observe=observe,
            crash=_armed(directory, options.crash, list(sinks), fire),
        )
        before, began = epoch_log.totals.processed, time.monotonic()
        try:
            (engine or engine_of(loaded)).run(job)
        except Exception as error:
            with suppress(OSError):  # perhaps the very disk is full
                write_whole(directory.error, loaded.redact(str(error)))
            raise
        finally:
            job.lifecycle.abandon()
        seconds = time.monotonic() - began
        ended = "stopped" if stop.is_set() or job.cutter.exhausted else "idle"
        summary = summarise(loaded, directory, epoch_log, job.processor, sinks, ended, before, seconds, versions())
        remember_sources(directory, logs)
        write_whole(directory.summary, summary.json())
        watching.finished(summary)
        return summary


def _begin(directory: RunDirectory, loaded: Loaded, graph: Graph, options: Options) -> Path | None:
    """Make or check the directory; where the run before went, if it starts over."""
    fixed = _fixed_parts(loaded)
    archived = None
    if options.fresh:
        _check_sinks(directory, loaded, graph)
        archived = directory.archive()
        for output, sink in sink_configs(loaded.config, graph).items():
            sink.clear(OpenContext(loaded.base, directory.path, loaded.config.name), output)
    if not directory.begin_epoch:
        directory.make(fixed, loaded.base)
    else:
        try:
            directory.check(fixed, loaded.base)
        except UnknownFormat:
            raise
        except Contradiction:
            if any(directory.epochs.glob("*")) and EpochReader(directory.epochs).totals().next_epoch:
                raise
            directory.write(fixed, loaded.base)  # nothing was read yet, so nothing is fixed
    directory.error.unlink(missing_ok=True)
    write_whole(directory.config, yaml.safe_dump(loaded.resolved(), sort_keys=False, allow_unicode=True))
    return archived


def _check_sinks(directory: RunDirectory, loaded: Loaded, graph: Graph) -> None:
    """Refuse to start over where a sink holds rows that no run in this directory has written."""
    own = set()
    for folder in directory.lives():
        with suppress(MillstreamError):  # none was begun, or it is damaged: then no sink is known to be its own
            own.add(EpochReader(folder / "epochs").id)
    context = OpenContext(loaded.base, directory.path, loaded.config.name)
    for output, sink in sink_configs(loaded.config, graph).items():
        progress = None if lies_in_run(sink, output, context) else sink.progress(context, output)
        if progress is not None and progress.log not in own:
            message = (
                f"sink {output!r} holds rows that are not of {directory.path}, but of another run's epoch log "
                f"({progress.log}): {sink.location(context, output)}; --fresh deletes no other run's rows, "
                "so give the sink a place of its own, or move these away"
            )
            raise ForeignSink(message)
        sink.may_clear(context, output)


def _open_sinks(
    whole: Config, graph: Graph, context: OpenContext, ending: ExitStack
) -> tuple[dict[str, Sink], dict[str, str]]:
    guarded = Delivery(whole.guarantee.delivery) is Delivery.EXACTLY_ONCE
    sinks: dict[str, Sink] = {}
    keys: dict[str, str] = {}
    for output, config in sink_configs(whole, graph).items():
        made = graph.outputs[output]
        sinks[output] = config.open(context, output, row_schema(made), identity=identity_columns(made), guarded=guarded)
        ending.callback(sinks[output].abandon)
        keys[output] = sink_key(config, output)
    return sinks, keys


def _armed(
    directory: RunDirectory, point: CrashPoint | None, sinks: list[str], fire: Callable[[], None]
) -> Armed | None:
    """The crash that waits, unless this run directory has had it."""
    if point is None or str(point) in directory.crashes():
        return None
    point.check(sinks)

    def fire_once() -> None:
        directory.fire(str(point))
        fire()

    return Armed(point, fire_once)


def _cuts(loaded: Loaded, options: Options) -> CutOptions:
    size = loaded.config.engine.epoch
    original = None
    if options.replay is not None:
        if options.follow or options.records is not None:
            message = "--replay ends after the last epoch of the replayed run; leave out --follow and --records"
            raise ConfigError(message)
        original = EpochReader(RunDirectory.find(options.replay).epochs)
    bounded = all(source.config.bounded for source in loaded.config.logs)
    return CutOptions(
        max_records=size.max_records,
        max_wait=size.max_wait / 1e6,
        until_idle=bounded if options.follow is None else not options.follow,
        budget=options.records,
        replay=original,
        last=options.replay_last,
    )
