"""A version as MLflow shows it: tags that programs read, and a text, params and metrics for people."""

from __future__ import annotations

import json
from collections.abc import Sequence

from millstream.log.epochs import Scores
from millstream.plain_text import one_line, short
from millstream.registry.flat_values import flat_values
from millstream.state.model_version import ModelVersion

__all__ = ["DIGEST", "metrics_of", "model_text", "params_of", "records_of", "tags_of", "version_text"]

DIGEST = "millstream.digest"
_MOST_NAMES = 20


def tags_of(version: ModelVersion) -> dict[str, str]:
    """The tags of a version: its digest, the positions up to which it was trained, and the cuts."""
    positions = {source: {name: part.upto for name, part in parts.items()} for source, parts in version.trained.items()}
    return {
        DIGEST: version.digest,
        "millstream.trained": json.dumps(positions, ensure_ascii=False),
        "millstream.cuts": version.cuts or "bounded",
        "millstream.step": version.step,
    }


def params_of(version: ModelVersion) -> dict[str, str]:
    """The options of the steps up to the model, and of the model, by step."""
    steps = {str(step["name"]): {key: each for key, each in step.items() if key != "name"} for step in version.steps}
    return {key: str(value) for key, value in flat_values(steps)}


def metrics_of(version: ModelVersion, scores: Scores) -> dict[str, float]:
    """The records up to which a version was trained, and the accuracy of its predictions, if they are known."""
    metrics = {"model_records": float(records_of(version)), "model_labelled": float(scores.labelled)}
    if scores.accuracy is None:
        return {"model_records": metrics["model_records"]}
    return {**metrics, "model_accuracy": scores.accuracy}


def records_of(version: ModelVersion) -> int:
    """The sum of the positions up to which a version was trained."""
    return sum(part.upto for parts in version.trained.values() for part in parts.values())


def version_text(version: ModelVersion, scores: Scores) -> str:
    """The description of a version, in Markdown."""
    model, labels = version.model, version.labels
    kind, step, sources = _verbatim(model["type"]), _verbatim(version.step), _listed(list(version.trained))
    text = f"{kind} of step {step}, trained up to {records_of(version):,} records of {sources}."
    if scores.accuracy is not None:
        text += (
            f" Accuracy of its predictions before it learned each record: {scores.accuracy:.3f} of "
            f"{scores.labelled:,} labelled records."
        )
    return f"{text} {len(labels):,} labels: {_listed(sorted(labels))}."


def model_text(name: str, version: ModelVersion) -> str:
    """The description of a model with its first version, in Markdown."""
    label = version.steps[-1].get("label", "label")
    return (
        f"Predicts {_verbatim(label)} of the column `text`: `mlflow.pyfunc.load_model('models:/{name}/1')`. A stream "
        f"of Millstream goes on from a version with `model: {{from: 'models:/{name}/1'}}`."
    )


def _listed(names: Sequence[str]) -> str:
    """The first names, and three dots for the others: a store takes descriptions of up to 5,000 characters."""
    shown = [_verbatim(name) for name in names[:_MOST_NAMES]]
    return ", ".join([*shown, "..."] if len(names) > _MOST_NAMES else shown)


def _verbatim(text: str) -> str:
    r"""A text of unknown origin, such as a label, as Markdown that a page shows letter by letter.

    >>> print(_verbatim("a `tick` <b>\nline"))
    `a 'tick' <b>\nline`
    """
    shown = one_line(text).replace("`", "'")
    return f"`{short(shown)}`"
