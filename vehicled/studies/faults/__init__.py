"""The daemon under faults: rows of a table, drives, runs, and the requirements."""
