"""Whether a time step is short enough for the fastest motion of a mechanism, and what moves so fast.

A step of a linear oscillation λ multiplies it by R(λh) instead of exp(λh). The classical Runge–Kutta rule
removes a share of 2π (ωh)⁵/72 of its energy per period, without any warning: the motion just becomes smaller.
Here the eigenvalues of the equations of motion, linearised at the present state, are inserted into R. They do
not show a step that is too long for the turning of a linkage: its energy does, where nothing takes or adds any.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from vehicled.multibody import problems
from vehicled.multibody.description import Description
from vehicled.multibody.elements import DifferenceSpring, Equation, Spring, TorsionSpring
from vehicled.multibody.mechanism import Mechanism

LOSS = 0.01
"""Share of its energy that a motion may lose or gain per period by the integration rule."""
_BESIDE_DAMPING = 0.1
"""Share of the energy removed by damping, up to which such a loss does not matter."""
_STEPS_PER_PERIOD = 2.1
"""With fewer, ALI3-P follows no oscillation, and its energy varies by more than `LOSS` per period."""
_CONTRACTION = 0.65
"""(|λ|h/2)² of the trapezoidal rule's fixed-point iteration above which 60 iterations do not converge."""
_BLAMED = 1e-3
"""Relative change of an eigenvalue per relative change of a stiffness above which a spring takes part in the
motion."""
_VARIED = 1e-3
_FACTORS: dict[str, Callable[[complex], complex]] = {
    "forward_euler": lambda z: 1.0 + z,
    "runge_kutta_4": lambda z: 1.0 + z * (1.0 + z / 2.0 * (1.0 + z / 3.0 * (1.0 + z / 4.0))),
    "trapezoidal": lambda z: (1.0 + z / 2.0) / (1.0 - z / 2.0),
}
"""R, by integration rule."""
_ORDERS = {"forward_euler": 1, "runge_kutta_4": 4, "trapezoidal": 2}
"""Power of the step by which errors fall, by integration rule."""


@dataclass(frozen=True)
class FastMotion:
    """A motion for which a step is too long."""

    rate: float
    """|λ|, rad/s."""
    why: str
    """Effect of the step on the motion, in words."""
    longest: float
    """s, approximately the longest step without this effect, for this formulation and rule."""
    moves: str
    """The body with most of its energy."""
    springs: list[str]
    """Springs that make it so fast; empty if none does, as with gravity or forces by expressions."""

    def describe(self, h: float) -> str:
        """A description in one line."""
        by = f" by {', '.join(self.springs[:4])}" if self.springs else ""
        return (
            f"{h:.3g} s is too long for the motion of {self.moves} at {self.rate:.4g} rad/s{by}: {self.why}; "
            f"expected at most {self.longest:.2g} s"
        )


def find_fast_motion(
    mechanism: Mechanism, h: float, formulation: str = "ali3p", integrator: str = "trapezoidal"
) -> FastMotion | None:
    """The fastest motion at the present state for which a step of h (s) is too long; None if there is none.

    The mechanism is not changed.
    """
    values, vectors = _calc_modes(mechanism)
    faults = [(value, _find_fault(value * h, formulation, integrator)) for value in values]
    at_fault = [k for k, (_, fault) in enumerate(faults) if fault]
    if not at_fault:
        return None
    worst = max(at_fault, key=lambda k: abs(values[k]))
    return FastMotion(
        float(abs(values[worst])),
        faults[worst][1],
        _find_longest(values, h, formulation, integrator),
        _find_body(mechanism, vectors[:, worst]),
        _find_springs(mechanism, values, worst),
    )


def describe_drift(
    description: Description, energy: np.ndarray, kinetic: float, h: float, integrator: str
) -> str | None:
    """A step of h (s) that changes the energy (N,) of a motion which should keep it, in one line; or None.

    `kinetic`: largest kinetic energy of the motion, J. More than `LOSS` of it is too much.
    """
    change = float(np.abs(energy - energy[0]).max())
    if not _keeps_energy(description) or not change > LOSS * kinetic:
        return None
    longest = h * (LOSS * kinetic / change) ** (1.0 / _ORDERS[integrator])
    return (
        f"{h:.3g} s is too long for this motion: its energy changes by {change:.3g} J, {change / kinetic:.2g} of its "
        f"largest kinetic energy, though nothing takes or adds any; expected about {longest:.2g} s at most"
    )


