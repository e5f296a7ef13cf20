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

    def __init__(self, pairs: int, extra: int):
        g = Graph()
        program = Program(g)
        n = 2 * pairs + extra
        p = _triangle(program.array("covariance", n * (n + 1) // 2), n)
        self._predict(program, p, pairs, extra)
        x = program.array("x", n)
        rows = program.array("rows", LARGEST * n)
        noise, innovation = program.array("noise", LARGEST), program.array("innovation", LARGEST)
        variance = program.array("variance", LARGEST)
        (nis,) = program.array("nis", 1)
        for m in range(1, LARGEST + 1):
            h = [rows[k * n : (k + 1) * n] for k in range(m)]
            ph = [[_dot(g, [p[i, j] for j in range(n)], row) for i in range(n)] for row in h]
            s = {(k, l): _dot(g, h[k], ph[l]) for k in range(m) for l in range(k, m)}
            for k in range(m):
                s[k, k] = s[k, k] + noise[k]
            lower, diagonal = _ldl(s, m)
            # ν, and P Hᵀ, in the directions that L makes uncorrelated: S = L D Lᵀ.
            nu: list[Atom] = []
            white: list[list[Atom]] = []
            for k in range(m):
                left = innovation[k] - _dot(g, h[k], x)
                column = list(ph[k])
                for l in range(k):
                    left = left - lower[k, l] * nu[l]
                    column = [c - lower[k, l] * w for c, w in zip(column, white[l], strict=True)]
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
    def _predict(program: Program, p: Triangle, pairs: int, extra: int) -> None:
        """P ← F P Fᵀ + Q, the noise discretised after Van Loan for white noise on position and on rate."""
        n = 2 * pairs + extra
        (h,) = program.array("h", 1)
        position_noise = program.array("position_noise", pairs)
        rate_noise = program.array("rate_noise", pairs)
        decay = program.array("decay", extra) if extra else []
        extra_noise = program.array("extra_noise", extra) if extra else []

        def transition(i: int) -> list[tuple[int, Atom]]:
            one = program.graph.one
            if i < pairs:
                return [(i, one), (i + pairs, h)]
            return [(i, one if i < 2 * pairs else decay[i - 2 * pairs])]

        new: Triangle = {}
        for i in range(n):
            for j in range(i, n):
                value = program.graph.zero
                for a, fa in transition(i):
                    for b, fb in transition(j):
                        value = value + fa * fb * p[a, b]
                new[i, j] = value
        for k in range(pairs):
            s, hh = rate_noise[k], h * h
            new[k, k] = new[k, k] + h * position_noise[k] + s * (hh * h) * (1.0 / 3.0)
            new[k, k + pairs] = new[k, k + pairs] + s * hh * 0.5
            new[k + pairs, k + pairs] = new[k + pairs, k + pairs] + s * h
        for k in range(extra):
            i = 2 * pairs + k
            new[i, i] = new[i, i] + extra_noise[k]
        program.kernel("predict", [(p[key], value) for key, value in new.items()])


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
        for l in range(k):
            d = d - lower[k, l] * lower[k, l] * diagonal[l]
        diagonal.append(d)
        for i in range(k + 1, m):
            value = s[k, i]
            for l in range(k):
                value = value - lower[i, l] * lower[k, l] * diagonal[l]
            lower[i, k] = value / d
    return lower, diagonal


@lru_cache
def _compiled(pairs: int, extra: int) -> _Compiled:
    return _Compiled(pairs, extra)


class ErrorEKF:
    """Covariance and correction of one errorEKF. All arrays are views into one workspace."""

    def __init__(self, pairs: int, extra: int):
        self.pairs, self.extra = pairs, extra
        self.size = n = 2 * pairs + extra
        compiled = _compiled(pairs, extra)
        self._compiled = compiled
        self._workspace = compiled.layout.allocate()
        self._pointer = self._workspace.ctypes.data

        def view(name: str) -> np.ndarray:
            return compiled.layout.view(self._workspace, name)

        self.packed = view("covariance")
        self.x = view("x")
        """(n,) correction gathered since the last `clear`."""
        self._h = view("h")
        self.position_noise = view("position_noise")
        """(pairs,) spectral density of white noise on Δz, per second."""
        self.rate_noise = view("rate_noise")
        """(pairs,) spectral density of white noise on Δż, per second."""
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

    def variance_of(self, rows: np.ndarray) -> np.ndarray:
        """Diagonal of rows P rowsᵀ for rows (m, n)."""
        return np.einsum("ij,ij->i", rows @ self.covariance, rows)
