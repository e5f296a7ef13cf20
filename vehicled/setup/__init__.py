"""A first configuration from questions: the questions, typical values of a car, and the text of the file."""