def _keeps_energy(description: Description) -> bool:
    """Whether gravity and springs alone act on it, and nothing drives it."""
    driven = description.drives or description.inputs
    equations = any(isinstance(joint, Equation) for joint in description.joints.values())
    if driven or equations:
        return False
    return all(
        isinstance(load, DifferenceSpring)
        or (isinstance(load, (Spring, TorsionSpring)) and load.damping == load.friction == 0.0)
        for load in description.forces.values()
    )


def _calc_modes(mechanism: Mechanism) -> tuple[np.ndarray, np.ndarray]:
    """λ (2f,) of the linearised motions about the present one, and their z (f, 2f)."""
    state = mechanism.get_state()
    try:
        problems.solve_dynamics(mechanism)
        by_z, by_zd = problems.calc_acceleration_jacobians(mechanism)
    finally:
        mechanism.set_state(state)
    f = len(by_z)
    matrix = np.block([[np.zeros((f, f)), np.eye(f)], [by_z, by_zd]])
    if not np.all(np.isfinite(matrix)):
        return np.zeros(0), np.zeros((f, 0))
    values, vectors = np.linalg.eig(matrix)
    return values, vectors[:f]


def _find_fault(z: complex, formulation: str, integrator: str) -> str:
    """Fault of a step for a motion of λh = z, in words; empty if there is none."""
    turn, factor = abs(z.imag), abs(_FACTORS[integrator](z))
    if formulation == "ali3p":
        few = turn * _STEPS_PER_PERIOD > 2.0 * math.pi
        return f"it has {2.0 * math.pi / turn:.2g} steps per period" if few else ""
    if integrator == "trapezoidal":
        return "its iteration does not converge" if abs(z) ** 2 / 4.0 > _CONTRACTION else ""
    if turn <= 1e-3 * abs(z):
        return "its steps diverge" if z.real < 0.0 and factor > 1.0 else ""
    # With less than one step per period, the gain of one step matters.
    periods = max(2.0 * math.pi / turn, 1.0)
    gain = 2.0 * periods * (math.log(max(factor, 1e-300)) - z.real)
    if abs(gain) <= max(math.log1p(LOSS), _BESIDE_DAMPING * abs(2.0 * periods * z.real)):
        return ""
    is_driven = z.real > 1e-9 * abs(z)  # undamped eigenvalues have real parts of either sign, by rounding
    if factor > 1.0 and not is_driven and gain > 1.0:
        return "its steps diverge"
    return f"it {'gains' if gain > 0.0 else 'loses'} {100.0 * abs(math.expm1(gain)):.2g} % of its energy per period"


def _find_longest(values: np.ndarray, h: float, formulation: str, integrator: str) -> float:
    """The longest step, s, without a fault, by bisection from one that is too long; two figures, rounded down."""

    def fits(step: float) -> bool:
        return not any(_find_fault(value * step, formulation, integrator) for value in values)

    low = high = h
    for _ in range(60):
        low /= 2.0
        if fits(low):
            break
        high = low
    for _ in range(10):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if fits(middle) else (low, middle)
    unit = 10.0 ** (math.floor(math.log10(low)) - 1)
    return math.floor(low / unit) * unit


def _find_body(mechanism: Mechanism, way: np.ndarray) -> str:
    """The body with the largest share of the kinetic energy of a motion z (f,), complex."""
    r, _ = problems.calc_velocity_map(mechanism)
    rates = r @ way
    shares = {}
    for name, body in mechanism.placement.bodies.items():
        moves = body.move(rates)
        shares[name] = float(np.einsum("ik,ij,jk->", moves.conj(), body.moments, moves).real)
    return max(shares, key=lambda name: shares[name])


def _find_springs(mechanism: Mechanism, values: np.ndarray, mode: int) -> list[str]:
    """Springs on whose stiffness an eigenvalue depends, the most important first."""
    felt = {}
    for name, load in mechanism.description.forces.items():
        if not isinstance(load, (Spring, TorsionSpring, DifferenceSpring)):
            continue
        parameter = f"{name}.stiffness"
        stiffness = mechanism.get_parameter(parameter)
        mechanism.set_parameters({parameter: stiffness * (1.0 + _VARIED)})
        try:
            others = _calc_modes(mechanism)[0]
        finally:
            mechanism.set_parameters({parameter: stiffness})
        change = np.abs(others - values[mode]).min(initial=np.inf) / abs(values[mode])
        if _BLAMED * _VARIED < change < np.inf:
            felt[name] = change
    return sorted(felt, key=lambda name: -felt[name])
