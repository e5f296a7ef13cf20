"""One implementation of each filter's mathematics, and the error states of the car."""
