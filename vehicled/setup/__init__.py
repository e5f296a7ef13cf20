"""A first configuration from questions: what is asked, what is typical of a car, and the file that comes of it."""
