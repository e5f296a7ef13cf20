"""Bytes of a device to Measurements, one file per device family."""
