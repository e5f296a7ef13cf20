"""YAML files read into dataclasses, with one line for each mistake."""
