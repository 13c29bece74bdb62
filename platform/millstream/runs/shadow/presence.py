"""The shadows of a run, which may be added to its config at any start, but not removed while an epoch needs them."""

from __future__ import annotations

from millstream.errors import Contradiction
from millstream.log.epochs import Totals
from millstream.shadow_names import shadow_of
from millstream.steps.graph import Graph

__all__ = ["check_shadows"]


_ADVICE = (
    "keep `shadow` there, which costs nothing without a model, or let the run end cleanly and fork it with a config "
    "without it"
)


def check_shadows(graph: Graph, totals: Totals, advice: str = _ADVICE) -> None:
    """Refuse a config without a shadow that has a model, or that an epoch since the base needs."""
    here = {node.name for node in graph.steps}
    for step in here:
        if shadow_of(step) in here:
            continue
        shadow = totals.models.versions.get(shadow_of(step))
        epoch = totals.models.shadows.get(step, -1)
        if epoch > totals.base.epoch:
            message = f"epoch {epoch} of this run needs the shadow of the step {step!r}, and the config has none: "
            raise Contradiction(message + advice)
        if shadow is not None:
            message = (
                f"the shadow of the step {step!r} has {shadow.version} since epoch {shadow.since}, and the config has "
                "no shadow: "
            )
            raise Contradiction(message + advice)
