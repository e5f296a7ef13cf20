"""Index-3 augmented Lagrangian with velocity and acceleration projections (ALI3-P), trapezoidal rule.

M q̈ + Φ_qᵀ (λ + αΦ) = Q with λ ← λ + αΦ from iteration to iteration; q̇ = (2/h) q + q̇*, q̈ = (4/h²) q + q̈*
(Bayo and Ledesma 1996; Cuadrado et al. 2000; Sanjurjo, state observers based on detailed multibody models,
section on multibody dynamics). The unknowns are the coordinates alone, so that every elimination has a fixed
pattern.

One symmetric tangent matrix W = M + (h²/4) α Φ_qᵀΦ_q + Σ weight·J Jᵀ is factorised per step, at the predicted
position, and serves all Newton iterations and both projections (modified Newton). It leaves out what is
small or unsymmetric; the residual is exact, so that only the rate of convergence depends on W. After an iteration
with a large change W is factorised again: with a Jacobian that has rotated, the penalty causes large forces.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from vehicled.multibody.factor import Factorisation, elimination_order
from vehicled.multibody.step import StepKernels
from vehicled.multibody.system import Coordinate, System
from vehicled.symbolic.graph import Atom
from vehicled.symbolic.loop import (
    Above,
    Below,
    Bound,
    Call,
    Count,
    IfAny,
    Iterate,
    Not,
    Repeat,
    Routine,
    StoreFlag,
)
from vehicled.symbolic.program import KernelHandle, Program

RHS = dict[Coordinate, Atom]


class Assembly:
    """Sums contributions to the rows of a vector, those of branches separately from those of the root."""

    def __init__(self, system: System) -> None:
        self.branch: RHS = {}
        self.root: RHS = {}
        self.graph = system.graph

    def add(self, c: Coordinate, value: Atom) -> None:
        """Add a value to the row of a coordinate; to the root's own sum only if both belong to the root."""
        if value is self.graph.zero:
            return
        rows = self.root if value.rank == 0 and c.rank == 0 else self.branch
        rows[c] = rows[c] + value if c in rows else value

    def add_transposed(self, row: dict[Coordinate, Atom], factor: Atom) -> None:
        """Add rowᵀ·factor."""
        for c, j in row.items():
            self.add(c, j * factor)


def declare_state(program: Program, system: System) -> None:
    """Places for q, q̇, q̈ and λ: arrays `q`, `qd`, `qdd`, `lambda` for the root, `branch.q` … for branches."""
    for rank, prefix, coordinates in ((0, "", system.root), (1, "branch.", system.branch)):
        if rank == 1 and not coordinates:
            continue
        program.store(f"{prefix}q", [c.q for c in coordinates])
        program.store(f"{prefix}qd", [c.qd for c in coordinates])
        program.store(f"{prefix}qdd", [c.qdd for c in coordinates])


def _multipliers(program: Program, system: System, name: str) -> list[Atom]:
    """One stored symbol per constraint, in order."""
    counts = [sum(1 for _, phi in system.constraints if phi.rank == r) for r in (0, 1)]
    stores = [iter(program.array(name, counts[0])), iter(program.array(f"branch.{name}", counts[1], 1))]
    return [next(stores[phi.rank]) for _, phi in system.constraints]


@dataclass(frozen=True)
class Hold:
    """Stored numbers by which a caller prescribes a coordinate."""

    switch: Atom
    """1 while the coordinate is held at its target, else 0."""
    value: Atom
    rate: Atom
    acceleration: Atom


@dataclass(frozen=True)
class Ali3pStep:
    """Result of `build`, for further kernels on the same factorisation."""

    program: Program
    system: System
    kernels: StepKernels
    routine: Routine
    """One whole step: see `StepFunction`."""
    h: Atom
    multipliers: list[Atom]
    """λ, one per constraint."""
    penalties: list[Atom]
    """(h²/4) α, one per constraint."""
    jacobian: list[dict[Coordinate, Atom]]
    factor: Factorisation
    """Factorisation of the tangent W, as stored by the kernel `factor`."""


