"""The harness beside Flink ML, without Flink: its streams, its reference, its jars, its table and its page."""

from __future__ import annotations

import hashlib
import io
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from benchmarks import flink_ml
from benchmarks.contenders import flink_ml as contender
from benchmarks.contenders.flink_ml import parsed
from benchmarks.contenders.ftrl_reference import distance, trained
from benchmarks.contenders.number_features import NumberFeatures
from benchmarks.kit.failure_table import Outcome, read, table_lines, write
from benchmarks.kit.labelled_streams import NAMES, labelled_stream
from benchmarks.kit.measurement import Unmeasured
from benchmarks.kit.source_jars import jars
from millstream_models.features import Counted
from millstream_models.hashed_text import HashedText

ROOT = Path(__file__).parents[2]
FIGURES = ROOT / "benchmarks" / "flink_ml.json"
LOST = Outcome("words", "Flink ML", "exception", (3_050,), 0, 0.02, False, True, 0.5, 0.625, 90, 2e-16)


@pytest.mark.parametrize("name", NAMES)
def test_a_stream_is_the_same_for_its_seed_and_another_for_another_seed(name: str, tmp_path: Path) -> None:
    one, same, other = (labelled_stream(name, seed, 300) for seed in (1, 1, 2))
    assert one.texts == same.texts != other.texts
    assert one.write_sparse(tmp_path / "one").read_bytes() == same.write_sparse(tmp_path / "same").read_bytes()
    part = one.part(100, 300)
    assert part.texts == one.texts[100:]
    assert part.write_json_lines(tmp_path / "part").read_text().count("\n") == len(part.labels) == len(part.vectors)
    assert 0.2 < one.labels.mean() < 0.8


@pytest.mark.parametrize("name", NAMES)
def test_both_systems_get_the_same_vectors(name: str, tmp_path: Path) -> None:
    """The rows that Millstream's step makes are those of the file for Flink, up to the length and the constant."""
    stream = labelled_stream(name, 3, 50)
    options = {key: value for key, value in stream.step.items() if key != "type"}
    step = (HashedText if name == "words" else NumberFeatures)(**options)
    records = pa.table({"text": stream.texts})
    made = step.build(records.schema).process(records).records["features"].combine_chunks()
    counted = Counted.of(made, stream.vectors.shape[1] - 1)
    rows = np.zeros(counted.shape)
    rows[np.repeat(np.arange(50), np.diff(counted.indptr)), counted.indices] = counted.data
    scaled = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    np.testing.assert_allclose(np.column_stack([scaled, np.ones(50)]), stream.scaled(), atol=1e-6)
    read_back = np.zeros(stream.vectors.shape)
    lines = stream.write_sparse(tmp_path / "stream").read_text().splitlines()
    for row, line in enumerate(lines):
        for pair in line.split()[1:]:
            index, _, value = pair.partition(":")
            read_back[row, int(index)] = float(value)
    assert read_back.tolist() == stream.vectors.tolist()
    assert [int(line[0]) for line in lines] == stream.labels.tolist()


def test_an_optimiser_that_starts_over_gives_another_model_unless_it_had_not_begun() -> None:
    stream = labelled_stream("numbers", 1, 600)
    clean = trained(stream.vectors, stream.labels, 100, 0.1, 0.1)
    emptied = [trained(stream.vectors, stream.labels, 100, 0.1, 0.1, emptied_at=record) for record in (0, 300)]
    assert distance(emptied[0], clean) == 0
    assert distance(emptied[1], clean) > 0.01


@pytest.mark.parametrize("text", ["", "1 0.5\n", "records 200 7f\n"])
def test_a_file_of_models_that_is_not_whole_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"no model|unpack"):
        parsed(text)


def test_a_program_that_hangs_is_ended_and_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contender, "_LONGEST", 0.1)
    flink = object.__new__(contender.FlinkMl)
    flink._folder, flink._program = tmp_path, [sys.executable, "-c", "import time; time.sleep(3600)"]
    job = contender.Job(tmp_path / "stream.txt", 3, 100, 0.1, 0.1, 500)
    with pytest.raises(RuntimeError, match="Flink's program ended before its kill"):
        flink.run([], replace(job, failure="kill", fail_at=50))


