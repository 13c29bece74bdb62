"""The pictures of windows, joins and graphs: drawn by the script that the pages name, small, and shown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure
from support.docs_pages import ROOT, TEXTS

import millstream as ms
from scripts.plots import FOLDER, PLOTS
from scripts.run_plots import (
    draw_joined,
    draw_memory,
    draw_popularity,
    draw_trending,
    draw_two_models,
    write_texts_and_labels,
)
from scripts.small_images import LARGEST
from scripts.window_kinds import KINDS, picture, windows_of

LOCAL = {"engine.type": "local"}


def test_the_picture_of_the_kinds_is_that_of_their_code() -> None:
    assert (FOLDER / "window_kinds.svg").read_text() == picture()


def test_windows_close_as_the_picture_shows() -> None:
    found = {words: ["".join(drawn.records) for drawn in windows_of(options)] for words, options in KINDS.items()}
    assert found == {
        "size: 10s": ["abc", "de", "fg"],
        "size: 10s, slide: 5s": ["ab", "abc", "c", "de", "def", "fg", "g"],
        "gap: 6s": ["abc", "de", "fg"],
        "size: 2": ["ab", "cd", "ef", "g"],
        "begins: with b, ends: with d": ["bcd"],
    }


def test_the_pages_show_every_plot_with_its_command_and_all_are_small() -> None:
    shown = {
        (page, name)
        for page in ("docs/windows.md", "docs/joins.md", "docs/graphs.md")
        for name in re.findall(r"\]\(plots/([\w.-]+)\)", TEXTS[page])
    }
    files = sorted(file.name for file in FOLDER.iterdir())
    assert (
        sorted(name for _, name in shown) == files == sorted(["window_kinds.svg", *(f"{name}.png" for name in PLOTS)])
    )
    assert all((FOLDER / name).stat().st_size <= LARGEST for name in files)
    for page, name in shown:
        assert f"`make plots ARGS={Path(name).stem}`" in TEXTS[page]


def lines_of(figure: Figure, panel: int = 0) -> list[Sequence[float]]:
    """The heights of the lines with several points in a panel."""
    found: list[Any] = [line.get_ydata() for line in figure.axes[panel].get_lines()]
    return [heights for heights in found if len(heights) > 2]


@pytest.mark.parametrize(("config", "records"), [("demo", 16_000), ("trending", 12_000), ("two_models", 3_000)])
def test_a_run_of_the_config_is_drawn(config: str, records: int, tmp_path: Path) -> None:
    run = ms.run(ROOT / f"configs/{config}.yaml", run=tmp_path / "run", set={**LOCAL, "source.records": records})
    if config == "demo":
        assert len(lines_of(draw_popularity(run))) == 8
    elif config == "two_models":
        [first, second] = lines_of(draw_two_models(run))
        parts = [each["steps"] for each in run.metrics().to_pylist()]
        assert [sum(first) / 3, sum(second) / 3] == [pytest.approx(100 * each["accuracy"]) for _, each in parts[-1]]
    else:
        finals = [row for row in run.output("trending").to_pylist() if row["_final"]]
        words = {row["_window"]: row["word"] for row in sorted(finals[::-1], key=lambda row: row["count"])}
        drawn = draw_trending(run)
        for panel in drawn.axes:
            assert [text.get_text() for text in panel.texts] == [words[each] for each in sorted(words)]
        assert len(words) > 2 and lines_of(drawn, 1)


def test_every_text_has_one_fate_in_the_plot_of_the_join(tmp_path: Path) -> None:
    texts, labels = write_texts_and_labels(tmp_path, 2_000)
    files = {"sources.texts.path": str(texts), "sources.labels.path": str(labels)}
    run = ms.run(ROOT / "configs/joined.yaml", run=tmp_path / "run", set={**LOCAL, **files})
    fate, delay = draw_joined(run, texts, labels).axes
    heights = [round(bar.get_height()) for bar in fate.patches]  # type: ignore[attr-defined]
    hours = len(heights) // 3
    joined, unmatched, repeated = (heights[hours * part : hours * (part + 1)] for part in range(3))
    assert sum(joined) + sum(unmatched) == 2_000 and sum(repeated) == len(texts.read_text().splitlines()) - 2_000
    within, later = delay.patches[:12], delay.patches[12:36]
    assert sum(round(bar.get_height()) for bar in within) == sum(joined)  # type: ignore[attr-defined]
    assert not any(bar.get_height() for bar in later)  # type: ignore[attr-defined]


def test_memory_is_drawn_by_its_bound() -> None:
    figure = draw_memory(
        {"short": [(1, 10**6), (2, 10**6), (3, 10**6)], "long": [(1, 10**6), (2, 2 * 10**6), (3, 3 * 10**6)]}
    )
    assert [list(heights) for heights in lines_of(figure)] == [[1, 1, 1], [1, 2, 3]]
