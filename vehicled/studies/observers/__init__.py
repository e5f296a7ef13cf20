"""State observers on multibody models of mechanisms."""
