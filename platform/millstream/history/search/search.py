"""A search on a history: candidates judged rung by rung on Spark, and the best one trained on the whole history."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from millstream.config.load import Loaded
from millstream.config.search import Search
from millstream.engines.spark.background_session import BackgroundSession
from millstream.errors import MillstreamError
from millstream.extras import require
from millstream.history.backfill import check_complete, checked_way, result_of
from millstream.history.cuts import replayed
from millstream.history.features import Computed, Progress, compute_features
from millstream.history.folder import Facts, HistoryFolder
from millstream.history.how import DEFAULT, SEARCH, check_model, learner
from millstream.history.made_from import made_from, step_configs
from millstream.history.plan import BLOCK_RECORDS
from millstream.history.search.candidates import Candidate, candidates_of
from millstream.history.search.judgement import Assignment, Judgement, judge_candidates
from millstream.history.search.ordered_records import order_records, ordered_folder
from millstream.history.search.rungs import LEAST_RECORDS, Rung, rungs_of
from millstream.history.setup import setup_of
from millstream.history.train import Trained, remove_work
from millstream.history.training_job import ROUND_RECORDS, Training
from millstream.log.journal.durability import make_folder
from millstream.runs.model_versions import version_steps
from millstream.state.model_version import ModelVersion

__all__ = ["PLOT", "Searched", "search"]

PLOT = "search.png"
"""The plot in the folder of a search."""
_SUBJECT = "a search on a history"
_WORK, _MISSING = "the search", "the candidates that are not judged yet"


@dataclass(frozen=True)
class Searched(Trained):
    """A complete search: the version is that of the best candidate, trained on the whole history."""

    best: Candidate


def search(
    loaded: Loaded,
    out: Path,
    *,
    replay: Path | None = None,
    step: str | None = None,
    watch: Callable[[Progress], None] = lambda _: None,
    tasks: int | None = None,
    block_records: int = BLOCK_RECORDS,
    least_records: int = LEAST_RECORDS,
    sessions: type[BackgroundSession] = BackgroundSession,
) -> Searched:
    """Judge the candidates of a config, and train the best one on the whole history; nothing if it is complete.

    `tasks` is the number of Spark tasks; None: one for each part of the work, such as a candidate.
    """
    require("study", "the plot of a search")
    candidates = candidates_of(loaded, step)
    for candidate in candidates:
        checked_way(candidate.loaded, candidate.way.model.name, _SUBJECT)
        check_model(DEFAULT, candidate.way.model)
        _version_options(candidate)
    run = None if replay is None else replayed(replay)
    facts, histories = Facts(out, "training"), _histories(out, candidates)
    first = candidates[0]
    with facts.lock():
        steps = [*first.way.steps, first.way.model]
        made = made_from(
            loaded,
            steps,
            "" if run is None else run.id,
            step=first.way.model.name,
            how=SEARCH,
            candidates=[candidate.values for candidate in candidates],
            halving=_options(loaded).halving,
            held_out=_options(loaded).held_out,
        )
        result = facts.claim(made)
        if result is not None:
            check_complete(loaded, histories[0].folder)
            _remove_work(histories)
            return Searched(out, result, True, candidates[result["best"] - 1])
        make_folder(histories[0].folder.path)
        with sessions(histories[0].folder.spark_log, tasks, _WORK, _MISSING) as spark:
            work = _Work(loaded, out, spark, histories, candidates, least_records, watch)
            work.compute(replay, block_records)
            judgements = work.judge()
            best = candidates[judgements[0].candidate - 1]
            result = work.train(best, replay)
        table = [_row(candidates[each.candidate - 1], each, place) for place, each in enumerate(judgements, 1)]
        result = {**result, "best": best.number, "values": best.values, "model": best.model, "candidates": table}
        _draw(out, loaded, candidates, judgements)
        facts.complete(result)
        _remove_work(histories)
        return Searched(out, result, False, best)


@dataclass(frozen=True)
class _History:
    """The folder with the records of candidates that have the same steps before the model."""

    folder: HistoryFolder
    candidates: Sequence[Candidate]


def _histories(out: Path, candidates: Sequence[Candidate]) -> list[_History]:
    groups: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        steps = json.dumps(step_configs(candidate.loaded, candidate.way.steps), sort_keys=True)
        groups.setdefault(steps, []).append(candidate)
    return [_History(HistoryFolder(out / "work" / str(n)), group) for n, group in enumerate(groups.values())]


class _Work:
    """The work of a search in its folder, on Spark."""

    def __init__(
        self,
        loaded: Loaded,
        out: Path,
        spark: BackgroundSession,
        histories: Sequence[_History],
        candidates: Sequence[Candidate],
        least_records: int,
        watch: Callable[[Progress], None],
    ) -> None:
        self._loaded, self._out, self._spark = loaded, out, spark
        self._histories, self._candidates = histories, candidates
        self._least, self._watch = least_records, watch
        self._computed: list[Computed] = []
        self._records = 0

    def compute(self, replay: Path | None, block_records: int) -> None:
        """Compute the records that the candidates get, once for those with the same steps before the model."""
        for history in self._histories:
            folder, candidate = history.folder, history.candidates[0]
            make_folder(folder.path)
            if not folder.has_plan and self._computed:
                self._take_cuts(folder)
            setup, shards = setup_of(candidate.loaded, candidate.way, folder.path), self._loaded.config.guarantee.shards
            computed = compute_features(
                self._spark, setup, candidate.way, shards, folder, replay, self._watch, block_records
            )
            records = order_records(self._spark, setup.text(), folder, computed.plan, self._watch)
            if self._computed and records != self._records:
                message = (
                    f"{candidate} gets {records:,} records and candidate 1 {self._records:,}, because the steps before "
                    "the model are others; only candidates that get the same records can be compared"
                )
                raise MillstreamError(message)
            self._computed.append(computed)
            self._records = records

    def _take_cuts(self, folder: HistoryFolder) -> None:
        """Take the cuts of the first history, so that all candidates get the same records."""
        folder.remove_cuts()
        shutil.copytree(self._histories[0].folder.epochs, folder.epochs)
        folder.write_plan(self._histories[0].folder.plan())

    def judge(self) -> list[Judgement]:
        """Judge the candidates rung by rung; the last judgement of each, the best first."""
        options = _options(self._loaded)
        before = self._records - max(1, int(self._records * options.held_out))
        if before < 1:
            message = (
                f"the model gets {self._records:,} records of the history; a search needs at least 2, one to learn and "
                "one to test"
            )
            raise MillstreamError(message)
        make_folder(self._out / "judged")
        found: dict[int, Judgement] = {}
        left = list(self._candidates)
        rungs = rungs_of(len(self._candidates), before, options.halving, self._least)
        for rung in rungs:
            judged = self._judge(rung, len(rungs), sorted(left, key=lambda each: _cost(found, each)), before)
            found |= {each.candidate: each for each in judged}
            order = sorted(judged, key=lambda each: each.order)
            self._check(rung, order, before)
            after = rungs[rung.number].candidates if rung.number < len(rungs) else 0
            left = [self._candidates[each.candidate - 1] for each in order[:after] if each.error is None]
        return sorted(found.values(), key=lambda each: each.order)

    def _judge(self, rung: Rung, rungs: int, candidates: Sequence[Candidate], before: int) -> list[Judgement]:
        files = {each.number: self._out / "judged" / f"{rung.number}-{each.number:04d}.json" for each in candidates}
        there = {number for number, file in files.items() if file.exists()}
        setups = {each.number: history.folder for history in self._histories for each in history.candidates}

        def report() -> None:
            count = sum(file.exists() for file in files.values())
            doing = f"rung {rung.number} of {rungs}"
            self._watch(Progress(doing, count, len(files), len(there), count * rung.records, "candidates"))

        report()
        work = [
            Assignment(
                setup_of(each.loaded, each.way, setups[each.number].path).text(),
                each.number,
                rung.number,
                rung.records,
                before,
                self._records,
                str(files[each.number].absolute()),
            ).text()
            for each in candidates
            if each.number not in there
        ]
        self._spark.run(judge_candidates, work, report)
        return [Judgement.load(file) for file in files.values()]

    def _check(self, rung: Rung, order: Sequence[Judgement], before: int) -> None:
        """Refuse to choose if no candidate was judged."""
        best = order[0]
        if best.error is not None:
            named = self._candidates[best.candidate - 1]
            raise MillstreamError(
                f"all candidates of rung {rung.number} failed; the first of them, {named}: {best.error}"
            )
        if not best.prequential.labelled:
            lacking = "the history has" if rung.records == before else f"the first {rung.records:,} records have"
            hint = "" if rung.records == before else "; set `search.halving: null`, so that all candidates learn more"
            raise MillstreamError(f"{lacking} no label, by which candidates could be compared{hint}")

    def train(self, best: Candidate, replay: Path | None) -> Mapping[str, Any]:
        """Train the best candidate on the whole history, and write its version; returns the facts about it."""
        [index] = [number for number, each in enumerate(self._histories) if best in each.candidates]
        computed, folder = self._computed[index], self._histories[index].folder
        features = result_of(computed, best.loaded, replay)
        setup, options = setup_of(best.loaded, best.way, folder.path), _version_options(best)
        plan, model = computed.plan, best.way.model
        training = Training(self._spark, setup, folder, self._out, plan, model, options, ROUND_RECORDS, self._watch)
        scores = learner(DEFAULT)(training)
        digest = ModelVersion.load(self._out).digest
        return {**features, "step": best.way.model.name, "how": SEARCH, "digest": digest, **scores}


def _version_options(candidate: Candidate) -> tuple[Mapping[str, Any], ...]:
    return version_steps(candidate.loaded, (*candidate.way.steps, candidate.way.model))


def _options(loaded: Loaded) -> Search:
    return cast(Search, loaded.config.search)  # there are candidates


def _cost(found: Mapping[int, Judgement], candidate: Candidate) -> float:
    """The key by which tasks are ordered: those that took longest on the rung before begin first."""
    return -found[candidate.number].cpu if candidate.number in found else 0.0


def _row(candidate: Candidate, judgement: Judgement, place: int) -> dict[str, Any]:
    """The facts about a candidate in the result."""
    return {
        "place": place,
        "candidate": candidate.number,
        "type": candidate.model["type"],
        "values": candidate.values,
        "rung": judgement.rung,
        "records": judgement.records,
        "accuracy": judgement.prequential.share,
        "held_out": judgement.held_out.share,
        "prequential_counts": asdict(judgement.prequential),
        "held_out_counts": asdict(judgement.held_out),
        "seconds": judgement.seconds,
        "cpu_seconds": judgement.cpu,
        "error": judgement.error,
    }


def _draw(out: Path, loaded: Loaded, candidates: Sequence[Candidate], judgements: Sequence[Judgement]) -> None:
    from millstream.study.plots.candidates import draw

    draw(loaded.config.name, candidates, judgements).savefig(out / PLOT, dpi=150, metadata={"Software": None})


def _remove_work(histories: Sequence[_History]) -> None:
    """Remove the records and states of a complete search; its plan, its cuts and its judgements stay."""
    for history in histories:
        remove_work(history.folder)
        shutil.rmtree(ordered_folder(history.folder), ignore_errors=True)
