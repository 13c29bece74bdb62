"""The figures: one module for each group of them."""
