"""Arrays: their type, and the number of rows from which on they are quicker than Python objects."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["FEW_ROWS", "Array"]

Array = np.ndarray[Any, Any]

FEW_ROWS = 16
"""Up to so many rows, a loop over Python objects is quicker than the calls that work on whole columns."""
