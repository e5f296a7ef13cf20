"""How good estimates are beside a truth."""