_Entries = dict[tuple[Coordinate, Coordinate], Atom]
"""Entries of a symmetric matrix, by pairs of coordinates; each pair once."""
_RIGID = 1e30
"""Diagonal entry of the tangent for a held coordinate: so large that Newton does not move the coordinate."""


def build(
    program: Program,
    system: System,
    h: Atom,
    alpha: Atom | Sequence[Atom],
    holds: Mapping[Coordinate, Hold] | None = None,
    finish: Iterable[tuple[Atom, Atom]] = (),
    lengths: tuple[frozenset[Coordinate], Atom] | None = None,
) -> Ali3pStep:
    """Add the kernels of one step to a program (see `StepKernels`) and the array `newton`.

    `newton` = [norm of Δq², λ update on/off, iterating, tangent to be renewed], by which the step's routine controls
    them. With several instances, one that is not iterating is not changed, whatever the others need; nor is a
    tangent that is not to be renewed.

    `h` (s) and `alpha` (penalty) are stored symbols; there may be a penalty per constraint, 0 for one that is to
    be ignored, λ of which must be 0. Coordinates in `holds` can be held: they go to their targets at the end of a
    step. Forces in `system` are functions of q, q̇ at the end of the step. `finish`: what the model itself stores at
    the end of a step, (symbol, expression); taken last. State arrays must be declared (`declare_state`). The values
    of the constraints at the end of a step are found in `phi` and `branch.phi`. `lengths`: coordinates whose changes
    count in the norm times a stored number (1/m); without it all count as they are.
    """
    return _Builder(program, system, h, alpha, holds or {}, lengths).build(finish)


