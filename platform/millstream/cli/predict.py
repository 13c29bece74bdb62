"""`millstream predict`: predictions of a run's model, from the newest checkpoint."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from typing import BinaryIO

import click

from millstream.api.run import open_run_as_given
from millstream.plain_text import json_object, one_line
from millstream.steps.text_model import Prediction

__all__ = ["predict"]

_CHUNK_BYTES = 1 << 16


@click.command()
@click.argument("run", metavar="RUN")
@click.argument("text", required=False)
@click.option("--step", metavar="NAME", help="The step of the model, if several steps classify.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines: text, predicted, probability.")
def predict(run: str, text: str | None, step: str | None, as_json: bool) -> None:
    """Print the label that the model of RUN predicts for TEXT, or for each line of standard input that is not blank.

    The command uses the newest checkpoint and learns nothing. RUN may be running at the same time.
    """
    model = open_run_as_given(run).model(step)
    for texts in [[text]] if text is not None else _lines(sys.stdin.buffer):
        for prediction in model.predict(texts):
            click.echo(_as_json(prediction) if as_json else _as_text(prediction))
        sys.stdout.flush()


def _lines(stream: BinaryIO) -> Iterator[list[str]]:
    """Yield lists of the lines that are available in a stream, without blank lines."""
    rest = b""
    while chunk := os.read(stream.fileno(), _CHUNK_BYTES):
        *whole, rest = (rest + chunk).split(b"\n")
        if texts := _texts(whole):
            yield texts
    if texts := _texts([rest]):
        yield texts


def _texts(lines: Sequence[bytes]) -> list[str]:
    return [text for line in lines if (text := line.decode("utf-8", "replace").strip())]


def _as_json(found: Prediction) -> str:
    row = {"text": found.text, "predicted": found.predicted, "probability": found.probability}
    return json_object(row)


def _as_text(found: Prediction) -> str:
    if found.predicted is None or found.probability is None:
        return one_line(f"-  -  {found.text}")
    return one_line(f"{found.predicted}  {found.probability:.3f}  {found.text}")
