"""Logs of other programs and devices: signals of one format in each module, and a mapping of them to channels."""
