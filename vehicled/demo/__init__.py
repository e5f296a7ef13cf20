"""The demonstration: a simulated car that speaks to the real daemon, and a subscriber that watches."""
