"""The times of joined records: other cuts and orders of sources change which record completes a match, not the matches.

Windows of the same size as those of the join do not depend on that.
"""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import Any

import pytest

import millstream as ms

TUMBLING = {"type": "tumbling", "size": "1h"}


def write(file: Path, field: str, values: str, chance: random.Random) -> dict[str, Any]:
    """Write 120 records at random times within six hours, and a last one much later; return the source."""
    minutes = [*(chance.randrange(360) for _ in range(120)), 900]
    rows = sorted((minute, number) for number, minute in enumerate(minutes))
    text = "".join(
        json.dumps({"id": str(n), field: values[n % len(values)], "time": f"2026-03-01T{m // 60:02d}:{m % 60:02d}:00Z"})
        + "\n"
        for m, n in rows
    )
    file.write_text(text)
    return {"type": "files", "path": str(file), "fields": {name: name for name in ("id", field, "time")}}


@pytest.mark.parametrize(("bound", "depends"), [({"within": "3h"}, True), ({"window": TUMBLING}, False)])
def test_windows_after_a_join_by_window_do_not_depend_on_the_cuts(
    tmp_path: Path, bound: dict[str, Any], depends: bool
) -> None:
    chance = random.Random(3)
    sources = {
        "texts": write(tmp_path / "texts.jsonl", "text", "x", chance),
        "labels": write(tmp_path / "labels.jsonl", "label", "abc", chance),
    }
    join = {"type": "join", "name": "both", "from": ["texts", "labels"], "by": "id", **bound}
    count = {"type": "popularity", "of": "label", "window": TUMBLING}
    found: list[list[Any]] = [[], [], []]
    for number, (names, size) in enumerate(itertools.product((["texts", "labels"], ["labels", "texts"]), (7, 5000))):
        config = {
            "name": "times",
            "sources": {name: sources[name] for name in names},
            "pipeline": {"steps": [join, count]},
            "sinks": {"both": {"type": "files"}},
            "engine": {"type": "local", "epoch": {"max_records": size}},
        }
        run = ms.run(config, run=tmp_path / f"{number}")
        joined = run.output("both").to_pylist()
        found[0].append(sorted(row["id"] for row in joined))
        found[1].append(sorted((row["id"], row["_source"]) for row in joined))
        found[2].append(
            sorted((row["_window"], row["topic"], row["count"]) for row in run.output("topics").to_pylist())
        )
    matches, completed, windows = (len({str(each) for each in kind}) for kind in found)
    assert matches == 1 and completed > 1 and len(found[2][0]) > 5
    assert (windows > 1) == depends
