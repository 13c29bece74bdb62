"""The figures of docs/findings.md are those of its tables, and what its sentences claim holds in them."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from support.docs_pages import ROOT, section
from support.docs_pages import TEXTS as DOCS

from millstream.study.evidence import evidence
from scripts.findings_page import one, points, published_shift, ratio, tables, texts
from scripts.findings_tables import Row, chosen, read_rows

PAGE = "docs/findings.md"
AT_ONCE, LOST = "at_least_once", "at_most_once"
LARGEST_PLOT = 100_000


def sentence(number: int) -> str:
    """One of the ten sentences, on one line."""
    items = re.split(r"^\d+\. ", section(PAGE, "## Ten sentences"), flags=re.MULTILINE)[1:]
    assert len(items) == 10
    return " ".join(items[number - 1].split())


def says(number: int, *figures: object) -> None:
    """Assert that a sentence has these figures, in this order."""
    rest = sentence(number)
    for figure in figures:
        assert str(figure) in rest, f"sentence {number} has no {figure!r}, or not here: {sentence(number)}"
        rest = rest.partition(str(figure))[2]


def of(name: str, **wanted: object) -> list[Row]:
    """The rows of a study on both kinds of text."""
    return [row for end in texts(name) for row in chosen(read_rows(f"{name}{end}"), **wanted)]


def known(row: Row) -> bool:
    """True if the interval of a difference leaves out 0."""
    return bool(row["difference_low"] > 0 or row["difference_high"] < 0)


def equivalent(rows: Sequence[Row]) -> list[Row]:
    return chosen(rows, verdict="equivalent")


@pytest.mark.parametrize("name", [*tables()])
def test_a_table_of_the_page_is_that_of_its_files(name: str) -> None:
    shown = DOCS[PAGE].partition(f"<!-- table: {name} -->\n")[2].partition("<!-- end -->")[0]
    assert shown.splitlines() == tables()[name]


def test_the_page_shows_every_plot_and_all_are_small() -> None:
    shown = re.findall(r"\]\(findings/([\w.-]+\.png)\)", DOCS[PAGE])
    files = sorted((ROOT / "docs/findings").glob("*.png"))
    assert sorted(shown) == [file.name for file in files]
    assert all(file.stat().st_size <= LARGEST_PLOT for file in files)


def test_one_short_failure_has_no_effect() -> None:
    found = [chosen(read_rows(f"impact{end}"), failures="1 x 60", treatment=(AT_ONCE, LOST)) for end in texts("impact")]
    assert all(len(rows) == 40 for rows in found)
    says(1, "60 of 40,000", *(f"{len(equivalent(rows))} of {len(rows)}" for rows in found))
    assert not any(chosen(rows, verdict="different") for rows in found)


def test_few_repeats_at_once_have_a_small_effect() -> None:
    rows = of("impact", failures=("10 x 60", "1 x 600"), treatment=AT_ONCE)
    different = chosen(rows, verdict="different")
    largest = max(different, key=lambda row: abs(row["difference"]))
    says(2, "1.5 %", f"{len(equivalent(rows))} of {len(rows)}", f"{len(different)} differ", points(largest))


def test_repeats_are_a_partial_second_pass() -> None:
    helped, hurt = (
        of("impact", stream="iid", failures="16 x 600", treatment=AT_ONCE, learner=learner)
        for learner in ("softmax_slow", "nb_forgets")
    )
    says(3, "24 %", *map(points, helped), *map(points, hurt))
    assert all(row["difference_low"] > 0 for row in helped) and all(row["difference_high"] < 0 for row in hurt)


def test_lost_records_are_fewer_records() -> None:
    slow = of("impact", stream="iid", failures="16 x 600", treatment=LOST, learner="softmax_slow")
    says(4, "24 %", *map(points, slow), *(f"{100 * row['learning_curve']:.2f}" for row in slow))
    assert all(row["difference_high"] < 0 and row["learning_curve"] < 0 for row in slow)


def test_other_libraries_lose_by_lost_records_and_differ_by_repeats() -> None:
    rows = read_rows("libraries")
    repeated, lost = ({row["learner"]: row for row in chosen(rows, treatment=name)} for name in (AT_ONCE, LOST))
    assert all(lost[name]["difference_high"] < 0 for name in ("river_nb", "sklearn_nb", "sklearn_sgd"))
    assert all(repeated[name]["difference_high"] < 0 for name in ("nb", "river_nb"))
    assert repeated["sklearn_nb"]["difference_low"] > 0
    assert not known(repeated["sklearn_sgd"]) and not known(repeated["softmax"])
    once = (repeated[name]["accuracy"] - repeated[name]["difference"] for name in ("sklearn_nb", "nb"))
    found = [f"{100 * accuracy:.1f} %" for accuracy in once]
    text = " ".join(section(PAGE, "## How much accuracy does a failure cost?").split())
    assert f"({found[0]} without failures, ours {found[1]})" in text


def test_losing_beats_repeating_for_a_model_that_forgets() -> None:
    for stream in ("iid", "blocks", "natural", "swap"):
        place = {"stream": stream, "failures": "16 x 600", "learner": "nb_forgets"}
        for end in texts("impact"):
            rows = read_rows(f"impact{end}")
            repeated, lost = one(rows, treatment=AT_ONCE, **place), one(rows, treatment=LOST, **place)
            assert lost["difference_low"] > repeated["difference_high"]
            if stream == "iid":
                says(5, "all four streams", "in random order", points(repeated), points(lost))


def test_losing_beats_repeating_after_a_drift() -> None:
    for end in texts("lateness"):
        rows = chosen(read_rows(f"lateness{end}"), stream="swap", failures="4 x 600 in 0-0.5", learner="softmax")
        late, lost = one(rows, treatment="late delay=end"), one(rows, treatment=LOST)
        says(6, points(late), points(lost))
        assert late["difference_high"] < lost["difference_low"] - 0.01


def test_share_bias_is_that_of_the_closed_form_wherever_it_applies() -> None:
    rows = [row for row in of("shares") if row["closed_form"]]
    ratios = [ratio(row) for row in rows]
    places = (("", "iid"), ("-news", "natural"), ("", "blocks"))
    short = [
        one(read_rows(f"shares{end}"), stream=stream, failures="1 x 600", treatment=AT_ONCE) for end, stream in places
    ]
    says(
        7,
        *(f"{100 * row['share_bias']:.3f}" for row in short),
        f"{len(rows)} cells",
        f"{min(ratios):.2f} to {max(ratios):.2f}",
    )
    assert min(ratios) > 0.9 and max(ratios) < 1.1
    few = [ratio(row) for row in chosen(read_rows("impact"), learner="nb", treatment=(AT_ONCE, LOST))]
    text = " ".join(section(PAGE, "## How wrong are the shares of labels?").split())
    assert f"{min(few):.2f} to {max(few):.2f}" in text


def test_published_shifts_have_their_sign_and_their_size_by_counts() -> None:
    for end in texts("published"):
        rows = read_rows(f"published{end}")
        assert len(rows) == 2 * 2 * (8 + 4 + 8)  # learners, deliveries, places of the failure with the labels there
        for row in rows:
            assert row["shift"] == pytest.approx(row["shift_by_counts"], abs=2e-5)
            number = published_shift(rows, row)
            if number is not None:
                assert (row["shift"] > 0) == (number > 0)
                opposite = {name: row[name] for name in ("stream", "learner", "failures", "label")}
                lost = one(rows, treatment=LOST, **opposite)
                assert (lost["shift"] > 0) != (number > 0) and abs(lost["shift"]) > abs(row["shift"])
    place = {"stream": "two_topics", "learner": "nb", "failures": "in sport", "label": "sport"}
    repeated, lost = (one(read_rows("published"), treatment=name, **place) for name in (AT_ONCE, LOST))
    says(8, "600 of 4,000", f"{100 * repeated['shift']:+.1f}", f"{100 * lost['shift']:+.1f}", "+4.9")


def test_old_state_costs_as_much_as_what_it_forgot() -> None:
    place = {"stream": "iid", "failures": "10 x 60", "learner": "ftrl"}
    old = [of("state", treatment=f"stale_state age={age} part=1", **place) for age in (20000, 2000, 60)]
    says(9, *(points(row) for rows in old for row in rows))
    assert all(row["difference_high"] < -0.01 for row in old[0]) and all(row["difference_high"] < 0 for row in old[1])
    assert {row["verdict"] for row in old[2]} == {"equivalent"}
    quarter = of("state", treatment="stale_state age=20000 part=0.25", **place)
    assert all(row["difference_high"] < 0 for row in quarter)


def test_counting_repeats_changes_the_sign_for_a_model_that_forgets() -> None:
    place = {"stream": "iid", "failures": "16 x 600", "treatment": AT_ONCE, "learner": "nb_forgets"}
    row = one(read_rows("impact"), **place)
    text = " ".join(section(PAGE, "## Does counting repeats flatter a model?").split())
    assert row["all_low"] > 0 > row["first_high"]
    assert f"rises by {100 * row['all']:.2f}" in text and f"falls by {-100 * row['first']:.2f}" in text


def test_the_order_decides_which_learner_is_best() -> None:
    rows = read_rows("prequential-news")
    places = (("iid", "softmax"), ("natural", "softmax"), ("natural", "previous_label"))
    mixed, natural, previous = (one(rows, stream=stream, learner=learner) for stream, learner in places)
    text = section(PAGE, "## Which learner on which text?")
    assert all(f"{100 * row['accuracy']:.2f}" in text for row in (mixed, natural, previous))
    others = [row for row in chosen(rows, stream="natural") if row["learner"] != "softmax"]
    assert all(natural["accuracy"] > row["accuracy"] for row in others)
    better = [row for row in chosen(rows, stream="iid") if row["accuracy_low"] > mixed["accuracy_high"]]
    assert len(better) > 5


def test_the_evidence_of_advice_is_that_of_the_study() -> None:
    expected = [
        (f"{text}, {row['stream']}", row["treatment"], round(100 * row["difference"], 4))
        for end, text in texts("impact").items()
        for row in chosen(read_rows(f"impact{end}"), treatment=(AT_ONCE, LOST))
    ]
    assert sorted((row.stream, row.delivery, row.difference) for row in evidence().accuracy) == sorted(expected)
