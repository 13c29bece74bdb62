"""What `make demo` does: runs configs/demo.yaml as `millstream run` does, and says what to try next."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from millstream.cli import main
from millstream.cli.report import program

CONFIG = "configs/demo.yaml"


def tries(millstream: str) -> str:
    return f"""
When did a topic become popular, and when did it cease to be?
  {millstream} read runs/demo topics | grep '"changed": true'
Kill a run in the midst of an epoch, let it go on, and see that nothing of it shows:
  {millstream} run {CONFIG} --run runs/demo-crash --crash deliver@3
  {millstream} run {CONFIG} --run runs/demo-crash
  {millstream} audit runs/demo-crash
The same without Spark, in seconds: make demo ENGINE=local FRESH=1; the digests are the same.
Start over: make demo FRESH=1"""


if __name__ == "__main__":
    os.chdir(Path(__file__).parents[1])
    try:
        main(["run", CONFIG, *sys.argv[1:]])
    except SystemExit as end:
        if end.code:
            raise
    print(tries(program()))
