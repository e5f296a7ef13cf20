"""GNSS receivers: positions, velocities and headings, their errors, and which of them are not to be believed."""
