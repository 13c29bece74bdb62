"""Compilation of functions, and the compiled hashes of rows. Imports numba, so import it where it is needed."""
