"""The demonstration: a simulated car's emulated devices, the real daemon on them, and a subscriber."""