class _Builder:
    """The kernels of one step; each method adds one, or those of one kind."""

    def __init__(
        self,
        program: Program,
        system: System,
        h: Atom,
        alpha: Atom | Sequence[Atom],
        holds: Mapping[Coordinate, Hold],
        lengths: tuple[frozenset[Coordinate], Atom] | None,
    ) -> None:
        self.program, self.system, self.h, self.holds = program, system, h, holds
        self.lengths = lengths
        self.graph, self.coordinates = program.graph, system.coordinates
        self.quarter = h * h * 0.25
        self.velocity_star = _twins(program, system, "qd_star")
        self.acceleration_star = _twins(program, system, "qdd_star")
        self.multipliers = _multipliers(program, system, "lambda")
        self.phis = _multipliers(program, system, "phi")
        self.norm_squared, self.updating, self.iterating, self.renewing = program.array("newton", 4)
        self.several = program.layout.width > 1
        self.alphas = [alpha] * len(self.phis) if isinstance(alpha, Atom) else alpha
        self.two_h, self.four_hh = 2.0 / h, 4.0 / (h * h)

    def build(self, finish: Iterable[tuple[Atom, Atom]]) -> Ali3pStep:
        predict = self._predict()
        factor = self._factor()
        iterate = self._iterate()
        velocity, acceleration = self.system.constraint_rates()
        kernels = StepKernels(
            predict,
            factor,
            iterate,
            self._recover(),
            self._project("project_velocity", velocity, "qd"),
            self._project("project_acceleration", acceleration, "qdd"),
            self.program.kernel("finish", finish),
        )
        routine = _step_routine(kernels, self.norm_squared, self.iterating, self.renewing)
        return Ali3pStep(
            self.program,
            self.system,
            kernels,
            routine,
            self.h,
            self.multipliers,
            self.penalties,
            self.jacobian,
            self.factor,
        )

    def _held(self, c: Coordinate, free: Atom, part: Literal["value", "rate", "acceleration"]) -> Atom:
        """The value of a coordinate or of its rate, or its target if it is held."""
        if c not in self.holds:
            return free
        hold = self.holds[c]
        target: Atom = getattr(hold, part)
        return free + hold.switch * (target - free)

    def _predict(self) -> KernelHandle:
        """Prediction by constant acceleration; then q̇ and q̈ of the trapezoidal rule at that position."""
        graph, h = self.graph, self.h
        stores: list[tuple[Atom, Atom]] = []
        for c in self.coordinates:
            new = c.q + h * (c.qd + (h * 0.5) * c.qdd)
            stores += [
                (c.q, self._held(c, new, "value")),
                (self.velocity_star[c], -(self.two_h * c.q + c.qd)),
                (self.acceleration_star[c], -(self.four_hh * c.q + (4.0 / h) * c.qd + c.qdd)),
                (c.qd, c.qd + h * c.qdd),
            ]
        flags = [(self.updating, graph.zero), (self.iterating, graph.one), (self.renewing, graph.one)]
        return self.program.kernel("predict", [*stores, *flags])

    def _factor(self) -> KernelHandle:
        """Tangent and its factorisation, at the predicted state."""
        program, graph = self.program, self.graph
        self.jacobian = self.system.constraint_jacobian()
        self.penalties = [self.quarter * a for a in self.alphas]
        branch_entries, root_entries = self._tangent()
        self.factorised_at = {c.q: s for c, s in _twins(program, self.system, "q_factor").items()}
        here = {q: q for q in self.factorised_at}
        if self.several:
            here = {q: graph.where_less(self.renewing, 0.5, old, q) for q, old in self.factorised_at.items()}
            for matrix in (branch_entries, root_entries):
                matrix |= zip(matrix, graph.substitute(list(matrix.values()), here), strict=True)
        order = elimination_order([*branch_entries, *root_entries], self.coordinates)
        factorisation = Factorisation(graph, order, branch_entries, root_entries)
        entries = factorisation.entries()
        arrays = [
            iter(program.array("factor", sum(1 for r, _ in entries if r == 0))),
            iter(program.array("branch.factor", sum(1 for r, _ in entries if r == 1), 1)),
        ]
        slots = [next(arrays[rank]) for rank, _ in entries]
        self.factor = factorisation.with_entries(slots)
        stores = [*zip(slots, (v for _, v in entries), strict=True)]
        stores += [(old, here[q]) for q, old in self.factorised_at.items()]
        return program.kernel("factor", stores)

    def _tangent(self) -> tuple[_Entries, _Entries]:
        """Entries of W by pairs of coordinates: those with a branch in them, and those of the root alone."""
        branch_entries: _Entries = {}
        root_entries: _Entries = {}

        def add(a: Coordinate, b: Coordinate, value: Atom) -> None:
            entries = root_entries if a.rank == 0 and b.rank == 0 and value.rank == 0 else branch_entries
            pair = (b, a) if (b, a) in entries else (a, b)
            entries[pair] = entries[pair] + value if pair in entries else value

        def add_square(row: dict[Coordinate, Atom], weight: Atom) -> None:
            items = [(c, j, weight * j) for c, j in row.items() if j is not self.graph.zero]
            for n, (a, _, wa) in enumerate(items):
                for b, jb, _ in items[n:]:
                    add(a, b, wa * jb)

        index = {c: n for n, c in enumerate(self.coordinates)}
        for a, b, m in self.system.mass:
            if index[a] <= index[b]:
                add(a, b, m)
        for row, penalty in zip(self.jacobian, self.penalties, strict=True):
            add_square(row, penalty)
        for soft in self.system.soft:
            add_square(soft.jacobian, soft.weight)
        for c, hold in self.holds.items():
            add(c, c, _RIGID * hold.switch)
        return branch_entries, root_entries

    def _iterate(self) -> KernelHandle:
        """One Newton iteration."""
        graph, system, coordinates = self.graph, self.system, self.coordinates
        self.phi_now = [phi for _, phi in system.constraints]
        weight = self.iterating * self.updating if self.several else self.updating
        updated = [
            lam + weight * a * phi
            for lam, a, phi in zip(self.multipliers, self.alphas, self.phi_now, strict=True)
        ]
        residual = Assembly(system)
        self.trapezoid = {c.qdd: self.four_hh * c.q + self.acceleration_star[c] for c in coordinates}
        self.rates = {c.qd: self.two_h * c.q + self.velocity_star[c] for c in coordinates}
        for a, b, m in system.mass:
            residual.add(a, -(m * self.trapezoid[b.qdd]))
        for row, lam, alpha, phi in zip(self.jacobian, updated, self.alphas, self.phi_now, strict=True):
            residual.add_transposed(row, -(lam + alpha * phi))
        forces = graph.substitute([f for _, f in system.forces], self.rates)
        for (c, _), f in zip(system.forces, forces, strict=True):
            residual.add(c, f)
        for rows in (residual.branch, residual.root):
            for c in rows:
                rows[c] = rows[c] * self.quarter
        step = self.factor.solve(residual.branch, residual.root)
        if self.several:
            step = {c: self.iterating * x for c, x in step.items()}
        return self.program.kernel(
            "iterate",
            [
                *((c.q, c.q + step[c]) for c in coordinates),
                *zip(self.multipliers, updated, strict=True),
                (self.norm_squared, self._norm_squared(step)),
                (self.updating, graph.one),
            ],
        )

    def _norm_squared(self, step: Mapping[Coordinate, Atom]) -> Atom:
        """‖Δq‖² of a change of the coordinates."""
        graph = self.graph
        scaled, inverse = self.lengths or (frozenset(), graph.one)
        norm = graph.zero
        for rank in (1, 0):
            here = [c for c in self.coordinates if c.rank == rank]
            lengths, others = (
                _tree_sum([step[c] * step[c] for c in here if (c in scaled) is is_length], graph.zero)
                for is_length in (True, False)
            )
            total = lengths * (inverse * inverse) + others
            norm = norm + (graph.lane_sum(total) if rank and here else total)
        return norm

    def _recover(self) -> KernelHandle:
        """Rates and accelerations of the trapezoidal rule, the last update of λ, and the constraints' values."""
        coordinates = self.coordinates
        updates = zip(self.multipliers, self.alphas, self.phi_now, strict=True)
        return self.program.kernel(
            "recover",
            [
                *((c.qd, self._held(c, self.rates[c.qd], "rate")) for c in coordinates),
                *((c.qdd, self._held(c, self.trapezoid[c.qdd], "acceleration")) for c in coordinates),
                *((lam, lam + a * phi) for lam, a, phi in updates),
                *zip(self.phis, self.phi_now, strict=True),
            ],
        )

    def _project(self, name: str, violation: Sequence[Atom], target: Literal["qd", "qdd"]) -> KernelHandle:
        """Project q̇ or q̈ onto the constraints, in the metric of W.

        The first pass starts with the rates of the trapezoidal rule, a further pass with the result of the
        preceding one. Corrections are along the Jacobian with which W was made: along a Jacobian that has
        rotated since, the penalty would act where W has no stiffness.
        """
        rhs = Assembly(self.system)
        for row, penalty, value in zip(self.jacobian, self.penalties, violation, strict=True):
            there = dict(zip(row, self.graph.substitute(list(row.values()), self.factorised_at), strict=True))
            rhs.add_transposed(there, -(penalty * value))
        change = self.factor.solve(rhs.branch, rhs.root)
        return self.program.kernel(
            name, [(getattr(c, target), getattr(c, target) + change[c]) for c in self.coordinates]
        )


