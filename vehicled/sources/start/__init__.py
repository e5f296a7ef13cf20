"""Start and restart of the estimate."""
