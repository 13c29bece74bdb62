"""One start of a run: makes a job from a config, runs it on an engine, and writes a summary at the end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from millstream.compiled.later_imports import import_noted
from millstream.config.load import Loaded
from millstream.config.models import Config
from millstream.engines.backpressure import Backpressure
from millstream.engines.cutter import Cutter, Inbox, NoEvents
from millstream.engines.job import CutOptions, Engine, Storage, make_job
from millstream.engines.script_import import refuse_run_in_import, refuse_script_without_file
from millstream.errors import (
    AlteredCheckpoint,
    AlteredLog,
    Contradiction,
    ForeignSink,
    MillstreamError,
    Unavailable,
    UnknownFormat,
)
from millstream.guarantees.builds import BuildCheck
from millstream.guarantees.crash_point import Armed, CrashPoint
from millstream.guarantees.delivery import Delivery
from millstream.guarantees.validation import checked_graph
from millstream.log.checked_source import open_log
from millstream.log.contracts import Log, OpenContext, Sink
from millstream.log.epochs import EpochLog, EpochReader, Totals
from millstream.log.journal.durability import write_whole
from millstream.registry.config_versions import Entering
from millstream.runs.directory import RunDirectory
from millstream.runs.fixed_parts import fixed_parts
from millstream.runs.hand_over import hand_over, has_begun, resolved_models
from millstream.runs.identities import check_sources, refuse_other_source, remember_sources
from millstream.runs.output_file import write_outputs
from millstream.runs.shadow.presence import check_shadows
from millstream.runs.shadow.watch import ShadowWatch, shadowed_steps
from millstream.runs.sinks import in_run_directory, sink_configs, sink_key
from millstream.runs.summary import Summary, summarise
from millstream.runs.termination import kill_family
from millstream.runs.user_code import record_code, user_code
from millstream.runs.versions import versions
from millstream.runs.warm_start import starts_warm, warm_models
from millstream.runs.watch.observer import ObserverGroup, Observers, Watched
from millstream.state.checkpoint_damage import with_whole_checkpoint
from millstream.state.checkpoints import CheckpointReader, CheckpointStore
from millstream.state.layers import Layers
from millstream.state.version_store import VersionStore
from millstream.steps.graph import Graph
from millstream.steps.output_rows import identity_columns, row_schema
from millstream.timestamps import wall_clock

__all__ = ["Options", "exits_as_errors", "start"]


@dataclass(frozen=True)
class Options:
    """The options of a start besides its config. With `follow` None, the sources decide."""

    run: Path
    follow: bool | None = None
    records: int | None = None
    fresh: bool = False
    replay: Path | None = None
    replay_last: int | None = None
    crash: CrashPoint | None = None
    accept_build: bool = False
    ends_on_signal: bool = False
    """True if the caller sets `stop` on SIGTERM, so that `millstream stop` may send it."""


def _make_engine(loaded: Loaded) -> Engine:
    """The engine in the config. Engines are imported here, because Spark is large."""
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
    wall_clock: Callable[[], int] = wall_clock,
    inbox: Callable[[VersionStore], Inbox] | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Summary:
    """Run a pipeline until it is idle, stopped, or has read `options.records`; the summary covers all starts.

    `inbox` makes the inbox of the start, in place of the watch over the shadows of the config. It puts a version into
    the store of the run directory before it returns an event that names the version.

    An armed crash calls `fire`: SIGKILL, or in tests an exception that drops all memory. `say` gets the progress of a
    warm start.
    """
    refuse_run_in_import()
    shadowed = shadowed_steps(loaded) if options.replay is None and inbox is None else []
    loaded, entering = resolved_models(loaded, options.run, replay=options.replay, fresh=options.fresh)
    config = loaded.config
    refuse_script_without_file(config)
    begun = not starts_warm(config) or options.replay is not None
    begun = begun or (not options.fresh and has_begun(RunDirectory(options.run)))
    graph = checked_graph(loaded, packages=engine is None, begun=begun)
    import_noted()  # fails before anything is written if numba cannot be used
    libraries = versions(config)  # before anything is written, because a library may be absent
    if options.crash is not None:
        options.crash.check(list(graph.outputs))
    if options.replay is not None:
        RunDirectory.find(options.replay)
    directory = RunDirectory(options.run)
    directory.lock(ends_on_signal=options.ends_on_signal)
    with ExitStack() as ending:
        ending.callback(directory.release)
        archived = _begin(directory, loaded, graph, options)
        ending.enter_context(directory.gone_as_error())
        stop = stop or threading.Event()
        contexts = {
            source.name: OpenContext(loaded.folder, directory.cache(source.name), config.name, stopped=stop.is_set)
            for source in config.logs
        }
        logs: dict[str, Log] = {}
        for source in config.logs:
            logs[source.name] = open_log(source.config, contexts[source.name])
            ending.callback(logs[source.name].close)
        if (entering or not begun) and has_begun(directory):
            message = f"another process has begun {directory.path} meanwhile; the same command continues it"
            raise Unavailable(message)
        warm: Mapping[str, Entering] = {}
        if not begun:
            warm = warm_models(loaded, directory.cache, entering, stop.is_set, say)
        if entering or warm:
            hand_over(directory, loaded, graph, logs, entering, warm, wall_clock)
        begin = _begin_at_base(directory, options) or Totals()
        epoch_log = EpochLog(directory.epochs, replace(begin, build=dict(libraries)))
        ending.callback(epoch_log.close)
        epoch_log.reader().check_segments()
        if options.replay is not None:
            refuse_other_source(RunDirectory.find(options.replay), directory, logs)
        check_sources(directory, logs, epoch_log.totals)
        check_shadows(graph, epoch_log.totals)
        record_code(directory.code, user_code(config), epoch_log.totals)
        context = OpenContext(loaded.folder, directory.path, config.name, stopped=stop.is_set)
        sinks, keys = _open_sinks(config, graph, context, ending)
        storage = Storage(
            folder=directory.path,
            logs=logs,
            epoch_log=epoch_log,
            checkpoints=CheckpointStore(
                directory.path,
                libraries,
                epoch_log.totals.checkpoint,
                Layers(directory.layers, config.guarantee.shards),
                config.keep,
                wall_clock,
            ),
            sinks=sinks,
            sink_keys=keys,
            contexts=contexts,
            versions=VersionStore(directory.models),
        )
        group = ObserverGroup()
        ending.callback(group.close)
        watch = ShadowWatch(shadowed, loaded, graph, directory, epoch_log) if shadowed else None
        if watch is not None:
            ending.callback(watch.close)

        def observe(cutter: Cutter, backpressure: Backpressure) -> ObserverGroup:
            watched = Watched(loaded, graph, directory, epoch_log, cutter, backpressure, archived)
            group.observers = [*observers(watched), *([watch] if watch is not None else [])]
            return group

        with _advice(config, storage):  # observers read the newest checkpoint
            job = make_job(
                config,
                graph,
                storage,
                _cut_options(loaded, options),
                stop=stop,
                observe=observe,
                crash=_arm_crash(directory, options.crash, fire),
                wall_clock=wall_clock,
                secrets=loaded.secrets,
                inbox=watch or (NoEvents() if inbox is None else inbox(storage.versions)),
                build=BuildCheck(libraries, options.accept_build, options.replay is not None),
            )
        before, began = epoch_log.totals.processed, time.monotonic()
        try:
            with _advice(config, storage), exits_as_errors():
                (engine or _make_engine(loaded)).run(job)
        except Exception as error:
            with suppress(OSError):  # the disk may be full
                write_whole(directory.error, loaded.redact(str(error)))
            raise
        finally:
            job.lifecycle.abandon()
        seconds = time.monotonic() - began
        ended = "stopped" if stop.is_set() or job.cutter.exhausted else "idle"
        summary = summarise(
            loaded, directory, epoch_log, job.outcome, job.lifecycle.delivered, ended, before, seconds, libraries
        )
        remember_sources(directory, logs)
        write_whole(directory.summary, summary.json())
        group.finished(summary)
        return summary


@contextmanager
def exits_as_errors() -> Iterator[None]:
    """Raise an error in place of an exit, because a plug-in does not decide the exit code of the program."""
    try:
        yield
    except SystemExit as error:
        message = f"a plug-in or a function of the pipeline called sys.exit({error.code!r}); it has to raise an error"
        raise MillstreamError(message) from error


@contextmanager
def _advice(config: Config, storage: Storage) -> Iterator[None]:
    """With exactly_once, add the advice to use an older checkpoint to the error for a damaged one."""
    try:
        yield
    except AlteredCheckpoint as error:
        if Delivery(config.guarantee.delivery) is not Delivery.EXACTLY_ONCE:
            raise
        raise with_whole_checkpoint(error, storage.checkpoints, storage.epoch_log.totals.base.epoch) from None


def _begin(directory: RunDirectory, loaded: Loaded, graph: Graph, options: Options) -> Path | None:
    """Make or check the directory; the folder of the previous run, if `--fresh` moved it."""
    fixed = fixed_parts(loaded)
    archived = None
    if options.fresh:
        _check_sinks(directory, loaded, graph)
        archived = directory.archive()
        for output, sink in sink_configs(loaded.config, graph).items():
            sink.clear(OpenContext(loaded.folder, directory.path, loaded.config.name), output)
    if not directory.initialized:
        directory.make(fixed, loaded.folder)
    else:
        try:
            directory.check(fixed, loaded.folder)
        except UnknownFormat:
            raise
        except Contradiction:
            directory.check_epoch_log()
            if any(directory.epochs.glob("*")) and EpochReader(directory.epochs).totals().next_epoch:
                raise
            directory.write(fixed, loaded.folder)  # no record was read yet, so every part may change
        directory.check_epoch_log()
    directory.error.unlink(missing_ok=True)
    write_whole(directory.config, yaml.safe_dump(loaded.resolved(), sort_keys=False, allow_unicode=True))
    write_outputs(directory.output_file, graph.outputs)
    return archived


def _begin_at_base(directory: RunDirectory, options: Options) -> Totals | None:
    """The totals with which a new epoch log begins, if it replays a run; the state at the run's base is copied."""
    if options.replay is None or any(directory.epochs.glob("*.journal")):
        return None
    original = RunDirectory.find(options.replay)
    original.check_epoch_log()
    reader = EpochReader(original.epochs)
    while (number := (totals := reader.base_totals()).base.checkpoint) is not None:
        if original.fixed["steps"] != directory.fixed["steps"]:
            message = (
                f"{original.path} begins after epoch {totals.base.epoch}, its base, and only the same steps can "
                "continue from the state there; `keep: null` keeps everything"
            )
            raise Contradiction(message)
        try:
            checkpoints = CheckpointReader(original.path, number)
            checkpoints.copy(checkpoints.numbered(number), directory.path)
            break
        except FileNotFoundError as error:
            if reader.base == totals.base:
                message = f"{original.path}: checkpoint {number}, with the state at its base, is incomplete: {error}"
                raise AlteredLog(message) from None
    return totals


