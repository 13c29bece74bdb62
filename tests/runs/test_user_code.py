"""A function that changes between two starts is named by the second start and by the audit."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from millstream.config.load import load_config
from millstream.runs.user_code import user_code

CONFIG = """\
name: shout
source: {type: files, path: texts.jsonl, fields: {text: text, label: label}}
pipeline:
  steps:
    - {type: map, function: "rules:mark"}
    - {type: classify, model: {type: majority}}
engine: {type: local, epoch: {max_records: 5}}
"""
RULES = "def mark(record):\n    return {{'label': record['label'] + {mark!r}}}\n"


def prepare(folder: Path) -> None:
    (folder / "shout.yaml").write_text(CONFIG)
    write_rules(folder, "!")
    add_texts(folder)


def write_rules(folder: Path, mark: str) -> None:
    (folder / "rules.py").write_text(RULES.format(mark=mark))


def add_texts(folder: Path) -> None:
    with (folder / "texts.jsonl").open("a") as file:
        file.writelines(json.dumps({"text": "a goal", "label": "sport"}) + "\n" for _ in range(10))


def command(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "millstream", *words]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done


def test_a_start_warns_of_a_changed_function_and_an_audit_names_it(tmp_path: Path) -> None:
    prepare(tmp_path)
    assert "changed" not in command(tmp_path, "run", "shout.yaml").stderr
    add_texts(tmp_path)
    write_rules(tmp_path, "?")
    warned = "the code of rules:mark changed since the last start: it makes the epochs from 2 on; --fresh starts over"
    assert warned in command(tmp_path, "run", "shout.yaml").stderr
    assert "changed" not in command(tmp_path, "run", "shout.yaml").stderr
    audited = command(tmp_path, "audit", "runs/shout").stdout
    assert "divergent" in audited
    assert "rules:mark: its code changed during the run: epoch 2 is the first with it, so differences" in audited
    write_rules(tmp_path, "!")
    assert "rules:mark: its code changed since the last start" in command(tmp_path, "audit", "runs/shout").stdout


def test_an_audit_of_unchanged_functions_names_none(tmp_path: Path) -> None:
    prepare(tmp_path)
    command(tmp_path, "run", "shout.yaml")
    audited = json.loads(command(tmp_path, "audit", "runs/shout", "--json").stdout)
    assert audited["class"] == {"state": "precise", "output": "precise"} and audited["changed_code"] == {}


def test_the_code_of_millstream_itself_is_not_the_users(tmp_path: Path) -> None:
    prepare(tmp_path)
    (tmp_path / "plain.yaml").write_text("name: plain\nsource: {type: generator}\npipeline: {use: text_topics}\n")
    assert user_code(load_config(tmp_path / "plain.yaml").config) == {}
