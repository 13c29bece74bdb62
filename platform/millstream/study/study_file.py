"""The study file: data, streams, learners, failures, treatments and seeds, validated with the line of each problem."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NoReturn

from pydantic import Field, ValidationError

from millstream.config.document import Document, Problem, Setting, apply_sets, parse
from millstream.config.files import config_text
from millstream.config.load import refusal
from millstream.config.messages import problems_of
from millstream.config.models import Mlflow
from millstream.config.pipeline import NAME, RUN_NAME
from millstream.config.plugins import MODELS, SOURCES, STEPS, plugin_field
from millstream.config.references import substitute
from millstream.study.factors import WITH_TRAINING, WITHOUT_FAILURES, Failures, Section, Stream, Treatment

__all__ = ["LoadedStudy", "StudyConfig", "load_study"]

PlainName = Annotated[str, Field(pattern=NAME)]
_Every = Annotated[int, Field(ge=1, le=10_000)]
_Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]
_Seeds = Annotated[int, Field(ge=0, le=10_000)]


class Data(Section):
    """The labelled records from which all streams are made."""

    source: Annotated[Any, plugin_field(SOURCES)] = Field(description="A source that ends, with a text and a label.")
    label: str = Field(default="label", description="The field with the label; records without it are left out.")
    features: Annotated[Any, plugin_field(STEPS)] = Field(
        default={"type": "hashed_text"},
        validate_default=True,
        description="The step that makes the column `features` of a text, for learners that read it.",
    )
    records: int = Field(ge=2, description="The number of records in a stream.")
    holdout: int = Field(ge=1, description="The number of hold-out records, which no trial of the stream learns from.")
    trained_before: int = Field(
        default=0,
        ge=0,
        description="A frozen model: it learns so many other records first, and nothing from the stream; 0: it learns "
        "from the stream.",
    )


class Quick(Section):
    """The size of the study with --quick; the shares of failures stay the same."""

    records: int | None = Field(default=None, ge=2, description="The number of records in a stream.")
    holdout: int | None = Field(default=None, ge=1, description="The number of hold-out records.")
    seeds: int | None = Field(default=None, ge=1, description="The number of seeds: the first of `seeds`.")


class StudyConfig(Section):
    """A study: every combination of its factors is a trial."""

    name: str = Field(pattern=RUN_NAME, description="The name of the study, and of its folder below `studies`.")
    data: Data
    streams: dict[PlainName, Stream] = Field(description="The streams, by names of your choice.")
    learners: dict[PlainName, Annotated[Any, plugin_field(MODELS)]] = Field(
        description="The models, by names of your choice."
    )
    failures: list[Failures] = Field(
        default=[], description="The kinds of failures; each is a factor level. Some treatments need none."
    )
    treatments: list[Treatment] = Field(description="The treatments; `exactly_once` is always one of them.")
    seeds: _Seeds | list[_Seed] = Field(description="The number of seeds, from 0 on, or a list of seeds.")
    fewer_seeds: dict[str, Annotated[int, Field(ge=1)]] = Field(
        default={}, description="For a learner that is slow: only so many of the seeds."
    )
    checkpoint_every: list[_Every] = Field(default=[1], description="Epochs between two checkpoints; a factor.")
    commit_every: list[_Every] = Field(
        default=[1], description="Epochs between two commits; a factor. at_most_once commits every epoch."
    )
    threshold: float = Field(
        default=0.1, gt=0, lt=1, description="A label is popular if its share is at least this; flips are counted."
    )
    margins: dict[str, Annotated[float, Field(gt=0)]] = Field(
        default={}, description="By stream: the accuracy difference below which two treatments count as equivalent."
    )
    quick: Quick = Quick()
    mlflow: Mlflow | None = Field(default=None, description="Recording in MLflow; null records nothing.")

    @property
    def seed_list(self) -> list[int]:
        return list(range(self.seeds)) if isinstance(self.seeds, int) else self.seeds

    def records(self, stream: str) -> int:
        """Return the number of records in a stream."""
        return self.streams[stream].records or self.data.records

    def at_quick_size(self, given: Collection[str] = ()) -> StudyConfig:
        """Return the study with the sizes of `quick`; values at the key paths `given` stay."""
        sizes = {
            name: size
            for name in ("records", "holdout")
            if (size := getattr(self.quick, name)) is not None and not {"data", f"data.{name}"} & {*given}
        }
        seeds = self.seed_list if "seeds" in given else self.seed_list[: self.quick.seeds]
        return self.model_copy(update={"data": self.data.model_copy(update=sizes), "seeds": seeds})


@dataclass(frozen=True)
class LoadedStudy:
    """A validated study with its file; relative paths start at `folder`."""

    study: StudyConfig
    file: str
    folder: Path
    document: Document

    def refuse(self, path: Sequence[str | int], message: str) -> NoReturn:
        """Raise a `ConfigError` about the value at a key path, with its line."""
        raise refusal(self.file, self.document, [Problem(tuple(path), message)])


def load_study(file: Path | str, *, quick: bool = False, sets: Sequence[Setting] = ()) -> LoadedStudy:
    """Read and validate a study file; `ConfigError` lists every problem.

    `sets` are the values of `--set`, which win over the sizes of `quick`.
    """
    file = Path(file)
    document = parse(config_text(file))
    folder = file.absolute().parent
    if not document.problems and not isinstance(document.data, dict):
        message = "a study is a mapping with name, data, streams, learners, failures, treatments and seeds"
        document.problems.append(Problem((), message))
    if not document.problems:
        apply_sets(document, sets)
        substitute(document, os.environ, folder)
    if document.problems:
        raise refusal(str(file), document, document.problems)
    try:
        study = StudyConfig.model_validate(document.data)
    except ValidationError as error:  # it shows values, so it is no cause of the error raised here
        raise refusal(str(file), document, problems_of(error, StudyConfig, document)) from None
    if quick and study.quick == Quick():
        message = "the study names no smaller size; give `quick` records, holdout or seeds, or run it at full size"
        raise refusal(str(file), document, [Problem(("quick",), message)])
    if quick and not [*_problems(study)]:
        given = [setting.partition("=")[0] if isinstance(setting, str) else setting[0] for setting in sets]
        study = study.at_quick_size(given)
    if problems := [*_problems(study)]:
        raise refusal(str(file), document, problems)
    return LoadedStudy(study, str(file), folder, document)


def _problems(study: StudyConfig) -> Iterator[Problem]:
    """Yield what is wrong between the keys of a study."""
    factors = ["streams", "learners", "treatments", "seeds", "checkpoint_every", "commit_every"]
    if any(treatment.type not in WITHOUT_FAILURES for treatment in study.treatments):
        factors.append("failures")
    for name in factors:
        value = getattr(study, name)
        if value == 0 or (not isinstance(value, int) and not len(value)):
            yield Problem((name,), "empty, so the study has no trials; name at least one")
    for name in ("seeds", "checkpoint_every", "commit_every"):
        value = getattr(study, name)
        if isinstance(value, list) and (again := _repeated(value)) is not None:
            yield Problem((name,), f"{again} is there twice; a repeated value would count its trials twice")
    for key, names, known in (
        ("fewer_seeds", study.fewer_seeds, study.learners),
        ("margins", study.margins, study.streams),
    ):
        for name in names:
            if known and name not in known:
                yield Problem((key, name), f"there is no {name!r} in this study; there are {', '.join(known)}")
    yield from _treatment_problems(study)
    for index, failures in enumerate(study.failures):
        if message := _failure_problem(study, failures):
            yield Problem(("failures", index), message)


def _failure_problem(study: StudyConfig, failures: Failures) -> str | None:
    """Return what is wrong with failures in the streams of this study."""
    for name in study.streams:
        records = study.records(name)
        there = round(failures.between[1] * records) - round(failures.between[0] * records)
        count = failures.count(records)
        if count * failures.span > there:
            size = f"{failures.span:,} records"
            needed = (
                f"{count:,} failures of {size} each need {count * failures.span:,} records"
                if count > 1
                else f"1 failure of {size} needs as many"
            )
            return (
                f"{needed}, and there are {there:,} in that part of the stream {name!r}; lower them, or raise `records`"
            )
    for checkpoint_every, commit_every in itertools.product(study.checkpoint_every, study.commit_every):
        interval = math.lcm(checkpoint_every, commit_every)
        if failures.span % interval:
            every = f"checkpoint_every {checkpoint_every} and commit_every {commit_every}"
            message = f"a span of {failures.span:,} records cannot be divided into the {interval} epochs of an interval"
            return f"{message} with {every}; choose a multiple of {interval}"
    return None


def _treatment_problems(study: StudyConfig) -> Iterator[Problem]:
    for index, treatment in enumerate(study.treatments):
        if treatment in study.treatments[:index]:
            yield Problem(("treatments", index), "this treatment is there twice; leave one of them out")
        for name in treatment.learners or ():
            if name not in study.learners:
                message = f"there is no learner {name!r} in this study; there are {', '.join(study.learners)}"
                yield Problem(("treatments", index, "learners"), message)
        if treatment.type in WITH_TRAINING and study.data.trained_before:
            message = f"{treatment.type} changes what a model learns, and with `trained_before` it learns nothing"
            yield Problem(("treatments", index), f"{message} from the stream; leave one of the two out")
        if treatment.type == "at_most_once" and study.commit_every and 1 not in study.commit_every:
            message = "at_most_once commits every epoch; put 1 among the values of commit_every"
            yield Problem(("treatments", index), message)


def _repeated(values: list[int]) -> int | None:
    return next((value for index, value in enumerate(values) if value in values[:index]), None)
