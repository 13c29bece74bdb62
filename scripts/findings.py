"""The findings from start to end: `make findings` runs all studies, and writes what docs/findings.md shows.

    make findings                                   the six studies on generated text
    make findings NEWS=news.parquet AG_NEWS=ag_news.jsonl.gz     and on text of your own

NEWS is a file with the columns `text`, `label` and `time`, AG_NEWS one with `text` and `label`. Of them, only figures
get into docs/findings. Finished trials in studies/ are not run again. Without the files, their tables stay.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import millstream as ms
from millstream.study.collection import open_collection
from millstream.study.evidence import AccuracyRow, evidence_text
from millstream.study.study_file import load_study
from scripts.findings_page import texts, write_page
from scripts.findings_tables import FOLDER, ROOT, cell_rows, chosen, prequential_rows, read_rows, shift_rows, write_rows
from scripts.small_images import write_small

STUDIES = ("impact", "lateness", "state", "prequential", "published", "quick")
SHOWN = {
    "impact": ("share_bias", "accuracy_difference"),
    "lateness": ("late_repeats",),
    "state": ("stale_state",),
    "published": ("earlier_work",),
    "quick": ("output_and_state",),
}
"""The plots that the page shows, of the studies on generated text."""
EVIDENCE = ROOT / "platform/millstream/study/evidence.json"


FEWER = {"lateness": 8, "state": 5}
"""The seeds on news of studies with many trials, which take twice as long there."""


def source(path: Path, *, times: bool) -> dict[str, Any]:
    fields = {"text": "text", "label": "label", **({"time": "time"} if times else {})}
    return {"type": "files", "path": str(path.resolve()), "fields": fields}


def published_topics(collection: Path) -> dict[str, Any]:
    """The topics of `published.yaml` in other text: the two most common labels, and the third one as the rare topic."""
    found = open_collection(collection)
    common = np.argsort(-np.bincount(found.labels), kind="stable")
    first, second, rare = (found.names[number] for number in common[:3])
    return {
        "streams.two_topics.labels": [first, second],
        "streams.popularity.label": rare,
        "streams.race.labels": [first, second],
        "streams.race.label": second,
        "failures.0.topic": first,
        "failures.1.topic": second,
    }


def run(study: str, name: str, sets: Mapping[str, Any]) -> ms.Study:
    """Run the trials of a study that its folder lacks, and print the progress."""
    print(f"{name}", flush=True)
    shown = 0

    def watch(progress: Any) -> None:
        nonlocal shown
        if progress.finished >= min(shown + 500, progress.trials) and progress.finished > shown:
            shown = progress.finished
            print(f"  {shown:,} of {progress.trials:,} trials", file=sys.stderr, flush=True)

    return ms.compare(ROOT / f"configs/studies/{study}.yaml", out=ROOT / "studies" / name, set=sets, watch=watch)


def write_figures(study: str, name: str, found: ms.Study) -> None:
    """Write the rows of a study that the page is made of."""
    if study == "prequential":
        write_rows(name, prequential_rows(found.table))
    elif study == "published":
        write_rows(name, shift_rows(found.table))
    else:
        write_rows(name, cell_rows(found.cells))


def write_plots(study: str, found: ms.Study) -> None:
    """Copy the plots that the page shows, with few colours, so that the files are small."""
    for plot in SHOWN.get(study, ()):
        file = FOLDER / f"{study}-{plot}.png"
        with Image.open(found.path / "plots" / f"{plot}.png") as made:
            write_small(made, file, colours=64)


ONLY_SHARES = {
    "learners": {"most_common_label": {"type": "majority"}},
    "treatments": ["at_least_once", "at_most_once"],
    "seeds": 200,
}
"""`impact.yaml` for the shares of true labels alone, in which the learner has no part: a quick one, and many seeds."""


OTHER_LIBRARIES = {
    "streams": {"iid": {"order": "iid"}},
    "learners": {
        "nb": {"type": "naive_bayes"},
        "river_nb": {"type": "river_nb"},
        "sklearn_nb": {"type": "multinomial_nb", "batch_size": 256},
        "softmax": {"type": "softmax", "rate": "constant", "learning_rate": 1},
        "sklearn_sgd": {"type": "sgd", "batch_size": 256},
    },
    "failures": [{"span": 600, "share": 0.24}],
    "treatments": ["at_least_once", "at_most_once"],
    "margins": {"iid": 0.002},
    "seeds": 5,
}
"""A part of `impact.yaml` with the learners of River and scikit-learn, which take seconds a trial, beside ours."""


def generated() -> None:
    for study in STUDIES:
        found = run(study, study, {})
        write_figures(study, study, found)
        write_plots(study, found)
        if study == "impact":
            write_figures(study, "shares", run(study, "shares", ONLY_SHARES))
            write_figures(study, "libraries", run(study, "libraries", OTHER_LIBRARIES))


def news(path: Path) -> None:
    for study in STUDIES:
        sets: dict[str, Any] = {"data.source": source(path, times=True)}
        sets |= {"seeds": FEWER[study]} if study in FEWER else {}
        sets |= published_topics(ROOT / "studies/impact-news/collection.arrow") if study == "published" else {}
        write_figures(study, f"{study}-news", run(study, f"{study}-news", sets))
        if study == "impact":
            write_figures(study, "shares-news", run(study, "shares-news", {**sets, **ONLY_SHARES}))


def ag_news(path: Path) -> None:
    sets = {
        "data.source": source(path, times=False),
        "data.records": 24_000,
        "data.holdout": 6_000,
        "streams": {"iid": {"order": "iid"}},
    }
    write_figures("prequential", "prequential-ag_news", run("prequential", "prequential-ag_news", sets))


def accuracy_evidence() -> list[AccuracyRow]:
    """The effects of the deliveries in `impact.yaml`, for `millstream advise`."""
    learners = load_study(ROOT / "configs/studies/impact.yaml").study.learners
    return [
        AccuracyRow(
            learner=learners[row["learner"]].model_dump(mode="json"),
            stream=f"{text}, {row['stream']}",
            delivery=row["treatment"],
            dose=row["affected"],
            difference=100 * row["difference"],
            half_width=50 * (row["difference_high"] - row["difference_low"]),
            seeds=row["seeds"],
        )
        for end, text in texts("impact").items()
        for row in chosen(read_rows(f"impact{end}"), treatment=("at_least_once", "at_most_once"))
    ]


def main(arguments: Sequence[str]) -> None:
    given = dict(argument.split("=", 1) for argument in arguments)
    generated()
    if path := given.get("NEWS"):
        news(Path(path))
    if path := given.get("AG_NEWS"):
        ag_news(Path(path))
    write_page()
    EVIDENCE.write_text(evidence_text(accuracy_evidence(), "make findings"))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main(sys.argv[1:])
