"""Images for the docs, with few colours, so that the files are small."""

from __future__ import annotations

from pathlib import Path

from PIL import Image

LARGEST = 100_000
"""The bytes of an image in the repository, at most."""


def write_small(made: Image.Image, file: Path, colours: int) -> None:
    """Write an image with so few colours."""
    made.convert("RGB").quantize(colours, dither=Image.Dither.NONE).save(file, optimize=True)
    if file.stat().st_size > LARGEST:
        message = f"{file} has more than {LARGEST:,} bytes; draw it smaller"
        raise RuntimeError(message)
