"""The IMU: what its samples show of the car, of the road and of its own errors."""
