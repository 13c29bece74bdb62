"""Write platform/millstream/study/evidence.json from the result table of a study: TABLE.parquet and its command.

    python scripts/advice_evidence.py out/impact/results.parquet "millstream compare configs/studies/impact.yaml"

`millstream advise` then knows the measured effects on accuracy of the study's learners.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow.parquet as pq

from millstream.study.evidence import accuracy_rows, evidence_text

_TARGET = Path(__file__).parents[1] / "platform" / "millstream" / "study" / "evidence.json"


def main(table: str, command: str) -> None:
    rows = accuracy_rows(pq.read_table(table).to_pylist())
    _TARGET.write_text(evidence_text(rows, command))
    print(f"{len(rows)} rows in {_TARGET.name}")


if __name__ == "__main__":
    main(*sys.argv[1:])
