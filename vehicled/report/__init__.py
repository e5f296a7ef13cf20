"""One HTML page about a run: what was estimated, how good it was, and how the program did."""

from vehicled.report.page import write_report

__all__ = ["write_report"]
