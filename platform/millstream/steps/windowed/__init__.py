"""Steps that keep something for each window, by key or for all records: one implementation for every kind of window."""
