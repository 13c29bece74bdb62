"""Messages of Python's logging, also from worker processes, have the form of the command's messages and no secret."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

import millstream as ms
from millstream.cli.log_bridge import show_logging, verbose_logging
from millstream.cli.log_lines import Level
from millstream.config import plugins

VALUE = "s3cr3t-token"
HARMFUL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
PARTS = r"""
import logging, os, threading, warnings

TEXT = os.environ["TOKEN"] + " for \x1b[31mred\u202e\u2028\r\nmillstream: all is well"

def logs(record):
    if record["label"] == "first":
        logging.getLogger("millstream.parts").debug("a detail")
        logging.getLogger(__name__).info("not shown")
        logging.getLogger(__name__).warning("logged %s", TEXT)
        logging.error("of the root %s", TEXT)
        warnings.warn("warned " + TEXT)
        thread = threading.Thread(target=fails, args=(record,))
        thread.start()
        thread.join()
    return record

def fails(record):
    raise ValueError("raised " + TEXT)
"""
CONFIG = """
name: parts
source: {{type: files, path: words.jsonl, fields: {{text: text, label: label}}}}
pipeline:
  steps: [{{type: map, function: "parts:{function}", deterministic: true}}, {{type: classify, model: {model}}}]
sinks: {{predictions: {{type: files, path: "${{TOKEN}}/${{file:secret}}/predictions"}}}}
engine: {{type: local, epoch: {{max_records: 20}}}}
"""
MODEL = "{type: naive_bayes, features: {}}"
SUBJECTS = ("logged", "of the root", "warned", "raised")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, with configs whose functions log and raise secrets and harmful characters."""
    labels = ["first", *(["late"] * 40)]
    (tmp_path / "words.jsonl").write_text("".join(json.dumps({"text": "a", "label": each}) + "\n" for each in labels))
    (tmp_path / "parts.py").write_text(PARTS)
    (tmp_path / "secret").write_text("hush-hush")
    for function in ("logs", "fails"):
        (tmp_path / f"{function}.yaml").write_text(CONFIG.format(function=function, model=MODEL))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("TOKEN", VALUE)
    yield tmp_path
    sys.modules.pop("parts", None)
    plugins.load.cache_clear()


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    ran = subprocess.run([sys.executable, "-m", "millstream", *arguments], capture_output=True, text=True, check=False)
    assert VALUE not in ran.stdout + ran.stderr and "hush-hush" not in ran.stdout + ran.stderr
    assert not HARMFUL.search(ran.stdout + ran.stderr)
    assert not re.search("^millstream: all is well", ran.stdout + ran.stderr, re.MULTILINE)
    return ran


@pytest.mark.parametrize("workers", [1, 2])
def test_a_message_is_a_log_line_whatever_process_logs_it(workers: int) -> None:
    ran = command("run", "logs.yaml", "--set", f"engine.workers={workers}", "--log", "json", "--verbose")
    lines = [json.loads(line) for line in ran.stderr.splitlines()]
    assert {line["pipeline"] for line in lines} == {"parts"}
    for subject, level in zip(SUBJECTS, ("warning", "error", "warning", "error"), strict=True):
        [line] = [line for line in lines if f"{subject} ${{TOKEN}}" in line["message"]]
        assert line["level"] == level
    assert [line["level"] for line in lines if line["message"] == "a detail"] == ["debug"]
    assert "not shown" not in ran.stderr


@pytest.mark.parametrize(("workers", "form"), [(1, ["--log", "text"]), (2, [])])
def test_a_message_is_readable_without_harm(workers: int, form: list[str]) -> None:
    ran = command("run", "logs.yaml", "--set", f"engine.workers={workers}", *form)
    assert ran.returncode == 0
    for subject in SUBJECTS:
        assert f"{subject} ${{TOKEN}} for \\x1b[31mred\\u202e\\u2028\\x0d" in ran.stderr
    assert "a detail" not in ran.stderr


@pytest.mark.parametrize("options", [[], ["--debug"], ["--log", "text"], ["--set", "engine.workers=2"]])
def test_only_the_first_line_of_an_error_begins_at_the_margin(options: list[str]) -> None:
    ran = command("run", "fails.yaml", *options)
    assert ran.returncode == 1
    assert "raised ${TOKEN} for \\x1b[31mred\\u202e\\u2028\\x0d" in ran.stderr
    [*_, last] = [line for line in ran.stderr.splitlines() if not line.startswith("  ")]
    assert re.search("^Traceback|step 'map', function parts:fails", last)


def test_locations_have_no_secrets() -> None:
    assert "${TOKEN}/${file:secret}/predictions" in command("run", "logs.yaml").stdout
    for arguments in (["status", "runs/parts"], ["status", "runs/parts", "--json"], ["explain", "logs.yaml"]):
        assert "predictions" in command(*arguments).stdout


@pytest.mark.parametrize("options", [[], ["--json"], ["--trace"]])
def test_a_simulation_shows_no_secret(options: list[str]) -> None:
    ran = command("simulate", "fails.yaml", "--schedules", "1", *options)
    assert ran.returncode == 1 and "raised ${TOKEN} for" in ran.stdout


def test_a_wrong_config_shows_no_secret() -> None:
    for options in ([], ["--debug"]):
        ran = command("validate", "logs.yaml", "--set", "engine.epoch={max_records: '${TOKEN}'}", *options)
        assert ran.returncode == 2 and "engine.epoch.max_records" in ran.stderr


@pytest.mark.parametrize("changes", [{}, {"engine.workers": 2}, {"engine.epoch.max_records": "${TOKEN}"}])
def test_an_error_in_python_has_no_secret_in_its_traceback(changes: dict[str, object]) -> None:
    with pytest.raises(ms.MillstreamError) as raised:
        ms.run("fails.yaml", set=changes)
    shown = "".join(traceback.format_exception(raised.value))
    assert "TOKEN" in shown and VALUE not in shown


def test_a_program_gets_the_messages_of_workers_by_its_own_logging(caplog: pytest.LogCaptureFixture) -> None:
    (Path("parts.py")).write_text("import logging\ndef logs(record):\n    logging.getLogger('own').info('at work')\n")
    logging.getLogger("own").setLevel(logging.INFO)
    try:
        with pytest.raises(ms.MillstreamError):  # the function returns no record
            ms.run("logs.yaml", set={"engine.workers": 2})
    finally:
        logging.getLogger("own").setLevel(logging.NOTSET)
    assert ("own", logging.INFO, "at work") in caplog.record_tuples


def test_a_silent_library_stays_silent_and_ours_do_not() -> None:
    shown: list[tuple[Level, str]] = []
    ours, library, other = map(logging.getLogger, ("millstream.example", "library.part", "parts"))
    silence = logging.NullHandler()
    for logger in (logging.getLogger("library"), ours):
        logger.addHandler(silence)
    hook, show = threading.excepthook, warnings.showwarning
    with show_logging(lambda level, message: shown.append((level, message))):
        with verbose_logging():
            ours.debug("detail")
            assert other.level == library.level == logging.NOTSET
        ours.debug("after")
        library.warning("theirs")
        other.warning("a warning")
    other.warning("after")
    assert shown == [(Level.DEBUG, "detail"), (Level.WARNING, "a warning")]
    assert (threading.excepthook, warnings.showwarning) == (hook, show)
    for logger in (logging.getLogger("library"), ours):
        logger.removeHandler(silence)
