"""Loops that replace kernels of `late_kernels.py`."""

from __future__ import annotations

from vehicled.symbolic.array_loops import ArrayLoops
from vehicled.symbolic.program import Program


class LateLoops:
    """Text of the functions, for n states and observations of `components`."""

    def __init__(self, program: Program, size: int, components: int) -> None:
        self._program, self._size, self._components = program, size, components

    def update(self, name: str, k: int) -> str:
        """Update G, C and ν of the late observation by component k of an observation in EVENT."""
        code, n = ArrayLoops(self._program, name), self._size
        columns = [code.place("crossed") + c * n for c in range(self._components)]
        shared = self._dot(code, code.place("event.rows") + k * n, columns)
        precision = code.load(code.place("event.precision") + k)
        gains = [code.multiply(precision, a) for a in shared]
        left = code.load(code.place("event.left") + k)
        for c, gain in enumerate(gains):
            self._reduce(code, code.place("innovation") + c, gain, left)
        at = code.place("expected")
        for i, a in enumerate(shared):
            for gain in gains[: i + 1]:
                self._reduce(code, at, gain, a)
                at += 1
        white = code.place("event.white") + k * n

        def reduce(j: str, size: int) -> None:
            value = code.load(code.sum(white, j), size)
            for column, gain in zip(columns, gains, strict=True):
                self._reduce(code, code.sum(column, j), gain, value, size)

        code.each(0, n, reduce)
        return code.text

    def amend(self, name: str, k: int) -> str:
        """Update component k of an observation in EVENT by the late one."""
        code, n = ArrayLoops(self._program, name), self._size
        columns = [code.place("white") + c * n for c in range(self._components)]
        shared = self._dot(code, code.place("event.rows") + k * n, columns)
        gains = [code.multiply(code.load(code.place("precision") + c), a) for c, a in enumerate(shared)]
        place = code.place("event.precision") + k
        variance = code.new(f"fdiv double 1.0, {code.load(place)}")
        left = code.place("event.left") + k
        for c, (gain, a) in enumerate(zip(gains, shared, strict=True)):
            variance = code.subtract(variance, code.multiply(gain, a))
            self._reduce(code, left, gain, code.load(code.place("left") + c))
        code.store(code.new(f"fdiv double 1.0, {variance}"), place)
        white = code.place("event.white") + k * n

        def reduce(j: str, size: int) -> None:
            there = code.sum(white, j)
            value = code.load(there, size)
            for column, gain in zip(columns, gains, strict=True):
                factor = code.load(code.sum(column, j), size)
                value = code.subtract(value, code.multiply(code.broadcast(gain, size), factor, size), size)
            code.store(value, there, size)

        code.each(0, n, reduce)
        return code.text

    def _dot(self, code: ArrayLoops, row: int, columns: list[int]) -> list[str]:
        """Scalar products of n numbers with each of some columns."""
        vector, n = "<4 x double>", self._size
        whole = code.begin(0, n - 3, *[(vector, "zeroinitializer")] * len(columns))
        h = code.load(code.sum(row, whole.index), 4)
        parts = [code.load(code.sum(c, whole.index), 4) for c in columns]
        sums = [
            code.add(total, code.multiply(h, g, 4), 4) for total, g in zip(whole.carried, parts, strict=True)
        ]
        code.end(whole, *sums, step=4)
        totals = []
        for carried in whole.carried:
            first, *others = (code.new(f"extractelement {vector} {carried}, i32 {i}") for i in range(4))
            for other in others:
                first = code.add(first, other)
            totals.append(("double", first))
        rest = code.begin(whole.index, n, *totals)
        h = code.load(code.sum(row, rest.index))
        singles = [code.load(code.sum(c, rest.index)) for c in columns]
        code.end(
            rest,
            *[code.add(total, code.multiply(h, g)) for total, g in zip(rest.carried, singles, strict=True)],
        )
        return list(rest.carried)

    def _reduce(self, code: ArrayLoops, place: int | str, gain: str, value: str, size: int = 1) -> None:
        """Subtract gain times value from the numbers at a place."""
        product = code.multiply(code.broadcast(gain, size), value, size)
        code.store(code.subtract(code.load(place, size), product, size), place, size)
