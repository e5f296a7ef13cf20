"""Measurements compared with each other before the filter sees them, and what is said of those that differ."""
