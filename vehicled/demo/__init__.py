"""The demonstration: a simulated car whose sensors speak to the real daemon, and a subscriber that watches."""
