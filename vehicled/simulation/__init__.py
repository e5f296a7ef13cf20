"""A car to drive without a car: plant, manoeuvres, sensor noise and faults."""
