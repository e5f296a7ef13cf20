"""The commands of the `vehicled` program, one module each."""
