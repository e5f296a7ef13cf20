"""Speeds: by the wheels, by the car's own bus and by sensors of the velocity of a point."""
