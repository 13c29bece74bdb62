"""Changes that a resumed run finds: it refuses each with one sentence, and never trains on it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.documents import EPOCH_RECORDS, EPOCHS, write_documents
from support.pipelines import InjectedCrash, Pipeline

from millstream.engines.local.engine import LocalEngine
from millstream.errors import AlteredLog, Contradiction, DifferentReplay, ForeignSink, StepFailed, Truncated
from millstream.guarantees.crash_point import CrashPoint
from millstream.guarantees.delivery import Delivery, Point
from millstream.log.epochs import EpochLog
from millstream.runs.directory import RunDirectory
from millstream.runs.outputs import load_run, outputs_of
from millstream_connectors.files.sink import PartFiles
from millstream_connectors.files.source import FilesLog


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    write_documents(tmp_path / "documents")
    return Pipeline(tmp_path, LocalEngine())


def rewrite(file: Path, line: int, **fields: str) -> None:
    """Change one document where it lies, its length kept."""
    lines = file.read_text().splitlines(keepends=True)
    document = json.loads(lines[line])
    document.update(fields)
    lines[line] = json.dumps(document) + "\n"
    file.write_text("".join(lines))


def test_a_file_that_was_altered_since(pipeline: Pipeline) -> None:
    pipeline.crash("run", CrashPoint(Point.CHECKPOINT, 4))
    rewrite(pipeline.folder / "documents/part1.jsonl", 3, text="something else")
    with pytest.raises(AlteredLog, match=r"source/part1\.jsonl was altered since this run read it"):
        pipeline.run("run")


def test_a_replay_of_a_run_whose_file_was_altered_since(pipeline: Pipeline) -> None:
    pipeline.run("run")
    rewrite(pipeline.folder / "documents/part1.jsonl", 3, text="something else")
    with pytest.raises(
        AlteredLog,
        match=r"source/part1\.jsonl was altered since the replayed run .*/runs/run read it .*; put it back, or replay",
    ) as refused:
        pipeline.run("again", replay=pipeline.folder / "runs/run")
    assert "fresh" not in str(refused.value)


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ({"source": {"path": "others"}}, 'path was "documents", is "others"; use the source of that run'),
        ({"source": {"type": "generator", "records": 400}}, 'type was "files", is "generator"; use the source of that'),
        ({"sources": {"news": {"type": "files", "path": "documents"}}}, "it read source, and this config reads news"),
    ],
)
def test_a_replay_of_a_run_with_another_source(pipeline: Pipeline, other: dict[str, Any], reason: str) -> None:
    pipeline.run("run")
    write_documents(pipeline.folder / "others", seed=9)
    for name, value in other.items():
        setattr(pipeline, name, value)
    with pytest.raises(Contradiction, match=f"runs/run cannot be replayed with another source: {reason}"):
        pipeline.run("again", replay=pipeline.folder / "runs/run")


def test_a_replay_may_read_a_copy_of_the_source(pipeline: Pipeline) -> None:
    first = pipeline.run("run")
    shutil.copytree(pipeline.folder / "documents", pipeline.folder / "others")
    pipeline.source = {"path": "others"}
    assert pipeline.run("again", replay=pipeline.folder / "runs/run").state == first.state


def test_a_file_that_was_cut_short(pipeline: Pipeline) -> None:
    pipeline.run("run")
    file = pipeline.folder / "documents/part0.jsonl"
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:-2]))
    with pytest.raises(AlteredLog, match=r"part0\.jsonl was altered"):
        pipeline.run("run")


def test_a_file_that_is_gone(pipeline: Pipeline) -> None:
    pipeline.run("run")
    (pipeline.folder / "documents/part0.jsonl").unlink()
    with pytest.raises(Contradiction, match=r"part0\.jsonl was read by this run and is gone"):
        pipeline.run("run")


def test_a_file_that_grew_is_read_on(pipeline: Pipeline) -> None:
    before = pipeline.run("run").records
    with (pipeline.folder / "documents/part0.jsonl").open("a") as file:
        file.write('{"text": "harbour1 harbour2", "label": "harbour"}\n')
    assert pipeline.run("run").records == before + 1


@pytest.mark.parametrize("delivery", [Delivery.EXACTLY_ONCE, Delivery.AT_LEAST_ONCE])
def test_an_input_that_comes_out_differently_on_replay(pipeline: Pipeline, delivery: Delivery) -> None:
    """Without the source's own check, as in a log without one, the digest of the epoch finds the change."""
    pipeline.delivery, pipeline.checkpoint_every, pipeline.commit_every = delivery, 4, 1
    pipeline.crash("run", CrashPoint(Point.DELIVER, 6))
    first = pipeline.folder / "documents/part0.jsonl"
    rewrite(first, 6 * 12 + 1, text="something else")
    (pipeline.folder / "runs/run/sources.json").unlink()
    with pytest.raises(AlteredLog, match=r"epoch 6 differs on its replay: in the source 'source'"):
        pipeline.run("run")


