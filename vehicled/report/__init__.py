"""One HTML page about a run: estimates, their quality, and the program's performance."""

from vehicled.report.page import write_report

__all__ = ["write_report"]
