"""The files of a new project: a config with a function of its own, data to try, a test, and a README."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

__all__ = ["project_files", "project_name"]

_RECORDS = 400
_BEGIN = datetime(2026, 3, 1, 8, tzinfo=UTC)
_SENTENCES = {
    "sport": ("a late goal wins the {0}", "the {0} ends with a draw", "a record at the {0}", "the {0} is postponed"),
    "travel": ("the night train to the {0}", "a slow road over the {0}", "the {0} by boat", "a week at the {0}"),
    "science": ("a telescope finds a {0}", "new figures about the {0}", "a {0} under the microscope", "the {0} is old"),
}
_THINGS = {
    "sport": ("cup", "league", "marathon", "match", "regatta"),
    "travel": ("coast", "hills", "islands", "harbour", "lake"),
    "science": ("comet", "glacier", "virus", "moon", "fossil"),
}

_CONFIG = """\
# millstream run pipeline.yaml                     run it again after you have appended lines to the data
# millstream config pipeline.yaml                  every key with its default and its origin
name: "{name}"

source:
  type: files
  path: data/news.jsonl          # relative to this file
  fields: {{text: text, label: label, time: published_at}}    # ours: theirs

pipeline:
  steps:
    - {{type: map, name: clean, function: "rules:clean"}}
    - {{type: classify, model: {{type: naive_bayes, features: {{}}}}}}
    - {{type: popularity, window: {{type: tumbling, size: 1h, lateness: 10m}}, threshold: 0.3}}

guarantee: {{delivery: exactly_once}}

engine: {{type: local}}            # one process, no Java; `spark` gives the same results
"""

_KAFKA = """\
# An overlay of pipeline.yaml: `--env kafka` merges it. The run directory is runs/{name}-kafka.
name: "{name}-kafka"

source:                          # of another type, so it replaces the whole source
  type: kafka
  bootstrap: ${{BOOTSTRAP:-127.0.0.1:9092}}
  topic: "{name}-news"
  fields: {{text: text, label: label, time: published_at}}
"""

_RULES = '''\
"""Functions that pipeline.yaml calls."""

import re

ADDRESS = re.compile(r"https?://\\S+")


def clean(record):
    """Remove web addresses from the text; the result depends on the record alone."""
    return {"text": ADDRESS.sub("", record["text"]).strip()}
'''

_TEST = '''\
"""pytest runs these tests. The battery checks that a crash, a replay and other batches change no result."""

import pyarrow as pa
import rules

from millstream.steps.checks import check_step
from millstream.steps.functions import Map


def test_clean_removes_addresses():
    assert rules.clean({"text": "the night train https://example.org/a"}) == {"text": "the night train"}


def test_clean_passes_the_battery():
    position = {"_rank": [0] * 40, "_offset": range(40), "_time": range(40)}
    texts = ["a goal", "a train https://example.org/a", "https://example.org/b a comet", ""] * 10
    check_step(Map(function="rules:clean"), pa.table({**position, "text": texts}))
'''

_README = """\
# {name}

A Millstream pipeline: it predicts the label of each text, then learns from it, and counts how popular each topic is.

```sh
millstream run pipeline.yaml
millstream read runs/{name} topics
millstream predict runs/{name} "a boat to the islands"
millstream status runs/{name}
```

| file | content |
|---|---|
| `pipeline.yaml` | the config; paths in it are relative to it |
| `rules.py` | a function that the config calls; run the commands in this folder, so that Python finds it |
| `test_rules.py` | its test: `pip install pytest`, then `pytest` |
| `data/news.jsonl` | {records} generated records to try |
{kafka}
`millstream doctor pipeline.yaml` says what is missing on this machine. For another machine, write the keys that
differ into an overlay, `pipeline.prod.yaml`, and select it with `--env prod`.
"""

_README_KAFKA = """\
| `pipeline.kafka.yaml` | an overlay: the same pipeline over a topic |

```sh
millstream kafka up                       # a broker on this machine, without Docker
millstream log import data/news.jsonl kafka://127.0.0.1:9092/{name}-news
millstream run pipeline.yaml --env kafka --until-idle
```
"""


def project_name(folder: str) -> str:
    """Return a name for the pipeline in a folder of this name.

    >>> project_name("My news!"), project_name("...")
    ('My-news', 'pipeline')
    """
    return re.sub(r"[^A-Za-z0-9._-]+", "-", folder).strip("-._")[:80] or "pipeline"


def project_files(name: str, *, kafka: bool = False) -> dict[str, str]:
    """Return the text of each file of a project by its path; with `kafka`, an overlay that reads a topic."""
    more = _README_KAFKA.format(name=name) if kafka else ""
    files = {
        "pipeline.yaml": _CONFIG.format(name=name),
        "rules.py": _RULES,
        "test_rules.py": _TEST,
        "data/news.jsonl": "".join(_records()),
        "README.md": _README.format(name=name, records=_RECORDS, kafka=more),
        ".gitignore": "runs/\n__pycache__/\n",
    }
    return files | ({"pipeline.kafka.yaml": _KAFKA.format(name=name)} if kafka else {})


def _records() -> Iterator[str]:
    """Yield lines of JSON: one record a minute, the same ones for every project; sport becomes popular in the end."""
    draw = random.Random(1)
    for number in range(_RECORDS):
        label = draw.choice([*_SENTENCES, *(["sport"] * 3 if number >= _RECORDS // 2 else [])])
        text = draw.choice(_SENTENCES[label]).format(draw.choice(_THINGS[label]))
        address = f" https://example.org/{number}" if draw.random() < 0.2 else ""
        time = (_BEGIN + timedelta(minutes=number)).isoformat().replace("+00:00", "Z")
        yield json.dumps({"text": text + address, "label": label, "published_at": time}) + "\n"
