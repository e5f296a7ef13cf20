"""What Foxglove needs to draw the car: where it is, its frames, and a body on four wheels with their forces."""
