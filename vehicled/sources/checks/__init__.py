"""Checks that compare measurements with each other before the filter uses them, and words for the faults found."""
