"""Late observations: an exact update with an observation of an earlier time, and of what is kept since that time.

A filter has reached the time t when an observation H e(s) + noise of the errors e(s) of an earlier time s arrives. To
update the present it needs three things, each given all observations up to t: the cross-covariance
G = Cov(e(t), H e(s)), the covariance C of H e(s), and the innovation ν. At s they are P Hᵀ, H P Hᵀ, and the
innovation that a timely observation would have had. From there they change with all that the filter has done since:

- A prediction with the transition F: G ← F G.
- An observation with the row h, the innovation μ and its variance 1/w, which has corrected e by P hᵀ w μ. Its
  covariance with H e(s) is a = h G: G ← G − P hᵀ w a, C ← C − aᵀ w a, ν ← ν − aᵀ w μ.

With S = C + R, the present update has the gain G S⁻¹. The result is that of a filter which had the observation in
time, however many steps have passed: stochastic cloning (Roumeliotis and Burdick, 2002) of H e(s) alone.

The past is updated as well, so that the next late observation starts from what a filter which had this one in time
would have kept. At each time since s, with G, S and ν of that time: P ← P − G S⁻¹ Gᵀ, x ← x + G S⁻¹ ν. And of each
observation since: P hᵀ ← P hᵀ − G S⁻¹ aᵀ, 1/w ← 1/w − a S⁻¹ aᵀ, μ ← μ − a S⁻¹ ν.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vehicled.filter.covariance import MISSING
from vehicled.filter.factors import calc_dot, list_pairs
from vehicled.filter.late_loops import LateLoops
from vehicled.symbolic.program import KernelHandle, Program

if TYPE_CHECKING:
    from vehicled.filter.covariance import CovarianceKernels
    from vehicled.symbolic.graph import Atom

UPDATED = ("rows", "white", "left", "precision")
"""Arrays of the observation evaluated last."""
EVENT = ("event.rows", "event.white", "event.left", "event.precision")
"""The same of an observation of the past."""
OBSERVED = ("crossed", "expected", "innovation")
"""G (3, n), C (6,) and ν (3,) of a late observation."""


@dataclass(frozen=True)
class LateKernels:
    """For three components. Those that a late observation does not have are zero, with the noise MISSING."""

    propagate: KernelHandle
    """G ← F G, with the elements of F in `transition`."""
    leave_out: tuple[KernelHandle, ...]
    """By number of components of an observation, less one: those that it does not have; but for all of them."""
    whiten: KernelHandle
    """From G, C and ν what an update needs: see `CovarianceKernels.whiten`."""
    correct: KernelHandle
    """`whiten`, and the update of P and x."""
    updates: tuple[KernelHandle, ...]
    """By number of components of an observation in EVENT, less one: update G, C and ν by it."""
    amend: tuple[KernelHandle, ...]
    """The same, and update that observation by the late one."""
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
        whiten = program.kernel(
            "whiten",
            covariance.whiten(self._crossed, self._pairs, arrays["innovation"], arrays["more_noise"]),
        )
        program.replace(whiten, covariance.whiten_text(whiten.name))
        updates = [self._update(k) for k in range(m)]
        amend = [self._amend(k) for k in range(m)]
        amend_all = []
        for count in range(1, m + 1):
            each = [kernel for k in range(count) for kernel in (whiten, updates[k], amend[k])]
            amend_all.append(program.sequence(f"amend_all{count}", *each))
        return LateKernels(
            propagate=self._propagate(places),
            leave_out=tuple(self._leave_out(count) for count in range(1, m)),
            whiten=whiten,
            correct=program.sequence("correct_past", whiten, covariance.updates[-1]),
            updates=tuple(program.sequence(f"update_late{c}", *updates[:c]) for c in range(1, m + 1)),
            amend=tuple(amend_all),
            places=tuple(places),
        )

    def _leave_out(self, count: int) -> KernelHandle:
        arrays, g = self._program.arrays, self._program.graph
        stores = [(noise, g.constant(MISSING)) for noise in arrays["noise"][count:]]
        for name, begin in (
            *((name, count * self._n) for name in ("crossed", "rows")),
            *((name, count) for name in ("more_noise", "innovation")),
            ("expected", count * (count + 1) // 2),
        ):
            stores += [(number, g.zero) for number in arrays[name][begin:]]
        return self._program.kernel(f"leave_out{count}", stores)

    def _propagate(self, places: Sequence[tuple[int, int]]) -> KernelHandle:
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
        return self._program.kernel("propagate_late", stores)

    def _update(self, k: int) -> KernelHandle:
        """Kernel `update_late_byK`: G, C and ν by component k of an observation."""
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
        kernel = self._program.kernel(f"update_late_by{k}", stores)
        self._program.replace(kernel, self._loops.update(kernel.name, k))
        return kernel

    def _amend(self, k: int) -> KernelHandle:
        """Kernel `amendK`: component k of an observation by the late one."""
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
