"""How an estimate begins, and begins anew."""
