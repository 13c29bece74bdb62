"""`make demo`: run configs/demo.yaml like `millstream run`, and print what to try next."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from millstream.cli import main

CONFIG = "configs/demo.yaml"


def suggest(millstream: str) -> str:
    return f"""
When did a topic become popular, and when was it no longer popular?
  {millstream} read runs/demo topics | grep '"changed": true'
Kill a run within an epoch, run it again, and see that the results are the same:
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
    from millstream.cli.report import program  # imports numpy, before which `main` sets the number of its threads

    print(suggest(program()))
