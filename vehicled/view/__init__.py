"""A running daemon or a recording as a page for browsers, served by a separate process."""
