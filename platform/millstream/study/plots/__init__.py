"""The plots of a study: one file a plot, from the study's table and cells to a matplotlib figure."""
