"""The grid of a study: all its trials, in groups that share a stream and a seed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from millstream.study.factors import Failures, Interleaved, LostOptimiser, Real, StaleState
from millstream.study.study_file import StudyConfig
from millstream.study.trial import EXACTLY_ONCE, Trial, canonical_json

__all__ = ["Group", "groups_of"]


@dataclass(frozen=True)
class Group:
    """The trials of one stream, one seed and one learner; the first is the exactly-once trial."""

    stream: str
    seed: int
    learner: str

    def trials(self, study: StudyConfig) -> list[tuple[Trial, Any]]:
        """Return each trial with its treatment; a small stream may give two levels of failures the same trial."""
        found = {trial.key: (trial, treatment) for trial, treatment in _trials(study, self)}
        return [*found.values()]


def groups_of(study: StudyConfig) -> Iterator[Group]:
    """Yield the groups of a study, in the order of the result table."""
    seeds = study.seed_list
    for stream, learner, seed in itertools.product(study.streams, study.learners, seeds):
        if seed in seeds[: study.fewer_seeds.get(learner, len(seeds))]:
            yield Group(stream, seed, learner)


def _trials(study: StudyConfig, group: Group) -> Iterator[tuple[Trial, Any]]:
    stream, seed, learner = group.stream, group.seed, group.learner
    once = Trial(
        stream=stream,
        stream_config=canonical_json(study.streams[stream].model_dump(mode="json")),
        order_seed=seed,
        learner=learner,
        learner_config=canonical_json(study.learners[learner].model_dump(mode="json")),
        treatment=EXACTLY_ONCE,
        treatment_config="{}",
        simulated=False,
        checkpoint_every=1,
        commit_every=1,
        failures=0,
        span=0,
        placement="none",
        topic="",
        between_first=0.0,
        between_last=1.0,
        seed=seed,
        records=study.records(stream),
        holdout=study.data.holdout,
        trained_before=study.data.trained_before,
    )
    yield once, Real(type=EXACTLY_ONCE)
    for treatment in study.treatments:
        if treatment.type == EXACTLY_ONCE or (treatment.learners is not None and learner not in treatment.learners):
            continue
        for failures, every, commits in _levels(study, treatment):
            yield _treated(once, treatment, failures, every, commits)


def _levels(study: StudyConfig, treatment: Any) -> Iterator[tuple[Failures | None, int, int]]:
    """Yield the failures, `checkpoint_every` and `commit_every` with which a treatment is tried."""
    if isinstance(treatment, Interleaved):
        yield None, 1, 1
    elif isinstance(treatment, StaleState | LostOptimiser):
        yield from ((failures, 1, 1) for failures in study.failures)
    else:
        commits = [1] if "at_most_once" in (treatment.type, getattr(treatment, "of", None)) else study.commit_every
        yield from itertools.product(study.failures, study.checkpoint_every, commits)


def _treated(
    once: Trial, treatment: Any, failures: Failures | None, checkpoint_every: int, commit_every: int
) -> tuple[Trial, Any]:
    if isinstance(treatment, StaleState) and treatment.age is None and failures is not None:
        treatment = treatment.model_copy(update={"age": failures.span})
    options = treatment.model_dump(mode="json", exclude={"type", "learners"})
    trial = replace(
        once,
        treatment=treatment.type,
        treatment_config=canonical_json(options),
        simulated=not isinstance(treatment, Real),
        checkpoint_every=checkpoint_every,
        commit_every=commit_every,
    )
    if failures is not None:
        trial = replace(
            trial,
            failures=failures.count(once.records),
            span=failures.span,
            placement=failures.placement,
            topic=failures.topic or "",
            between_first=failures.between[0],
            between_last=failures.between[1],
        )
    return trial, treatment
