"""The type of arrays, and the number of rows above which array functions are faster than Python objects."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["FEW_ROWS", "Array"]

Array = np.ndarray[Any, Any]

FEW_ROWS = 16
"""Up to this number of rows, a loop over Python objects is faster than functions that work on whole columns."""
