"""Expressions as one function of arrays: the simplest way to machine code, if no kernels share a workspace."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from vehicled.symbolic.compiler import compile_program
from vehicled.symbolic.graph import Atom
from vehicled.symbolic.program import Program

Output = Sequence[Atom] | Sequence[Sequence[Atom]]
"""A vector, or a matrix by rows."""


class CompiledFunction:
    """Values of expressions, computed by machine code.

        g = Graph()
        x, a = g.symbol("x"), g.symbol("a")
        y = a * g.sin(x)
        f = CompiledFunction([[x], [a]], [[y], [[g.derivative(y, s) for s in (x, a)]]])
        value, jacobian = f([0.1], [2.0])  # (1,) and (1, 2)

    Not for several threads at once.
    """

    def __init__(self, inputs: Sequence[Sequence[Atom]], outputs: Sequence[Output]) -> None:
        """`inputs`: vectors of plain symbols; `outputs`: vectors or matrices of expressions in them, of one graph.

        Compiled, or taken from the cache on disk. Raises ValueError for an input that is no symbol or comes twice,
        an output that depends on a symbol which is not among the inputs, and lane vectors.
        """
        symbols = [s for vector in inputs for s in vector]
        if not symbols or not outputs:
            raise ValueError("expected at least one symbol and one output")
        if len({s.id for s in symbols}) < len(symbols):
            raise ValueError("a symbol comes twice among the inputs")
        graph = symbols[0].graph
        shapes = [_shape(output) for output in outputs]
        values = [graph.atom(e) for output in outputs for e in _flatten(output)]
        if any(a.rank for a in (*symbols, *values)):
            raise ValueError("expected plain numbers, not lane vectors")
        program = Program(graph)
        program.store("inputs", symbols)
        # Symbols have to be new in their graph, which may serve other functions too.
        results = [graph.symbol(f"output {len(graph.atoms)}") for _ in values]
        program.store("outputs", results)
        kernel = program.kernel("evaluate", zip(results, values, strict=True))
        program.finish(())
        self._function = compile_program(program).functions.kernels[kernel]
        self._workspace = program.layout.allocate()
        self._address = self._workspace.ctypes.data
        views = [program.layout.view(self._workspace, name) for name in ("inputs", "outputs")]
        self._inputs = _split(views[0], [(len(vector),) for vector in inputs])
        self._outputs = _split(views[1], shapes)

    def __call__(self, *values: ArrayLike) -> tuple[np.ndarray, ...]:
        """Evaluate for a value (n,) of each input vector; returns a new array for each output.

        Raises ValueError for shapes that do not fit.
        """
        if len(values) != len(self._inputs):
            raise ValueError(f"expected {len(self._inputs)} vectors, got {len(values)}")
        for place, value in zip(self._inputs, values, strict=True):
            given = np.asarray(value, dtype=float)
            if given.shape != place.shape:
                raise ValueError(f"expected a vector {place.shape}, got {given.shape}")
            place[:] = given
        self._function(self._address)
        return tuple(output.copy() for output in self._outputs)


def _shape(output: Output) -> tuple[int, ...]:
    rows = [row for row in output if not isinstance(row, Atom)]
    if not rows:
        return (len(output),)
    if len(rows) < len(output) or len({len(row) for row in rows}) > 1:
        raise ValueError("an output is neither a vector nor a matrix")
    return len(rows), len(rows[0])


def _flatten(output: Output) -> list[Atom]:
    return [e for row in output for e in ([row] if isinstance(row, Atom) else row)]


def _split(array: np.ndarray, shapes: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1]
    return [part.reshape(shape) for part, shape in zip(np.split(array, ends), shapes, strict=True)]
