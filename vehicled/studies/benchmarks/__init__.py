"""Benchmarks, one module each, run by the command `bench`."""
