"""A run directory in Python: the summary, the status, the rows, the predictions and the audit of one run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from functools import wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import pyarrow as pa

from millstream import arguments
from millstream.api.argument_names import naming_arguments
from millstream.api.config import Config, Source, config_of, loaded_of
from millstream.config.load import Loaded
from millstream.errors import MillstreamError
from millstream.guarantees.audit import Audit
from millstream.log.epochs import EpochReader
from millstream.registry.versions import RegisteredVersion
from millstream.runs.checkpoint_model import CheckpointModel, load_model
from millstream.runs.directory import RunDirectory
from millstream.runs.fork import fork_run
from millstream.runs.outputs import RunOutput, load_run, output_of, outputs_of
from millstream.runs.run_audit import audit_run
from millstream.runs.summary import Summary
from millstream.runs.watch.metrics import read_windows
from millstream.runs.watch.run_status import RunStatus, run_status
from millstream.state.checkpoints import Checkpoint, CheckpointReader
from millstream.steps.text_model import Prediction

__all__ = ["Audit", "Run", "open_run", "open_run_as_given", "run_path"]

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")

_BASELINES = pa.struct({"no_change": pa.float64(), "majority": pa.float64()})
_WINDOWS = pa.schema(
    {
        "records": pa.int64(),
        "epoch": pa.int64(),
        "correct": pa.int64(),
        "labelled": pa.int64(),
        "accuracy": pa.float64(),
        "window_accuracy": pa.float64(),
        "records_per_second": pa.float64(),
        "seconds": pa.float64(),
        "baselines": _BASELINES,
        "window_baselines": _BASELINES,
        "steps": pa.map_(
            pa.string(),
            pa.struct(
                {
                    "labelled": pa.int64(),
                    "correct": pa.int64(),
                    "accuracy": pa.float64(),
                    "window_accuracy": pa.float64(),
                }
            ),
        ),
    }
)
"""The columns of `Run.metrics`, the keys of docs/watching.md."""


def _named(method: Callable[Concatenate[Run, _Given], _Result]) -> Callable[Concatenate[Run, _Given], _Result]:
    """Return a method whose errors name arguments, or options if the run was opened for a command."""

    @wraps(method)
    def call(run: Run, /, *given: _Given.args, **named: _Given.kwargs) -> _Result:
        with run._naming():
            return method(run, *given, **named)

    return call


class Run:
    """One run directory. Nothing here changes or locks it: the run may go on, in this process or in another one."""

    def __init__(
        self,
        path: Path,
        loaded: Loaded | None = None,
        summary: Summary | None = None,
        *,
        naming: Callable[[], AbstractContextManager[None]] = naming_arguments,
    ) -> None:
        self.path = path
        self._directory, self._own, self._ended = RunDirectory(path), loaded, summary
        self._naming = naming

    @property
    @_named
    def config(self) -> Config:
        """The config of the last start."""
        return config_of(self._loaded())

    @property
    @_named
    def summary(self) -> Summary | None:
        """The summary of this start; of a run that was opened, that of its last clean end, None before the first."""
        if self._ended is not None or not self._present().summary.exists():
            return self._ended
        return Summary.read(self._directory.summary)

    @property
    @_named
    def outputs(self) -> tuple[str, ...]:
        """The names of the outputs, in the order in which their sinks get rows."""
        return tuple(self._outputs())

    @_named
    def status(self) -> RunStatus:
        """Return the progress at this moment, with the distance to the end of the logs."""
        return run_status(self._present(), self._own)

    @_named
    def output(self, name: str) -> pa.Table:
        """Return all rows of an output; `batches` returns one part after the other."""
        found = self._output(name)
        tables = list(found.read())
        return pa.concat_tables(tables) if tables else found.schema.empty_table()

    def batches(self, name: str) -> Iterator[pa.Table]:
        """Yield the rows of an output in parts, for outputs that are larger than the memory."""
        return self._parts(self._output(name))

    @_named
    def model(self, step: str | None = None) -> CheckpointModel:
        """Return the model of the newest checkpoint, for many predictions; it does not learn.

        `step` names the step of the model, if several steps classify.
        """
        return load_model(self._present(), self._loaded(), step)

    @_named
    def predict(self, texts: Iterable[str], *, top: int = 1, step: str | None = None) -> list[Prediction]:
        """Return a prediction for each text, by the model of the newest checkpoint, with its `top` likeliest labels.

        `step` names the step of the model, if several steps classify.
        """
        return self.model(step).predict(texts, top=top)

    @_named
    def export(self, name: str, *, step: str | None = None) -> RegisteredVersion:
        """Register the model of the newest checkpoint in MLflow, as the next version of the model `name`.

        `step` names the step of the model, if several steps classify.
        """
        from millstream.runs.export import export_model  # a slow import

        return export_model(self._present(), self._loaded(), name, step)

    @_named
    def metrics(self) -> pa.Table:
        """Return the accuracy and the speed by windows of at least 1,000 records, over all starts."""
        windows = [asdict(each) for each in read_windows(self._present().metrics)]
        return pa.Table.from_pylist([{**each, "steps": [*each["steps"].items()]} for each in windows], schema=_WINDOWS)

    @_named
    def audit(
        self, against: Run | str | os.PathLike[str] | None = None, *, announce: Callable[[], None] = lambda: None
    ) -> Audit:
        """Count the effects of crashes on the results, by a comparison with a golden run.

        The golden run is `against`, a run or its directory; without it, a temporary one is made of the same epochs,
        after a call of `announce`.
        """
        self._present()
        golden = against if against is None or isinstance(against, Run) else _opened("against", against)
        compared = None if golden is None else (golden.path, golden._loaded())
        return audit_run(self.path, self._loaded(), compared, announce)

    @_named
    def fork(
        self,
        config: Source,
        *,
        run: str | os.PathLike[str],
        at: int | str | None = None,
        from_start: bool = False,
    ) -> Run:
        """Make the run directory `run`, which begins with the state of a checkpoint of this run, with this config.

        The checkpoint is the newest one, or the newest one at or before the epoch `at`, or the savepoint of this name.
        The epochs after it, up to the last committed one or up to `at`, are replayed in the same cuts by the first
        start: `ms.run(config, run=run)`. With `from_start`, all epochs are replayed, and no state is kept.
        """
        point = at if at is None or isinstance(at, str) else arguments.whole_number("at", at, least=0)
        loaded, path = loaded_of(config), run_path("run", run)
        fork_run(self._present(), loaded, path, at=point, from_start=arguments.flag("from_start", from_start))
        return Run(path, loaded)

    @_named
    def checkpoints(self) -> list[Checkpoint]:
        """Return the checkpoints on disk, the oldest first."""
        self._present().check_epoch_log()
        if not self._directory.epochs.is_dir():
            return []
        last = EpochReader(self._directory.epochs).totals().checkpoint
        return CheckpointReader(self.path, last).all()

    def __repr__(self) -> str:
        return f"<Run {self.path}>"

    def _loaded(self) -> Loaded:
        return self._own if self._own is not None else load_run(self._present())

    def _present(self) -> RunDirectory:
        """Return the run directory, if it is still there."""
        if not self._directory.initialized:
            message = f"{self.path} is not a run directory any more: it was deleted or moved"
            raise MillstreamError(message)
        return self._directory

    @_named
    def _output(self, name: str) -> RunOutput:
        return output_of(self._present(), self._loaded(), name)

    def _parts(self, output: RunOutput) -> Iterator[pa.Table]:
        """Yield the rows of an output; a run directory that is deleted meanwhile is an error, and not their end."""
        with self._naming():
            self._present()
            try:
                for rows in output.read():
                    yield rows
                    self._present()
            except OSError:
                self._present()
                raise
            self._present()

    def _outputs(self) -> dict[str, RunOutput]:
        return outputs_of(self._present(), self._loaded())


def run_path(name: str, run: Run | str | os.PathLike[str]) -> Path:
    """Return the absolute path of a run directory that the argument `name` gives as a path or as a run."""
    return run.path if isinstance(run, Run) else arguments.path(name, run).absolute()


def open_run_as_given(path: str | os.PathLike[str]) -> Run:
    """Open a run directory for a command, whose messages show the path as its user gave it, and name options."""
    return Run(RunDirectory.find(Path(path)).path, naming=nullcontext)


def open_run(path: str | os.PathLike[str]) -> Run:
    """Open a run directory for reading, also while the run goes on; a folder that is none is a `MillstreamError`."""
    return _opened("path", path)


def _opened(name: str, path: str | os.PathLike[str]) -> Run:
    """Open the run directory that the argument `name` gives."""
    with naming_arguments():
        return Run(RunDirectory.find(arguments.path(name, path)).path.absolute())
