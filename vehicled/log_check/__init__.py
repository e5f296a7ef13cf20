"""What is probably wrong in a log, from its channels alone: no filter runs."""
