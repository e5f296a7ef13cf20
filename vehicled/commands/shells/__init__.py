"""Completion of the command line in shells: possible completions, and a script for each kind of shell."""
