"""YAML files into dataclasses, and one line for each mistake in them."""
