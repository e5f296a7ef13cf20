"""The daemon under faults: rows of a table, drives, runs, and what has to hold."""
