"""A Kafka sink in two phases: prepared by one process, and finished by it or by another."""

from __future__ import annotations

import json

import pytest
from connectors.kafka.sinking import SCHEMA, Sinking, epoch, mark, offsets_of

from millstream.errors import MillstreamError


@pytest.mark.kafka
@pytest.mark.parametrize("commit", [True, False])
def test_what_is_prepared_may_be_finished_by_somebody_else(sinking: Sinking, commit: bool) -> None:
    with sinking.opened() as dead:
        dead.append(epoch(0), mark(0))
        token = json.loads(json.dumps(dead.prepare(epoch(1), mark(1))))
        assert sinking.offsets() == offsets_of(0)
        with sinking.opened() as other:
            for _ in range(2):
                other.finish(token, commit=commit)
                assert other.mark() == mark(1 if commit else 0)
            with pytest.raises(MillstreamError, match="no longer there" if not commit else "cannot be taken back"):
                other.finish(token, commit=not commit)
            other.append(epoch(2), mark(2))
            for _ in range(2):
                other.finish(token, commit=commit)
    assert sinking.offsets() == offsets_of(*(0, 1, 2) if commit else (0, 2))


@pytest.mark.kafka
def test_finishing_an_older_epoch_does_not_end_the_one_that_is_prepared(sinking: Sinking) -> None:
    with sinking.opened() as sink, sinking.opened() as other:
        token = sink.prepare(epoch(0), mark(0))
        sink.commit()
        sink.prepare(epoch(1), mark(1))
        other.finish(token)
        assert sinking.offsets() == offsets_of(0)
        sink.commit()
    assert sinking.offsets() == offsets_of(0, 1)


@pytest.mark.kafka
def test_an_epoch_without_rows_is_prepared_and_finished_for_nothing(sinking: Sinking) -> None:
    with sinking.opened() as sink:
        token = sink.prepare(SCHEMA.empty_table(), mark(0))
        sink.finish(token)
        sink.commit()
        assert sink.mark() == mark(0)
