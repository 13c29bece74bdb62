"""One thread for BLAS and OpenMP in this process and in those that it starts, unless the environment says otherwise.

The import of this module sets the environment variable. The command line and the processes of workers import it before
numpy; a Python program that calls the API keeps its own setting.

Learners work on small mini-batches: there, BLAS threads cost up to ten times more than they save, and they change the
order of sums.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
