"""What is compiled: text to counted words, and learners over them, record by record. Imports numba."""
