"""The comparison of two runs, from what their run directories and their sinks keep. Changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from millstream.config.load import Loaded
from millstream.errors import MillstreamError
from millstream.log.epochs import EpochReader, Totals
from millstream.runs.comparison.epochs import AccuracyWindow, FirstDifference, accuracy_windows, first_difference
from millstream.runs.comparison.predictions import PredictionsCompared, compare_predictions
from millstream.runs.directory import RunDirectory
from millstream.runs.outputs import RunOutput, outputs_of
from millstream.runs.summary import Summary
from millstream.runs.watch.run_status import ended_cleanly

__all__ = ["RunComparison", "compare_runs"]


@dataclass(frozen=True)
class RunComparison:
    """Two runs side by side.

    `equal_epochs` is the number of epochs, from the later base on, whose cuts and results are the same. `accuracies`
    are over all that each run has processed since its base. `models` has the digest of the model in each run, by step;
    `not_compared` the reasons for all that could not be compared.
    """

    runs: tuple[Path, Path]
    records: tuple[int, int]
    accuracies: tuple[float | None, float | None]
    equal_epochs: int
    first_difference: FirstDifference | None
    windows: Sequence[AccuracyWindow]
    predictions: Mapping[str, PredictionsCompared]
    models: Mapping[str, tuple[str, str]]
    not_compared: Sequence[str]


def compare_runs(first: tuple[RunDirectory, Loaded], second: tuple[RunDirectory, Loaded]) -> RunComparison:
    """Compare two runs, each with its config; they may go on meanwhile."""
    missing: list[str] = []
    totals = [_totals(directory) for directory, _ in (first, second)]
    equal, difference = first_difference(first[0].epochs, second[0].epochs)
    windows = accuracy_windows(first[0].epochs, second[0].epochs)
    if not windows:
        missing.append("accuracy over time: there are no labels, or no records that both have read since their bases")
    return RunComparison(
        runs=(first[0].path, second[0].path),
        records=(totals[0].records, totals[1].records),
        accuracies=(totals[0].accuracy, totals[1].accuracy),
        equal_epochs=equal,
        first_difference=difference,
        windows=windows,
        predictions=_predictions(first, second, missing),
        models=_models(first[0], second[0], missing),
        not_compared=missing,
    )


def _totals(directory: RunDirectory) -> Totals:
    directory.check_epoch_log()
    if not any(directory.epochs.glob("*")):
        message = f"{directory.path} has no epoch yet: there is nothing to compare"
        raise MillstreamError(message)
    return EpochReader(directory.epochs).totals()


def _predictions(
    first: tuple[RunDirectory, Loaded], second: tuple[RunDirectory, Loaded], missing: list[str]
) -> dict[str, PredictionsCompared]:
    ours, theirs = (_with_predictions(directory, loaded) for directory, loaded in (first, second))
    found = {}
    for name in ours.keys() & theirs.keys():
        if ours[name].identity != theirs[name].identity:
            missing.append(f"{name}: its rows are identified by other columns")
            continue
        try:
            compared = compare_predictions(ours[name], theirs[name])
        except (MillstreamError, OSError) as error:
            missing.append(f"{name}: its rows cannot be read: {error}")
            continue
        found[name] = compared
        if not compared.common:
            missing.append(f"{name}: no record has a row in both runs")
    for name in sorted(ours.keys() ^ theirs.keys()):
        missing.append(f"{name}: only {(first if name in ours else second)[0].path} has this output")
    return dict(sorted(found.items()))


def _with_predictions(directory: RunDirectory, loaded: Loaded) -> dict[str, RunOutput]:
    """The outputs with a prediction for each record."""
    found = outputs_of(directory, loaded)
    return {n: each for n, each in found.items() if each.output.of == "record" and "predicted" in each.schema.names}


def _models(first: RunDirectory, second: RunDirectory, missing: list[str]) -> dict[str, tuple[str, str]]:
    """The digests of the models at the ends of both runs."""
    ends = []
    for directory in (first, second):
        if not ended_cleanly(directory, EpochReader(directory.epochs).totals()):
            missing.append(f"models: {directory.path} has not ended cleanly; stop it, or run it again, then compare it")
            return {}
        ends.append(_by_step(Summary.read(directory.summary)))
    ours, theirs = ends
    return {step: (model, theirs[step]) for step, model in ours.items() if step in theirs}


def _by_step(summary: Summary) -> dict[str, str]:
    """The digests of the models by step; a single one has no name."""
    if summary.steps:
        return {step: str(each["model"]) for step, each in summary.steps.items()}
    return {} if summary.model is None else {"model": summary.model}
