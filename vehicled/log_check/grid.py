"""The grid of times on which the signals of a window are compared."""

STEP = 0.02
"""s."""
