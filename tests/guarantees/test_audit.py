"""The audit of rows from before the base, which the golden run does not have."""

from __future__ import annotations

import numpy as np
import pytest

from millstream.digests import Digest
from millstream.guarantees.audit import OutputAudit, OutputClass, audit_output
from millstream.steps.contracts import Array

EARLIER = Digest(3, 1 + 2 + 3, 0)
"""The rows 1, 2 and 3."""


def rows(*hashes: int) -> Array:
    return np.array(hashes, np.uint64)


def audited(*found: int, once: bool = True) -> OutputAudit:
    """Compare with the golden rows 10 and 11. The identity of a row is also its content."""
    return audit_output(rows(*found), rows(*found), rows(10, 11), rows(10, 11), EARLIER, once=once)


@pytest.mark.parametrize("found", [(1, 2, 3, 10, 11), (2, 10, 11), (10, 11)])
def test_rows_from_before_the_base_may_be_there_or_missing(found: tuple[int, ...]) -> None:
    assert audited(*found).kind is OutputClass.PRECISE


@pytest.mark.parametrize("found", [(3, 10, 98, 99, 11), (1, 2, 3, 98, 10, 11), (1, 2, 3, 3, 10, 11)])
def test_other_rows_in_the_place_of_those_from_before_the_base_are_noticed(found: tuple[int, ...]) -> None:
    audit = audited(*found)
    assert (audit.kind, audit.changed) == (OutputClass.DIVERGENT, 1)


def test_repeated_rows_from_before_the_base_are_no_difference_without_exactly_once() -> None:
    assert audited(1, 2, 3, 3, 10, 11, once=False).kind is OutputClass.PRECISE
    assert audited(1, 2, 3, 4, 10, 11, once=False).kind is OutputClass.DIVERGENT
