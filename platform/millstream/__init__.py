"""Millstream: online-learning pipelines over text streams, with a delivery guarantee that each pipeline chooses."""

import os

__version__ = "0.1.0"

# Learners work on small mini-batches: there, BLAS threads cost up to ten times more than they save, and they change the
# order of sums.
os.environ.setdefault("OMP_NUM_THREADS", "1")
