"""Comparisons of two runs: their epochs, accuracy, predictions, shares of labels and models."""

from millstream.runs.comparison.comparison import RunComparison, compare_runs
from millstream.runs.comparison.epochs import AccuracyWindow, FirstDifference
from millstream.runs.comparison.predictions import Example, PredictionsCompared

__all__ = ["AccuracyWindow", "Example", "FirstDifference", "PredictionsCompared", "RunComparison", "compare_runs"]
