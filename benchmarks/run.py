"""The command behind `make bench`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"  # as in the Makefile, before NumPy is imported
    sys.path[0] = str(Path(__file__).parents[1])
    if sys.argv[1:2] == ["--call"]:
        from benchmarks.kit.child import answer

        answer(*sys.argv[2:])
    else:
        from benchmarks.command import main

        raise SystemExit(main())
