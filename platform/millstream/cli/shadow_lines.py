"""The lines of `millstream status` about a step with a shadow."""

from __future__ import annotations

from collections.abc import Iterator

from millstream.runs.shadow.status import ShadowStatus

__all__ = ["shadow_lines"]


def shadow_lines(step: str, found: ShadowStatus) -> Iterator[str]:
    """The champion, the shadow, their accuracies since the shadow entered, and the version that is to enter next."""
    yield f"  champion   {found.champion or 'the model of the config'} ({step})"
    yield f"  shadow     {found.shadow or 'none yet'}{'' if found.since is None else f', since epoch {found.since:,}'}"
    if found.champion_accuracy is not None and found.shadow_accuracy is not None:
        gained = 100 * (found.shadow_accuracy - found.champion_accuracy)
        yield (
            f"    accuracy {found.shadow_accuracy:.2%}, and {found.champion_accuracy:.2%} of the champion: "
            f"{gained:+.2f} points over {found.labelled:,} labelled records"
        )
    if found.better is not None:
        yield f"    rule     {found.better:g} points better over {found.over:,} labelled records"
    if found.next is not None:
        reason = "" if found.next.reason is None else f": {found.next.reason}"
        ahead = f", {found.next.ahead:,} offsets ahead of the stream" if found.next.ahead else ""
        learned = f", {found.next.records:,} records learned" if found.next.records else ""
        yield f"    next     {found.next.version} {found.next.state}{learned}{ahead}{reason}"
