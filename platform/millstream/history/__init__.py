"""Batch work over the history of a log on Spark: features of all records, and models trained on them."""