def _check_sinks(directory: RunDirectory, loaded: Loaded, graph: Graph) -> None:
    """Refuse `--fresh` if a sink holds rows that no run in this directory wrote."""
    own_logs = set()
    for folder in directory.with_archives():
        with suppress(MillstreamError):  # the epoch log is missing or damaged: then no sink is its own
            own_logs.add(EpochReader(folder / "epochs").id)
    context = OpenContext(loaded.folder, directory.path, loaded.config.name)
    for output, sink in sink_configs(loaded.config, graph).items():
        progress = None if in_run_directory(sink, output, context) else sink.progress(context, output)
        if progress is not None and progress.log not in own_logs:
            whose = f"rows of another run's epoch log ({progress.log}), not of {directory.path}"
            if directory.epoch_log_lost:
                whose = f"rows of the epoch log {progress.log}, and this run's, which may be the same, is gone"
            message = (
                f"sink {output!r} holds {whose}: {sink.location(context, output)}; "
                "--fresh deletes no other run's rows, so give the sink a location of its own, or move these rows away"
            )
            raise ForeignSink(message)
        sink.may_clear(context, output)


def _open_sinks(
    config: Config, graph: Graph, context: OpenContext, ending: ExitStack
) -> tuple[dict[str, Sink], dict[str, str]]:
    guarded = Delivery(config.guarantee.delivery) is Delivery.EXACTLY_ONCE
    sinks: dict[str, Sink] = {}
    keys: dict[str, str] = {}
    for output, sink in sink_configs(config, graph).items():
        made = graph.outputs[output]
        sinks[output] = sink.open(context, output, row_schema(made), identity=identity_columns(made), guarded=guarded)
        ending.callback(sinks[output].abandon)
        keys[output] = sink_key(sink, output)
    return sinks, keys


def _arm_crash(directory: RunDirectory, point: CrashPoint | None, fire: Callable[[], None]) -> Armed | None:
    """The crash of `--crash`, armed unless it has already fired in this run directory."""
    if point is None or str(point) in directory.crashes():
        return None

    def fire_once() -> None:
        directory.record_crash(str(point))
        fire()

    return Armed(point, fire_once)


def _cut_options(loaded: Loaded, options: Options) -> CutOptions:
    size = loaded.config.engine.epoch
    original = None
    if options.replay is not None:
        original = EpochReader(RunDirectory.find(options.replay).epochs)
    bounded = all(source.config.bounded for source in loaded.config.logs)
    return CutOptions(
        max_records=size.max_records,
        max_wait=size.max_wait / 1e6,
        until_idle=bounded if options.follow is None else not options.follow,
        budget=options.records,
        replay=original,
        replayed=None if options.replay is None else VersionStore(RunDirectory.find(options.replay).models),
        last=options.replay_last,
    )
