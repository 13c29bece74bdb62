"""Formats of records and rows: JSON lines, columns and times."""
