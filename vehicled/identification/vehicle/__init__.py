"""Parameters and noise of a car from drives, by the innovations of the filter that runs in it."""
