"""The layers that a role writes in the background."""

from __future__ import annotations

from collections.abc import Callable, Collection

from millstream.engines.workers.messages import Failed, StateRequest, StateWritten
from millstream.errors import MillstreamError
from millstream.state.background import Work
from millstream.state.layer_writer import LayerWriter
from millstream.state.layers import Layers
from millstream.state.stored_states import States

__all__ = ["StateWriter", "failure"]


class StateWriter:
    """Writes the layers of a role in the background; `send` sends a message to the coordinator."""

    def __init__(self, layers: Layers, keyed: Collection[str], send: Callable[[StateWritten | Failed], None]) -> None:
        self._layers, self._send = layers, send
        self._writer = LayerWriter(layers, keyed)

    def begin(self, request: StateRequest, states: States) -> None:
        """Begin to write these states; `StateWritten` or `Failed` follows."""
        self._layers.background.start(self._write(request, states))

    def _write(self, request: StateRequest, states: States) -> Work[None]:
        try:
            sections = yield from self._writer.write(request.layer, states)
        except Exception as error:
            self._send(failure(error))
            return
        self._send(StateWritten(request.number, sections))


def failure(error: Exception, epoch: int | None = None) -> Failed:
    """The message on an error of a role."""
    known = isinstance(error, MillstreamError | OSError)  # other exceptions may not be picklable
    return Failed(error if known else MillstreamError(f"{type(error).__name__}: {error}"), epoch)
