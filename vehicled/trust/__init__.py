"""Whom and what the program trusts, and how much of it: files, addresses, keys, rates."""
