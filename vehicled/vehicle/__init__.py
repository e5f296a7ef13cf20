"""The car: suspension, steering, tyres, driveline, brakes, and their parameters."""
