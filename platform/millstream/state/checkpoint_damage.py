"""The advice after the damage of a checkpoint: the newest checkpoint that is whole, and the manifests to move away."""

from __future__ import annotations

from millstream.errors import AlteredCheckpoint, UnknownFormat
from millstream.state.checkpoints import Checkpoint, CheckpointReader
from millstream.state.layers import Section

__all__ = ["with_whole_checkpoint"]


def with_whole_checkpoint(error: AlteredCheckpoint, checkpoints: CheckpointReader, base: int) -> AlteredCheckpoint:
    """The same error with the advice to continue from a whole checkpoint; `error` itself if there is none.

    A checkpoint of an epoch before `base` is of no use: the epochs after it are gone. Finding a whole checkpoint costs
    reading all bytes of all checkpoints once, so only an error is worth it.
    """
    whole: Checkpoint | None = None
    damaged: list[str] = []
    verified: set[Section] = set()
    for number in reversed(checkpoints.numbers()):
        try:
            checkpoint = checkpoints.verify(number, verified)
        except (AlteredCheckpoint, UnknownFormat, FileNotFoundError):
            damaged.append(str(checkpoints.manifest(number)))
        else:
            if whole is None and checkpoint.epoch >= base:
                whole = checkpoint
    if whole is None or not damaged:
        return error
    message = (
        f"{error.damage}; put the file back, or continue from checkpoint {whole.number} (epoch {whole.epoch}), "
        f"which is whole: move {' and '.join(damaged)} to another folder and start again, and the later epochs are "
        "replayed, with the same results"
    )
    return AlteredCheckpoint(message)
