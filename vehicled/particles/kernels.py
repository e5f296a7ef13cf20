"""Machine code that advances, disturbs and projects particles, eight in parallel.

A particle is q, q̇ of a mechanism in natural coordinates (no angles among them, so that no trigonometric
function is evaluated unless a force is one of an angle), with the sine and cosine of each angle of its
description, each distance, and their rates. Its accelerations are those of index 1, with the constant mass
matrix inverted once:

    q̈ = M⁻¹ (Q − Φ_qᵀ λ),   Φ_q M⁻¹ Φ_qᵀ λ = Φ_q M⁻¹ Q − γ,

integrated by the classical Runge–Kutta rule. Projections are orthogonal in the metric of M: they change a
state, and its kinetic energy, as little as possible (Bayo and Ledesma 1996; García Orden and Goicolea 2000),
and stay regular where an independent coordinate does not, as the input of a rocker at the end of its travel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vehicled.multibody.description import Description
from vehicled.multibody.factor import Factorisation, elimination_order
from vehicled.multibody.model import MechanismError, Model
from vehicled.multibody.system import Coordinate
from vehicled.particles.reduction import Row, reduce
from vehicled.symbolic.graph import Atom, Graph
from vehicled.symbolic.program import KernelHandle, Program

WIDTH = 8
"""Number of particles processed in parallel."""
STATE = ("q", "qd", "sides", "distances", "rates")
"""Arrays of the workspace that belong to a particle, in their order there: `sides` has two numbers for each angle,
`rates` those of angles and distances."""
NOISE = ("moves", "kicks")
"""Arrays that follow: the disturbances of each noisy coordinate and of its rate."""
_NEWTON = 2
"""Newton iterations of a projection. They converge quadratically from an error in the length of a bar of 10⁻³, that
of a turn by 0.05 rad; the next step reduces the rest."""
_STUCK = 0.02
"""Least mobility of a coordinate as a share of its mobility without constraints: smaller shares are replaced
by this one, as a rocker's input cannot be moved at the end of its travel."""


@dataclass(frozen=True)
class ParticleSequences:
    """Sequences of kernels on a particle."""

    advance: KernelHandle
    """A step of `step` (s) by the equations of motion."""
    advance_noisily: KernelHandle
    """`advance` with a disturbance at the end."""
    shift: KernelHandle
    """A disturbance: it adds `moves` to the noisy coordinates, and `kicks` to the rates that they had before it.

    Both along directions that the constraints allow.
    """
    settle: KernelHandle
    """Projection onto the constraints."""


