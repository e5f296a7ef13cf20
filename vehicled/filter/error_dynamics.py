"""Error dynamics of a running car: rates of the errors as expressions, and the transition over a step.

The rates are written once, as functions of the errors; the compiler differentiates them. Prediction,
observations of the past, corrections and sigma points all take their matrices from here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from vehicled.filter.covariance import Row
from vehicled.filter.state_table import StateVector
from vehicled.filter.states import (
    ANGULAR_RATE,
    ATTITUDE,
    COORDINATES,
    DRIVE_FORCE,
    POSITION,
    RATES,
    ROLLING_RADIUS,
    STEERING_OFFSET,
    STEERING_RATIO,
    SUSPENSION,
    TYRE_ERROR,
    TYRE_FORCE,
    UNMODELLED,
    VELOCITY,
    WHEEL_ANGLE,
    WHEEL_SLIP,
    Group,
)
from vehicled.messages import WHEELS
from vehicled.symbolic.graph import Atom, Graph
from vehicled.symbolic.program import Program
from vehicled.vehicle.arrays import AHEAD, LEFT, TYRE_CAUSES, YAW, YAW_RATE
from vehicled.vehicle.sensor_models import TyreResponse

Matrix = list[dict[int, Atom]]
"""Sparse rows."""


_HOLDING_SPEED = 3.0
"""m/s: at lower speed, tyres stick rather than slip, as they roll less than a few relaxation lengths within a
second.

