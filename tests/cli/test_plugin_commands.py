"""Commands that other packages add to `millstream`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Install = Callable[..., None]
Run = Callable[..., "subprocess.CompletedProcess[str]"]

GREET = """\
import click

@click.command()
def greet():
    "Say hello. And no more than that."
    click.echo("hello")
    return 5
"""


@pytest.fixture
def install(tmp_path: Path) -> Install:
    """Return a function that writes a package with commands into a folder that `run` searches."""

    def installed(package: str, source: str, **commands: str) -> None:
        metadata = tmp_path / f"{package}-1.0.dist-info"
        metadata.mkdir()
        (tmp_path / f"{package}.py").write_text(source)
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {package}\nVersion: 1.0\n")
        lines = "".join(f"{name} = {value}\n" for name, value in commands.items())
        (metadata / "entry_points.txt").write_text(f"[millstream.commands]\n{lines}")

    return installed


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Return a function that runs a command line in a process that sees the written packages."""

    def ran(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "millstream", *arguments]
        environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
        return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)

    return ran


def test_a_command_of_a_package_is_listed_after_ours_and_runs_like_ours(install: Install, run: Run) -> None:
    install("greeting", GREET, greet="greeting:greet")
    listed = run("--help").stdout
    assert re.search(r"^  greet +Say hello\.$", listed, re.MULTILINE)
    assert listed.index("  log  ") < listed.index("  greet  ")
    ran = run("greet")
    assert (ran.returncode, ran.stdout) == (5, "hello\n")
    assert "did you mean `greet`?" in run("gret").stderr


def test_a_command_with_the_name_of_ours_is_ignored(install: Install, run: Run) -> None:
    install("greeting", GREET, status="greeting:greet")
    assert run("--help").stdout.count("  status  ") == 1
    assert "Show the progress of RUN" in run("status", "--help").stdout


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import no_such_library", "cannot be imported: ModuleNotFoundError: No module named 'no_such_library'"),
        ("greet = 3", "is not a click command; its author has to register one"),
    ],
)
def test_a_broken_command_is_reported_and_harms_no_other(install: Install, run: Run, source: str, reason: str) -> None:
    install("wreck", source, greet="wreck:greet")
    listed = run("--help")
    assert listed.returncode == 0
    assert "Not usable" in listed.stdout
    assert run("schema").returncode == 0
    ran = run("greet")
    assert (ran.returncode, ran.stderr) == (2, f"millstream: the command 'greet' (wreck:greet of wreck) {reason}\n")


def test_two_packages_that_claim_one_name_are_both_named(install: Install, run: Run) -> None:
    install("left", GREET, greet="left:greet")
    install("right", GREET, greet="right:greet")
    ran = run("greet")
    assert ran.returncode == 2
    assert ran.stderr.endswith("both register the command 'greet'; uninstall one of them\n")
    assert "left:greet of left" in ran.stderr
    assert "right:greet of right" in ran.stderr
