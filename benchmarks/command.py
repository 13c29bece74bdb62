"""The command line: take the measurements one by one, print a table, write bench.json, extend the history."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks.figures.registry import GROUPS
from benchmarks.kit import history
from benchmarks.kit.documents import Documents
from benchmarks.kit.measurement import Measurement, Setting
from benchmarks.kit.report import Result, list_lines, table_lines
from benchmarks.kit.texts import Corpus

__all__ = ["main"]

_ROOT = Path(__file__).parents[1]
_RECORDS, _QUICK_RECORDS = 1_000_000, 400_000
_TEXTS, _QUICK_TEXTS = 600_000, 4_000


def main(
    arguments: Sequence[str] | None = None,
    *,
    root: Path = _ROOT,
    groups: Mapping[str, Sequence[Measurement]] = GROUPS,
) -> int:
    """0 if all figures were measured, whether their goals are met or not; 1 if a measurement failed."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.documents is not None and not options.documents.is_file():
        parser.error(f"there is no file {options.documents}")
    chosen = _chosen(parser, groups, options)
    if options.list:
        print("\n".join(list_lines(chosen)))
        return 0
    began = time.monotonic()

    def say(line: str) -> None:
        minutes, seconds = divmod(int(time.monotonic() - began), 60)
        print(f"{minutes:3}:{seconds:02}  {line}", flush=True)

    say(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}{', quick: no figure counts' if options.quick else ''}")
    corpus = Corpus(options.documents, options.without, _QUICK_TEXTS if options.quick else _TEXTS)
    say(f"texts: {corpus.name}")
    results, failed = _measured([m for group in chosen.values() for m in group], corpus, options, say)
    _report(root, results, options)
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make bench", description="Measure every figure that the docs claim.")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="measure these figures; no bench.json, no history")
    parser.add_argument("--quick", action="store_true", help="small sizes, to try it out; no bench.json, no history")
    parser.add_argument("--list", action="store_true", help="list all figures, their goals and their measurements")
    parser.add_argument("--out", type=Path, help="write the figures to this file instead of bench.json")
    parser.add_argument("--peers", action="store_true", help="also measure other tools, installed into .bench/")
    parser.add_argument(
        "--documents",
        type=Path,
        metavar="FILE",
        help="measure the text models on this file and nothing else, without history: .parquet, .jsonl or .jsonl.gz "
        "with the columns text and label",
    )
    parser.add_argument("--without", nargs="+", default=[], metavar="LABEL", help="leave out documents of these labels")
    return parser


def _chosen(
    parser: argparse.ArgumentParser, groups: Mapping[str, Sequence[Measurement]], options: argparse.Namespace
) -> dict[str, list[Measurement]]:
    """The groups with the measurements that the options ask for."""
    known = frozenset[str]().union(*(measurement.names for group in groups.values() for measurement in group))
    for name in options.only or ():
        if name not in known:
            parser.error(f"no figure is called {name}; there are {', '.join(sorted(known))}")
    wanted = frozenset(options.only or known)
    found = {
        title: [m for m in group if m.names & wanted and (m.any_texts or options.documents is None)]
        for title, group in groups.items()
    }
    return {title: group for title, group in found.items() if group}


def _measured(
    chosen: Sequence[Measurement], corpus: Corpus, options: argparse.Namespace, say: Callable[[str], None]
) -> tuple[list[Result], bool]:
    """All results; whether a measurement failed."""
    results: list[Result] = []
    missing: dict[str, str] = {}
    failed = False
    with tempfile.TemporaryDirectory(prefix="millstream-bench-") as folder:
        documents = Documents(Path(folder) / "documents", _QUICK_RECORDS if options.quick else _RECORDS)
        for measurement in chosen:
            figures = {figure.name: figure for figure in measurement.figures}
            if measurement.peers and not options.peers:
                missing |= dict.fromkeys(figures, "needs other packages; PEERS=1 installs them into .bench/")
                continue
            say(measurement.name)
            work = Path(folder) / measurement.name
            work.mkdir()
            try:
                for value in measurement.take(Setting(work, documents, corpus, say, options.quick)):
                    results.append(Result(figures.pop(value.name), value))
            except Exception as error:  # the other figures are still useful
                traceback.print_exc(file=sys.stderr)
                missing |= dict.fromkeys(figures, f"{type(error).__name__}: {error}")
                failed = True
            shutil.rmtree(work, ignore_errors=True)
    for name, reason in missing.items():
        print(f"not measured: {name}: {reason}")
    return results, failed


def _report(root: Path, results: Sequence[Result], options: argparse.Namespace) -> None:
    past = root / "benchmarks" / "history.jsonl"
    comparable = not options.quick and options.documents is None
    entry = history.entry_now(root, past, {result.figure.name: result.rounded for result in results})
    earlier = history.newest(past, entry.machine) if comparable else None
    print("\n".join(["", *table_lines(results, earlier.figures if earlier else {})]))
    if earlier is not None:
        print(f"change: since {earlier}")
    out = options.out or (None if options.quick or options.only else root / "bench.json")
    if out is not None:
        out.write_text(json.dumps([result.line() for result in results], indent=1) + "\n")
        print(f"written to {out}")
    if comparable and not options.only and results:
        history.append(past, entry)
        print(f"appended to {past}")
