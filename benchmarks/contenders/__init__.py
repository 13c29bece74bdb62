"""Other tools and hand-written loops that do the same work as Millstream."""