Stiffness, friction and radii are not estimated there: in the error model tyres slip, and deviations from
that, as when a standing car is steered, would be ascribed to these parameters."""


_SMALL_FORCE = 0.1
"""m/s²: up to this drive force over mass, slip is proportional to it."""


class ErrorDynamics:
    """d/dt of the error states, and its Jacobian."""

    def __init__(
        self,
        graph: Graph,
        states: StateVector,
        rolling: Sequence[Atom],
        slips: Sequence[Atom],
        tyres: TyreResponse | None,
        is_forced: bool,
        unsteered: Atom,
        angle: Atom,
    ) -> None:
        """`rolling`: (8,) derivatives of each rolling wheel's rate by forward speed (rad/m) and by yaw rate.

        `slips`: (4,) slip of each wheel per unmeasured drive force over mass, s²/m.

        `tyres`: response of their forces; None for errors that propagate as those of free masses.
        `is_forced`: whether unmodelled accelerations act on the car as a force. `unsteered`: 1 while no
        steering is measured, else 0. `angle`: measured angle of the front wheels, rad; zero if it is not
        measured.
        """
        self._graph, self._states, self._rolling, self._slips = graph, states, rolling, slips
        self._tyres, self._is_forced, self._unsteered = tyres, is_forced, unsteered
        self._angle = angle
        self._errors = [graph.symbol(f"error of {name}") for name in states.names]

    def calc_rates(self, pose: Sequence[Atom]) -> list[Atom]:
        """(n,) rates of all errors, without the decay of Gauss–Markov states, at a pose (elements of POSE)."""
        g, s, e, zero = self._graph, self._states, self._errors, self._graph.zero
        rates = [zero] * len(s)
        heading = pose[YAW] + e[s.index(ATTITUDE, "yaw")]
        cos, sin = g.cos(heading), g.sin(heading)
        ahead, left, turning = (
            nominal + e[place]
            for nominal, place in zip(
                (pose[AHEAD], pose[LEFT], pose[YAW_RATE]),
                (*s.places(VELOCITY)[:2], s.index(ANGULAR_RATE, "yaw")),
                strict=True,
            )
        )
        # An error of the heading rotates the velocity; one of the slope adds a vertical component.
        x, y, z = s.places(POSITION)
        rates[x] = cos * ahead - sin * left
        rates[y] = sin * ahead + cos * left
        rates[z] = e[s.index(VELOCITY, "up")] + pose[AHEAD] * e[s.index(ATTITUDE, "v1z")]
        for angle, rate in zip(s.places(ATTITUDE), s.places(ANGULAR_RATE), strict=True):
            rates[angle] = e[rate]
        rolls = calc_slipping(g, pose[AHEAD], pose[LEFT])
        by_radius = [rolls * error for error in self._errors_of(ROLLING_RADIUS)]
        drive = e[s.index(DRIVE_FORCE)]
        for k, (angle, slip) in enumerate(zip(s.places(WHEEL_ANGLE), s.places(WHEEL_SLIP), strict=True)):
            rolling = self._rolling[2 * k] * ahead + self._rolling[2 * k + 1] * turning
            more = by_radius[k] + rolls * self._slips[k] * drive
            rates[angle] = e[slip] + rolling * (1.0 + more)
        along, across = s.places(VELOCITY)[:2]
        rates[along] = drive
        if self._tyres is not None:
            by_x, by_y, moment = self._calc_accelerations(self._tyres, pose, rolls, rates)
            rates[along] = by_x + left * turning + drive
            rates[across] = by_y - ahead * turning
            rates[s.index(ANGULAR_RATE, "yaw")] = moment
        if SUSPENSION[0] in s:
            for travel, rate in zip(*map(s.places, SUSPENSION), strict=True):
                rates[travel] = e[rate]
        return rates

    def _calc_accelerations(
        self, tyres: TyreResponse, pose: Sequence[Atom], rolls: Atom, rates: list[Atom]
    ) -> tuple[Atom, Atom, Atom]:
        """Accelerations of the car, forward, left and yaw, due to errors of the forces on it.

        `rolls`: 1, or 0 while tyres stick. The rates of the tyre forces are written into `rates`.
        """
        g, s, e, zero = self._graph, self._states, self._errors, self._graph.zero
        of_tyres = s.places(TYRE_ERROR) if TYRE_ERROR in s else []
        causes = [zero if i is None else rolls * e[i] if i in of_tyres else e[i] for i in find_tyre_causes(s)]
        # Without measured steering, the wheels' angle is that of rolling, yaw rate over speed: an error of
        # the speed changes it such that the force does not depend on the speed. That angle also has the noise
        # of the same samples that the force is compared with, on straights nothing else: a sensitivity to the
        # speed would correlate with innovations.
        causes[0] = (1.0 - self._unsteered) * causes[0]
        (by_ratio,), steering = self._errors_of(STEERING_RATIO), TYRE_CAUSES.index("steering")
        causes[steering] = causes[steering] + self._angle * by_ratio
        forces = self._errors_of(TYRE_FORCE)
        for place, force, steady, relaxation in zip(
            s.places(TYRE_FORCE), forces, tyres.steady, tyres.relaxation, strict=True
        ):
            rates[place] = relaxation * (_dot(steady, causes, zero) - force)
        by_x, by_y, moment = (_dot(row, forces, zero) for row in tyres.acceleration)
        if self._is_forced:
            share = calc_free_share(g, pose[AHEAD])
            lacking_x, lacking_y, _, lacking_yaw = self._errors_of(UNMODELLED)
            by_x, by_y, moment = by_x + lacking_x, by_y + share * lacking_y, moment + share * lacking_yaw
        return by_x, by_y, moment

    def _errors_of(self, group: Group) -> list[Atom]:
        """Errors of a group; zero if it is left out."""
        if group not in self._states:
            return [self._graph.zero] * len(group.elements)
        return self._errors[self._states[group]]

    def calc_jacobian(self, pose: Sequence[Atom], rows: Iterable[int] | None = None) -> Matrix:
        """A = ∂rates/∂errors at zero errors; only some of its rows if given."""
        g, zero = self._graph, self._graph.zero
        rates = self.calc_rates(pose)
        none = dict.fromkeys(self._errors, zero)
        found: Matrix = [{} for _ in rates]
        for i in range(len(rates)) if rows is None else rows:
            row = g.substitute([g.derivative(rates[i], e) for e in self._errors], none)
            found[i] = {j: a for j, a in enumerate(row) if a is not zero}
        return found

    def calc_drift(self, pose: Sequence[Atom]) -> Matrix:
        """Rows of the coordinates (chassis and wheels): their drift by errors."""
        s = self._states
        return self.calc_jacobian(pose, [i for g in COORDINATES for i in s.places(g)])[: count_pairs(s)]

    def calc_transition(self, pose: Sequence[Atom], h: Atom, decays: Mapping[int, Atom]) -> Matrix:
        """F over a step of h from a pose. `decays`: factors of the Gauss–Markov states over h.

        Forward Euler. If tyre forces respond, backward Euler for them and for lateral velocity and yaw rate,
        which change within milliseconds.
        """
        g, s = self._graph, self._states
        a = self.calc_jacobian(pose)
        transition: Matrix = [{i: decays.get(i, g.one)} for i in range(len(s))]
        for i, row in enumerate(a):
            for j, value in row.items():
                transition[i][j] = transition[i][j] + h * value if j in transition[i] else h * value
        if self._tyres is not None:
            stiff = (*s.places(TYRE_FORCE), s.index(VELOCITY, "left"), s.index(ANGULAR_RATE, "yaw"))
            for i, row in zip(stiff, _backward_euler(g, a, h, stiff), strict=True):
                transition[i] = row
        return transition


def calc_free_share(g: Graph, *velocity: Atom) -> Atom:
    """Share of a force that tyres do not hold, such as a lateral one, at a velocity, m/s: at rest they stick."""
    square = sum((v * v for v in velocity), g.zero)
    return square / (square + _HOLDING_SPEED**2)


def calc_slipping(g: Graph, *velocity: Atom) -> Atom:
    """1; 0 at a velocity, m/s, at which tyres stick."""
    square = sum((v * v for v in velocity), g.zero)
    return g.where_less(square, _HOLDING_SPEED**2, g.zero, g.one)


def share_drive(program: Program, drive: Atom, what: str) -> list[Atom]:
    """(4,) `slip` (s²/m) or `force` (kg) of each wheel per unmeasured drive force over mass (m/s²).

    Driving acts on the driven wheels, braking on all. The slip is that of a small force.
    """
    kinds = (program.array(f"{what}_per_{name}", len(WHEELS)) for name in ("drive", "braking"))
    g = program.graph
    pairs = zip(*kinds, strict=True)
    return [g.where_less(g.zero, drive, driving, braking) for driving, braking in pairs]


def calc_slips_by_drive(g: Graph, drive: Atom, slips: Sequence[Atom], growths: Sequence[Atom]) -> list[Atom]:
    """(4,) change of each wheel's slip per drive force over mass, s²/m.

    `slips`: value for a small force; `growths`: change of the slip per relative change of the force, as in
    `Parts`.
    """
    is_small = g.max(drive, -drive)
    return [
        g.where_less(is_small, _SMALL_FORCE, slip, growth / drive)
        for slip, growth in zip(slips, growths, strict=True)
    ]


def find_tyre_causes(states: StateVector) -> tuple[int | None, ...]:
    """Indices of the errors that tyre forces respond to, in the order of TYRE_CAUSES; None if left out."""
    along, across, _ = states.places(VELOCITY)
    found: list[int | None] = [along, across, states.index(ANGULAR_RATE, "yaw")]
    for group in (STEERING_OFFSET, TYRE_ERROR):
        found += states.places(group) if group in states else [None] * len(group.elements)
    return tuple(found)


def count_pairs(states: StateVector) -> int:
    """Number of pairs of a coordinate and its rate."""
    count: int = states[RATES[0]].start
    return count


def _backward_euler(g: Graph, a: Matrix, h: Atom, stiff: Sequence[int]) -> Matrix:
    """Rows of implicitly integrated states: (I − hA)⁻¹ (I, h B), with A between them and B of the other states."""
    left: list[dict[int, Atom]] = []
    right: Matrix = []
    for i in stiff:
        row = {j: -(h * a[i][j]) for j in stiff if j in a[i]}
        row[i] = 1.0 + row[i] if i in row else g.one
        left.append(row)
        right.append({i: g.one} | {k: h * value for k, value in a[i].items() if k not in stiff})
    # Gauss–Jordan. States that decay or are damped have a diagonal of at least one: no pivoting.
    for k, i in enumerate(stiff):
        pivot = left[k][i]
        for rows in (left, right):
            rows[k] = {j: value / pivot for j, value in rows[k].items()}
        for other in range(len(stiff)):
            factor = left[other].get(i)
            if other == k or factor is None:
                continue
            for rows in (left, right):
                rows[other] = _subtract(rows[other], factor, rows[k])
    return right


def _subtract(row: Mapping[int, Atom], factor: Atom, other: Mapping[int, Atom]) -> dict[int, Atom]:
    """Row − factor · other."""
    found = dict(row)
    for j, value in other.items():
        found[j] = found[j] - factor * value if j in found else -(factor * value)
    return found


def _dot(a: Sequence[Atom], b: Sequence[Atom], zero: Atom) -> Atom:
    total = zero
    for x, y in zip(a, b, strict=True):
        total = total + x * y
    return total


def combine(row: Sequence[Atom], matrix: Sequence[Row], zero: Atom) -> dict[int, Atom]:
    """Row · matrix, sparse."""
    found: dict[int, Atom] = {}
    for value, columns in zip(row, matrix, strict=False):
        if value is zero:
            continue
        for j, a in columns.items():
            term = value * a
            found[j] = found[j] + term if j in found else term
    return found
