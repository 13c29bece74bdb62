"""Millstream: online-learning pipelines over text streams, with a delivery guarantee that each pipeline chooses."""

import os

__version__ = "0.1.0"

# Learners work in small blocks; BLAS threads cost up to ten times more than they give there, and change sums' order.
os.environ.setdefault("OMP_NUM_THREADS", "1")
