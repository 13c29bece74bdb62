"""kill -9 between two rounds of a cycle: the epoch is processed again from its beginning, and nothing shows."""

from __future__ import annotations

import json
import random
import signal
from pathlib import Path

import pytest
import yaml
from support.commands import LOCAL, Commands, same
from support.conditions import HANG_SECONDS
from support.killing_functions import ARMED

from millstream.log.epochs import EpochReader

_NOTES = 60
_SPREAD = "millstream_pipelines.label_propagation"


@pytest.fixture
def commands(tmp_path: Path) -> Commands:
    """A pipeline over notes that are a long chain: each shares a word with the next one, and some have a label."""
    order = random.Random(7).sample(range(_NOTES), _NOTES)
    notes = [
        {"id": f"n{each}", "text": f"chain{each} chain{each + 1}", "time": 1_700_000_000 + number}
        | ({"label": f"label {each}"} if each % 17 == 0 else {})
        for number, each in enumerate(order)
    ]
    (tmp_path / "notes.jsonl").write_text("".join(json.dumps(note) + "\n" for note in notes))
    keyed = {"type": "per_key", "children": True}
    steps = [
        {"type": "flat_map", "name": "words", "function": f"{_SPREAD}:words", "adds": ["word", "hops", "news"]},
        {**keyed, "name": "notes", "from": ["words", "shared"], "key": "id",
         "function": "support.killing_functions:document_that_kills"},
        {**keyed, "name": "shared", "from": "notes", "key": "word", "function": f"{_SPREAD}:word"},
        {"type": "filter", "name": "labels", "from": "notes", "function": f"{_SPREAD}:is_news"},
    ]  # fmt: skip
    config = {
        "name": "killed",
        "source": {"type": "files", "path": "notes.jsonl", "fields": {name: name for name in ("id", "text", "label")}},
        "pipeline": {"steps": steps},
        "sinks": {"labels": {"type": "files", "format": "jsonl"}},
        "engine": {"type": "local", "epoch": {"max_records": 20}},
    }
    (tmp_path / "pipeline.yaml").write_text(yaml.safe_dump(config))
    return Commands(tmp_path)


def rounds_of(run: Path) -> dict[int, int]:
    """The rounds of each epoch; those of a repetition are the same."""
    return {receipt.epoch: receipt.rounds["notes"] for receipt in EpochReader(run / "epochs").receipts()}


@pytest.mark.parametrize("workers", [1, 3])
def test_a_kill_between_two_rounds_repeats_the_epoch(
    commands: Commands, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    armed = commands.folder / "armed"
    monkeypatch.setenv(ARMED, str(armed))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    golden = commands.finish("golden")
    assert max(rounds_of(commands.folder / "golden").values()) > 5
    armed.touch()
    process = commands.start("run", *LOCAL, "--set", f"engine.workers={workers}")
    _, err = process.communicate(timeout=HANG_SECONDS)
    assert not armed.exists(), err
    assert process.returncode == (-signal.SIGKILL if workers == 1 else 0), err
    summary = commands.finish("run", "--set", f"engine.workers={workers}")
    same(summary, golden)
    assert rounds_of(commands.folder / "run") == rounds_of(commands.folder / "golden")
