"""The command line in a shell: completion, and modules of the current folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.command_result import Millstream

from millstream.cli.module_path import current_folder_importable

PROGRAM = str(Path(sys.executable).with_name("millstream"))


def completed(words: str) -> list[str]:
    """The words that bash offers at the end of this line."""
    environment = {**os.environ, "_MILLSTREAM_COMPLETE": "bash_complete", "COMP_WORDS": words}
    environment["COMP_CWORD"] = str(len(words.split(" ")) - 1)
    ran = subprocess.run([PROGRAM], env=environment, capture_output=True, text=True, check=True)
    return [line.partition(",")[2] for line in ran.stdout.splitlines()]


@pytest.mark.parametrize(("words", "offered"), [("millstream va", "validate"), ("millstream run --wi", "--with")])
def test_the_shell_completes_commands_and_options(words: str, offered: str) -> None:
    assert completed(words) == [offered]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(shell: str) -> None:
    environment = {**os.environ, "_MILLSTREAM_COMPLETE": f"{shell}_source"}
    if shell == "bash" and not Path("/bin/bash").exists():
        pytest.skip("click asks bash for its version")
    ran = subprocess.run([PROGRAM], env=environment, capture_output=True, text=True, check=True)
    assert "_MILLSTREAM_COMPLETE" in ran.stdout


def test_a_function_of_the_current_folder_is_found_by_every_command(folder: Path) -> None:
    (folder / "own_rules.py").write_text("def keep(record):\n    return True\n")
    (folder / "own.yaml").write_text(
        "name: own\nsource: {type: files, path: news.jsonl, ends: true}\n"
        "pipeline: {steps: [{type: filter, function: 'own_rules:keep'}]}\nengine: {type: local, workers: 2}\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    for arguments in (["run", "own.yaml", "--json"], ["status", "runs/own"], ["read", "runs/own", "rejects"]):
        ran = subprocess.run([PROGRAM, *arguments], env=environment, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr


def test_the_module_path_is_as_before_after_a_command(
    tmp_path: Path, millstream: Millstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = list(sys.path)
    with current_folder_importable():
        assert sys.path == [*path, str(tmp_path)]
    millstream("ls")
    assert sys.path == path


def test_a_module_of_the_folder_replaces_no_module_of_python(
    tmp_path: Path, millstream: Millstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "yaml.py").write_text("raise ImportError('wrong module')\n")
    (tmp_path / "a.yaml").write_text("name: a\nsource: {type: generator}\npipeline: {use: text_topics}\n")
    ran = subprocess.run([PROGRAM, "validate", "a.yaml"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_the_safe_mode_of_python_is_respected(folder: Path) -> None:
    (folder / "own_rules.py").write_text("def keep(record):\n    return True\n")
    (folder / "own.yaml").write_text(
        "name: own\nsource: {type: generator}\npipeline: {steps: [{type: filter, function: 'own_rules:keep'}]}\n"
    )
    for safe, code in (("", 0), ("1", 2)):
        environment = {**os.environ, "PYTHONSAFEPATH": safe}
        ran = subprocess.run([PROGRAM, "validate", "own.yaml"], env=environment, capture_output=True, check=False)
        assert ran.returncode == code, ran.stderr
