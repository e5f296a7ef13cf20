"""Terminal output: a canvas of Braille dots, pages that are redrawn, and keys as they are pressed."""

from __future__ import annotations

import contextlib
import math
import os
import select
import sys
import termios
import tty
from collections.abc import Iterator
from typing import Self, TextIO

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Of a Braille cell, by row and column."""
PLAIN, BOLD, DIM = "\x1b[0m", "\x1b[1m", "\x1b[2m"
RED, GREEN, BLUE = [BOLD] * 3 if os.environ.get("NO_COLOR") else ["\x1b[31m", "\x1b[32m", "\x1b[34m"]
"""Bold for those who want no colours (https://no-color.org)."""
HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
_OTHER_SCREEN, _FIRST_SCREEN = "\x1b[?1049h", "\x1b[?1049l"


class Canvas:
    """Cells of two by four dots each, about square; a cell has the style of what was drawn in it last.

    World coordinates are in any one unit, x to the right and y up. What lies outside is not drawn.
    """

    def __init__(self, columns: int, rows: int, west: float, south: float, east: float, north: float) -> None:
        """Shows at least the rectangle of these bounds, in its middle, to the same scale both ways."""
        self._cells = [[0] * columns for _ in range(rows)]
        self._styles = [[""] * columns for _ in range(rows)]
        self._scale = min((2 * columns - 1) / (east - west), (4 * rows - 1) / (north - south))
        self._x = 0.5 * (2 * columns - 1 - self._scale * (west + east))
        self._y = 0.5 * (4 * rows - 1 + self._scale * (south + north))
        self._marker: tuple[int, int, str] | None = None

    def dot(self, x: float, y: float, style: str = "") -> None:
        """Draw a point at x, y (world units)."""
        column, row = self._place(x, y)
        if self._shows(column, row):
            self._cells[row // 4][column // 2] |= _DOTS[row % 4][column % 2]
            self._styles[row // 4][column // 2] = style

    def mark(self, x: float, y: float, character: str) -> None:
        """Show a character in the cell of this point, over its dots; it replaces the previous one."""
        column, row = self._place(x, y)
        self._marker = (row // 4, column // 2, character) if self._shows(column, row) else None

    def line(self, start: tuple[float, float], end: tuple[float, float], style: str = "") -> None:
        """Draw a straight line between two points (world units)."""
        (x, y), (u, v) = start, end
        steps = max(1, math.ceil(self._scale * max(abs(u - x), abs(v - y))))
        for k in range(steps + 1):
            self.dot(x + (u - x) * k / steps, y + (v - y) * k / steps, style)

    def lines(self) -> list[str]:
        """The lines of text, with styles."""
        characters = [[chr(0x2800 + cell) if cell else " " for cell in row] for row in self._cells]
        if self._marker is not None:
            row, column, character = self._marker
            characters[row][column] = character
        return [_join_styled(*row) for row in zip(characters, self._styles, strict=True)]

    def _place(self, x: float, y: float) -> tuple[int, int]:
        """Column and row of the dot at this point."""
        return round(self._x + self._scale * x), round(self._y - self._scale * y)

    def _shows(self, column: int, row: int) -> bool:
        return 0 <= row < 4 * len(self._cells) and 0 <= column < 2 * len(self._cells[0])


def _join_styled(characters: list[str], styles: list[str]) -> str:
    """A line whose styles change only where they differ."""
    line, present = "", ""
    for character, style in zip(characters, styles, strict=True):
        if style != present:
            line += (PLAIN if present else "") + style
            present = style
        line += character
    return line + (PLAIN if present else "")


def get_size(terminal: TextIO) -> tuple[int, int]:
    """Columns and rows; 80 and 24 where they are not known, as on a serial console or under `script`."""
    try:
        columns, lines = os.get_terminal_size(terminal.fileno())
    except (OSError, ValueError):
        columns = lines = 0
    return columns or 80, lines or 24


class Page:
    """A whole screen that is drawn again and again; the terminal is as it was when it is left. A context manager."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream

    def size(self) -> tuple[int, int]:
        """Columns and rows, which may change at any time."""
        return get_size(self._stream)

    def draw(self, lines: list[str]) -> None:
        """No line may be wider than the page."""
        _, rows = self.size()
        body = "\x1b[K\r\n".join(lines[:rows])
        self._stream.write(f"\x1b[H{body}\x1b[K\x1b[J")
        self._stream.flush()

    def __enter__(self) -> Self:
        self._stream.write(_OTHER_SCREEN + HIDE_CURSOR)
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.write(SHOW_CURSOR + _FIRST_SCREEN)
        self._stream.flush()


@contextlib.contextmanager
def keys() -> Iterator[Keys]:
    """Keys one by one, without Enter and unseen; none where the input is no terminal. Ctrl-C interrupts as ever."""
    if not sys.stdin.isatty():
        yield Keys(None)
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield Keys(descriptor)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


class Keys:
    """What has been pressed and not been taken."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    def take(self) -> str:
        """Empty if nothing was pressed; does not wait."""
        if self._descriptor is None or not select.select([self._descriptor], [], [], 0.0)[0]:
            return ""
        return os.read(self._descriptor, 64).decode(errors="replace")
