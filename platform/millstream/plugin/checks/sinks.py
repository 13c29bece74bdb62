"""The checks of a sink. Each check is a function that raises AssertionError with the rule that the sink breaks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from millstream.errors import MillstreamError
from millstream.log.contracts import OpenContext, Progress, Sink, SinkConfig
from millstream.plugin.checks.append_process import AppendProcess
from millstream.plugin.checks.sink_rows import (
    IDENTITY,
    OTHER_OUTPUT,
    OUTPUT,
    SCHEMA,
    describe_epochs,
    progress_of,
    rows_of,
    table_of_all,
)
from millstream.steps.checks.failures import named_failures
from millstream.steps.checks.step_run import find_table_difference
from millstream.steps.checks.steps import select_checks

__all__ = ["SINK_CHECKS", "SinkTrial", "check_sink"]

_EPOCHS = 12
_READ_SECONDS = 60
_CLEAR = "let `clear` remove the rows and the progress of the output, so that `--fresh` begins with none"


def check_sink(config: SinkConfig, folder: Path, skip: Collection[str] = (), kills: int = 24) -> None:
    """Run all checks on a sink. Its location must be empty: the checks append to it, and clear it.

    Relative paths of the config start at `folder`. `kills` is the number of times that a process is killed while it
    appends. The sink's module must be importable in another process, as in a run.
    """
    trial = SinkTrial(config, OpenContext(folder, folder / "run", "checks"), kills)
    clearing = clearing_removes_rows_and_progress.__name__
    for number, name in enumerate(select_checks(SINK_CHECKS, skip)):
        with named_failures(clearing, repr(config)):
            trial.clear()
            if number and clearing not in skip:  # the check before has appended rows
                trial.expect(trial.progress(), None, "the progress after `clear`", _CLEAR)
                trial.expect_rows(trial.read(), rows_of(), "the rows after `clear`", _CLEAR)
        with named_failures(name, repr(config)):
            SINK_CHECKS[name](trial)
    trial.clear()


@dataclass(frozen=True)
class SinkTrial:
    """A sink under check, and the context in which it is opened."""

    config: SinkConfig
    context: OpenContext
    kills: int = 24
    output: str = OUTPUT

    @contextmanager
    def opened(self, *, fenced: bool = True, guarded: bool = True) -> Iterator[Sink]:
        """Open the sink for appends; abandon it at the end."""
        sink = self.config.open(self.context, self.output, SCHEMA, identity=IDENTITY, guarded=guarded)
        try:
            if fenced:
                sink.fence(0)
            yield sink
        finally:
            sink.abandon()

    def read(self) -> pa.Table:
        """All rows that a reader beside the run sees."""
        return table_of_all(self.config.read(self.context, self.output, SCHEMA))

    def progress(self) -> Progress | None:
        """The progress that a reader beside the run sees."""
        return self.config.progress(self.context, self.output)

    def clear(self) -> None:
        self.config.may_clear(self.context, self.output)
        self.config.clear(self.context, self.output)

    def expect(self, found: object, expected: object, what: str, remedy: str) -> None:
        if found != expected:
            raise AssertionError(f"{self.config!r}: {what} is {found!r}, not {expected!r}; {remedy}")

    def expect_rows(self, found: pa.Table, expected: pa.Table, what: str, remedy: str) -> None:
        """Compare rows with the expected rows; the message has the first difference."""
        difference = find_table_difference(expected, found)
        if difference is not None:
            epochs = f"expected {describe_epochs(expected)}, found {describe_epochs(found)}"
            raise AssertionError(f"{self.config!r}: {what}: {difference} ({epochs}); {remedy}")


def an_unused_sink_is_empty(trial: SinkTrial) -> None:
    """Check that a sink without any append has neither rows nor progress, before and after it was opened."""
    remedy = "return None, and yield no rows, until the first append"
    for opened in (False, True):
        when = "after it was opened" if opened else "before it was opened"
        if opened:
            with trial.opened(fenced=False) as sink:
                trial.expect(sink.progress(), None, "the progress of a sink without appends", remedy)
                trial.expect(sink.fence(0), None, "the progress that `fence` returns without appends", remedy)
                trial.expect_rows(table_of_all(sink.read()), rows_of(), "the rows of a sink without appends", remedy)
        trial.expect(trial.progress(), None, f"the config's progress {when}", remedy)
        trial.expect_rows(trial.read(), rows_of(), f"the config's rows {when}", remedy)
    location = trial.config.location(trial.context, trial.output)
    if not isinstance(location, str) or not location:
        raise AssertionError(f"{trial.config!r}: its location is {location!r}; return the address of the rows as text")


def rows_are_read_as_they_were_appended(trial: SinkTrial) -> None:
    """Check that rows and progress are readable after every append, by the run and by others, also after `close`."""
    rows = "yield all rows in the order of their appends, with every value as it was given"
    stored = "store all of the progress, and return it as it was given"
    with trial.opened() as sink:
        for epoch in range(_EPOCHS):
            sink.append(rows_of(epoch), progress_of(epoch))
            what = f"after the append of epoch {epoch}"
            trial.expect(sink.progress(), progress_of(epoch), f"the sink's progress {what}", stored)
            trial.expect(trial.progress(), progress_of(epoch), f"the config's progress {what}", stored)
            trial.expect_rows(table_of_all(sink.read()), rows_of(*range(epoch + 1)), f"the sink's rows {what}", rows)
            trial.expect_rows(trial.read(), rows_of(*range(epoch + 1)), f"the config's rows {what}", rows)
        sink.close()
        trial.expect_rows(table_of_all(sink.read()), rows_of(*range(_EPOCHS)), "the rows after `close`", rows)
    with trial.opened(fenced=False) as sink:
        last = progress_of(_EPOCHS - 1)
        trial.expect(sink.progress(), last, "the progress after the sink was closed and opened again", stored)
        trial.expect(sink.fence(0), last, "the progress that `fence` returns", stored)
        trial.expect_rows(table_of_all(sink.read()), rows_of(*range(_EPOCHS)), "the rows of the opened sink", rows)


def an_epoch_is_appended_again_or_lower(trial: SinkTrial) -> None:
    """Check that an epoch is appended like any other if it is equal to the last one, or lower."""
    remedy = "append all rows without a look at the epoch: the guard leaves out the epochs that the sink has"
    epochs = (3, 4, 4, 1)
    with trial.opened() as sink:
        for number, epoch in enumerate(epochs, start=1):
            sink.append(rows_of(epoch), progress_of(epoch, rows=3 * number))
        sink.close()
    with trial.opened() as sink:
        trial.expect(sink.progress(), progress_of(1, rows=12), "the progress after the epochs 3, 4, 4, 1", remedy)
        trial.expect_rows(trial.read(), rows_of(*epochs), "the rows after the epochs 3, 4, 4, 1", remedy)


def an_epoch_without_rows_adds_no_row(trial: SinkTrial) -> None:
    """Check that appends without rows change no rows, and that progress never goes back behind the last rows."""
    with trial.opened() as sink:
        for epoch in range(4):
            sink.append(rows_of(epoch) if epoch == 1 else rows_of(), progress_of(epoch, rows=3 if epoch else 0))
            found = sink.progress()
            trial.expect(
                found, progress_of(epoch, rows=3 if epoch else 0), f"the progress after epoch {epoch}", "keep it"
            )
        sink.close()
    with trial.opened() as sink:
        trial.expect_rows(trial.read(), rows_of(1), "the rows after three epochs without rows", "append only rows")
        held = sink.progress()
        if held is None or held.epoch not in (1, 2, 3) or held != progress_of(held.epoch, rows=3):
            remedy = "store the progress with the next rows or in `close`, and never one that is older than the rows"
            raise AssertionError(
                f"{trial.config!r}: the progress after three epochs without rows is {held!r}; {remedy}"
            )


def rows_are_appended_without_a_guard(trial: SinkTrial) -> None:
    """Check that a sink that was opened with `guarded=False` appends rows too."""
    remedy = "append rows in this case too; only the atomic step with the progress is not needed"
    with trial.opened(guarded=False) as sink:
        for epoch in range(3):
            sink.append(rows_of(epoch), progress_of(epoch))
        sink.close()
    trial.expect_rows(trial.read(), rows_of(0, 1, 2), "the rows that were appended with `guarded=False`", remedy)


def clearing_removes_rows_and_progress(trial: SinkTrial) -> None:
    """Check that `clear` leaves a sink without rows and progress that can be used again; twice does no harm."""
    with trial.opened() as sink:
        sink.append(rows_of(0, 1, 2), progress_of(2))
        sink.close()
    for _ in range(2):
        trial.clear()
        trial.expect(trial.progress(), None, "the progress after `clear`", _CLEAR)
        trial.expect_rows(trial.read(), rows_of(), "the rows after `clear`", _CLEAR)
    with trial.opened() as sink:
        trial.expect(sink.progress(), None, "the progress of the sink that was opened after `clear`", _CLEAR)
        sink.append(rows_of(5), progress_of(5, rows=3))
        sink.close()
    trial.expect_rows(trial.read(), rows_of(5), "the rows that were appended after `clear`", _CLEAR)


def outputs_have_their_own_rows(trial: SinkTrial) -> None:
    """Check that two outputs with two locations have rows and progress of their own, also when one is cleared.

    With one location there is nothing to check: a config that sends two outputs there is refused.
    """
    other = replace(trial, output=OTHER_OUTPUT)
    if trial.config.location(trial.context, trial.output) == other.config.location(other.context, other.output):
        return
    remedy = "use the name of the output, which `open`, `read`, `progress`, `location` and `clear` get"
    with trial.opened() as sink:
        sink.append(rows_of(0), progress_of(0))
        sink.close()
    trial.expect(other.progress(), None, f"the progress of {OTHER_OUTPUT!r} after an append to {OUTPUT!r}", remedy)
    trial.expect_rows(other.read(), rows_of(), f"the rows of {OTHER_OUTPUT!r} after an append to {OUTPUT!r}", remedy)
    with other.opened() as sink:
        sink.append(rows_of(1), progress_of(1, rows=3))
        sink.close()
    other.clear()
    what = f"of {OUTPUT!r} after `clear` of {OTHER_OUTPUT!r}"
    trial.expect(trial.progress(), progress_of(0), f"the progress {what}", remedy)
    trial.expect_rows(trial.read(), rows_of(0), f"the rows {what}", remedy)


def an_earlier_writer_is_shut_out(trial: SinkTrial) -> None:
    """Check that rows of an earlier writer do not appear after another start has fenced the sink.

    The sink may refuse the second start, as one whose writer holds a lock does.
    """
    remedy = "let `fence` shut out every earlier writer, as a number that `fence` raises and `append` compares"
    with trial.opened() as earlier:
        earlier.append(rows_of(0), progress_of(0))
        try:
            later = trial.config.open(trial.context, trial.output, SCHEMA, identity=IDENTITY, guarded=True)
        except MillstreamError:
            return
        try:
            trial.expect(later.fence(0), progress_of(0), "the progress that the second start's `fence` returns", remedy)
            with suppress(MillstreamError):
                earlier.append(rows_of(1), progress_of(1))
            trial.expect_rows(trial.read(), rows_of(0), "the rows after an append of the earlier writer", remedy)
            later.append(rows_of(2), progress_of(2, rows=6))
            trial.expect_rows(trial.read(), rows_of(0, 2), "the rows after an append of the second start", remedy)
        finally:
            later.abandon()


def a_reader_sees_whole_epochs(trial: SinkTrial) -> None:
    """Check that a reader beside the writer sees whole epochs in their order, and all that were appended before."""
    reader = _Reader(trial)
    with trial.opened() as sink:
        reader.start()
        try:
            for epoch in range(_EPOCHS * 2):
                sink.append(rows_of(epoch), progress_of(epoch))
                reader.appended = epoch
                reader.reads_once_more()
            sink.close()
        finally:
            reader.finish()
    if reader.error is not None:
        raise reader.error


class _Reader(threading.Thread):
    """Reads a sink again and again while another thread appends to it."""

    def __init__(self, trial: SinkTrial) -> None:
        super().__init__(daemon=True)
        self.appended = -1
        self.error: BaseException | None = None
        self._trial = trial
        self._stopped = False
        self._turn = threading.Condition()
        self._reads = 0

    def run(self) -> None:
        try:
            while not self._stopped:
                self._read()
                with self._turn:
                    self._reads += 1
                    self._turn.notify_all()
        except BaseException as error:
            self.error = error
        with self._turn:
            self._stopped = True
            self._turn.notify_all()

    def reads_once_more(self) -> None:
        """Return when a read has ended since the call, or when reading has failed."""
        with self._turn:
            before = self._reads
            if not self._turn.wait_for(lambda: self._reads > before or self._stopped, _READ_SECONDS):
                message = f"{self._trial.config!r}: a read beside the writer takes more than {_READ_SECONDS} seconds"
                raise AssertionError(message)

    def finish(self) -> None:
        self._stopped = True
        self.join(_READ_SECONDS)

    def _read(self) -> None:
        least = self.appended
        found = self._trial.read()
        epochs = max(found.num_rows // 3, least + 1)
        remedy = "let a reader see an epoch as a whole or not at all"
        what = f"the rows beside the writer, after epoch {least} was appended"
        self._trial.expect_rows(found, rows_of(*range(epochs)), what, remedy)


def rows_and_progress_are_one_step(trial: SinkTrial) -> None:
    """Check that rows and progress fit together after a process was killed while it appended, and that none is lost."""
    last = -1
    with AppendProcess(trial.config, trial.context) as process:
        for life in range(trial.kills):
            appended = process.live(last + 1, life, trial.kills)
            _check_whole(trial, trial.progress(), max([last, *appended]))
            with trial.opened(fenced=False) as sink:
                last = _check_whole(trial, sink.fence(0), max([last, *appended]))


def _check_whole(trial: SinkTrial, progress: Progress | None, appended: int) -> int:
    """Compare the rows after a kill with the progress; `appended` is the last epoch whose `append` has returned."""
    found = trial.read()
    epoch = -1 if progress is None else progress.epoch
    if epoch < appended:
        remedy = "make rows and progress durable before `append` returns"
        message = (
            f"the append of epoch {appended} had returned before a kill, and the progress after it is {progress!r}"
        )
        raise AssertionError(f"{trial.config!r}: {message}; {remedy}")
    if progress is not None:
        trial.expect(progress, progress_of(epoch), "the progress after a kill", "store it as it was given")
    what = f"after a kill the progress is that of epoch {epoch}, and the rows are others"
    remedy = "store the rows and the progress in one transaction, or in one write"
    trial.expect_rows(found, rows_of(*range(epoch + 1)), what, remedy)
    return epoch


SINK_CHECKS: dict[str, Callable[[SinkTrial], None]] = {
    check.__name__: check
    for check in (
        an_unused_sink_is_empty,
        rows_are_read_as_they_were_appended,
        an_epoch_is_appended_again_or_lower,
        an_epoch_without_rows_adds_no_row,
        rows_are_appended_without_a_guard,
        clearing_removes_rows_and_progress,
        outputs_have_their_own_rows,
        an_earlier_writer_is_shut_out,
        a_reader_sees_whole_epochs,
        rows_and_progress_are_one_step,
    )
}
"""The checks of sinks, by name."""
