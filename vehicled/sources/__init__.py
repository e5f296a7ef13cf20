"""The kinds of sensors: what each measures, how well, what the filter sees of it, and whether it is healthy."""
