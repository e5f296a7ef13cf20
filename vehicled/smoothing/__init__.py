"""Fixed-interval smoothing of a whole drive: the estimator forwards, then backwards over what it has done."""
