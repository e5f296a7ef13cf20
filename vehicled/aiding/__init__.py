"""What measurements do to the filter: one module per family of sensors, and the life of every observation."""