class _Equations:
    """Terms of the equations of motion, as atoms at the state q, q̇ of the coordinates' symbols."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.graph = g = model.graph
        system = model.system
        self.coordinates = system.coordinates
        self.phi = [phi for _, phi in system.constraints]
        self.rows = system.constraint_jacobian()
        _, acceleration = system.constraint_rates()
        self.gamma = [-a for a in g.substitute(acceleration, {c.qdd: g.zero for c in self.coordinates})]
        self.forces: Row = {}
        for c, f in system.forces:
            self.forces[c] = self.forces[c] + f if c in self.forces else f
        self.inverse_mass = self._invert_mass()
        self.weighted = [self.by_inverse_mass(row) for row in self.rows]
        """Rows of Φ_q M⁻¹."""
        # One unknown per constraint, its multiplier.
        self._unknowns = [_unknown(g, k, name) for k, (name, _) in enumerate(system.constraints)]
        entries = {}
        for i, a in enumerate(self._unknowns):
            for k, b in enumerate(self._unknowns[: i + 1]):
                value = self.dot(self.weighted[i], self.rows[k])
                if value is not g.zero:
                    entries[a, b] = value
        self._factors = Factorisation(g, elimination_order(entries, self._unknowns), {}, entries)

    def _invert_mass(self) -> dict[Coordinate, Row]:
        g, order = self.graph, {c: k for k, c in enumerate(self.coordinates)}
        entries: dict[tuple[Coordinate, Coordinate], Atom] = {}
        for a, b, m in self.model.system.mass:
            if order[a] <= order[b]:
                entries[a, b] = entries[a, b] + m if (a, b) in entries else m
        for c in self.coordinates:
            if (c, c) not in entries:
                raise MechanismError(
                    f"{c.name}: no mass moves along it, which particles require; expected a further point of a "
                    "body among its markers, or a point_mass there"
                )
        factors = Factorisation(g, elimination_order(entries, self.coordinates), {}, entries)
        return {c: _kept(g.zero, factors.solve({}, {c: g.one})) for c in self.coordinates}

    def by_inverse_mass(self, row: Row) -> Row:
        total: Row = {}
        for c, value in row.items():
            for k, m in self.inverse_mass[c].items():
                total[k] = total[k] + value * m if k in total else value * m
        return total

    def dot(self, a: Row, b: Row) -> Atom:
        total = self.graph.zero
        for c, value in a.items():
            if c in b:
                total = total + value * b[c]
        return total

    def multipliers(self, right: Sequence[Atom]) -> list[Atom]:
        """x of Φ_q M⁻¹ Φ_qᵀ x = right."""
        x = self._factors.solve({}, dict(zip(self._unknowns, right, strict=True)))
        return [x[u] for u in self._unknowns]

    def without_constrained(self, row: Row) -> Row:
        """The row without the part that violates the constraints: v − M⁻¹Φ_qᵀ (Φ_q M⁻¹Φ_qᵀ)⁻¹ Φ_q v."""
        return self.less(row, self.multipliers([self.dot(j, row) for j in self.rows]))

    def less(self, row: Row, multipliers: Sequence[Atom]) -> Row:
        """The row v − M⁻¹Φ_qᵀ x, with x by constraint."""
        total = dict(row)
        for w, x in zip(self.weighted, multipliers, strict=True):
            for c, value in w.items():
                total[c] = total[c] - value * x if c in total else -(value * x)
        return total

    def acceleration(self) -> Row:
        free = self.by_inverse_mass(self.forces)
        right = [self.dot(j, free) - gamma for j, gamma in zip(self.rows, self.gamma, strict=True)]
        return self.less(free, self.multipliers(right))

    def at(self, row: Row, q: Row, qd: Row, later: Atom | float = 0.0) -> Row:
        """The same equations at another state, and at a time `later`."""
        state = {c.q: q[c] for c in self.coordinates} | {c.qd: qd[c] for c in self.coordinates}
        state[self.model.t] = self.model.t + later
        values = self.graph.substitute([row.get(c, self.graph.zero) for c in self.coordinates], state)
        return dict(zip(self.coordinates, values, strict=True))


def _unknown(g: Graph, index: int, name: str) -> Coordinate:
    """Unknown of a system of equations other than that of the coordinates."""
    return Coordinate(name, index, 0, g.zero, g.zero, g.zero)


def _kept(zero: Atom, row: Row) -> Row:
    return {c: value for c, value in row.items() if value is not zero}


def _moved(row: Row, factor: Atom | float, by: Row) -> Row:
    return {c: value + factor * by[c] if c in by else value for c, value in row.items()}


def _integrate(eq: _Equations, h: Atom) -> list[tuple[Atom, Atom]]:
    """Runge–Kutta 4 over a step of h: each coordinate and rate, and its new value."""
    q, v = {c: c.q for c in eq.coordinates}, {c: c.qd for c in eq.coordinates}
    acceleration, half = eq.acceleration(), 0.5 * h
    a1 = {c: acceleration[c] for c in eq.coordinates}
    v2 = _moved(v, half, a1)
    a2 = eq.at(acceleration, _moved(q, half, v), v2, half)
    v3 = _moved(v, half, a2)
    a3 = eq.at(acceleration, _moved(q, half, v2), v3, half)
    v4 = _moved(v, h, a3)
    a4 = eq.at(acceleration, _moved(q, h, v3), v4, h)
    sixth = h * (1.0 / 6.0)
    integrated = []
    for c in eq.coordinates:
        integrated.append((c.q, c.q + sixth * ((v[c] + v4[c]) + 2.0 * (v2[c] + v3[c]))))
        integrated.append((c.qd, c.qd + sixth * ((a1[c] + a4[c]) + 2.0 * (a2[c] + a3[c]))))
    return integrated


def build(description: Description, noisy: Sequence[str]) -> tuple[Program, Model, ParticleSequences]:
    """A program on particles of a mechanism.

    `noisy` names angles and distances of the description or components of points ("Q.x"), at most as many as there
    are degrees of freedom. Raises MechanismError.
    """
    model, quantities = reduce(description)
    g, eq = model.graph, _Equations(model)
    coordinates = eq.coordinates
    program = Program(g, width=WIDTH)
    program.store("q", [c.q for c in coordinates])
    program.store("qd", [c.qd for c in coordinates])
    gradients = {name: x.gradient for name, x in quantities.items()}
    gradients |= {c.name: {c: g.one} for c in coordinates}
    sides = [side for x in quantities.values() if x.sides for side in x.sides]
    distances = [x.value for x in quantities.values() if not x.sides]
    rates = [x.rate(g.zero) for x in quantities.values()]
    shown = dict(zip(STATE[2:], (sides, distances, rates), strict=True))
    places = {name: program.array(name, len(values)) for name, values in shown.items()}
    moves, kicks = program.array("moves", len(noisy)), program.array("kicks", len(noisy))
    (h,) = program.array("advance_step", 1)
    program.store("time", [model.t])
    program.store("applied", model.program.arrays["applied"])
    program.store("parameters", list(model.symbols.values()))

    q, v = {c: c.q for c in coordinates}, {c: c.qd for c in coordinates}
    integrate = program.kernel("integrate", _integrate(eq, h))

    unknown = [name for name in noisy if name not in gradients]
    if unknown:
        raise MechanismError(f"noise on {unknown[0]!r}: expected one of {', '.join(gradients)}")
    wanted = [gradients[name] for name in noisy]
    free = [eq.by_inverse_mass(row) for row in wanted]
    ways = [eq.without_constrained(row) for row in free]
    channels = [_unknown(g, k, name) for k, name in enumerate(noisy)]
    mobility = {}
    for i, one in enumerate(channels):
        for k, other in enumerate(channels[: i + 1]):
            mobility[one, other] = eq.dot(wanted[i], ways[k])
        mobility[one, one] = g.max(mobility[one, one], _STUCK * eq.dot(wanted[i], free[i]))
    factors = Factorisation(g, channels, {}, mobility)

    def along_ways(start: Row, amounts: Sequence[Atom]) -> Row:
        shares = factors.solve({}, dict(zip(channels, amounts, strict=True)))
        for channel, way in zip(channels, ways, strict=True):
            start = _moved(start, shares[channel], way)
        return start

    present = [eq.dot(row, v) for row in wanted]
    # The rates after the kicks are stored in place of the kicks while the position changes.
    kept = [(kick, rate + kick) for kick, rate in zip(kicks, present, strict=True)]
    disturb = program.kernel("disturb", [*((c.q, x) for c, x in along_ways(q, moves).items()), *kept])
    kicked = along_ways(v, [rate - now for rate, now in zip(kicks, present, strict=True)])
    new_rates = g.substitute(rates, {c.qd: x for c, x in kicked.items()})
    kick = program.kernel(
        "kick",
        [*((c.qd, x) for c, x in kicked.items()), *zip(places["rates"], new_rates, strict=True)],
    )

    position = q
    for _ in range(_NEWTON):
        off = eq.multipliers(eq.phi)
        correction = eq.at(eq.less({}, off), position, v)
        position = {c: position[c] + correction[c] for c in coordinates}
    velocity = eq.at(eq.without_constrained(v), position, v)
    projected = {c.q: position[c] for c in coordinates} | {c.qd: velocity[c] for c in coordinates}
    stores = list(projected.items())
    for name, values in shown.items():
        stores += zip(places[name], g.substitute(values, projected), strict=True)
    project = program.kernel("project", stores)
    sequences = ParticleSequences(
        advance=program.sequence("advance", integrate, project),
        advance_noisily=program.sequence("advance_noisily", integrate, disturb, project, kick),
        shift=program.sequence("shift", disturb, project, kick),
        settle=program.sequence("settle", project),
    )
    program.finish(model.symbols.values())
    return program, model, sequences
