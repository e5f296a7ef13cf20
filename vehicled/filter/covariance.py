"""The covariance of an error-state filter, as kernels of a model's own program: propagation, innovation, update.

States are the *errors* of a running simulation; before each correction x is zero (Sanjurjo, errorEKF). Transition
and observation matrices are given as sparse rows of atoms: what is structurally zero costs nothing. Nothing here
depends on what the states mean. `error_state.py` states the same mathematics on plain matrices, and is its oracle.

The covariance is kept as its upper triangle, so that it is symmetric by construction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from vehicled.filter import definite
from vehicled.filter.covariance_loops import CovarianceLoops
from vehicled.filter.factors import calc_dot, calc_ldl, list_pairs
from vehicled.filter.tape import Tape
from vehicled.symbolic.program import KernelHandle, Program

if TYPE_CHECKING:
    from vehicled.symbolic.graph import Atom

MISSING = 1e30
"""Noise variance of a component that was not measured: it then changes nothing."""

Row = Mapping[int, "Atom"]
"""A sparse row: values by index of the state."""

Place = tuple[int, int]
"""Row and column."""


class Past(Protocol):
    """Keeps the past of a filter for late observations; `LateObservations` describes each method."""

    def note(self, components: int) -> None:
        """Keep the observation evaluated last, which corrects the present."""

    def forget(self, i: int, variance: float) -> None:
        """State i is reset, with that variance and no correlation with any other."""


class Workspace(Protocol):
    """A running model that the kernels have been added to."""

    def view(self, name: str) -> np.ndarray:
        """An array: (count,) of numbers, (count, lanes) of lane vectors. Raises KeyError."""

    def tangent(self, name: str) -> np.ndarray:
        """Derivatives of an array, last axis (directions,); of length 0 if the program is not differentiated."""

    def bind(self, kernel: KernelHandle) -> Callable[[], None]:
        """A kernel as a function."""


class CovarianceKernels:
    """Adds to a program the arrays and kernels of a filter with n error states.

    These are the arrays `covariance`, `x` and those of an observation, a kernel that propagates the covariance
    (`propagate`), one that evaluates each kind of observation (`observe`), and those that update `covariance` and `x`
    with the observation evaluated last, by its number of components.
    """

    def __init__(self, program: Program, size: int, components: int) -> None:
        """`components`: of the largest observation."""
        self.program, self._graph, self.size, self.components = program, program.graph, size, components
        self.p: dict[Place, Atom] = {}
        packed = iter(program.array("covariance", size * (size + 1) // 2))
        for i in range(size):
            for j in range(i, size):
                self.p[i, j] = self.p[j, i] = next(packed)
        self.x = program.array("x", size)
        # They are adjacent, and copied as one array: see `LateKernels`.
        self._rows = program.array("rows", components * size)
        # Data of an observation for an update: innovation and P Hᵀ in decorrelated directions.
        self._white = program.array("white", components * size)
        self._left, self.precision = (
            program.array("left", components),
            program.array("precision", components),
        )
        self._value, self._noise = program.array("value", components), program.array("noise", components)
        (limit,) = program.array("limit", 1)
        self._more_noise = program.array("more_noise", components)
        self._innovation = program.array("innovation", components)
        self._variance = program.array("variance", components)
        (self._nis,) = program.array("nis", 1)
        self._crossed = program.array("crossed", components * size)
        self._expected = program.array("expected", components * (components + 1) // 2)
        program.array("mixing", components * (components - 1) // 2)
        self._loops = CovarianceLoops(program, size)
        for m in range(1, components + 1):
            program.texts.append(self._loops.weigh(f"weigh{m}", m, self._factorise(m)))
        self.updates = tuple(self._update(m) for m in range(1, components + 1))
        """By number of components less one: the kernel that updates `covariance` and `x`."""
        self.gates = tuple(
            program.condition(f"gate{m}", self._nis, limit, update)
            for m, update in enumerate(self.updates, 1)
        )
        """The same, if `nis` is less than `limit`."""

    def variance_of(self, row: Row) -> Atom:
        """Row P rowᵀ."""
        items = list(row.items())
        total = self._graph.zero
        for n, (i, a) in enumerate(items):
            inner = self._graph.zero
            for j, b in items[n + 1 :]:
                inner = inner + self.p[i, j] * b
            total = total + a * (self.p[i, i] * a + 2.0 * inner)
        return total

    def propagate(
        self, transition: Sequence[Row], noise: Mapping[Place, Atom], also: Sequence[tuple[Atom, Atom]]
    ) -> tuple[KernelHandle, list[Place]]:
        """Kernel `propagate_covariance`: P ← F (P + Q/2) Fᵀ + Q/2; x ← 0; F into `transition`.

        Half of the noise of a step comes before it, half after.
        Returns row and column of each element of the array `transition`, beside which F is zero.

        `transition`: F by rows; `noise`: Q, its diagonal, then what is not zero above it; `also`: further (symbol,
        value) to be stored with it.
        """
        n, g = self.size, self._graph
        half = {place: 0.5 * q for place, q in noise.items()}
        both = half | {(j, i): q for (i, j), q in half.items()}
        before = {place: p + both[place] if place in both else p for place, p in self.p.items()}
        # F P first, then (F P) Fᵀ: fewer operations than both at once.
        fp = [
            [calc_dot(g, row.values(), [before[a, j] for a in row]) for j in range(n)] for row in transition
        ]
        stores = [(x, g.zero) for x in self.x]
        for i in range(n):
            for j in range(i, n):
                value = calc_dot(g, transition[j].values(), [fp[i][b] for b in transition[j]])
                stores.append((self.p[i, j], value + half[i, j] if (i, j) in half else value))
        program = self.program
        places = [(i, j) for i, row in enumerate(transition) for j in sorted(row)]
        array = program.array("transition", len(places))
        elements = [*zip(array, (transition[i][j] for i, j in places), strict=True)]
        kernel = program.kernel("propagate_covariance", [*stores, *elements, *also])
        read = program.kernel("transition", elements)
        kept = [i for i, row in enumerate(transition) if list(row.items()) == [(i, g.one)]]
        program.array("moved_rows", (n - len(kept)) * n)
        added = zip(program.array("half_noise", len(half)), half.values(), strict=True)
        add = program.kernel("plant_noise", [*added, *also])
        columns, coupled = [sorted(row) for row in transition], [*half][n:]
        text = self._loops.propagate(kernel.name, columns, kept, (read, add), coupled)
        program.replace(kernel, text)
        return kernel, places

    def observe(
        self,
        name: str,
        predicted: Sequence[Atom],
        rows: Sequence[Row],
        *,
        noise: Sequence[Atom] | None = None,
        angle: bool = False,
    ) -> KernelHandle:
        """Kernel `name`: evaluate an observation of `value` with the variances `noise` (arrays).

        `predicted` and `rows` (the Jacobian) of each component; `noise`: variance to be added to the array's;
        `angle`: the innovation is taken within half a turn. Stores the innovation after what `x` already
        corrects, `rows`, the diagonal of the innovation covariance, and the normalised innovation squared.
        """
        g = self._graph
        innovations = []
        for k, row in enumerate(rows):
            difference = self._value[k] - predicted[k]
            if angle:
                difference = g.atan2(g.sin(difference), g.cos(difference))
            innovations.append(difference - calc_dot(g, row.values(), [self.x[j] for j in row]))
        more = list(noise) if noise else [g.zero] * len(rows)
        stores = list(zip(self._more_noise, more, strict=False))
        stores += zip(self._innovation, innovations, strict=False)
        n, m, program = self.size, len(rows), self.program
        places = {(k, j): self._rows[k * n + j] for k in range(m) for j in range(n)}
        zeros = [(a, g.zero) for (k, j), a in places.items() if j not in rows[k]]
        stores += [(places[k, j], value) for k, row in enumerate(rows) for j, value in row.items()]
        read = program.kernel(f"read.{name}", stores)
        kernel = program.kernel(name, [*stores, *zeros, *self._evaluate(innovations, rows, more)])
        program.replace(kernel, self._loops.observe(name, m, read, f"weigh{m}"))
        return kernel

    def add_sum(self, array: str) -> KernelHandle:
        """Kernel `sum_up`: the sum of P and of an array into `soundness` (1,), finite if all of them are."""
        (soundness,) = self.program.array("soundness", 1)
        numbers = [*self.program.arrays["covariance"], *self.program.arrays[array]]
        total = calc_dot(self._graph, [self._graph.one] * len(numbers), numbers)
        kernel = self.program.kernel("sum_up", [(soundness, total)])
        count = len(self.program.arrays[array])
        self.program.replace(kernel, self._loops.sum_up(kernel.name, array, count))
        return kernel

    def add_evaluations(self) -> tuple[KernelHandle, ...]:
        """Kernels `evaluate1` and so on, by number of components.

        They evaluate anew with what is in the arrays `innovation`, `rows`, `noise` and `more_noise`.
        """
        n = self.size
        added = []
        for m in range(1, self.components + 1):
            rows = [dict(enumerate(self._rows[k * n : (k + 1) * n])) for k in range(m)]
            stores = self._evaluate(self._innovation[:m], rows, self._more_noise[:m])
            kernel = self.program.kernel(f"evaluate{m}", stores)
            self.program.replace(kernel, self._loops.weigh(kernel.name, m, KernelHandle(f"factorise{m}")))
            added.append(kernel)
        return tuple(added)

    def _evaluate(
        self, innovations: Sequence[Atom], rows: Sequence[Row], more: Sequence[Atom]
    ) -> list[tuple[Atom, Atom]]:
        """Diagonal of the innovation covariance, normalised innovation squared, and data for an update."""
        g, n, m = self._graph, self.size, len(rows)
        column = [[calc_dot(g, row.values(), [self.p[i, j] for j in row]) for i in range(n)] for row in rows]
        expected = {
            (k, i): calc_dot(g, rows[k].values(), [column[i][j] for j in rows[k]]) for k, i in list_pairs(m)
        }
        stores = [*zip(self._crossed, [c for w in column for c in w], strict=False)]
        stores += zip(self._expected, expected.values(), strict=False)
        return [*stores, *self.whiten(column, expected, innovations, more)]

    def whiten(
        self,
        crossed: Sequence[Sequence[Atom]],
        expected: Mapping[Place, Atom],
        innovations: Sequence[Atom],
        more: Sequence[Atom],
    ) -> list[tuple[Atom, Atom]]:
        """Data of an observation for an update, to be stored.

        `crossed`: P Hᵀ by component; `expected`: H P Hᵀ by pair of components; `more`: variance added to `noise`.
        """
        n, m = self.size, len(innovations)
        lower, stores = self._decorrelate(expected, innovations, more)
        white: list[list[Atom]] = []
        for k in range(m):
            w = list(crossed[k])
            for i in range(k):
                w = [c - lower[k, i] * v for c, v in zip(w, white[i], strict=True)]
            white.append(w)
            stores += zip(self._white[k * n : (k + 1) * n], w, strict=True)
        return stores

    def _decorrelate(
        self, expected: Mapping[Place, Atom], innovations: Sequence[Atom], more: Sequence[Atom]
    ) -> tuple[dict[Place, Atom], list[tuple[Atom, Atom]]]:
        """L of S = H P Hᵀ + R = L D Lᵀ; and stores for ν and S, without `white`."""
        m, total, s = len(innovations), self._graph.zero, dict(expected)
        for k in range(m):
            s[k, k] = s[k, k] + self._noise[k] + more[k]
        lower, diagonal = calc_ldl(s, m)
        left: list[Atom] = []
        stores = []
        for k in range(m):
            nu = innovations[k]
            for i in range(k):
                nu = nu - lower[k, i] * left[i]
            left.append(nu)
            total = total + nu * nu / diagonal[k]
            stores += [
                (self._variance[k], s[k, k]),
                (self._left[k], nu),
                (self.precision[k], 1.0 / diagonal[k]),
            ]
        return lower, [*stores, (self._nis, total)]

    def whiten_text(self, name: str, m: int) -> str:
        """The function that replaces a kernel with the stores of `whiten`, for m components."""
        return self._loops.whiten(name, m, KernelHandle(f"factorise{m}"))

    def _factorise(self, m: int) -> KernelHandle:
        """Kernel `factoriseM`, which is called within `CovarianceLoops.weigh`."""
        arrays = self.program.arrays
        expected = dict(zip(list_pairs(m), self._expected, strict=False))
        lower, stores = self._decorrelate(expected, self._innovation[:m], self._more_noise[:m])
        mixing = [lower[k, i] for k in range(m) for i in range(k)]
        return self.program.kernel(f"factorise{m}", [*stores, *zip(arrays["mixing"], mixing, strict=False)])

    def _update(self, m: int) -> KernelHandle:
        n = self.size
        white = [self._white[k * n : (k + 1) * n] for k in range(m)]
        gains = [[w * self.precision[k] for w in white[k]] for k in range(m)]
        stores = []
        for i in range(n):
            value = self.x[i]
            for k in range(m):
                value = value + gains[k][i] * self._left[k]
            stores.append((self.x[i], value))
            for j in range(i, n):
                value = self.p[i, j]
                for k in range(m):
                    value = value - gains[k][i] * white[k][j]
                stores.append((self.p[i, j], value))
        kernel = self.program.kernel(f"update{m}", stores)
        self.program.replace(kernel, self._loops.update(kernel.name, m))
        return kernel


class Covariance:
    """Covariance and gathered correction in one running workspace: the arrays and kernels of `CovarianceKernels`.

    With a differentiated program `tangent` gives the derivatives of an array; values set from outside depend on no
    parameter, so that their derivatives are zero.
    """

    def __init__(
        self,
        size: int,
        workspace: Workspace,
        updates: Sequence[KernelHandle],
        evaluations: Sequence[KernelHandle] = (),
    ) -> None:
        """Bind the kernels; `updates` and `evaluations` are by number of components less one.

        Without `evaluations` there is no `evaluate_again`.
        """
        self.size = size
        self._updates = [workspace.bind(kernel) for kernel in updates]
        self._evaluations = [workspace.bind(kernel) for kernel in evaluations]
        components, view = len(updates), workspace.view
        self.packed = view("covariance")
        """(n (n + 1) / 2,) upper triangle by rows."""
        self.x = view("x")
        """(n,) sum of corrections so far; the code that applies it sets it to zero."""
        self.rows = view("rows").reshape(components, size)
        """(3, n) Jacobian of the observation evaluated last."""
        self.value, self.noise = view("value"), view("noise")
        self.more_noise = view("more_noise")
        """(3,) variance that the observation evaluated last adds to `noise`."""
        self.innovation = view("innovation")
        """(3,) value less prediction, after what `x` already corrects."""
        self.variance = view("variance")
        """(3,) diagonal of the innovation covariance."""
        self._white = view("white").reshape(components, size)
        self.decorrelated, self.precision = view("left"), view("precision")
        """(3,) each: innovations in decorrelated directions, and the inverses of their variances."""
        self.nis = view("nis")
        """(1,) normalised innovation squared of the observation evaluated last."""
        self._upper = np.triu_indices(size)
        self._diagonal = np.cumsum(np.concatenate([[0], np.arange(size, 1, -1)]))
        self.past: Past | None = None
        """Receives updates and resets of states, for late observations."""
        self.tape: Tape | None = None
        """Receives all changes of covariance and correction, for a smoother."""
        self._d_event = [workspace.tangent(name) for name in ("rows", "white", "left", "precision")]
        self._d_packed, self._d_x = workspace.tangent("covariance"), workspace.tangent("x")

    @property
    def matrix(self) -> np.ndarray:
        """(n, n), a copy."""
        p = np.empty((self.size, self.size))
        p[self._upper] = self.packed
        p.T[self._upper] = self.packed
        return p

    @matrix.setter
    def matrix(self, p: np.ndarray) -> None:
        self.packed[:] = p[self._upper]
        self._d_packed[...] = 0.0
        self._d_x[...] = 0.0

    def find_block(self, places: Sequence[int]) -> np.ndarray:
        """(k, k) indices in `packed` of the covariances of k states."""
        index = np.empty((self.size, self.size), dtype=np.intp)
        index[self._upper] = index.T[self._upper] = np.arange(len(self.packed))
        return index[np.ix_(places, places)]

    @property
    def variances(self) -> np.ndarray:
        """(n,) diagonal of the covariance, a copy."""
        return np.take(self.packed, self._diagonal)

    def get_covariance(self, i: int, j: int) -> float:
        """Covariance of states i and j; variance if they are the same."""
        low, high = (i, j) if i < j else (j, i)
        return float(self.packed.item(self._diagonal.item(low) + high - low))

    def initialise(self, covariance: np.ndarray) -> None:
        """Start anew with a covariance (n, n) and no correction."""
        if self.tape is not None:
            self.tape.restart()
        self.matrix = covariance
        self.x[:] = 0.0

    def restore(self, packed: np.ndarray) -> None:
        """Return to a covariance as `packed` was; the correction stays."""
        self.packed[:] = packed

    def set_estimate(self, x: np.ndarray, covariance: np.ndarray) -> None:
        """Set a correction (n,) and a covariance (n, n) that were calculated elsewhere."""
        self.matrix = covariance
        self.x[:] = x

    def set_variance(self, i: int, variance: float) -> None:
        """Set the variance of one state, without correlation with any other."""
        if self.past is not None:
            self.past.forget(i, variance)
        self._decouple(i, variance)

    def replace(self, i: int, variance: float) -> None:
        """Replace state i by a new one, which late observations of earlier times do not correct.

        Unlike with `set_variance`, the past stays, where the other states depend on the old i.
        """
        if self.past is not None:
            # As an observation with P hᵀ = e_i/δ and h = δ e_i, which makes G_i zero and leaves C, ν (late_kernels).
            self._write_event(i, 1e-9, 1e9 * np.eye(self.size)[i], 0.0, 1.0)
            self.past.note(1)
        self._decouple(i, variance)

    def _decouple(self, i: int, variance: float) -> None:
        if self.tape is not None:
            self.tape.forget(i)
        touched = self.find_touched(i)
        self.packed[touched], self._d_packed[touched] = 0.0, 0.0
        self.packed[self._diagonal[i]] = variance

    def find_touched(self, i: int) -> np.ndarray:
        """(n,) indices in `packed` of the variance and covariances of a state, by the other state."""
        n, others = self.size, np.arange(self.size)
        low, high = np.minimum(i, others), np.maximum(i, others)
        places: np.ndarray = low * n - low * (low - 1) // 2 + high - low
        return places

    def add_variances(self, added: np.ndarray | float, states: slice | int = slice(None)) -> None:
        """Add independent errors with the variances (n,) to all states, or to one of them."""
        self.packed[self._diagonal[states]] += added

    def evaluate_again(self, m: int) -> float:
        """Evaluate again with `rows`, `innovation` and noise as changed since."""
        self._evaluations[m - 1]()
        return float(self.nis.item())

    def update(self, m: int, take_back: Callable[[], None] | None = None) -> None:
        """Update P and x with the last evaluated observation of m components; `take_back` undoes a part of it."""
        self._updates[m - 1]()
        self._record(m)
        if take_back is not None:
            take_back()
        if self.past is not None:
            self.past.note(m)

    def _record(self, m: int) -> None:
        """Write a whole update with the observation evaluated last to the tape."""
        if self.tape is not None:
            self.tape.update(self.decorrelated[:m], self.precision[:m], self.rows[:m], self._white[:m])

    def update_late(self, m: int) -> None:
        """Update P and x with an observation of the past whose gain, in `white`, has been found (`late.py`)."""
        if self.tape is not None:
            self._record_late(self.tape, m)
        self._updates[m - 1]()

    def _record_late(self, tape: Tape, m: int) -> None:
        """Record as a present observation with this gain: rows h with P hᵀ = `white`, and more noise to match."""
        p = self.matrix
        known = np.flatnonzero(p.diagonal() > 0.0)
        scale = np.sqrt(p.diagonal()[known])
        for left, precision, white in zip(self.decorrelated[:m], self.precision, self._white, strict=False):
            rows = np.zeros((1, self.size))
            scaled = p[np.ix_(known, known)] / np.outer(scale, scale)
            rows[0, known] = np.linalg.lstsq(scaled, white[known] / scale, rcond=1e-12)[0] / scale
            tape.update(np.array([left]), np.array([precision]), rows, white[None])
            p -= precision * np.outer(white, white)

    def remove_information(self, i: int, information: float, value: float) -> None:
        """Remove an observation of state i as `value`, with that information (1/variance).

        (P⁻¹ − δ e eᵀ)⁻¹ = P + δ P e eᵀ P/(1 − δ P_ii), and x moves along P e as far as the observation had held it
        back.
        """
        p = self.matrix
        column = p[:, i].copy()
        gain = information / (1.0 - information * column[i])
        self._write_event(i, 1.0, column, value, -gain)
        if self.past is not None:
            self.past.note(1)
        self._record(1)
        self.x[:] -= gain * value * column
        self.matrix = p + gain * np.outer(column, column)

    def _write_event(self, i: int, slope: float, white: np.ndarray, value: float, precision: float) -> None:
        """Write what an evaluation of an observation of state i alone would leave, with P hᵀ = `white` (n,)."""
        self.rows[0], self._white[0] = 0.0, white
        self.rows[0, i], self.decorrelated[0], self.precision[0] = slope, value, precision
        for d_array in self._d_event:
            d_array[...] = 0.0

    def repair(self) -> bool:
        """Make the covariance positive definite if rounding has made it indefinite; returns whether it was."""
        p = self.matrix
        uncertain = np.ix_(*[np.flatnonzero(p.diagonal())] * 2)
        p[uncertain], repaired = definite.repair(p[uncertain])
        if repaired:
            self.matrix = p
        return repaired
