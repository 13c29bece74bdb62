"""The two phases of a Kafka sink: prepare in one process, commit or abort in the same process or another."""

from __future__ import annotations

import json

import pytest
from support.kafka.sink_topic import SCHEMA, SinkTopic, epoch, offsets_of, progress

from millstream.errors import MillstreamError


@pytest.mark.kafka
@pytest.mark.parametrize("commit", [True, False])
def test_another_process_may_finish_a_prepared_epoch(sink_topic: SinkTopic, commit: bool) -> None:
    with sink_topic.opened() as dead:
        dead.append(epoch(0), progress(0))
        token = json.loads(json.dumps(dead.prepare(epoch(1), progress(1))))
        assert sink_topic.offsets() == offsets_of(0)
        with sink_topic.opened(fenced=False) as other:
            for _ in range(2):
                other.finish(token, commit=commit)
                assert other.progress() == progress(1 if commit else 0)
            with pytest.raises(MillstreamError, match="no longer exist" if not commit else "cannot be aborted"):
                other.finish(token, commit=not commit)
            other.fence(0)
            other.append(epoch(2), progress(2))
            for _ in range(2):
                other.finish(token, commit=commit)
    assert sink_topic.offsets() == offsets_of(*(0, 1, 2) if commit else (0, 2))


@pytest.mark.kafka
def test_finishing_an_older_epoch_does_not_end_the_prepared_one(sink_topic: SinkTopic) -> None:
    with sink_topic.opened() as sink, sink_topic.opened(fenced=False) as other:
        token = sink.prepare(epoch(0), progress(0))
        sink.commit()
        sink.prepare(epoch(1), progress(1))
        other.finish(token)
        assert sink_topic.offsets() == offsets_of(0)
        sink.commit()
    assert sink_topic.offsets() == offsets_of(0, 1)


@pytest.mark.kafka
def test_an_epoch_without_rows_may_be_prepared_and_finished(sink_topic: SinkTopic) -> None:
    with sink_topic.opened() as sink:
        token = sink.prepare(SCHEMA.empty_table(), progress(0))
        sink.finish(token)
        sink.commit()
        assert sink.progress() == progress(0)
