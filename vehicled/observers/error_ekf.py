"""The covariance side of the errorEKF, compiled: prediction, innovation, update.

States are the *errors* of a running multibody simulation: x = (Δz, Δż, extra), with extra slowly varying
states such as sensor biases. The error model is f_x = [[I, I h], [0, I]]; before each correction x is zero
(Sanjurjo, errorEKF). Nothing here knows what the coordinates mean.

The covariance is kept as its upper triangle, so that it is symmetric by construction.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache

import numpy as np

from vehicled.symbolic import llvm
from vehicled.symbolic.graph import Atom, Graph
from vehicled.symbolic.program import Program

LARGEST = 3
"""Components of the largest observation."""

Triangle = dict[tuple[int, int], Atom]
Coupling = tuple[tuple[int, int], ...]


def _triangle(symbols: list[Atom], n: int) -> Triangle:
    """Symbols of an upper triangle, by rows, under both of each pair of indices."""
    it = iter(symbols)
    matrix: Triangle = {}
    for i in range(n):
        for j in range(i, n):
            matrix[i, j] = matrix[j, i] = next(it)
    return matrix


class _Compiled:
    """Kernels for `pairs` of (Δz, Δż) and `extra` further states; observations of 1 to 3 components."""

    def __init__(self, pairs: int, extra: int, coupling: Coupling):
        g = Graph()
        program = Program(g)
        n = 2 * pairs + extra
        p = _triangle(program.array("covariance", n * (n + 1) // 2), n)
        self._predict(program, p, pairs, extra, coupling)
        x = program.array("x", n)
        rows = program.array("rows", LARGEST * n)
        noise, innovation = program.array("noise", LARGEST), program.array("innovation", LARGEST)
        variance = program.array("variance", LARGEST)
        (nis,) = program.array("nis", 1)
        for m in range(1, LARGEST + 1):
            h = [rows[k * n : (k + 1) * n] for k in range(m)]
            ph = [[_dot(g, [p[i, j] for j in range(n)], row) for i in range(n)] for row in h]
            s = {(k, i): _dot(g, h[k], ph[i]) for k in range(m) for i in range(k, m)}
            for k in range(m):
                s[k, k] = s[k, k] + noise[k]
            lower, diagonal = _ldl(s, m)
            # ν, and P Hᵀ, in the directions that L makes uncorrelated: S = L D Lᵀ.
            nu: list[Atom] = []
            white: list[list[Atom]] = []
            for k in range(m):
                left = innovation[k] - _dot(g, h[k], x)
                column = list(ph[k])
                for i in range(k):
                    left = left - lower[k, i] * nu[i]
                    column = [c - lower[k, i] * w for c, w in zip(column, white[i], strict=True)]
                nu.append(left)
                white.append(column)
            gains = [[w / diagonal[k] for w in white[k]] for k in range(m)]
            total = g.zero
            for k in range(m):
                total = total + nu[k] * nu[k] / diagonal[k]
            stores = [(variance[k], s[k, k]) for k in range(m)] + [(nis, total)]
            program.kernel(f"judge{m}", stores)
            fuse = []
            for i in range(n):
                for j in range(i, n):
                    value = p[i, j]
                    for k in range(m):
                        value = value - gains[k][i] * white[k][j]
                    fuse.append((p[i, j], value))
            for i in range(n):
                value = x[i]
                for k in range(m):
                    value = value + gains[k][i] * nu[k]
                fuse.append((x[i], value))
            program.kernel(f"fuse{m}", fuse)
        program.finish([])
        self.layout = program.layout
        self.kernels = program.kernels
        code = llvm.MachineCode(llvm.emit(list(program.kernels.values()), program.layout))
        self.call = {name: code.function(name, None, ctypes.c_void_p) for name in program.kernels}

    @staticmethod
    def _predict(program: Program, p: Triangle, pairs: int, extra: int, coupling: Coupling) -> None:
        """P ← F (P + Q/2) Fᵀ + Q/2: half of the noise of a step before it, half after."""
        n = 2 * pairs + extra
        (h,) = program.array("h", 1)
        density = program.array("noise_density", 2 * pairs)
        decay = program.array("decay", extra) if extra else []
        extra_noise = program.array("extra_noise", extra) if extra else []
        given = dict(zip(coupling, program.array("coupling", max(len(coupling), 1)), strict=False))
        one = program.graph.one
        half = [0.5 * h * s for s in density] + [0.5 * s for s in extra_noise]

        def transition(i: int) -> dict[int, Atom]:
            row = {i: one if i < 2 * pairs else decay[i - 2 * pairs]}
            if i < pairs:
                row[i + pairs] = h
            return row | {column: value for (k, column), value in given.items() if k == i}

        before = {(i, j): p[i, j] + half[i] if i == j else p[i, j] for i in range(n) for j in range(n)}
        rows = [transition(i) for i in range(n)]
        # F P first, then (F P) Fᵀ: fewer operations than both at once.
        fp = [
            [_dot(program.graph, list(r.values()), [before[a, j] for a in r]) for j in range(n)] for r in rows
        ]
        stores = []
        for i in range(n):
            for j in range(i, n):
                value = _dot(program.graph, list(rows[j].values()), [fp[i][b] for b in rows[j]])
                stores.append((p[i, j], value + half[i] if i == j else value))
        program.kernel("predict", stores)


def _dot(g: Graph, a: list[Atom], b: list[Atom]) -> Atom:
    """Sum of products in four chains, which the processor can follow at once."""
    chains = [g.zero] * 4
    for k, (x, y) in enumerate(zip(a, b, strict=True)):
        chains[k % 4] = chains[k % 4] + x * y
    return (chains[0] + chains[1]) + (chains[2] + chains[3])


def _ldl(s: Triangle, m: int) -> tuple[Triangle, list[Atom]]:
    """L (unit lower) and D of a symmetric matrix given by its upper triangle."""
    lower: Triangle = {}
    diagonal: list[Atom] = []
    for k in range(m):
        d = s[k, k]
        for i in range(k):
            d = d - lower[k, i] * lower[k, i] * diagonal[i]
        diagonal.append(d)
        for i in range(k + 1, m):
            value = s[k, i]
            for j in range(k):
                value = value - lower[i, j] * lower[k, j] * diagonal[j]
            lower[i, k] = value / d
    return lower, diagonal


@lru_cache
def _compiled(pairs: int, extra: int, coupling: Coupling) -> _Compiled:
    return _Compiled(pairs, extra, coupling)


class ErrorEKF:
    """Covariance and correction of one errorEKF. All arrays are views into one workspace."""

    def __init__(self, pairs: int, extra: int, coupling: Coupling = ()):
        """`coupling`: elements (row, column) of F that are set by the array `coupling` at every step; one that
        stands where I h would stand replaces it."""
        self.size = n = 2 * pairs + extra
        compiled = _compiled(pairs, extra, coupling)
        self._compiled = compiled
        self._workspace = compiled.layout.allocate()
        self._pointer = self._workspace.ctypes.data

        def view(name: str) -> np.ndarray:
            return compiled.layout.view(self._workspace, name)

        self.packed = view("covariance")
        self.x = view("x")
        """(n,) correction gathered so far; whoever applies it sets it to zero."""
        self._h = view("h")
        self.position_noise = view("noise_density")[:pairs]
        """(pairs,) spectral density of white noise on Δz, per second."""
        self.rate_noise = view("noise_density")[pairs:]
        """(pairs,) spectral density of white noise on Δż, per second."""
        self.coupling = view("coupling")
        """Values of the coupling elements of F, in their order."""
        self.decay = view("decay") if extra else np.empty(0)
        """(extra,) factor by which each extra state shrinks in a step."""
        self.extra_noise = view("extra_noise") if extra else np.empty(0)
        """(extra,) variance that each extra state gains in a step."""
        self.rows = view("rows").reshape(LARGEST, n)
        """(3, n) Jacobian of the observation in hand."""
        self.noise = view("noise")
        self.innovation = view("innovation")
        self.variance = view("variance")
        """(3,) diagonal of the innovation covariance, after `judge`."""
        self._nis = view("nis")
        self._upper = np.triu_indices(n)
        self._diagonal = np.cumsum(np.concatenate([[0], np.arange(n, 1, -1)]))
        self._judge = [compiled.call[f"judge{m}"] for m in range(1, LARGEST + 1)]
        self._fuse = [compiled.call[f"fuse{m}"] for m in range(1, LARGEST + 1)]
        self._predict = compiled.call["predict"]

    @property
    def covariance(self) -> np.ndarray:
        """(n, n), a copy."""
        p = np.empty((self.size, self.size))
        p[self._upper] = self.packed
        p.T[self._upper] = self.packed
        return p

    @covariance.setter
    def covariance(self, p: np.ndarray) -> None:
        self.packed[:] = p[self._upper]

    @property
    def variances(self) -> np.ndarray:
        """(n,) diagonal of the covariance, a copy."""
        return self.packed[self._diagonal]

    def set_variance(self, i: int, variance: float) -> None:
        """Forget what is known of one state: variance as given, no correlation with any other."""
        p = self.covariance
        p[i, :] = p[:, i] = 0.0
        p[i, i] = variance
        self.covariance = p

    def predict(self, h: float) -> None:
        """P over h seconds."""
        self._h[0] = h
        self._predict(self._pointer)

    def judge(self, m: int) -> float:
        """Normalised innovation squared of the observation in `rows`, `noise`, `innovation` (first m rows).

        The innovation is taken after what `x` already corrects. Fills `variance`.
        """
        self._judge[m - 1](self._pointer)
        return float(self._nis[0])

    def fuse(self, m: int) -> None:
        """Update P and x with the observation just judged."""
        self._fuse[m - 1](self._pointer)
