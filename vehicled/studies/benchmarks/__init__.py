"""Benchmarks, one module each, which the command `bench` runs."""
