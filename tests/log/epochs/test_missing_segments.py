"""Missing, cut and damaged segments of the epoch log: each one is refused, and none is read as a gap."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from support.epoch_logs import EPOCHS, compact, filled

from millstream.errors import AlteredLog
from millstream.log.epochs import EpochLog, EpochReader
from millstream.log.journal.segment import first_indexes, segment_path


def test_segments_that_a_user_removed_are_missed(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.close()
    segment_path(tmp_path, 0).unlink()
    with pytest.raises(AlteredLog, match="epoch 0 is missing: the first segment that is left begins with epoch"):
        EpochReader(tmp_path).epochs()


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Torn, or with a flipped bit."""
    at = rng.randrange(1, len(data))
    return data[:at] if rng.random() < 0.5 else data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]


def test_a_damaged_compacted_segment_is_refused_and_never_read_as_a_gap(tmp_path: Path) -> None:
    log = filled(tmp_path)
    compact(log)
    log.close()
    path, rng = segment_path(tmp_path, first_indexes(tmp_path)[1]), random.Random(0)
    whole = path.read_bytes()
    for _ in range(300):
        path.write_bytes(damaged(whole, rng))
        with pytest.raises(AlteredLog, match=path.name):
            list(EpochReader(tmp_path).epochs(0))
    path.write_bytes(whole)
    assert len(list(EpochReader(tmp_path).epochs())) == EPOCHS


def compacted(folder: Path) -> list[Path]:
    """The segments of a closed log in which all segments except the newest one are compacted."""
    log = filled(folder)
    compact(log)
    log.close()
    return [segment_path(folder, first) for first in first_indexes(folder)]


@pytest.mark.parametrize("opening", [EpochLog, EpochReader])
def test_a_missing_newest_segment_is_named_and_not_the_compacted_one_before(
    tmp_path: Path, opening: Callable[[Path], object]
) -> None:
    *_, before, newest = compacted(tmp_path)
    newest.unlink()
    with pytest.raises(AlteredLog, match=rf"^{re.escape(str(newest))} is gone: the segment before it, {before.name}"):
        opening(tmp_path)
    assert before.exists()


def test_a_check_of_the_segments_misses_each_one_that_is_gone_or_cut(tmp_path: Path) -> None:
    first, *others, _ = compacted(tmp_path / "log")
    reader, rng = EpochReader(tmp_path / "log"), random.Random(0)
    reader.check_segments()
    for path in (first, *others):
        whole = path.read_bytes()
        path.unlink()
        with pytest.raises(AlteredLog, match="epoch 0 is missing" if path == first else f"^{path} is gone: "):
            reader.check_segments()
        for size in (*rng.sample(range(len(whole)), 20), len(whole) - 1):
            path.write_bytes(whole[:size])
            with pytest.raises(AlteredLog, match=f"^{path} "):
                reader.check_segments()
        path.write_bytes(whole + b"more")
        with pytest.raises(AlteredLog, match=f"^{path} was cut or damaged"):
            reader.check_segments()
        path.write_bytes(whole)
    reader.check_segments()
