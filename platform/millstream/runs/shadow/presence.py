"""The shadows of a run, which may be added to its config at any start, but not removed while an epoch needs them."""

from __future__ import annotations

from millstream.errors import Contradiction
from millstream.log.epochs import Totals
from millstream.shadow_names import shadow_of
from millstream.steps.graph import Graph

__all__ = ["check_shadows"]


def check_shadows(graph: Graph, totals: Totals) -> None:
    """Refuse a config without a shadow that an epoch since the base needs, which a start may process again."""
    here = {node.name for node in graph.steps}
    for step, epoch in totals.models.shadows.items():
        if step in here and shadow_of(step) not in here and epoch > totals.base.epoch:
            message = (
                f"epoch {epoch} of this run needs the shadow of the step {step!r}, and the config has none: keep "
                "`shadow` there, which costs nothing without a model, or fork the run with a config without it"
            )
            raise Contradiction(message)