def _step_routine(kernels: StepKernels, norm_squared: Atom, iterating: Atom, renewing: Atom) -> Routine:
    limit, passes = Count("limit"), Count("passes")
    tolerance, large = Bound("tolerance"), Bound("large")
    converged, far = Below(norm_squared, tolerance), Above(norm_squared, large)
    newton = Iterate(
        (Call(kernels.iterate),),
        until=converged,
        limit=limit,
        between=(
            StoreFlag(iterating, Not(converged)),
            StoreFlag(renewing, far),
            IfAny(far, (Call(kernels.factor),)),
        ),
    )
    body = (
        Call(kernels.predict),
        Call(kernels.factor),
        newton,
        Call(kernels.recover),
        Repeat(passes, (Call(kernels.project_velocity),)),
        Repeat(passes, (Call(kernels.project_acceleration),)),
        Call(kernels.finish),
    )
    return Routine("step", (limit, tolerance, large, passes), body)


def add_dynamics(step: Ali3pStep) -> KernelHandle:
    """Kernel `accelerate`, after `factor`: q̈ and λ of the present state, one iteration per call.

    W q̈ = Q − Φ_qᵀ (λ + (h²/4) α Φ̈(q̈ = 0)), λ ← λ + (h²/4) α Φ̈: the acceleration problem by an augmented Lagrangian.
    With the terms of springs and dampers in W this is Rosenbrock's method: forces include the effect of the change
    of rates over h, so that accelerations by forces too stiff for h remain small.
    """
    program, system, zero = step.program, step.system, step.system.graph.zero
    graph = system.graph
    _, drift = system.constraint_rates()
    drift = graph.substitute(drift, {c.qdd: zero for c in system.coordinates})
    rhs = Assembly(system)
    for c, force in system.forces:
        rhs.add(c, force)
    for row, lam, penalty, value in zip(step.jacobian, step.multipliers, step.penalties, drift, strict=True):
        rhs.add_transposed(row, -(lam + penalty * value))
    found = step.factor.solve(rhs.branch, rhs.root)
    stores = [(c.qdd, found[c]) for c in system.coordinates]
    for row, lam, penalty, value in zip(step.jacobian, step.multipliers, step.penalties, drift, strict=True):
        left = value
        for c, j in row.items():
            left = left + j * found[c]
        stores.append((lam, lam + penalty * left))
    return program.kernel("accelerate", stores)


