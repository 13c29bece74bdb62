"""The files of a backfill: their rows, bounds, gaps, and what a second call does."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.docs_pages import section, table
from support.documents import EPOCH_RECORDS, write_documents
from support.golden import Golden, GoldenRuns
from support.histories import HereSession
from support.pipelines import Pipeline

from millstream.engines.local.engine import LocalEngine
from millstream.errors import AlteredLog, ConfigError, Contradiction, Truncated
from millstream.history.backfill import backfill
from millstream.history.bounds import Bounds
from millstream.history.folder import Complete
from millstream.log.epochs import EpochReader
from millstream.log.journal import Journal
from millstream_models.hashed_text import HashedText

ORDER = ["_epoch", "_mended", "_phase"]


def run_of(golden: Golden) -> Path:
    return golden.pipeline.folder / "runs" / golden.run


def here(pipeline: Pipeline, out: Path, **options: Any) -> Complete:
    options = {"block_records": 30, **options}
    return backfill(pipeline.loaded("golden"), out, sessions=HereSession, **options)


def rows_of(out: Path) -> pa.Table:
    """All rows in the order of partitions and offsets."""
    tables = [pq.read_table(file).replace_schema_metadata(None) for file in sorted(out.glob("features/*/*.parquet"))]
    return pa.concat_tables(tables).sort_by([("_partition", "ascending"), ("_offset", "ascending")]).combine_chunks()


def files_of(out: Path) -> dict[Path, int]:
    return {file: file.stat().st_mtime_ns for file in out.rglob("*") if file.is_file() and "cache" not in file.parts}


@pytest.fixture
def golden(golden_runs: GoldenRuns) -> Golden:
    return golden_runs["counted_before"]


def test_rows_are_keyed_by_position_and_have_the_features_of_the_step(golden: Golden, tmp_path: Path) -> None:
    found = here(golden.pipeline, tmp_path / "out")
    rows = rows_of(tmp_path / "out")
    written = [path.read_text().splitlines() for path in sorted((golden.pipeline.folder / "documents").glob("*"))]
    whole = [(part, n, line) for part, lines in enumerate(written) for n, line in enumerate(lines) if line[-1] == "}"]
    assert rows.num_rows == found.result["rows"] == len(whole) == found.result["records"] - 1
    assert list(zip(rows["_partition"].to_pylist(), rows["_offset"].to_pylist(), strict=True)) == [
        (part, offset) for part, offset, _ in whole
    ]
    assert set(rows["_source"].to_pylist()) == {"source"}
    texts = pa.table({"text": [json.loads(line)["text"] for *_, line in whole]})
    expected = HashedText(dimensions=256).build(texts.schema).process(texts).records["features"]
    assert rows["features"].to_pylist() == expected.to_pylist()


def test_files_say_which_steps_made_them(golden: Golden, tmp_path: Path) -> None:
    found = here(golden.pipeline, tmp_path / "out")
    files = sorted((tmp_path / "out/features").glob("*/*.parquet"))
    assert len(files) == 2 * 3
    about = json.loads(pq.read_schema(files[0]).metadata[b"millstream"])
    assert (about["source"], about["partition"], about["block"]) == ("source", "part0.jsonl", 0)
    assert [step["name"] for step in about["steps"]] == ["features"]
    assert about["steps"][0]["dimensions"] == 256
    facts = json.loads((tmp_path / "out/backfill.json").read_text())
    assert facts["result"] == found.result
    assert {"numpy", "millstream"} <= facts["made_from"]["versions"].keys()


def test_the_files_of_the_folder_are_in_the_table_of_formats(golden: Golden, tmp_path: Path) -> None:
    here(golden.pipeline, tmp_path / "out")
    rows = table(section("docs/internals/formats.md", "## The folder of a backfill"), "file")
    shown = {name.strip("`/ ") for row in rows for name in row[0].split(",")}
    of_spark = {"spark.log", "spark.log4j2.properties"}
    assert {file.name for file in (tmp_path / "out").iterdir()} == shown - of_spark - {"legs"}


def test_features_do_not_depend_on_the_cuts(golden: Golden, tmp_path: Path) -> None:
    here(golden.pipeline, tmp_path / "replayed", replay=run_of(golden))
    here(replace(golden.pipeline, epoch_records=7), tmp_path / "bounded", block_records=50)
    replayed, bounded = rows_of(tmp_path / "replayed"), rows_of(tmp_path / "bounded")
    assert max(bounded["_epoch"].to_pylist()) > max(replayed["_epoch"].to_pylist())
    assert replayed.drop_columns(ORDER).equals(bounded.drop_columns(ORDER))


def test_the_report_says_which_cuts_were_taken(golden: Golden, tmp_path: Path) -> None:
    replayed = here(golden.pipeline, tmp_path / "replayed", replay=run_of(golden)).result
    bounded = here(golden.pipeline, tmp_path / "bounded").result
    assert (replayed["cuts"], replayed["same_as_run"]) == (EpochReader(run_of(golden) / "epochs").id, True)
    assert bounded["cuts"] == "bounded" and "same_as_run" not in bounded
    assert replayed["digests"] == bounded["digests"]


def test_a_second_call_does_nothing(golden: Golden, tmp_path: Path) -> None:
    first = here(golden.pipeline, tmp_path / "out")
    before = files_of(tmp_path / "out")
    again = here(golden.pipeline, tmp_path / "out")
    assert (first.was_there, again.was_there, again.result) == (False, True, first.result)
    assert files_of(tmp_path / "out") == before


@pytest.mark.parametrize("change", ["dimensions", "cuts", "bounds"])
def test_a_folder_of_something_else_is_refused(golden: Golden, tmp_path: Path, change: str) -> None:
    here(golden.pipeline, tmp_path / "out")
    pipeline, options = golden.pipeline, dict[str, Any]()
    if change == "dimensions":
        assert pipeline.steps is not None
        pipeline = replace(pipeline, steps=[{**pipeline.steps[0], "dimensions": 512}, *pipeline.steps[1:]])
    elif change == "cuts":
        options["replay"] = run_of(golden)
    else:
        options["bounds"] = Bounds(first=2)
    with pytest.raises(Contradiction, match=r"is a backfill of something else: .*choose another --out"):
        here(pipeline, tmp_path / "out", **options)


def test_a_folder_with_other_files_is_refused_and_stays_as_it_is(golden: Golden, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(Contradiction, match=r"holds notes.txt, which is not of a backfill"):
        here(golden.pipeline, tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]


def test_bounds_by_epoch_and_by_offset(golden: Golden, tmp_path: Path) -> None:
    here(golden.pipeline, tmp_path / "whole", replay=run_of(golden))
    whole = rows_of(tmp_path / "whole").to_pylist()
    bounds = Bounds.parse(["2", "source/part1.jsonl:40"], ["6"])
    here(golden.pipeline, tmp_path / "part", replay=run_of(golden), bounds=bounds)
    part = rows_of(tmp_path / "part").to_pylist()
    assert part == [row for row in whole if 2 <= row["_epoch"] < 6 and (row["_partition"] == 0 or row["_offset"] >= 40)]
    assert len(part) < 4 * EPOCH_RECORDS
    with pytest.raises(ConfigError, match=r"no partition 'source/part9.jsonl'; did you mean"):
        here(golden.pipeline, tmp_path / "none", bounds=Bounds.parse([], ["source/part9.jsonl:4"]))
    with pytest.raises(ConfigError, match=r"--from 500: the history has no such epoch; its last one is \d+"):
        here(golden.pipeline, tmp_path / "later", bounds=Bounds.parse(["500"], []))


@pytest.mark.parametrize("text", ["x", "news:5", "-1", "news/a:x"])
def test_a_wrong_bound_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is neither an epoch"):
        Bounds.parse([text], [])


@pytest.mark.parametrize(
    ("begin", "end", "message"),
    [
        (["7"], ["7"], "--from 7 is not before --to 7: no record is between them"),
        (["news/a:100"], ["news/a:50"], "--from news/a:100 is not before --to news/a:50"),
    ],
)
def test_bounds_with_nothing_between_them_are_refused(begin: list[str], end: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Bounds.parse(begin, end)


def journal_pipeline(folder: Path) -> Pipeline:
    """A pipeline over a journal with four segments of 25 documents."""
    write_documents(folder / "documents", files=1, records=100)
    lines = (folder / "documents/part0.jsonl").read_bytes().splitlines()
    with Journal(folder / "journal") as journal:
        for start in range(0, 100, 25):
            if start:
                journal.roll()
            journal.append_many(lines[start : start + 25])
    source = {"type": "journal", "path": "journal"}
    return Pipeline(folder, LocalEngine(), source=source, placement={}, keep=None)


def drop_oldest(folder: Path) -> None:
    with Journal(folder / "journal") as journal:
        journal.drop_oldest()


def test_offsets_that_retention_removed_are_reported(tmp_path: Path) -> None:
    pipeline = journal_pipeline(tmp_path)
    drop_oldest(tmp_path)
    result = here(pipeline, tmp_path / "out").result
    assert result["gaps"] == [{"source": "source", "name": "0", "start": 0, "stop": 25}]
    assert result["records"] == 75
    assert min(rows_of(tmp_path / "out")["_offset"].to_pylist()) == 25


def test_a_replay_of_offsets_that_are_gone_is_refused_with_the_positions(tmp_path: Path) -> None:
    pipeline = journal_pipeline(tmp_path)
    pipeline.run("golden")
    drop_oldest(tmp_path)
    with pytest.raises(Truncated, match=r"begins with entry 25, and entry 0 is wanted"):
        here(pipeline, tmp_path / "out", replay=tmp_path / "runs/golden")


def test_a_folder_without_cuts_may_be_used_for_something_else(tmp_path: Path) -> None:
    pipeline = journal_pipeline(tmp_path)
    pipeline.run("golden")
    drop_oldest(tmp_path)
    with pytest.raises(Truncated):
        here(pipeline, tmp_path / "out", replay=tmp_path / "runs/golden")
    assert here(pipeline, tmp_path / "out").result["records"] == 75


def test_retention_during_a_backfill_is_an_error_that_names_the_offset(tmp_path: Path) -> None:
    pipeline = journal_pipeline(tmp_path)

    def drop(progress: object) -> None:
        if getattr(progress, "finished", 0) == 1:
            drop_oldest(tmp_path)

    with pytest.raises(Truncated, match=r"entry 0 was dropped; the first entry that is left is 25"):
        here(pipeline, tmp_path / "out", watch=drop)


@pytest.mark.parametrize("complete", [True, False])
def test_another_log_is_refused(tmp_path: Path, complete: bool) -> None:
    write_documents(tmp_path / "documents")
    pipeline = Pipeline(tmp_path, LocalEngine())
    here(pipeline, tmp_path / "out")
    if not complete:
        file = tmp_path / "out/backfill.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), "result": None}))
    write_documents(tmp_path / "documents", seed=4)
    with pytest.raises(AlteredLog, match=r"source/part0.jsonl is another log, or was altered since"):
        here(pipeline, tmp_path / "out")


def test_a_run_of_another_log_is_refused(golden: Golden, tmp_path: Path) -> None:
    write_documents(tmp_path / "documents", seed=4)
    other = replace(golden.pipeline, folder=tmp_path)
    with pytest.raises(AlteredLog, match=r"source/part0.jsonl was altered since the run .* read it"):
        here(other, tmp_path / "out", replay=run_of(golden))


def test_values_from_the_environment_are_in_no_file_and_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLACE", "place-4711")
    write_documents(tmp_path / "place-4711")
    steps: list[dict[str, Any]] = [{"type": "hashed_text"}, {"type": "classify", "model": {"type": "naive_bayes"}}]
    pipeline = Pipeline(tmp_path, LocalEngine(), steps=steps, source={"path": "${PLACE}"}, placement={}, sinks={})
    here(pipeline, tmp_path / "out")
    for file in (tmp_path / "out").rglob("*"):
        assert file.is_dir() or b"place-4711" not in file.read_bytes(), file
    (tmp_path / "place-4711/part0.jsonl").unlink()
    with pytest.raises(Contradiction, match=r"source/part0.jsonl was read before and is gone") as found:
        here(pipeline, tmp_path / "out")
    assert "4711" not in str(found.value)


def test_several_models_need_a_name(golden_runs: GoldenRuns, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="several steps classify: bayes, batches; name one of them with --step"):
        here(golden_runs["fork"].pipeline, tmp_path / "out")
    with pytest.raises(ConfigError, match="no step 'bays' classifies; did you mean `bayes`"):
        here(golden_runs["fork"].pipeline, tmp_path / "out", step="bays")
    found = here(golden_runs["fork"].pipeline, tmp_path / "out", step="bayes")
    assert (
        "first" in rows_of(tmp_path / "out").column_names and "features" not in rows_of(tmp_path / "out").column_names
    )
    assert found.result["rows"] > 0
