"""Mathematics that has no place of its own: angles, places on the earth, tables, noise."""
