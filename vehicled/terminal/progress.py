"""One line of progress on stderr for jobs that take a while; stdout stays clean for results."""

import sys
import time
from typing import Self, TextIO

from vehicled.terminal.canvas import get_size

_REDRAW_S = 0.1
_SPARSE_S = 10.0
_BAR_CELLS = 24


class Progress:
    """How far a job is: a line that redraws itself in a terminal, a line every ten seconds elsewhere.

    A context manager; leaving it shows the final progress. `quiet` (with `--json`) prints nothing.
    """

    def __init__(
        self,
        what: str,
        total: float | None = None,
        unit: str = "",
        quiet: bool = False,
        stream: TextIO | None = None,
        passes: bool = False,
    ) -> None:
        """`total`: the `done` at which the job ends, None when unknown; `unit` stands behind both.

        `passes`: the job goes over the same several times, and `done` begins anew with each of them.
        """
        self._what = what
        self._total = total
        self._unit = f" {unit}" if unit else ""
        self._stream = sys.stderr if stream is None else stream
        self._left = "left of this pass" if passes else "left"
        self._quiet = quiet
        self._terminal = self._stream.isatty()
        self._begun = time.monotonic()
        self._next_draw = self._begun + (0.0 if self._terminal else _SPARSE_S)
        self._done = 0.0
        self._pass_begun, self._pass_from = self._begun, 0.0
        """Time and `done` at which the present pass began."""
        self._note = ""

    def update(self, done: float, note: str = "") -> None:
        """The job has done `done` of `total`; cheap enough to be called at every step."""
        now = time.monotonic()
        if done < self._done or done == 0:  # what came before, such as compiling, is not of its pace
            self._pass_begun, self._pass_from = now, done
        self._done = done
        self._note = note
        if self._quiet:
            return
        if now >= self._next_draw:
            self._next_draw = now + (_REDRAW_S if self._terminal else _SPARSE_S)
            self._draw(self._line(now))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._quiet:
            self._draw(self._line(time.monotonic()))
            if self._terminal:
                self._stream.write("\n")
                self._stream.flush()

    def _draw(self, line: str) -> None:
        self._stream.write(f"\r\x1b[K{line}" if self._terminal else f"{line}\n")
        self._stream.flush()

    def _line(self, now: float) -> str:
        if not self._terminal:
            return self._describe(now, with_bar=False)
        # Only what fits into one line of the terminal can be redrawn.
        columns, _ = get_size(self._stream)
        line = self._describe(now, with_bar=True)
        return (line if len(line) < columns else self._describe(now, with_bar=False))[: columns - 1]

    def _describe(self, now: float, *, with_bar: bool) -> str:
        elapsed = now - self._begun
        done = f"{self._done:.6g}"
        if self._total is None or self._total <= 0:
            parts = [f"{self._what}: {done}{self._unit}, {elapsed:.0f} s"]
        else:
            fraction = min(max(self._done / self._total, 0.0), 1.0)
            bar = ""
            if with_bar:
                filled = round(fraction * _BAR_CELLS)
                bar = f" [{'#' * filled}{'.' * (_BAR_CELLS - filled)}]"
            parts = [f"{self._what}:{bar} {100 * fraction:3.0f} %, {done} of {self._total:.6g}{self._unit}"]
            advance = self._done - self._pass_from
            if fraction < 1 and advance > 0:
                left = (now - self._pass_begun) * (self._total - self._done) / advance
                parts.append(f"{left:.0f} s {self._left}")
            else:
                parts.append(f"{elapsed:.1f} s")
        if self._note:
            parts.append(self._note)
        return ", ".join(parts)
