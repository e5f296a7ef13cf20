"""Fixed-interval smoothing of a whole drive: the estimator runs forwards, then a pass backwards."""
