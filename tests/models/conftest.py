"""Small texts with topics, make from a seed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from millstream_models.hashed_text import HashedText

TOPICS = ("sport", "travel", "science", "business", "music")


def make_texts(size: int, topics: int = 4, seed: int = 0) -> pa.Table:
    """Records whose words mostly depend on their topic. Topics appear one by one; some records have no label."""
    dice = np.random.default_rng(seed)
    texts, labels = [], []
    for index in range(size):
        topic = int(dice.integers(0, min(topics, 1 + index // 5)))
        own = [f"{TOPICS[topic]}{number}" for number in dice.zipf(1.6, dice.integers(1, 8)) if number < 60]
        common = [f"word{number}" for number in dice.zipf(1.4, dice.integers(0, 12)) if number < 80]
        texts.append(" ".join(dice.permutation([*own, *common]).tolist()))
        labels.append(TOPICS[topic] if dice.random() < 0.95 else None)
    position = {"_rank": pa.array([0] * size, pa.int32()), "_offset": pa.array(range(size), pa.int64())}
    return pa.table({**position, "_time": pa.nulls(size, pa.int64()), "text": texts, "label": labels})


@pytest.fixture
def texts() -> Callable[..., pa.Table]:
    """Makes records with `text` and `label`: `texts(size, topics=4, seed=0)`."""
    return make_texts


@pytest.fixture
def features() -> Callable[..., pa.Table]:
    """Makes records with `features` of 512 dimensions too: `features(size, topics=4, seed=0)`."""

    def make(size: int, topics: int = 4, seed: int = 0) -> pa.Table:
        records = make_texts(size, topics, seed)
        return HashedText(dimensions=512).build(records.schema).process(records).records

    return make
