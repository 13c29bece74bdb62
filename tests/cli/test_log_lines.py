"""Log lines of a run, and text of unknown origin that no terminal interprets and no log reveals."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.command_result import Millstream

HOSTILE = "\x1b]0;pwned\x07\x9b31m\u202e\u2028\nfake line\x7f"
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
WORDS = """\
name: words
source: {type: files, path: words.jsonl, fields: {text: text, label: label}}
pipeline: {use: text_topics, popularity: {window: {type: count, size: 20}, threshold: 0.1}}
engine: {type: local, epoch: {max_records: 20}}
"""
RULES = """\
import os
def fails(record):
    raise ValueError(f"cannot log in with {os.environ['SECRET']} for {record['label']}")
"""
FAILS = """\
name: fails
source: {type: files, path: words.jsonl, fields: {text: text, label: label}}
pipeline: {steps: [{type: map, function: "rules:fails"}]}
sinks: {rejects: {type: files, path: "${SECRET}/rejects"}}
engine: {type: local}
"""


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with configs over records whose labels have control characters; it is the current folder."""
    lines = [json.dumps({"text": f"word{n % 7}", "label": HOSTILE if n % 2 else "plain"}) for n in range(100)]
    (tmp_path / "words.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "words.yaml").write_text(WORDS)
    (tmp_path / "fails.yaml").write_text(FAILS)
    (tmp_path / "rules.py").write_text(RULES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "rules", raising=False)
    monkeypatch.setenv("SECRET", "s3cr3t-place")
    return tmp_path


def objects(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.usefixtures("demo")
def test_json_log_lines_have_time_level_pipeline_and_epoch(millstream: Millstream) -> None:
    ran = millstream("run", "demo.yaml", "--log", "json", "--verbose", "--json")
    assert ran.code == 0 and json.loads(ran.out)["records"] == 5000
    assert ran.err == ""  # with --json, only warnings
    ran = millstream("run", "demo.yaml", "--fresh", "--log", "json", "--verbose")
    lines = objects(ran.err)
    assert all(set(line) == {"time", "level", "pipeline", "epoch", "message"} for line in lines)
    assert {line["pipeline"] for line in lines} == {"demo"}
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"]) for line in lines)
    assert [line["time"] for line in lines] == sorted(line["time"] for line in lines)
    finished = [line for line in lines if line["message"] == "epoch 9 is finished: 500 records"]
    assert [(line["level"], line["epoch"]) for line in finished] == [("debug", 9)]
    assert {"debug", "info"} == {line["level"] for line in lines}


@pytest.mark.usefixtures("demo")
def test_the_error_that_ends_a_run_is_the_last_log_line(millstream: Millstream) -> None:
    ran = millstream("run", "demo.yaml", "--log", "json", "--replay", "nowhere")
    [*_, last] = objects(ran.err)
    assert (ran.code != 0, last["level"], last["pipeline"]) == (True, "error", "demo")
    assert "nowhere" in last["message"]
    assert [line["level"] for line in objects(millstream("run", "nothing.yaml", "--log", "json").err)] == ["error"]


@pytest.mark.usefixtures("demo")
def test_text_log_lines_have_the_same(millstream: Millstream) -> None:
    ran = millstream("run", "demo.yaml", "--log", "text")
    first = ran.err.splitlines()[0]
    assert re.fullmatch(r"\S+Z info demo - demo in runs/demo, exactly_once: starting", first)


@pytest.mark.usefixtures("demo")
def test_quiet_prints_nothing_of_a_run_that_works(millstream: Millstream) -> None:
    ran = millstream("run", "demo.yaml", "--quiet")
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert millstream("run", "demo.yaml", "-q", "-v").code == 2


def test_a_password_in_the_tracking_uri_is_not_printed(
    hostile: Path, millstream: Millstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://ann:s3cretpw@127.0.0.1:9")
    ran = millstream("run", "words.yaml", "--set", "mlflow={experiment: words}")
    assert ran.code == 0
    assert "warning: MLflow: " in ran.err and "the run continues without MLflow" in ran.err
    assert "s3cretpw" not in ran.err + ran.out


@pytest.mark.parametrize("options", [[], ["--debug"], ["--log", "json"], ["--log", "text"]])
def test_an_error_on_standard_error_has_no_secret_and_no_control_character(
    hostile: Path, millstream: Millstream, options: list[str]
) -> None:
    ran = millstream("run", "fails.yaml", *options)
    assert ran.code == 1
    assert "cannot log in with ${SECRET} for" in ran.err
    assert "s3cr3t-place" not in ran.err
    assert not CONTROLS.search(ran.err)
    assert not CONTROLS.search(millstream("status", "runs/fails").out)


def test_labels_are_printed_without_control_characters(hostile: Path, millstream: Millstream) -> None:
    outputs = [millstream("run", "words.yaml"), millstream("status", "runs/words"), millstream("audit", "runs/words")]
    predicted = millstream("predict", "runs/words", f"word1 {HOSTILE}")
    as_json = millstream("predict", "runs/words", f"word1 {HOSTILE}", "--json")
    for printed in (*outputs, predicted, as_json):
        assert printed.code == 0
        assert not CONTROLS.search(printed.out + printed.err)
    assert len(predicted.out.splitlines()) == len(as_json.out.splitlines()) == 1
    assert json.loads(as_json.out)["text"] == f"word1 {HOSTILE}"


def test_a_file_name_with_control_characters_is_written_out(hostile: Path, millstream: Millstream) -> None:
    (hostile / "bad\x1b[31m.yaml").write_text("name: [")
    for name in ("bad\x1b[31m.yaml", "no\x9bsuch.yaml", "no\u202esuch\u2028.yaml"):
        ran = millstream("validate", name)
        assert ran.code == 2 and not CONTROLS.search(ran.err)
    (hostile / "good\x1b[31m.yaml").write_text(WORDS)
    assert not CONTROLS.search(millstream("validate", "good\x1b[31m.yaml").out)


def test_rows_and_entries_on_a_terminal_have_no_control_characters(hostile: Path, millstream: Millstream) -> None:
    assert millstream("run", "words.yaml", "--json").code == 0
    (hostile / "lines").write_bytes(b"\x1b]0;pwned\x07\n")
    assert millstream("log", "import", "lines", "journal").code == 0
    commands: tuple[list[str], ...] = (["read", "runs/words", "predictions"], ["log", "cat", "journal"])
    for command in commands:
        assert not CONTROLS.search(on_terminal(*command).replace("\r\n", "\n"))
    piped = subprocess.run([sys.executable, "-m", "millstream", *commands[1]], capture_output=True, check=True)
    assert piped.stdout == b"\x1b]0;pwned\x07\n"  # a pipe gets the bytes


def on_terminal(*arguments: str) -> str:
    """The output of a command whose standard output is a terminal."""
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        process = subprocess.Popen([sys.executable, "-m", "millstream", *arguments], stdout=theirs)
        os.close(theirs)
        chunks = []
        try:
            while chunk := terminal.read(1 << 16):
                chunks.append(chunk)
        except OSError:  # the other end is closed
            pass
        assert process.wait() == 0
    return b"".join(chunks).decode()
