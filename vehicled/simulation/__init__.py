"""Simulated drives of a car: plant, manoeuvres, sensor noise and faults."""
