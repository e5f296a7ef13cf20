"""Finds probable faults of a log from its channels alone: no filter runs."""
