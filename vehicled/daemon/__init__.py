"""The real-time process: clock, queue, threads, publisher, recorder, service notification."""
