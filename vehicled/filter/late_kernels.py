"""Late observations: an exact update with an observation of an earlier time, and of what is kept since that time.

A filter has reached the time t when an observation H e(s) + noise of the errors e(s) of an earlier time s arrives. To
update the present it needs three things, each given all observations up to t: the cross-covariance
G = Cov(e(t), H e(s)), the covariance C of H e(s), and the innovation ν. At s they are P Hᵀ, H P Hᵀ, and the
innovation that a timely observation would have had. From there they change with all that the filter has done since:

- A prediction with the transition F: G ← F G.
- An observation with the row h, the innovation μ and its variance 1/w, which has corrected e by P hᵀ w μ. Its
  covariance with H e(s) is a = h G: G ← G − P hᵀ w a, C ← C − aᵀ w a, ν ← ν − aᵀ w μ. This also holds if only a
  part of the gain was used (`considered.py`), as the rest of H e(s) is independent of μ.

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

from vehicled.filter.factors import calc_dot, list_pairs
from vehicled.filter.late_loops import LateLoops
from vehicled.symbolic.program import KernelHandle, Program

if TYPE_CHECKING:
    from vehicled.filter.covariance import CovarianceKernels
    from vehicled.symbolic.graph import Atom

UPDATED = ("rows", "white", "left", "precision")
"""Arrays of the observation evaluated last."""
EVENT = ("event.rows", "event.white", "event.left", "event.precision")
"""Arrays of an observation of the past, likewise."""
OBSERVED = ("crossed", "expected", "innovation")
"""G (3, n), C (6,) and ν (3,) of a late observation."""


@dataclass(frozen=True)
class LateUpdates:
    """Kernels for late observations of one number of components."""

    propagate: KernelHandle
    """G ← F G, with the elements of F in `transition`."""
    whiten: KernelHandle
    """From G, C and ν what an update needs: see `CovarianceKernels.whiten`."""
    update: KernelHandle
    """Update P and x with it."""
    correct: KernelHandle
    """Whiten and update."""
    follow: tuple[KernelHandle, ...]
    """By number of components of an observation in EVENT, less one: update G, C and ν by it."""
    amend: tuple[KernelHandle, ...]
    """Follow the observation, and update it by the late one."""


@dataclass(frozen=True)
class LateKernels:
    """All kernels for late observations."""

    updates: tuple[LateUpdates, ...]
    """By number of their components less one."""
    places: tuple[tuple[int, int], ...]
    """Row and column of each element of `transition`."""


def add_late(
    program: Program, covariance: CovarianceKernels, places: Sequence[tuple[int, int]]
) -> LateKernels:
    """Arrays EVENT and the kernels. `places`: row and column of each element of the array `transition`."""
    n, components = covariance.size, covariance.components
    for name, count in zip(EVENT, (components * n, components * n, components, components), strict=True):
        program.array(name, count)
    sizes = range(1, components + 1)
    return LateKernels(tuple(_LateModel(program, covariance, m).add(places) for m in sizes), tuple(places))


class _LateModel:
    """For late observations of m components. Names of the kernels end with m."""

    def __init__(self, program: Program, covariance: CovarianceKernels, m: int) -> None:
        self._program, self._covariance, arrays = program, covariance, program.arrays
        self._n, self._m, self._components = covariance.size, m, covariance.components
        self._rows, self._white, late = (
            self._split(name, count)
            for name, count in ((EVENT[0], self._components), (EVENT[1], self._components), ("white", m))
        )
        self._late, self._crossed = late, self._split("crossed", m)
        self._left, self._precision = arrays[EVENT[2]], arrays[EVENT[3]]
        self._innovation = arrays["innovation"][:m]
        self._pairs = dict(zip(list_pairs(m), arrays["expected"], strict=False))
        self._loops = LateLoops(program, self._n, m)

    def _split(self, name: str, count: int) -> list[list[Atom]]:
        return [self._program.arrays[name][k * self._n : (k + 1) * self._n] for k in range(count)]

    def add(self, places: Sequence[tuple[int, int]]) -> LateUpdates:
        program, covariance, m = self._program, self._covariance, self._m
        whiten = program.kernel(
            f"whiten{m}",
            covariance.whiten(self._crossed, self._pairs, self._innovation, program.arrays["more_noise"]),
        )
        program.replace(whiten, covariance.whiten_text(whiten.name, m))
        sizes = range(self._components)
        follow, amend = [self._follow(k) for k in sizes], [self._amend(k) for k in sizes]
        sequences = []
        for count in range(1, self._components + 1):
            each = [kernel for k in range(count) for kernel in (whiten, follow[k], amend[k])]
            sequences.append(
                (
                    program.sequence(f"follow_late{m}.{count}", *follow[:count]),
                    program.sequence(f"amend_all{m}.{count}", *each),
                )
            )
        update = covariance.updates[m - 1]
        return LateUpdates(
            propagate=self._propagate(places),
            whiten=whiten,
            update=update,
            correct=program.sequence(f"correct_past{m}", whiten, update),
            follow=tuple(each for each, _ in sequences),
            amend=tuple(each for _, each in sequences),
        )

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
        return self._program.kernel(f"propagate_late{self._m}", stores)

    def _follow(self, k: int) -> KernelHandle:
        """Kernel `update_lateM_byK`: G, C and ν by component k of an observation."""
        w, white = self._precision[k], self._white[k]
        shared = [self._dot(self._rows[k], g) for g in self._crossed]
        gains = [w * a for a in shared]
        stores = []
        for c, (g, innovation) in enumerate(zip(self._crossed, self._innovation, strict=True)):
            stores.append((innovation, innovation - gains[c] * self._left[k]))
            stores += [(x, x - gains[c] * v) for x, v in zip(g, white, strict=True)]
        stores += [(s, s - gains[c] * shared[d]) for (c, d), s in self._pairs.items()]
        kernel = self._program.kernel(f"update_late{self._m}_by{k}", stores)
        self._program.replace(kernel, self._loops.update(kernel.name, k))
        return kernel

    def _amend(self, k: int) -> KernelHandle:
        """Kernel `amendM_K`: component k of an observation by the late one."""
        arrays = self._program.arrays
        shared = [self._dot(self._rows[k], g) for g in self._late]
        gains = [w * a for w, a in zip(arrays["precision"], shared, strict=False)]
        variance = 1.0 / self._precision[k]
        left = self._left[k]
        for gain, a, nu in zip(gains, shared, arrays["left"], strict=False):
            variance = variance - gain * a
            left = left - gain * nu
        stores = [(self._precision[k], 1.0 / variance), (self._left[k], left)]
        for i, value in enumerate(self._white[k]):
            total = value
            for gain, g in zip(gains, self._late, strict=True):
                total = total - gain * g[i]
            stores.append((value, total))
        kernel = self._program.kernel(f"amend{self._m}_{k}", stores)
        self._program.replace(kernel, self._loops.amend(kernel.name, k))
        return kernel

    def _dot(self, a: list[Atom], b: list[Atom]) -> Atom:
        return calc_dot(self._program.graph, a, b)
