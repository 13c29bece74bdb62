"""`make bench`: takes the measurements one after the other, prints a table, writes bench.json."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from benchmarks import (
    against_kafka,
    against_loop,
    against_peers,
    against_pyspark,
    against_river,
    against_scikit_learn,
    against_vw,
    columnar_pipelines,
    epoch_log,
    exactly_once,
    first_epoch,
    first_prediction,
    follow_latency,
    journal_blocks,
    keyed_state,
    local_against_loop,
    local_latency,
    local_start,
    local_workers,
    simulated_schedules,
    text_accuracy,
    touched_saves,
)
from benchmarks.documents import Documents
from benchmarks.figures import Figure, Measurement, Setting
from benchmarks.texts import Corpus

__all__ = ["main"]

_ROOT = Path(__file__).parents[2]
_RECORDS = 1_000_000
_QUICK_RECORDS = 400_000
_TEXTS = 600_000
_QUICK_TEXTS = 4_000

MEASUREMENTS: tuple[Measurement, ...] = (
    *against_loop.MEASUREMENTS,
    *exactly_once.MEASUREMENTS,
    *against_pyspark.MEASUREMENTS,
    *follow_latency.MEASUREMENTS,
    *first_epoch.MEASUREMENTS,
    *epoch_log.MEASUREMENTS,
    *journal_blocks.MEASUREMENTS,
    *against_kafka.MEASUREMENTS,
    *local_against_loop.MEASUREMENTS,
    *local_latency.MEASUREMENTS,
    *local_start.MEASUREMENTS,
    *local_workers.MEASUREMENTS,
    *simulated_schedules.MEASUREMENTS,
    *keyed_state.MEASUREMENTS,
    *touched_saves.MEASUREMENTS,
    *first_prediction.MEASUREMENTS,
    *against_river.MEASUREMENTS,
    *against_scikit_learn.MEASUREMENTS,
    *text_accuracy.MEASUREMENTS,
    *columnar_pipelines.MEASUREMENTS,
    *against_vw.MEASUREMENTS,
    *against_peers.MEASUREMENTS,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """0 if all was measured, whether goals are met or not; 1 if something went wrong."""
    parser = argparse.ArgumentParser(prog="make bench", description="Measure every figure that the docs claim.")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these figures alone; no bench.json")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it works; no bench.json")
    parser.add_argument("--list", action="store_true", help="what is measured, and how")
    parser.add_argument("--out", type=Path, help="where to write figures instead of bench.json")
    parser.add_argument("--peers", action="store_true", help="also beside other tools, installed into .bench/ for it")
    parser.add_argument(
        "--documents",
        type=Path,
        metavar="FILE",
        help="a .parquet, .jsonl or .jsonl.gz with the columns text and label: what any texts can be measured on, on "
        "these, and nothing else",
    )
    parser.add_argument("--without", nargs="+", default=[], metavar="LABEL", help="leave out documents of these labels")
    parser.add_argument("--contender", help=argparse.SUPPRESS)
    parser.add_argument("--call", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.contender:
        from benchmarks.contender import contend

        contend(options.contender)
        return 0
    if options.call:
        from benchmarks.children import answer

        answer(*options.call)
        return 0
    if options.documents is not None and not options.documents.is_file():
        parser.error(f"there is no file {options.documents}")
    chosen = [m for m in _chosen(parser, options.only) if m.any_texts or options.documents is None]
    if options.list:
        for measurement in chosen:
            print(f"{', '.join(measurement.figures)}\n    {measurement.about}")
        return 0
    out = options.out or (None if options.quick or options.only else _ROOT / "bench.json")
    corpus = Corpus(options.documents, options.without, _QUICK_TEXTS if options.quick else _TEXTS)
    return _measure(chosen, corpus, quick=options.quick, peers=options.peers, out=out)


def _chosen(parser: argparse.ArgumentParser, names: Sequence[str] | None) -> list[Measurement]:
    if names is None:
        return list(MEASUREMENTS)
    known = {name for measurement in MEASUREMENTS for name in (measurement.name, *measurement.figures)}
    for name in names:
        if name not in known:
            parser.error(f"no figure is called {name}; there are {', '.join(sorted(known))}")
    return [m for m in MEASUREMENTS if set(names) & {m.name, *m.figures}]


def _measure(chosen: Sequence[Measurement], corpus: Corpus, *, quick: bool, peers: bool, out: Path | None) -> int:
    began = time.monotonic()

    def say(line: str) -> None:
        minutes, seconds = divmod(int(time.monotonic() - began), 60)
        print(f"{minutes:3}:{seconds:02}  {line}", flush=True)

    figures: list[Figure] = []
    missing: dict[str, str] = {}
    alone: dict[str, str] = {}
    say(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}{', quick: no figure counts' if quick else ''}")
    say(f"texts: {corpus.name}")
    with tempfile.TemporaryDirectory(prefix="millstream-bench-") as folder:
        documents = Documents(Path(folder) / "documents", _QUICK_RECORDS if quick else _RECORDS)
        setting = Setting(Path(folder), documents, corpus, say, quick)
        for measurement in chosen:
            if measurement.peers and not peers:
                alone |= dict.fromkeys(measurement.figures, "needs other packages; PEERS=1 installs them into .bench/")
                continue
            say(measurement.name)
            try:
                figures += measurement.take(setting)
            except Exception as error:  # the other figures are still worth having
                traceback.print_exc(file=sys.stderr)
                missing |= dict.fromkeys(measurement.figures, f"{type(error).__name__}: {error}")
    print("\n".join(["", *_table(figures)]))
    for name, reason in (alone | missing).items():
        print(f"not measured: {name}: {reason}")
    if out is not None:
        out.write_text(json.dumps([figure.line() for figure in figures], indent=1) + "\n")
        print(f"written to {out}")
    return 1 if missing else 0


def _table(figures: Sequence[Figure]) -> list[str]:
    rows = [("figure", "value", "unit", "goal", "", "spread")]
    for figure in figures:
        goal, met = (str(figure.goal), "met" if figure.met else "MISSED") if figure.goal else ("", "")
        rows.append((figure.name, f"{figure.value:,.4g}", figure.unit, goal, met, figure.detail))
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]) - 1)]
    return ["  ".join([*(f"{c:<{w}}" for c, w in zip(row[:-1], widths, strict=True)), row[-1]]) for row in rows]
