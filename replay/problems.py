"""Problems in a log: every occurrence counted, the first few of each kind in detail."""

import math
from collections import Counter
from typing import Self, TextIO

_DETAILS_PER_KIND = 3


class Problems:
    """Counts per kind (`bad number`, `duplicate`, …) and a bounded number of details, in order of appearance.

    Reading goes on after a problem; the reader's caller shows them at the end.
    """

    def __init__(self, log: str) -> None:
        """`log` is the name of the log that stands in front of every line."""
        self.log = log
        self.counts: Counter[str] = Counter()
        self.details: list[str] = []
        self._kinds: list[str] = []
        """Kinds of the details."""
        self.absurd: dict[str, tuple[int, float]] = {}
        """By channel: number of values left out as no sensor can have them, and the last such value."""

    def add(self, kind: str, where: str, detail: str = "", times: int = 1) -> None:
        """`kind` occurred at `where` (such as `line 12`), `times` times if a decoder only counted them."""
        if self.counts[kind] < _DETAILS_PER_KIND:
            self.details.append(f"{where}: {kind}{': ' + detail if detail else ''}")
            self._kinds.append(kind)
        self.counts[kind] += times

    def add_absurd(self, channel: str, value: float, where: str) -> None:
        """Add a value that was left out, as no sensor can have it."""
        if not math.isfinite(value):
            self.add("not finite", where, f"{channel} = {value}")
            return
        self.absurd[channel] = self.absurd.get(channel, (0, 0.0))[0] + 1, value
        self.add("absurd value", where, f"{channel} = {value:.6g}")

    def extend(self, following: Self) -> None:
        """Add the problems of the next part of the log, as if it had been read at once."""
        for kind, detail in zip(following._kinds, following.details, strict=True):
            if self._kinds.count(kind) < _DETAILS_PER_KIND:
                self.details.append(detail)
                self._kinds.append(kind)
        self.counts += following.counts
        for channel, (times, value) in following.absurd.items():
            self.absurd[channel] = self.absurd.get(channel, (0, 0.0))[0] + times, value

    def clear(self) -> None:
        """Clear all: a log that is read again finds the same problems again."""
        self.absurd.clear()
        self.counts.clear()
        self.details.clear()
        self._kinds.clear()

    @property
    def total(self) -> int:
        """Number of problems of all kinds."""
        return sum(self.counts.values())

    def __bool__(self) -> bool:
        return bool(self.counts)

    def __str__(self) -> str:
        """One line: `drive.csv: 3 problems (2 bad number, 1 duplicate)`; empty without any."""
        if not self.counts:
            return ""
        kinds = ", ".join(f"{n} {kind}" for kind, n in self.counts.items())
        return f"{self.log}: {self.total} problem{'s' * (self.total > 1)} ({kinds})"

    def show(self, stream: TextIO) -> None:
        """Write the details and the total, a line each; nothing without any problem."""
        for detail in self.details:
            print(f"{self.log}: {detail}", file=stream)
        if self.counts:
            print(self, file=stream)
