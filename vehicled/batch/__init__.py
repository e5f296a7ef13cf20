"""Many logs by many configurations: one table."""
