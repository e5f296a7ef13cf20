"""Logs: read, write, convert, play, and emulated devices that speak a log back as bytes."""
