"""Programs for a running daemon: show its messages in the terminal and in Foxglove, and send it commands."""

DEFAULT_ENDPOINT = "tcp://127.0.0.1:5550"
"""Default endpoint at which a daemon publishes."""
