"""A run directory of which one process writes all checkpoints, without a background."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from millstream.log.epochs import EpochLog
from millstream.state.applied_epochs import AppliedEpochs
from millstream.state.background import finish
from millstream.state.checkpoints import Checkpoint, CheckpointStore
from millstream.state.layer_writer import LayerWriter
from millstream.state.layers import Layers
from millstream.state.shards import SHARDS
from millstream.state.stored_states import States

__all__ = ["CheckpointChain"]


class CheckpointChain:
    """The checkpoints of one start in `run`, each of them with its line in the epoch log."""

    def __init__(self, run: Path, keyed: Collection[str] = (), shards: int = SHARDS) -> None:
        self.log = EpochLog(run / "epochs")
        self.layers = Layers(run / "layers", shards)
        self.store = CheckpointStore(run, {}, self.log.totals.checkpoint, self.layers)
        self.store.begin()
        self.writer = LayerWriter(self.layers, keyed)

    def write(self, epoch: int, states: States) -> Checkpoint:
        """Write a checkpoint that counts."""
        sections = finish(self.writer.write(self.store.next_layer(), states))
        checkpoint = finish(self.store.write(epoch, AppliedEpochs([[0, epoch + 1]]), sections))
        self.log.checkpoint(checkpoint.number, epoch, checkpoint.name, checkpoint.digest)
        self.log.sync()
        self.store.counts(checkpoint)
        return checkpoint

    def thin(self) -> None:
        finish(self.store.thin())

    def newest(self, upto: int | None = None) -> Checkpoint:
        found = self.store.newest(upto)
        assert found is not None
        return found

    @property
    def layer_sizes(self) -> list[int]:
        """The sizes of the layers, oldest first."""
        return [path.stat().st_size for path in sorted(self.layers.folder.glob("*.layer"))]

    def close(self) -> None:
        self.log.close()
