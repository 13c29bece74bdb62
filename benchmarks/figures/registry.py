"""The list of all measurements and of all figures, group by group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.figures import (
    backfills,
    checkpoints,
    cycles,
    digests,
    graphs,
    joins,
    journals,
    kafka,
    local_latency,
    local_workers,
    python_loops,
    retention,
    searches,
    simulation,
    spark_latency,
    spark_throughput,
    studies,
    swaps,
    text_accuracy,
    text_models,
    text_pipelines,
    trainings,
    windows,
)
from benchmarks.kit.measurement import Figure, Measurement

__all__ = ["GROUPS", "figures", "measurements"]

GROUPS: Mapping[str, Sequence[Measurement]] = {
    "Text models": text_models.MEASUREMENTS,
    "Accuracy of the text models": text_accuracy.MEASUREMENTS,
    "Pipelines with compiled models": text_pipelines.MEASUREMENTS,
    "Graphs": graphs.MEASUREMENTS,
    "Cycles": cycles.MEASUREMENTS,
    "Python loops": python_loops.MEASUREMENTS,
    "Throughput on Spark": spark_throughput.MEASUREMENTS,
    "Latency on Spark": spark_latency.MEASUREMENTS,
    "Kafka": kafka.MEASUREMENTS,
    "Latency of the local engine": local_latency.MEASUREMENTS,
    "Workers of the local engine": local_workers.MEASUREMENTS,
    "Journals and epoch log": journals.MEASUREMENTS,
    "Digests": digests.MEASUREMENTS,
    "Joins": joins.MEASUREMENTS,
    "Retention": retention.MEASUREMENTS,
    "Checkpoints and state by key": checkpoints.MEASUREMENTS,
    "Swaps of models": swaps.MEASUREMENTS,
    "Windows": windows.MEASUREMENTS,
    "Simulator": simulation.MEASUREMENTS,
    "Studies": studies.MEASUREMENTS,
    "History": [*backfills.MEASUREMENTS, *trainings.MEASUREMENTS, *searches.MEASUREMENTS],
}


def measurements() -> list[Measurement]:
    """All measurements, in the order of the groups."""
    return [measurement for group in GROUPS.values() for measurement in group]


def figures() -> dict[str, Figure]:
    """All figures by their names, with their units and goals."""
    return {figure.name: figure for measurement in measurements() for figure in measurement.figures}