def add_forward_euler(step: Ali3pStep) -> KernelHandle:
    """Sequence `euler`: one step of h by forward Euler on q and q̇.

    The acceleration problem is solved before it and after it, position and velocity problems between.
    """
    program, system, h = step.program, step.system, step.h
    accelerate = add_dynamics(step)
    stores = [(c.q, c.q + h * c.qd) for c in system.coordinates]
    stores += [(c.qd, c.qd + h * c.qdd) for c in system.coordinates]
    advance = program.kernel("advance", stores)
    rhs = Assembly(system)
    for row, penalty, (_, phi) in zip(step.jacobian, step.penalties, system.constraints, strict=True):
        rhs.add_transposed(row, -(penalty * phi))
    change = step.factor.solve(rhs.branch, rhs.root)
    project_position = program.kernel(
        "project_position", [(c.q, c.q + change[c]) for c in system.coordinates]
    )
    kernels = step.kernels
    dynamics = [kernels.factor, *[accelerate] * 2]
    problems = [*[project_position] * 3, *[kernels.project_velocity] * 2]
    return program.sequence(
        "euler", *dynamics, advance, kernels.factor, *problems, *[accelerate] * 2, kernels.finish
    )


def _twins(program: Program, system: System, name: str) -> dict[Coordinate, Atom]:
    """One further stored number per coordinate."""
    twins: dict[Coordinate, Atom] = {}
    for prefix, coordinates in (("", system.root), ("branch.", system.branch)):
        if coordinates:
            symbols = program.array(f"{prefix}{name}", len(coordinates), coordinates[0].rank)
            twins.update(zip(coordinates, symbols, strict=True))
    return twins


def _tree_sum(values: list[Atom], zero: Atom) -> Atom:
    """Sum by halves: its chain of dependent additions is shorter than that of a sum one by one."""
    if not values:
        return zero
    while len(values) > 1:
        pairs = [a + b for a, b in zip(values[::2], values[1::2], strict=False)]
        values = pairs + values[len(pairs) * 2 :]
    return values[0]