def test_an_epoch_log_that_lost_its_end(pipeline: Pipeline) -> None:
    pipeline.run("run")
    [part] = (pipeline.folder / "runs/run/epochs").glob("*.journal")
    content = part.read_bytes()
    part.write_bytes(content[: content.index(b'{"epoch":5')])
    with pytest.raises(AlteredLog, match="the log was truncated; start over with --fresh"):
        pipeline.run("run")


def test_an_epoch_log_with_a_flipped_bit(pipeline: Pipeline) -> None:
    pipeline.run("run")
    [part] = (pipeline.folder / "runs/run/epochs").glob("*.journal")
    content = bytearray(part.read_bytes())
    content[content.index(b'{"epoch":3') + 4] ^= 1
    part.write_bytes(content)
    with pytest.raises(AlteredLog, match=str(part)):
        pipeline.run("run")


def test_a_sink_with_rows_of_another_run(pipeline: Pipeline) -> None:
    pipeline.run("one")
    (pipeline.folder / "two-topics").mkdir()
    shutil.copytree(pipeline.folder / "one-topics", pipeline.folder / "two-topics", dirs_exist_ok=True)
    with pytest.raises(ForeignSink, match="sink 'topics' holds rows of another run's epoch log"):
        pipeline.run("two")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (
            {"delivery": Delivery.AT_MOST_ONCE},
            'the delivery changed .*: was "exactly_once", is "at_most_once"',
        ),
        ({"model": {"type": "sgd", "batch_size": 16}}, "the steps changed since the first start"),
        ({"window": {"type": "count", "size": 10}}, "the steps changed since the first start"),
    ],
)
def test_a_config_that_changed_in_what_is_fixed(pipeline: Pipeline, change: dict[str, object], named: str) -> None:
    pipeline.run("run")
    for name, value in change.items():
        setattr(pipeline, name, value)
    with pytest.raises(Contradiction, match=named):
        pipeline.run("run")


def test_what_may_change_between_starts(pipeline: Pipeline) -> None:
    pipeline.run("golden")
    pipeline.crash("run", CrashPoint(Point.DELIVER, 5))
    pipeline.checkpoint_every, pipeline.commit_every = 3, 2
    assert pipeline.run("run").outputs == pipeline.summary("golden").outputs


def test_a_run_that_stopped_at_the_most_records_of_a_join_goes_on_with_more(pipeline: Pipeline) -> None:
    short = {"type": "filter", "name": "short", "function": "support.user_functions:short", "rest": True}
    join = {"type": "join", "name": "both", "from": ["short", "short.rest"], "by": "label", "within": "1m"}
    pipeline.sinks = {"both": {"type": "files"}}
    pipeline.shards = 1  # a limit below 100 for each shard is refused
    pipeline.steps = [short, {**join, "most": 4}]
    with pytest.raises(StepFailed, match="raise `most` if the memory allows it"):
        pipeline.run("run")
    pipeline.steps = [short, {**join, "most": 6400, "within": "2m"}]
    with pytest.raises(Contradiction, match=r"steps changed since the first start: both\.within was "):
        pipeline.run("run")
    pipeline.steps = [short, {**join, "most": 6400}]
    assert pipeline.run("run").delivered["both"] > 20