def test_a_row_of_the_table_has_means_and_counts() -> None:
    outcomes = [
        LOST,
        replace(LOST, seed=1, distance=0.04, log_loss=0.75, unexplained=2.5e-16),
        replace(LOST, system="Millstream, local", at=(3_050, 6_050), distance=0, same=True, version=None),
        replace(LOST, stream="numbers", in_order=False, distance=0, unexplained=None),
    ]
    _, _, lost, ours, other = table_lines(outcomes)
    assert lost.split(" | ")[3:] == [
        *("3,050", "2 of 2", "0 of 2", "3.0 (2.0-4.0)", "<= 3e-16", "90", "0.500", "0.688", "2 of 2 |")
    ]
    assert ours.split(" | ")[3:9] == ["3,050, 6,050", "1 of 1", "1 of 1", "0", "<= 2e-16", "-"]
    assert other.split(" | ")[4:9] == ["0 of 1", "0 of 1", "0", "-", "90"]


def test_figures_are_read_as_they_were_written(tmp_path: Path) -> None:
    write(tmp_path / "figures.json", [LOST, replace(LOST, at=())], seeds=1)
    assert read(tmp_path / "figures.json") == ({"seeds": 1}, [LOST, replace(LOST, at=())])


def test_the_page_shows_the_figures_of_the_file() -> None:
    page = (ROOT / "docs" / "flink_ml.md").read_text()
    about, outcomes = read(FIGURES)
    assert "\n".join(table_lines(outcomes)) in page
    failed = [outcome for outcome in outcomes if outcome.system == "Flink ML" and outcome.at]
    least, most = (100 * end(outcome.distance for outcome in failed) for end in (min, max))
    assert f"by {least:.1f} to {most:.1f} %" in page
    worse = sum(outcome.log_loss > outcome.clean_log_loss for outcome in failed)
    assert f"log-loss was worse in {worse} of these {len(failed)} runs" in page.replace("\n  ", " ")
    assert {outcome.seed for outcome in outcomes} == set(range(10)) == set(range(about["seeds"]))
    for said in (*about["pins"], about["java"], about["machine"]["cpu"]):
        assert said in page


class TestJars:
    def test_jars_come_out_of_an_archive_whose_code_is_not_run(self, index: Path) -> None:
        pinned(index, archive(index))
        folder = jars("parts", lambda name: name != "other.jar", lambda line: None, index)
        assert [path.name for path in folder.iterdir()] == ["wanted.jar"]
        assert not (index / "ran").exists()
        (index / "parts-1.0.tar.gz").unlink()
        assert jars("parts", lambda name: True, lambda line: None, index) == folder

    def test_an_altered_archive_is_refused(self, index: Path) -> None:
        archive(index)
        pinned(index, "0" * 64)
        with pytest.raises(Unmeasured, match=r"jars of parts cannot be fetched: .*DO NOT MATCH THE HASHES"):
            jars("parts", lambda name: True, lambda line: None, index)

    def test_without_the_archive_the_message_says_so(self, index: Path) -> None:
        pinned(index, "0" * 64)
        with pytest.raises(Unmeasured, match=r"jars of parts cannot be fetched: .*parts==1\.0"):
            jars("parts", lambda name: True, lambda line: None, index)

    def test_the_command_says_what_it_lacks(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        def missing(*_: object) -> Path:
            raise Unmeasured("the jars of flink_ml cannot be fetched: pip says: no network")

        monkeypatch.setattr("benchmarks.contenders.flink_ml.jars", missing)
        assert flink_ml.main(["--out", str(tmp_path / "figures.json")]) == 1
        assert capsys.readouterr().err == (
            "not measured: the jars of flink_ml cannot be fetched: pip says: no network\n"
        )
        assert not list(tmp_path.iterdir())


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip takes for its only index, and that is the root of a checkout."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    (tmp_path / "benchmarks" / "contenders").mkdir(parents=True)
    return tmp_path


def archive(folder: Path) -> str:
    """A source package with two jars, whose setup.py leaves a trace; its SHA-256."""
    files = {
        "PKG-INFO": "Metadata-Version: 1.0\nName: parts\nVersion: 1.0\n",
        "setup.py": f"open({str(folder / 'ran')!r}, 'w')",
        "deps/lib/wanted.jar": "wanted",
        "deps/lib/other.jar": "other",
    }
    path = folder / "parts-1.0.tar.gz"
    with tarfile.open(path, "w:gz") as made:
        for name, text in files.items():
            member = tarfile.TarInfo(f"parts-1.0/{name}")
            member.size = len(text)
            made.addfile(member, io.BytesIO(text.encode()))
    return hashlib.sha256(path.read_bytes()).hexdigest()


def pinned(folder: Path, digest: str) -> None:
    (folder / "benchmarks" / "contenders" / "parts.txt").write_text(f"parts==1.0 --hash=sha256:{digest}\n")
