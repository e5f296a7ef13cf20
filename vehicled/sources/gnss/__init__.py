"""GNSS receivers: positions, velocities and headings, their errors, and the detection of false ones."""
