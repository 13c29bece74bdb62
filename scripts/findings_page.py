"""The tables of docs/findings.md, made of the CSV files in docs/findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from scripts.findings_tables import FOLDER, ROOT, Row, chosen, read_rows

PAGE = ROOT / "docs/findings.md"
TEXTS = {"": "generated", "-news": "news", "-ag_news": "AG News"}
"""The kinds of text, by the end of the names of their tables."""
DELIVERIES = {
    "at_least_once": "at least once",
    "late delay=10000": "repeats 10,000 later",
    "at_most_once": "at most once",
}
VERDICTS = ("equivalent", "open", "different")
LEARNERS = ("nb", "nb_forgets", "softmax_slow", "softmax", "softmax_decaying")


def write_page() -> None:
    """Write every table of the page between its marks."""
    text = PAGE.read_text()
    for name, lines in tables().items():
        first, last = f"<!-- table: {name} -->\n", "<!-- end -->"
        if text.count(first) != 1:
            message = f"{PAGE} has the mark {first.strip()!r} {text.count(first)} times, not once"
            raise ValueError(message)
        before, _, after = text.partition(first)
        text = "".join([before, first, *(f"{line}\n" for line in lines), last, after.partition(last)[2]])
    PAGE.write_text(text)


def tables() -> Mapping[str, Sequence[str]]:
    """The lines of each table by its name."""
    made: Mapping[str, Callable[[], Sequence[str]]] = {
        "verdicts": verdicts,
        "accuracy": accuracy,
        "libraries": libraries,
        "shares": shares,
        "lateness": lateness,
        "state": state,
        "published": published,
        "prequential": prequential,
    }
    return {name: table() for name, table in made.items()}


def texts(study: str) -> Mapping[str, str]:
    """The kinds of text on which a study has been run."""
    return {end: text for end, text in TEXTS.items() if (FOLDER / f"{study}{end}.csv").exists()}


def doses(rows: Iterable[Row]) -> list[float]:
    """The shares of the stream that failures repeat or lose, without those that overlaps make a little smaller."""
    kept: list[float] = []
    for affected in sorted({row["affected"] for row in rows}, reverse=True):
        if affected and not any(affected > 0.75 * other for other in kept):
            kept.append(affected)
    return sorted(kept)


def dose_of(row: Row, of: Sequence[float]) -> float:
    return min(of, key=lambda dose: abs(dose - row["affected"]))


def verdicts() -> list[str]:
    """The number of cells with each verdict, by text, delivery and share of records."""
    lines = _head("text", "delivery", "share of records", *VERDICTS, "the largest that is different, points")
    for end, text in texts("impact").items():
        rows = chosen(read_rows(f"impact{end}"), treatment=(*DELIVERIES,))
        steps = doses(rows)
        for treatment, words in DELIVERIES.items():
            for dose in steps:
                found = [row for row in chosen(rows, treatment=treatment) if dose_of(row, steps) == dose]
                counted = Counter(row["verdict"] for row in found)
                largest = max(chosen(found, verdict="different"), key=lambda row: abs(row["difference"]), default=None)
                shown = "" if largest is None else f"{largest['learner']}, {largest['stream']}: {points(largest)}"
                lines.append(_row(text, words, percent(dose), *(counted[each] for each in VERDICTS), shown))
    return lines


def accuracy() -> list[str]:
    """The accuracy differences in random order, with 16 failures of 600 records."""
    lines = _head("text", "learner", *DELIVERIES.values())
    for end, text in texts("impact").items():
        rows = chosen(read_rows(f"impact{end}"), stream="iid", failures="16 x 600")
        for learner in LEARNERS:
            cells = (points(one(rows, learner=learner, treatment=treatment)) for treatment in DELIVERIES)
            lines.append(_row(text, f"`{learner}`", *cells))
    return lines


def libraries() -> list[str]:
    """The accuracy differences of the learners of other libraries beside ours, over the same seeds."""
    shown = ("at_least_once", "at_most_once")
    lines = _head("learner", "seeds", *(DELIVERIES[each] for each in shown))
    rows = read_rows("libraries")
    for learner in dict.fromkeys(row["learner"] for row in rows):
        cells = [one(rows, learner=learner, treatment=treatment) for treatment in shown]
        lines.append(_row(f"`{learner}`", cells[0]["seeds"], *map(points, cells)))
    return lines


def shares() -> list[str]:
    """The share bias against the closed form, by stream and failures; no learner has a part in it."""
    heads = ("burstiness", "repeated, points", "measured / closed form", "lost, points", "measured / closed form")
    lines = _head("text", "stream", "failures", *heads)
    for end, text in texts("shares").items():
        rows = chosen(read_rows(f"shares{end}"), failures=("1 x 60", "1 x 600", "16 x 600"))
        for repeated in chosen(rows, treatment="at_least_once"):
            place = {name: repeated[name] for name in ("stream", "failures")}
            [lost] = chosen(rows, treatment="at_most_once", **place)
            cells = (
                word for row in (repeated, lost) for word in (f"{100 * row['share_bias']:.3f}", f"{ratio(row):.2f}")
            )
            lines.append(_row(text, *place.values(), f"{repeated['deff']:.3g}", *cells))
    return lines


def ratio(row: Row) -> float:
    """The measured share bias over that of the closed form."""
    return float(row["share_bias"] / row["closed_form"])


def lateness() -> list[str]:
    """Four failures before two labels change places: accuracy differences by the delay of their repeats."""
    shown = {"at_least_once": "at once", **{f"late delay={delay}": f"{delay:,} later" for delay in (1000, 5000, 20000)}}
    shown |= {"late delay=end": "at the end", "at_most_once": "lost"}
    lines = _head("text", "learner", *shown.values())
    for end, text in texts("lateness").items():
        rows = chosen(read_rows(f"lateness{end}"), stream="swap", failures="4 x 600 in 0-0.5")
        for learner in dict.fromkeys(row["learner"] for row in rows):
            cells = (points(one(rows, learner=learner, treatment=treatment)) for treatment in shown)
            lines.append(_row(text, f"`{learner}`", *cells))
    return lines


def state() -> list[str]:
    """Ten failures after which the state is older: accuracy differences on a stream in random order."""
    shown = {"at_least_once": "10 x 60 repeated", "at_most_once": "10 x 60 lost"}
    shown |= {"stale_state age=60 part=1": "60 old", "stale_state age=2000 part=1": "2,000 old"}
    shown |= {"stale_state age=20000 part=1": "20,000 old", "stale_state age=20000 part=0.25": "a quarter 20,000 old"}
    shown |= {"lost_optimiser": "optimiser state lost"}
    lines = _head("text", "learner", *shown.values())
    for end, text in texts("state").items():
        rows = chosen(read_rows(f"state{end}"), stream="iid", failures="10 x 60")
        for learner in dict.fromkeys(row["learner"] for row in rows):
            found = (chosen(rows, learner=learner, treatment=treatment) for treatment in shown)
            lines.append(_row(text, f"`{learner}`", *(points(cell[0]) if cell else "" for cell in found)))
    return lines


def published() -> list[str]:
    """The shifts of shares by one failure, and those by count arithmetic."""
    lines = _head(
        "text", "stream", "failure", "delivery", "label", "share, %", "shift, points", "by counts", "published"
    )
    for end, text in texts("published").items():
        rows = chosen(read_rows(f"published{end}"), learner="nb")
        for row in shown_shifts(rows):
            words = row["treatment"].replace("_", " ")
            figures = (
                f"{100 * row['share']:.2f}",
                *(f"{100 * row[name]:+.2f}" for name in ("shift", "shift_by_counts")),
            )
            number = published_shift(rows, row)
            known = "" if number is None else f"{number:+.1f}"
            lines.append(_row(text, row["stream"], row["failures"], words, row["label"], *figures, known))
    return lines


def shown_shifts(rows: Sequence[Row]) -> list[Row]:
    """Failures in either of two topics, and before and in a topic that comes last."""
    found = [row for row in rows if row["stream"] == "two_topics" and not row["failures"].startswith("in 0")]
    return found + [row for row in rows if row["stream"] == "popularity" and row["failures"].startswith("in 0")]


def published_shift(rows: Sequence[Row], row: Row) -> float | None:
    """The shift in Trofimov et al. 2019 that belongs to this row, in percentage points; None: they have none."""
    if row["treatment"] != "at_least_once" or row["stream"] == "race":
        return None
    if row["stream"] == "popularity":
        return -0.7 if row["failures"] == "in 0-0.8" else None
    first, second = dict.fromkeys(each["label"] for each in chosen(rows, stream="two_topics"))
    shifts = {f"in {first}": (4.9, -4.9), f"in {second}": (-4.1, 4.1)}.get(row["failures"])
    return None if shifts is None else shifts[row["label"] == second]


def prequential() -> list[str]:
    """Prequential accuracies in percent, by stream."""
    names = texts("prequential")
    rows = {end: read_rows(f"prequential{end}") for end in names}
    columns = [(end, stream) for end in names for stream in dict.fromkeys(row["stream"] for row in rows[end])]
    lines = _head("learner", "seeds", *(f"{names[end]}, {stream}" for end, stream in columns))
    for learner in dict.fromkeys(row["learner"] for each in rows.values() for row in each):
        cells = [one(rows[end], stream=stream, learner=learner) for end, stream in columns]
        figures = (
            f"{100 * each['accuracy']:.2f} ± {50 * (each['accuracy_high'] - each['accuracy_low']):.2f}"
            for each in cells
        )
        lines.append(_row(f"`{learner}`", cells[0]["seeds"], *figures))
    return lines


def one(rows: Iterable[Row], **wanted: str) -> Row:
    """The only row with these values."""
    [found] = chosen(rows, **wanted)
    return found


def points(row: Row) -> str:
    """A difference with the half width of its 95 % interval, in percentage points."""
    return f"{100 * row['difference']:+.2f} ± {50 * (row['difference_high'] - row['difference_low']):.2f}"


def percent(share: float) -> str:
    return f"{100 * share:.2g} %"


def _head(*names: str) -> list[str]:
    return [_row(*names), "|" + "---|" * len(names)]


def _row(*cells: object) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"
