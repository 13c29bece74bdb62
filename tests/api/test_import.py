"""`import millstream`: its public names, and what the import leaves alone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import millstream as ms
from millstream import errors

PROGRAM = """
import logging, os, signal, sys, threading, warnings

def seen():
    handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
    loggers = {name: logging.getLogger(name).level for name in logging.root.manager.loggerDict}
    filters = [repr(each) for each in warnings.filters]
    return dict(os.environ), handlers, filters, loggers, logging.root.handlers[:], threading.active_count()

before = seen()
import millstream
assert seen() == before
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""
ALL_NAMES = """
import logging, os, signal, threading

def seen():
    handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
    ours = {name for name in logging.root.manager.loggerDict if name.partition(".")[0] == "millstream"}
    set_up = [name for name in ours if logging.getLogger(name).level or logging.getLogger(name).handlers]
    return dict(os.environ), handlers, set_up, logging.root.level, logging.root.handlers[:], threading.active_count()

before = seen()
import millstream as ms, millstream.plugin
for name in ms.__all__:
    getattr(ms, name)
pipeline = {"steps": [{"type": "map", "function": "os.path:join"}]}
ms.validate({"name": "a", "source": {"type": "generator"}, "pipeline": pipeline})
assert seen() == before, seen()
"""
HEAVY = {
    "click",
    "kafka",
    "mlflow",
    "multiprocessing",
    "numba",
    "numpy",
    "pyarrow",
    "pydantic",
    "pyspark",
    "rich",
    "yaml",
}


def test_the_public_names_are_one_sorted_list() -> None:
    assert ms.__all__ == sorted(ms.__all__)
    assert dir(ms) == ms.__all__
    for name in ms.__all__:
        assert getattr(ms, name) is not None


def test_the_public_names_are_those_of_the_contract() -> None:
    functions = {"advise", "compare", "explain", "open_run", "run", "start", "validate"}
    classes = {"Config", "Run", "Running", "Study"}
    kinds = {name for name in errors.__all__ if name != "DISK_FULL"}
    assert set(ms.__all__) == functions | classes | kinds | {"__version__"}
    assert all(getattr(ms, name) is getattr(errors, name) for name in kinds)


def test_a_name_that_is_not_public_is_no_attribute() -> None:
    for name in ("fork", "serve", "Options"):
        assert not hasattr(ms, name)


def test_the_import_changes_nothing_in_the_process_and_imports_no_library() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    imported = set(done.stdout.split())
    assert "millstream" in imported and not imported & HEAVY


def test_the_use_of_every_name_changes_no_setting_of_the_process() -> None:
    done = subprocess.run([sys.executable, "-c", ALL_NAMES], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_validation_imports_neither_pandas_nor_numba() -> None:
    config = Path(__file__).parents[2] / "configs/kafka.yaml"
    program = f"import sys, millstream as ms; print(ms.validate({str(config)!r}), *sys.modules)"
    problems, *imported = output_of(program).split()
    assert problems == "[]" and not {"pandas", "numba"} & set(imported)


def test_the_command_sets_the_number_of_blas_threads_and_a_program_keeps_its_own() -> None:
    program = "import os, millstream.api.execution; print(os.environ.get('OMP_NUM_THREADS'))"
    assert output_of(program) == "None"
    command = (
        "import os, millstream.cli as cli\ntry: cli.main(['--version'])\nfinally: print(os.environ['OMP_NUM_THREADS'])"
    )
    assert output_of(command).splitlines()[-1] == "1"


RULES = """
import os

def threads(record):
    raise ValueError(os.environ.get("OMP_NUM_THREADS"))
"""
WORKERS = """
import millstream as ms

if __name__ == "__main__":
    source = {"type": "generator", "records": 10}
    steps = [{"type": "map", "function": "rules:threads", "on_error": "reject"}]
    engine = {"type": "local", "workers": 2}
    run = ms.run({"name": "a", "source": source, "pipeline": {"steps": steps}, "engine": engine})
    print(*{row["reason"] for row in run.output("rejects").to_pylist()})
"""


def test_the_workers_of_a_program_have_one_blas_thread_each(folder: Path) -> None:
    (folder / "rules.py").write_text(RULES)
    (folder / "program.py").write_text(WORKERS)
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"ValueError: 1\b", done.stdout), done.stdout


def output_of(program: str) -> str:
    """The output of a program in a process whose environment does not set the number of threads."""
    code = f"import os; os.environ.pop('OMP_NUM_THREADS', None)\n{program}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()
