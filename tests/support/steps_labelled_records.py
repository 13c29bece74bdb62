"""Records with a text and a label, for the checks of steps and models."""

from __future__ import annotations

import numpy as np
import pyarrow as pa


def labelled_records(size: int = 40) -> pa.Table:
    """Records of two partitions with random times from a fixed seed; a text repeats its label a few times."""
    dice = np.random.default_rng(0)
    labels = dice.choice(["a", "b", "c"], size).tolist()
    return pa.table(
        {
            "_rank": pa.array(dice.integers(0, 2, size), pa.int32()),
            "_offset": pa.array(range(size), pa.int64()),
            "_time": pa.array(dice.integers(0, 1000, size), pa.int64()),
            "text": [label * int(length) for label, length in zip(labels, dice.integers(1, 9, size), strict=True)],
            "label": labels,
        }
    )
