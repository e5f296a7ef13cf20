"""State observers on multibody models."""
