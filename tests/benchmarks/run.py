"""What `make bench` runs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"  # as the Makefile has it, before NumPy is imported
    sys.path[0] = str(Path(__file__).parents[1])
    from benchmarks.command import main

    raise SystemExit(main())
