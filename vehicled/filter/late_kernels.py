"""A late observation in a filter that has gone on: what it knows of the present, and what the past becomes by it.

Of an observation H e(s) of the errors e(s) of a time s, a filter that has gone on to t needs their covariance with
the present errors, G = Cov(e(t), H e(s)), their variance S and what is expected of them, each given all observations
up to t. From P Hᵀ, H P Hᵀ and the innovation at s they follow step by step: a prediction makes F G of G. An
observation h in between, with the innovation ν of variance 1/w, that has corrected e by P hᵀ w ν, has a = h G in
common with the late one: G ← G − P hᵀ w a, S ← S − a w a, innovation ← innovation − a w ν. That is exact, however
many steps it takes: stochastic cloning (Roumeliotis and Burdick, 2002) of H e(s) alone.

Had the late observation come in time, P and P hᵀ at all times since s would be less by what it explains of them,
G S⁻¹ Gᵀ and G S⁻¹ aᵀ, and innovations too. With that the past is corrected, so that the next late observation finds
what it would have found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vehicled.filter.factors import calc_dot, list_pairs
from vehicled.filter.late_loops import LateLoops
from vehicled.symbolic.program import KernelHandle, Program

if TYPE_CHECKING:
    from vehicled.filter.covariance import CovarianceKernels
    from vehicled.symbolic.graph import Atom

EVENT = ("event.rows", "event.white", "event.left", "event.precision")
"""Arrays of an observation of the past, in the order of `rows`, `white`, `left` and `precision`."""
OBSERVED = ("crossed", "expected", "innovation")
"""Arrays that follow a late observation from its time to the present: G (3, n), S without noise, and innovation."""


@dataclass(frozen=True)
class LateKernels:
    """Of an observation of all components, of which those that it lacks have rows of zeros and MISSING noise."""

    carry: KernelHandle
    """G ← F G, with the elements of F in `transition`."""
    settle: KernelHandle
    """From G and S what an update needs: see `CovarianceLoops.weigh`."""
    correct: KernelHandle
    """`settle`, and P and x by it."""
    follow: tuple[KernelHandle, ...]
    """By number of components less one: past an observation (`EVENT`)."""
    enter: tuple[KernelHandle, ...]
    """The same, after that observation has become what it would have been."""
    places: tuple[tuple[int, int], ...]
    """Row and column of each element of `transition`."""


def add_late(
    program: Program, covariance: CovarianceKernels, places: Sequence[tuple[int, int]]
) -> LateKernels:
    """Arrays EVENT and the kernels. `places`: row and column of each element of the array `transition`."""
    return _LateModel(program, covariance).add(places)


class _LateModel:
    def __init__(self, program: Program, covariance: CovarianceKernels) -> None:
        self._program, self._covariance, arrays = program, covariance, program.arrays
        self._n, self._m = n, m = covariance.size, covariance.components
        counts = m * n, m * n, m, m
        rows, white, self._left, self._precision = map(program.array, EVENT, counts)
        self._rows, self._white = ([a[k * n : (k + 1) * n] for k in range(m)] for a in (rows, white))
        self._crossed = [arrays["crossed"][c * n : (c + 1) * n] for c in range(m)]
        self._pairs = dict(zip(list_pairs(m), arrays["expected"], strict=True))
        self._loops = LateLoops(program, n, m)

    def add(self, places: Sequence[tuple[int, int]]) -> LateKernels:
        program, covariance, m = self._program, self._covariance, self._m
        arrays = program.arrays
        settle = program.kernel(
            "settle",
            covariance.whiten(self._crossed, self._pairs, arrays["innovation"], arrays["more_noise"]),
        )
        program.replace(settle, covariance.settle_text(settle.name))
        pass_by = [self._pass_by(k) for k in range(m)]
        amend = [self._amend(k) for k in range(m)]
        enter = []
        for count in range(1, m + 1):
            each = [kernel for k in range(count) for kernel in (settle, pass_by[k], amend[k])]
            enter.append(program.sequence(f"enter{count}", *each))
        return LateKernels(
            carry=self._carry(places),
            settle=settle,
            correct=program.sequence("correct_past", settle, covariance.updates[-1]),
            follow=tuple(program.sequence(f"follow{c}", *pass_by[:c]) for c in range(1, m + 1)),
            enter=tuple(enter),
            places=tuple(places),
        )

    def _carry(self, places: Sequence[tuple[int, int]]) -> KernelHandle:
        elements: dict[int, list[tuple[int, Atom]]] = {}
        for (i, j), f in zip(places, self._program.arrays["transition"], strict=True):
            elements.setdefault(i, []).append((j, f))
        stores = []
        for g in self._crossed:
            for i, row in elements.items():
                (j, f), *more = row
                total = f * g[j]
                for j, f in more:
                    total = total + f * g[j]
                stores.append((g[i], total))
        return self._program.kernel("carry", stores)

    def _pass_by(self, k: int) -> KernelHandle:
        """Kernel `pass_byK`: past component k of an observation."""
        w, white = self._precision[k], self._white[k]
        shared = [self._dot(self._rows[k], g) for g in self._crossed]
        gains = [w * a for a in shared]
        stores = []
        for c, (g, innovation) in enumerate(
            zip(self._crossed, self._program.arrays["innovation"], strict=True)
        ):
            stores.append((innovation, innovation - gains[c] * self._left[k]))
            stores += [(x, x - gains[c] * v) for x, v in zip(g, white, strict=True)]
        stores += [(s, s - gains[c] * shared[d]) for (c, d), s in self._pairs.items()]
        kernel = self._program.kernel(f"pass_by{k}", stores)
        self._program.replace(kernel, self._loops.pass_by(kernel.name, k))
        return kernel

    def _amend(self, k: int) -> KernelHandle:
        """Kernel `amendK`: component k of an observation as it would have been, had the late one come in time."""
        arrays, n = self._program.arrays, self._n
        late = [arrays["white"][c * n : (c + 1) * n] for c in range(self._m)]
        shared = [self._dot(self._rows[k], g) for g in late]
        gains = [w * a for w, a in zip(arrays["precision"], shared, strict=True)]
        variance = 1.0 / self._precision[k]
        left = self._left[k]
        for gain, a, nu in zip(gains, shared, arrays["left"], strict=True):
            variance = variance - gain * a
            left = left - gain * nu
        stores = [(self._precision[k], 1.0 / variance), (self._left[k], left)]
        for i, value in enumerate(self._white[k]):
            total = value
            for gain, g in zip(gains, late, strict=True):
                total = total - gain * g[i]
            stores.append((value, total))
        kernel = self._program.kernel(f"amend{k}", stores)
        self._program.replace(kernel, self._loops.amend(kernel.name, k))
        return kernel

    def _dot(self, a: list[Atom], b: list[Atom]) -> Atom:
        return calc_dot(self._program.graph, a, b)
