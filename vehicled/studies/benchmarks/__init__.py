"""Benchmarks, one module each; the command `bench` shows them."""
