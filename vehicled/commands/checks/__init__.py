"""Parts of `vehicled check`."""
