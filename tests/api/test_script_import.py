"""Scripts that start a run while they are imported, as each worker process imports the script."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.conditions import HANG_SECONDS

BEGIN = """
import sys
import millstream as ms

config = ms.Config.from_file("news.yaml", set={"engine.workers": 2})
"""
UNGUARDED = {
    "run": "ms.run(config)",
    "start": "running = ms.start(config)\nif __name__ == '__main__': running.wait()",
    "audit": "if __name__ == '__main__': ms.run(config)\nms.open_run('runs/news').audit()",
    "an error that the script hides": "try: ms.run(config)\nexcept ms.MillstreamError as error: sys.exit(str(error))",
}


def script(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    (folder / "script.py").write_text(BEGIN + code)
    return subprocess.run(
        [sys.executable, "script.py"], cwd=folder, capture_output=True, text=True, timeout=HANG_SECONDS, check=False
    )


@pytest.mark.parametrize("name", UNGUARDED)
def test_a_run_outside_the_guard_is_an_error_that_names_the_script_and_the_line(folder: Path, name: str) -> None:
    done = script(folder, UNGUARDED[name])
    assert done.returncode == 1 and done.stderr.count("starts a run whenever it is imported") == 1, done.stderr
    last = done.stderr.splitlines()[-1]
    assert f"{folder}/script.py starts a run whenever it is imported" in last
    assert last.endswith('put the calls that start runs below `if __name__ == "__main__":`')
    assert sorted(path.name for path in (folder / "runs").iterdir()) == ["news"]


OWN_PROCESS = """
import multiprocessing

def nothing():
    pass

if __name__ == "__main__":
    process = multiprocessing.get_context("spawn").Process(target=nothing)
    process.start()
    process.join()
    sys.exit(process.exitcode)
ms.run(config)
"""


def test_a_process_of_the_program_starts_no_run_while_it_imports_the_script(folder: Path) -> None:
    done = script(folder, OWN_PROCESS)
    assert done.returncode == 1 and "the script starts a run whenever it is imported" in done.stderr.splitlines()[-1]
    assert not (folder / "runs").exists()


def test_a_run_below_the_guard_has_workers(folder: Path) -> None:
    done = script(folder, "if __name__ == '__main__': print(ms.run(config).summary.records)")
    assert (done.returncode, done.stdout) == (0, "192\n"), done.stderr


def test_a_script_on_standard_input_has_no_workers(folder: Path) -> None:
    def program(code: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-"]
        return subprocess.run(
            command, cwd=folder, input=BEGIN + code, capture_output=True, text=True, timeout=HANG_SECONDS, check=False
        )

    refused = program("if __name__ == '__main__': ms.run(config)")
    assert refused.returncode == 1 and "FileNotFoundError" not in refused.stderr
    assert "the script is no file (<stdin>): save the script in a file" in refused.stderr.splitlines()[-1]
    assert not (folder / "runs").exists()
    alone = program("print(ms.run(config, set={'engine.workers': 1}).summary.records)")
    assert (alone.returncode, alone.stdout) == (0, "192\n"), alone.stderr


def test_a_command_without_a_script_has_workers(folder: Path) -> None:
    command = [sys.executable, "-c", BEGIN + "print(ms.run(config).summary.records)"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=HANG_SECONDS, check=False)
    assert (done.returncode, done.stdout) == (0, "192\n"), done.stderr
