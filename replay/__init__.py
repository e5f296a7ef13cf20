"""Logs: read, write, convert, play, and emulated devices that send a log as bytes."""

import drivers  # noqa: F401  # before python-can, whose loading it makes short
