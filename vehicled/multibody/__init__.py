"""Rigid multibody systems in natural coordinates."""
