"""Completion of the command line in shells: what there is to complete, and a script for each kind of shell."""
