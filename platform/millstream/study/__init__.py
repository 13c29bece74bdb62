"""Experiments that compare guarantees, their statistics, and the advice that follows from their results."""
