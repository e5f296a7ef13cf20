"""What `vehicled bench` can measure: one module each with `DESCRIPTION`, `configure(parser)` and `run(args)`."""
