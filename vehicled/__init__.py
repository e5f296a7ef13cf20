"""Real-time vehicle state estimation on a compiled multibody model."""

__version__ = "0.1.0"
