"""Beside a running daemon: what it publishes, in the terminal and in Foxglove, and what it is asked for."""

DEFAULT_ENDPOINT = "tcp://127.0.0.1:5550"
"""Where a daemon publishes unless its configuration names another place."""
