"""Quality of estimates relative to a truth."""
