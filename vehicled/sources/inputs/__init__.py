"""What drives the model: steering, drive torques and brake pressure, and what stands in for them."""
