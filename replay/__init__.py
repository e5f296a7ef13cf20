"""Logs: read, write, convert, play, and emulated devices that send a log as bytes."""
