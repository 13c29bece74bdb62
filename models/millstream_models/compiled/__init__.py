"""Compiled functions: counting the words of texts, and learning from the counts record by record. Imports numba."""
