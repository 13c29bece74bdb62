"""The validation of a trial by a real run: the trial that observed crashes give, compared with the run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.arrays import Array
from millstream.config.load import Loaded
from millstream.guarantees.delivery import Delivery, Effects
from millstream.runs.checkpoint_model import load_model
from millstream.runs.directory import RunDirectory
from millstream.runs.outputs import load_run, output_of
from millstream.runs.summary import Summary
from millstream.state.applied_epochs import AppliedEpochs
from millstream.state.checkpoints import read_newest
from millstream.state.digests import state_digest
from millstream.study import trial_run
from millstream.study.closed_form import ClosedForm
from millstream.study.labels import Labels
from millstream.study.learner import Learner
from millstream.study.observed_crashes import Observation, crash_effects
from millstream.study.run_records import RunRecords, read_records
from millstream.study.streams import OrderedStream
from millstream.study.treatments import Delivered, plan_crashes
from millstream.study.trial import Trial, canonical_json

__all__ = ["ValidatedTrial", "validate_trial"]

_OUTPUT = "predictions"
_HELD_OUT = 20


@dataclass(frozen=True)
class ValidatedTrial:
    """A trial that observed crashes give: their effects, its row of a result table, and its differences to the run."""

    effects: Sequence[Effects]
    row: Mapping[str, Any]
    digest: str
    differences: Sequence[str]


def validate_trial(run: Path, observed: Sequence[Observation]) -> ValidatedTrial:
    """Compute the trial of a run that has ended, from an observation after each of its crashes; compare both.

    The trial knows nothing else of the run than its records, their epochs and its config.
    """
    directory = RunDirectory.find(run)
    loaded = load_run(directory)
    records = read_records(directory, loaded)
    effects = crash_effects(Delivery(loaded.config.guarantee.delivery), observed, _OUTPUT)
    plan = plan_crashes(effects, records.edges, len(records.labels))
    learner = Learner(records.classify.model, records.columns.schema, len(records.names))
    prepared = learner.prepare(records.columns[learner.reads].combine_chunks())
    held_out = np.arange(len(records.labels))[-_HELD_OUT:]
    nothing = np.zeros(0, np.int64)
    stream = OrderedStream(
        np.arange(len(records.labels)), records.labels, held_out, records.labels[held_out], nothing, nothing
    )
    inputs = trial_run.Inputs(stream, prepared, prepared[held_out], prepared[:0])
    trial = _trial(loaded, records, len(observed))
    closed_form = ClosedForm(Labels(tuple(records.names), stream.labels), math.inf)
    sequence = trial_run.Sequence(trial, plan, stream, closed_form, len(records.names))
    row, _ = trial_run.run_trial(trial, sequence, inputs, learner, None, math.inf)
    digest = str(state_digest(learner.save().model))
    differences = [
        *_differing_rows(directory, loaded, records, plan.delivered, row),
        *_differing_epochs(directory, records, plan.delivered),
        *_differing_models(directory, loaded, digest),
    ]
    return ValidatedTrial(effects, row, digest, differences)


def _differing_rows(
    directory: RunDirectory, loaded: Loaded, records: RunRecords, delivered: Delivered, row: Mapping[str, Any]
) -> Iterator[str]:
    """Compare the positions of the rows in the sink, each as often as it is there, and the number of right ones."""
    rows = pa.concat_tables(output_of(directory, loaded, _OUTPUT).read())
    found = np.stack([rows["_partition"].to_numpy(), rows["_offset"].to_numpy()], axis=1)
    computed = records.places[delivered.positions[delivered.output]]
    if not np.array_equal(_sorted(found), _sorted(computed)):
        yield f"the sink has {len(found):,} rows of other positions than the {len(computed):,} computed ones"
    right = sum(label == predicted for label, predicted in zip(*_answers(rows), strict=True))
    if len(found) and row["accuracy_all"] != right / len(found):
        yield f"{right:,} of {len(found):,} rows are right, and the trial's accuracy is {row['accuracy_all']:.4f}"


def _answers(rows: pa.Table) -> tuple[list[str | None], list[str | None]]:
    return rows["label"].to_pylist(), rows["predicted"].to_pylist()


def _differing_epochs(directory: RunDirectory, records: RunRecords, delivered: Delivered) -> Iterator[str]:
    """Compare how often the newest checkpoint has each epoch."""
    applied = read_newest(directory.path, lambda checkpoint, _: checkpoint.applied) or AppliedEpochs()
    times = np.zeros(len(records.edges) - 1, np.int64)
    for start, stop in applied.ranges:
        times[start:stop] += 1
    for epoch, repeats in applied.repeats.items():
        times[epoch] += repeats
    computed = np.bincount(delivered.positions[delivered.state], minlength=len(records.labels))
    if not np.array_equal(np.repeat(times, np.diff(records.edges)), computed):
        yield f"the state has {applied.line()}, and other epochs were computed"


def _differing_models(directory: RunDirectory, loaded: Loaded, digest: str) -> Iterator[str]:
    """Compare the digests of the model: that of the trial, the run's summary, and its newest checkpoint."""
    found = {
        "summary": Summary.read(directory.summary).model,
        "checkpoint": load_model(directory, loaded).classify.fingerprint(),
    }
    for name, other in found.items():
        if other != digest:
            yield f"the model of the {name} is {other}, and that of the trial {digest}"


def _sorted(places: Array) -> Array:
    """Return pairs in ascending order."""
    found: Array = places[np.lexsort((places[:, 1], places[:, 0]))]
    return found


def _trial(loaded: Loaded, records: RunRecords, crashes: int) -> Trial:
    """Return the description of the trial."""
    guarantee, model = loaded.config.guarantee, records.classify.model
    return Trial(
        stream=loaded.config.name,
        stream_config="{}",
        order_seed=0,
        learner=model.type,
        learner_config=canonical_json(model.model_dump(mode="json")),
        treatment=guarantee.delivery,
        treatment_config="{}",
        simulated=False,
        checkpoint_every=guarantee.checkpoint_every,
        commit_every=guarantee.commit_every,
        failures=crashes,
        span=0,
        placement="observed",
        topic="",
        between_first=0.0,
        between_last=1.0,
        seed=0,
        records=len(records.labels),
        holdout=_HELD_OUT,
        trained_before=0,
    )
