"""The tf-idf weights of documents that are split into words, counted by word and collected by document."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from sklearn.feature_extraction.text import TfidfVectorizer
from support.documents import write_documents
from support.pipelines import Pipeline

from millstream.engines.local.engine import LocalEngine
from millstream.state.checkpoints import read_newest
from millstream_pipelines.tf_idf import collect, count, words

CONFIG = yaml.safe_load((Path(__file__).parents[2] / "configs/documents.yaml").read_text())
TEXTS = ["tide after tide", "the tide of the year", "", "a", "The year, the wind", "tide after tide"]


def weighed(texts: list[str]) -> Iterator[dict[str, float]]:
    """The weights of each text, by a loop in place of the steps."""
    counted: dict[str, int] = {}
    for text in texts:
        state: Any = None
        for word in words({"text": text}):
            change, counted[word["word"] or ""] = count(word, counted.get(word["word"] or ""))
            made, state = collect({**word, **change}, state)
        assert state is None, "with the last word, the document is complete"
        yield json.loads(made[0]["weights"])


def test_the_weights_are_those_of_scikit_learn_over_the_documents_so_far() -> None:
    found = list(weighed(TEXTS))
    for number, weights in enumerate(found, 1):
        vectorizer = TfidfVectorizer(norm=None)
        expected = vectorizer.fit_transform(TEXTS[:number]).toarray()[-1]
        names = vectorizer.get_feature_names_out()
        assert weights == pytest.approx({names[at]: expected[at] for at in np.flatnonzero(expected)}), number
    assert found[2] == found[3] == {}


def test_a_document_that_is_not_complete_waits_and_gives_no_record() -> None:
    *first, last = words({"text": "tide after tide"})
    state: Any = None
    for word in first:
        made, state = collect({**word, "documents": "1"}, state)
        assert made == [] and state
    assert collect({**last, "documents": "1"}, state)[1] is None


def test_all_words_come_back_within_the_epoch_of_their_document(tmp_path: Path) -> None:
    """So no state of a document is in a checkpoint, and a document is complete when its epoch is."""
    write_documents(tmp_path / "documents", records=40)
    sinks = {"collected": {"type": "files", "format": "jsonl"}}
    steps = CONFIG["pipeline"]["steps"][:3]
    pipeline = Pipeline(tmp_path, LocalEngine(), steps=steps, sinks=sinks, epoch_records=7)
    for epochs in range(1, 3):
        pipeline.run("run", records=7)
        found = read_newest(tmp_path / "runs/run", lambda _, states: states)
        assert found is not None and dict(found["counted"])["*"] == b"%d" % (7 * epochs)
        assert not dict(found["collected"])
    paths = (tmp_path / "runs/run").glob("**/collected/*.jsonl")
    rows = [json.loads(line) for path in paths for line in path.read_text().splitlines()]
    assert len(rows) == 14 == len({(row["_partition"], row["_offset"]) for row in rows})
    assert all(row["_path"].endswith(".0") for row in rows)
