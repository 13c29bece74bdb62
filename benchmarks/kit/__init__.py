"""Tools of all measurements: rounds, child processes, documents, environments, tables, the history."""
