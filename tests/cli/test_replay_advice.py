"""The advice of a refused replay can be followed: the run starts over with the delivery that the step allows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

DRAW = "import random\n\ndef draw(record):\n    return {'text': str(random.random())}\n"
CONFIG = """\
name: drawing
source: {{type: generator, records: 30}}
pipeline:
  steps:
    - {{type: map, function: "drawing:draw"{option}}}
    - {{type: classify, model: {{type: majority}}}}
guarantee: {{delivery: {delivery}}}
engine: {{type: local, epoch: {{max_records: 10}}}}
"""


def run(folder: Path, delivery: str, option: str, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "drawing.py").write_text(DRAW)
    (folder / "drawing.yaml").write_text(CONFIG.format(delivery=delivery, option=option))
    words = [sys.executable, "-m", "millstream", "run", "drawing.yaml", *options]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)


def test_a_step_that_draws_at_random_is_refused_and_starts_over_with_another_delivery(tmp_path: Path) -> None:
    run(tmp_path, "exactly_once", "", "--crash", "process@1")
    refused = run(tmp_path, "exactly_once", "")
    assert refused.returncode == 1
    assert "epoch 1 differs on its replay: " in refused.stderr
    assert "say `deterministic: false` and choose another delivery; then start over with --fresh" in refused.stderr
    begun = run(tmp_path, "at_least_once", ", deterministic: false", "--fresh")
    assert begun.returncode == 0, begun.stderr
