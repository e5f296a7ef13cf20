"""Loops over a covariance: the kernels of `covariance.py` as short code.

With 53 states the expressions of a propagation, an observation and an update are 100 kB of code each, which
every step would have to read from memory. P is kept as its upper triangle by rows: row i begins with its
diagonal element.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from vehicled.filter.factors import list_pairs
from vehicled.symbolic.array_loops import ArrayLoops, Table
from vehicled.symbolic.program import KernelHandle, Program

_ADD_ROW = "add_covariance_row"


class CovarianceLoops:
    """Text of the functions that replace kernels, for n states."""

    def __init__(self, program: Program, size: int) -> None:
        """Adds the function that the others call."""
        self._program, self._size = program, size
        self._diagonal = [i * size - i * (i - 1) // 2 for i in range(size)]
        """Places of the diagonal elements in the triangle."""
        program.texts.append(self._add_row())

    def _add_row(self) -> str:
        """Function that adds row b of P, times a factor, to the n numbers at a place."""
        code = ArrayLoops(
            self._program, _ADD_ROW, "i64 %target", "double %factor", "i64 %row", "i64 %diagonal"
        )
        n, p = self._size, code.place("covariance")

        def add(source: str, target: str, size: int) -> None:
            factor = code.broadcast("%factor", size)
            product = code.multiply(factor, code.load(source, size), size)
            code.store(code.add(code.load(target, size), product, size), target, size)

        # Above the diagonal: down the column, whose elements have decreasing distances.
        above = code.begin(0, "%row", ("i64", code.sum("%row", p)))
        add(above.carried[0], code.sum("%target", above.index), 1)
        less = code.new(f"sub i64 {n - 1}, {above.index}")
        code.end(above, code.sum(above.carried[0], less))
        begin = code.new("sub i64 %diagonal, %row")
        code.each("%row", n, lambda i, size: add(code.sum(begin, i, p), code.sum("%target", i), size))
        return code.text

    def update(self, name: str, m: int) -> str:
        """x ← x + K ν and P ← P − K S Kᵀ, with m components in decorrelated directions."""
        code = ArrayLoops(self._program, name)
        n, p, x, white = self._size, *map(code.place, ("covariance", "x", "white"))
        precision = [code.load(code.place("precision") + k) for k in range(m)]
        left = [code.load(code.place("left") + k) for k in range(m)]
        rows = code.begin(0, n, ("i64", str(p)))
        i = rows.index
        gains = [code.multiply(code.load(code.sum(white + k * n, i)), precision[k]) for k in range(m)]
        place = code.sum(x, i)
        value = code.load(place)
        for gain, nu in zip(gains, left, strict=True):
            value = code.add(value, code.multiply(gain, nu))
        code.store(value, place)
        begin = code.new(f"sub i64 {rows.carried[0]}, {i}")

        def reduce(j: str, size: int) -> None:
            place = code.sum(begin, j)
            value = code.load(place, size)
            for k, gain in enumerate(gains):
                factor = code.load(code.sum(white + k * n, j), size)
                value = code.subtract(value, code.multiply(code.broadcast(gain, size), factor, size), size)
            code.store(value, place, size)

        code.each(i, n, reduce)
        length = code.new(f"sub i64 {n}, {i}")
        code.end(rows, code.sum(rows.carried[0], length))
        return code.text

    def weigh(self, name: str, m: int, factorise: KernelHandle) -> str:
        """Calculate S, and innovations and P Hᵀ in decorrelated directions, from `rows`.

        `factorise`: the kernel that factorises S, between `expected` and `mixing` = L, lower triangle without
        its diagonal by rows.
        """
        code = ArrayLoops(self._program, name)
        n, rows, crossed = self._size, code.place("rows"), code.place("crossed")
        diagonal = code.table(self._diagonal)
        code.clear(crossed, crossed + m * n)
        for k in range(m):
            states = code.begin(0, n)
            factor = code.load(code.sum(rows + k * n, states.index))

            def add(k: int = k, factor: str = factor, j: str = states.index) -> None:
                arguments = (f"i64 {crossed + k * n}", f"double {factor}", f"i64 {j}", f"i64 {diagonal(j)}")
                code.call_function(_ADD_ROW, *arguments)

            code.unless_zero(factor, add)
            code.end(states)
        pairs = list_pairs(m)
        states = code.begin(0, n, *[("double", "0.0")] * len(pairs))
        h = [code.load(code.sum(rows + k * n, states.index)) for k in range(m)]
        columns = [code.load(code.sum(crossed + k * n, states.index)) for k in range(m)]
        sums = [
            code.add(total, code.multiply(h[k], columns[i]))
            for total, (k, i) in zip(states.carried, pairs, strict=True)
        ]
        code.end(states, *sums)
        for at, total in enumerate(states.carried):
            code.store(total, code.place("expected") + at)
        self._whiten(code, m, factorise)
        return code.text

    def whiten(self, name: str, m: int, factorise: KernelHandle) -> str:
        """The second part of `weigh`, from `crossed` and `expected`."""
        code = ArrayLoops(self._program, name)
        self._whiten(code, m, factorise)
        return code.text

    def _whiten(self, code: ArrayLoops, m: int, factorise: KernelHandle) -> None:
        """`white` from the m rows of `crossed`: L⁻¹ times these."""
        code.call(factorise)
        n, crossed, white = self._size, code.place("crossed"), code.place("white")
        mixing = [code.load(code.place("mixing") + at) for at in range(m * (m - 1) // 2)]

        def mix(j: str, size: int) -> None:
            factors = iter(mixing)
            done: list[str] = []
            for k in range(m):
                value = code.load(code.sum(crossed + k * n, j), size)
                for other in done:
                    product = code.multiply(code.broadcast(next(factors), size), other, size)
                    value = code.subtract(value, product, size)
                code.store(value, code.sum(white + k * n, j), size)
                done.append(value)

        code.each(0, n, mix)

    def sum_up(self, name: str, array: str, count: int) -> str:
        """The sum of P and of another array into `soundness`."""
        code = ArrayLoops(self._program, name)
        p, end = code.place("covariance"), code.place("covariance") + self._size * (self._size + 1) // 2
        vector = "<4 x double>"
        whole = code.begin(p, end - 3, (vector, "zeroinitializer"))
        code.end(whole, code.add(whole.carried[0], code.load(whole.index, 4), 4), step=4)
        total = "0.0"
        for k in range(4):
            total = code.add(total, code.new(f"extractelement {vector} {whole.carried[0]}, i32 {k}"))
        rest = code.begin(whole.index, end, ("double", total))
        code.end(rest, code.add(rest.carried[0], code.load(rest.index)))
        other = code.begin(code.place(array), code.place(array) + count, ("double", rest.carried[0]))
        code.end(other, code.add(other.carried[0], code.load(other.index)))
        code.store(other.carried[0], code.place("soundness"))
        return code.text

    def observe(self, name: str, m: int, read: KernelHandle, weigh: str) -> str:
        """Clear `rows`, then run the kernel that writes its nonzero elements, then `weigh`."""
        code = ArrayLoops(self._program, name)
        rows = code.place("rows")
        code.clear(rows, rows + m * self._size)
        code.call(read)
        code.call_function(weigh)
        return code.text

    def propagate(
        self,
        name: str,
        rows: Sequence[Sequence[int]],
        kept: Collection[int],
        prepare: Sequence[KernelHandle],
        coupled: Sequence[tuple[int, int]],
    ) -> str:
        """P ← F (P + Q/2) Fᵀ + Q/2; x ← 0.

        `rows`: columns of the nonzero elements, by row of F; `kept`: rows that equal those of the identity.
        `prepare`: kernels that write those elements, one after the other, into `transition`, and Q/2 into
        `half_noise`: its diagonal, then the elements `coupled` above it.
        """
        code = ArrayLoops(self._program, name)
        n, x, f, moved = self._size, *map(code.place, ("x", "transition", "moved_rows"))
        for kernel in prepare:
            code.call(kernel)
        diagonal = code.table(self._diagonal)
        code.clear(x, x + n)
        self._add_noise(code, diagonal, coupled)
        active = [i for i, row in enumerate(rows) if i not in kept]
        row_of, columns = code.table(active), code.table([j for row in rows for j in row])
        begins = [sum(map(len, rows[:i])) for i in active]
        first = code.table(begins)
        end = code.table([begin + len(rows[i]) for begin, i in zip(begins, active, strict=True)])
        # F P, for the rows that change.
        code.clear(moved, moved + len(active) * n)
        changing = code.begin(0, len(active), ("i64", str(moved)))
        terms = code.begin(first(changing.index), end(changing.index))
        factor, j = code.load(code.sum(terms.index, f)), columns(terms.index)
        arguments = (f"i64 {changing.carried[0]}", f"double {factor}", f"i64 {j}", f"i64 {diagonal(j)}")
        code.call_function(_ADD_ROW, *arguments)
        code.end(terms)
        code.end(changing, code.sum(changing.carried[0], n))
        self._store_moved(code, len(active), row_of, diagonal)
        # Elements whose column changes too must still be multiplied by Fᵀ.
        changing = code.begin(0, len(active), ("i64", str(moved)))
        source = changing.carried[0]
        begin = self._begin_of_row(code, row_of(changing.index), diagonal)
        others = code.begin(changing.index, len(active))
        terms = code.begin(first(others.index), end(others.index), ("double", "0.0"))
        element = code.load(code.sum(source, columns(terms.index)))
        product = code.multiply(code.load(code.sum(terms.index, f)), element)
        code.end(terms, code.add(terms.carried[0], product))
        code.store(terms.carried[0], code.sum(begin, row_of(others.index)))
        code.end(others)
        code.end(changing, code.sum(source, n))
        self._add_noise(code, diagonal, coupled)
        return code.text

    def _store_moved(self, code: ArrayLoops, count: int, row_of: Table, diagonal: Table) -> None:
        """Store the first `count` rows of `moved_rows` as the rows `row_of` of P, and their columns."""
        n, p, moved = self._size, code.place("covariance"), code.place("moved_rows")
        changing = code.begin(0, count, ("i64", str(moved)))
        i, source = row_of(changing.index), changing.carried[0]
        above = code.begin(0, i, ("i64", code.sum(i, p)))
        code.store(code.load(code.sum(source, above.index)), above.carried[0])
        less = code.new(f"sub i64 {n - 1}, {above.index}")
        code.end(above, code.sum(above.carried[0], less))
        begin = self._begin_of_row(code, i, diagonal)
        code.each(
            i, n, lambda j, size: code.store(code.load(code.sum(source, j), size), code.sum(begin, j), size)
        )
        code.end(changing, code.sum(source, n))

    def _add_noise(self, code: ArrayLoops, diagonal: Table, coupled: Sequence[tuple[int, int]]) -> None:
        """P ← P + Q/2."""
        p, half = code.place("covariance"), code.place("half_noise")
        states = code.begin(0, self._size)
        place = code.sum(diagonal(states.index), p)
        code.store(code.add(code.load(place), code.load(code.sum(states.index, half))), place)
        code.end(states)
        for k, (i, j) in enumerate(coupled, self._size):
            element = p + self._diagonal[i] + j - i
            code.store(code.add(code.load(element), code.load(half + k)), element)

    def _begin_of_row(self, code: ArrayLoops, i: str, diagonal: Table) -> str:
        """Place where element 0 of row i would be: element j is j places further."""
        return code.sum(code.new(f"sub i64 {diagonal(i)}, {i}"), code.place("covariance"))