RANDOM = """
import itertools
calls = itertools.count()
def restless(record):
    return {"text": record["text"] + f" call{next(calls)}"}
"""


def random_steps(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, name: str, **options: object) -> None:
    """Put a map that never does the same twice before the features."""
    (pipeline.folder / f"{name}.py").write_text(RANDOM)
    monkeypatch.syspath_prepend(str(pipeline.folder))
    pipeline.steps = [
        {"type": "map", "name": "restless", "function": f"{name}:restless", **options},
        {"type": "hashed_text", "dimensions": 256},
        {"type": "classify", "model": pipeline.model},
        {"type": "popularity", "window": pipeline.window},
    ]


def test_an_undeclared_random_step_is_caught_on_replay(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    random_steps(pipeline, monkeypatch, "undeclared")
    pipeline.checkpoint_every = 4
    pipeline.crash("run", CrashPoint(Point.DELIVER, 6))
    with pytest.raises(DifferentReplay, match=r"epoch 4 differs on its replay: step 'restless' .*--fresh"):
        pipeline.run("run")


def test_a_declared_random_step_runs_with_another_delivery(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    random_steps(pipeline, monkeypatch, "declared", deterministic=False)
    pipeline.delivery, pipeline.checkpoint_every = Delivery.AT_LEAST_ONCE, 4
    pipeline.crash("run", CrashPoint(Point.DELIVER, 6))
    assert pipeline.run("run").epochs == EPOCHS


@pytest.mark.parametrize("pattern", ["checkpoints/*.json", "layers/*.layer"])
def test_a_damaged_checkpoint_stops_the_run(pipeline: Pipeline, pattern: str) -> None:
    pipeline.crash("run", CrashPoint(Point.CHECKPOINT, 4))
    newest = max((pipeline.folder / "runs/run").glob(pattern))
    content = bytearray(newest.read_bytes())
    content[-40] ^= 1
    newest.write_bytes(content)
    with pytest.raises(AlteredLog, match=f"{newest.name} was altered"):
        pipeline.run("run")


def test_a_layer_that_is_gone_stops_the_run(pipeline: Pipeline) -> None:
    pipeline.crash("run", CrashPoint(Point.CHECKPOINT, 4))
    layer = max((pipeline.folder / "runs/run/layers").glob("*.layer"))
    layer.unlink()
    with pytest.raises(AlteredLog, match=f"{layer.name} is gone, and checkpoint 4 needs this layer; put the file back"):
        pipeline.run("run")


def test_a_run_directory_whose_making_was_interrupted_is_made_again(pipeline: Pipeline) -> None:
    golden = pipeline.run("golden")
    try:
        pipeline.run("run", crash="cut@0")
    except InjectedCrash:
        (pipeline.folder / "runs/run/run.json").unlink()  # as if it had died before this last file
    assert pipeline.run("run").outputs == golden.outputs


def test_a_folder_that_is_not_a_run_is_left_alone(pipeline: Pipeline) -> None:
    folder = pipeline.folder / "runs/run"
    folder.mkdir(parents=True)
    (folder / "thesis.txt").write_text("the only copy")
    with pytest.raises(Contradiction, match=r"holds thesis\.txt, which is not a file of a run"):
        pipeline.run("run")
    assert (folder / "thesis.txt").read_text() == "the only copy"


def test_a_sink_that_has_lost_its_rows_is_not_filled_again(pipeline: Pipeline) -> None:
    pipeline.crash("run", CrashPoint(Point.COMMIT, 4))
    shutil.rmtree(pipeline.folder / "runs/run/outputs/predictions")
    with pytest.raises(
        ForeignSink,
        match="got rows from this run, the last ones of epoch 4, but reports no progress",
    ):
        pipeline.run("run")


def test_a_sink_whose_rows_go_in_time_goes_on_where_a_checkpoint_proves_what_it_got(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PartFiles, "keeps", False)
    pipeline.run("run", records=4 * EPOCH_RECORDS)
    shutil.rmtree(pipeline.folder / "runs/run/outputs/predictions")
    delivered, noted = pipeline.run("run").delivered["predictions"], pipeline.counts("run")
    directory = RunDirectory.find(pipeline.folder / "runs/run")
    left = sum(rows.num_rows for rows in outputs_of(directory, load_run(directory))["predictions"].read())
    assert left == sum(noted[epoch]["predictions"] for epoch in range(4, EPOCHS))
    assert delivered == sum(noted[epoch]["predictions"] for epoch in range(EPOCHS))


def test_a_sink_whose_rows_go_in_time_is_not_guessed_to_have_the_last_ones(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PartFiles, "keeps", False)
    pipeline.crash("run", CrashPoint(Point.PROCESS, 4))
    shutil.rmtree(pipeline.folder / "runs/run/outputs/predictions")
    with pytest.raises(ForeignSink, match="but reports no progress"):
        pipeline.run("run")


def test_records_that_are_gone_and_have_to_be_replayed(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline.crash("run", CrashPoint(Point.DELIVER, 4))

    def resume(log: FilesLog, partition: str, wanted: int) -> int:
        if wanted < 5 * EPOCH_RECORDS // 2:
            raise Truncated(partition)
        return wanted

    monkeypatch.setattr(FilesLog, "resume", resume)
    with pytest.raises(Truncated, match=r"part0\.jsonl"):
        pipeline.run("run")


@pytest.mark.parametrize("pattern", ["epochs", "epochs/*.journal"])
def test_an_epoch_log_that_is_gone_is_named_and_no_sink_is_blamed(pipeline: Pipeline, pattern: str) -> None:
    pipeline.crash("run", CrashPoint(Point.COMMIT, 4))
    run = pipeline.folder / "runs/run"
    fixed = (run / "run.json").read_text()
    for path in run.glob(pattern):
        path.rename(pipeline.folder / path.name)
    with pytest.raises(AlteredLog, match=r"run/epochs, the folder with the epoch log of this run, is gone .* --fresh"):
        pipeline.run("run")
    pipeline.model = {"type": "sgd", "batch_size": 16}
    with pytest.raises(AlteredLog, match="run/epochs, the folder with the epoch log of this run, is gone"):
        pipeline.run("run")  # the log is gone, so another config is not that of a run without epochs
    assert (run / "run.json").read_text() == fixed
    with pytest.raises(ForeignSink, match=r"rows of the epoch log \w+, and this run.s, which may be the same, is gone"):
        pipeline.run("run", fresh=True)


def test_an_epoch_log_that_is_put_back_is_continued(pipeline: Pipeline) -> None:
    golden = pipeline.run("golden")
    pipeline.crash("run", CrashPoint(Point.COMMIT, 4))
    epochs = pipeline.folder / "runs/run/epochs"
    epochs.rename(pipeline.folder / "epochs")
    with pytest.raises(AlteredLog, match="put it back"):
        pipeline.run("run")
    (pipeline.folder / "epochs").rename(epochs)
    assert pipeline.run("run").outputs == golden.outputs


@pytest.fixture
def segments(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The segments of the epoch log of a run that has ended; the closed ones are compacted."""
    monkeypatch.setattr(EpochLog.__init__, "__defaults__", (None, 1500))
    for _ in range(EPOCHS):
        pipeline.run("run", records=EPOCH_RECORDS)
    found = sorted((pipeline.folder / "runs/run/epochs").glob("*.journal"))
    assert sum(path.read_bytes().startswith(b"MSPACK1") for path in found) > 2
    return found


@pytest.mark.parametrize("number", [0, 1, 2])
def test_an_old_segment_of_the_epoch_log_that_is_gone(pipeline: Pipeline, segments: list[Path], number: int) -> None:
    segments[number].unlink()
    message = rf"{segments[number].name} is gone" if number else "epoch 0 is missing: the first segment that is left"
    with pytest.raises(AlteredLog, match=message):
        pipeline.run("run")


def test_an_old_segment_of_the_epoch_log_that_was_cut(pipeline: Pipeline, segments: list[Path]) -> None:
    segments[1].write_bytes(segments[1].read_bytes()[:-1])
    with pytest.raises(AlteredLog, match=rf"{segments[1].name} was cut or damaged at byte"):
        pipeline.run("run")
