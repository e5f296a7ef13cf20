"""The version of the program, by itself: modules that write it need nothing else of the package."""

__version__ = "0.1.0"
