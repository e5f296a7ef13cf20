"""What each sensor would read in a state, and the Jacobian of that."""
