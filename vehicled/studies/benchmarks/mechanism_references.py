"""Motions of the benchmark mechanisms, computed without the library: few coordinates, geometry in closed form.

Each function takes times (n,) s, the first of them 0, and returns the quantities that the benchmark compares,
(k, n) m. Nothing of `vehicled.multibody` is used; the numbers of the mechanisms are repeated here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.integrate import solve_ivp
from scipy.interpolate import make_interp_spline
from scipy.spatial.transform import Rotation

_G = 9.81
_NODES = 1024
"""Nodes per period of splines of degree seven: their error is due to rounding, which grows with more nodes."""
_RELATIVE, _ABSOLUTE = 1e-12, 1e-13


@dataclass(frozen=True)
class OneCoordinate:
    """A mechanism of one coordinate p: T = ½ Σ weight ẋ², with places x(p) that repeat after a period.

    Bodies are described by the places of their centres, with their masses as weights, and by unit vectors, with
    their moments of inertia.
    """

    places: Callable[[np.ndarray], np.ndarray]
    """(k, n) x from p (n,)."""
    weights: np.ndarray
    """(k,)"""
    potential: Callable[[np.ndarray], np.ndarray]
    """(n,) J, from x (k, n)."""
    period: float
    force: float = 0.0
    """Constant force along p."""

    def solve(self, times: np.ndarray, start: float, rate: float = 0.0) -> np.ndarray:
        """(2, n) p and ṗ at times: m p̈ + ½ m′ ṗ² + V′ = force, m(p) = Σ weight x′²."""
        nodes = np.linspace(0.0, self.period, _NODES + 1)
        x = self.places(nodes)
        x[:, -1] = x[:, 0]
        slopes = make_interp_spline(nodes, x, k=7, axis=1, bc_type="periodic").derivative()(nodes)
        both = np.array([self.weights @ slopes**2, self.potential(x)])
        both[:, -1] = both[:, 0]
        curve = make_interp_spline(nodes, both, k=7, axis=1, bc_type="periodic")
        slope = curve.derivative()

        def motion(_: float, y: np.ndarray) -> list[float]:
            p, v = y
            mass, _ = curve(p)
            mass_slope, potential_slope = slope(p)
            return [v, (self.force - potential_slope - 0.5 * mass_slope * v * v) / mass]

        solution = solve_ivp(
            motion,
            (0.0, times[-1]),
            [start, rate],
            method="DOP853",
            t_eval=times,
            rtol=_RELATIVE,
            atol=_ABSOLUTE,
        )
        return solution.y


def _direction(angle: np.ndarray) -> np.ndarray:
    """(2, n) unit vectors at angles (n,)."""
    return np.array([np.cos(angle), np.sin(angle)])


def simple_pendulum(times: np.ndarray) -> np.ndarray:
    """(2, n) x and y of the bob."""
    mechanism = OneCoordinate(_direction, np.ones(2), lambda x: _G * x[1], 2 * np.pi)
    return _direction(mechanism.solve(times, np.pi)[0])


def n_four_bar(times: np.ndarray, loops: int) -> np.ndarray:
    """(4, n) x, y and their rates (m/s) of B0: N + 1 parallel cranks rotate, N couplers connect their ends."""
    inertia = (loops + 1) / 3 + loops
    weight = ((loops + 1) / 2 + loops) * _G
    mechanism = OneCoordinate(_direction, np.full(2, inertia), lambda x: weight * x[1], 2 * np.pi)
    angle, rate = mechanism.solve(times, 0.5 * np.pi, -1.0)
    x, y = _direction(angle)
    return np.array([x, y, -rate * y, rate * x])


def _third_point(a: np.ndarray, b: np.ndarray, from_a: float, from_b: float) -> np.ndarray:
    """(2, n) point to the left of the line from a to b, at these distances from a and b."""
    apart = b - a
    square = np.sum(apart**2, axis=0)
    along = (square + from_a**2 - from_b**2) / (2 * square)
    across = np.sqrt(from_a**2 / square - along**2)
    joint: np.ndarray = a + along * apart + across * np.array([-apart[1], apart[0]])
    return joint


def squeezer_crank(times: np.ndarray) -> np.ndarray:
    """(n,) rad, the angle β of the crank of Andrews' squeezing mechanism."""
    a, b, c = (np.array([[x], [y]]) for x, y in ((-0.06934, -0.00227), (-0.03635, 0.03273), (0.014, 0.072)))

    def places(beta: np.ndarray) -> np.ndarray:
        f = 0.007 * _direction(beta)
        e = _third_point(f, b + 0 * f, 0.028, 0.035)
        g, h = _third_point(a + 0 * e, e, 0.04, 0.02), _third_point(e, a + 0 * e, 0.02, 0.04)
        rows = [_direction(beta)]
        for start, end, length, centre in (
            (f, e, 0.028, 0.0115),
            (e, g, 0.02, 0.01421),
            (e, h, 0.02, 0.01421),
        ):
            along = (end - start) / length
            rows += [start + centre * along, along]
        rows += [(e - b) / 0.035, (g - a) / 0.04, (h - a) / 0.04]
        return np.vstack(rows)

    def potential(x: np.ndarray) -> np.ndarray:
        down = x[14:16]  # vector from B to E
        right = np.array([-down[1], down[0]])
        d = b + 0.018 * down + 0.02 * right
        energy: np.ndarray = 0.5 * 4530.0 * (np.linalg.norm(d - c, axis=0) - 0.07785) ** 2
        return energy

    turning = (
        (0.04325, 0.00092, 0.0, 2.194e-6),
        (0.02373, 0.01043, 0.01874, 5.255e-6),
        (0.07050, 0.02308, 0.00916, 1.169e-5),
        (0.05498, 0.00449, 0.01228, 1.912e-5),
    )
    k1, k3, k5, k7 = (mass * (x * x + y * y) + inertia for mass, x, y, inertia in turning)
    weights = np.repeat([k1, 0.00365, 4.410e-7, 0.00706, 5.667e-7, 0.00706, 5.667e-7, k3, k5, k7], 2)
    mechanism = OneCoordinate(places, weights, potential, 2 * np.pi, force=0.033)
    angles: np.ndarray = mechanism.solve(times, -0.0617138900142764496)[0]
    return angles


def squeezer(times: np.ndarray) -> np.ndarray:
    """(2, n) x and y of F."""
    return 0.007 * _direction(squeezer_crank(times))


def bricard_chain(p: np.ndarray) -> tuple[np.ndarray, list[np.ndarray], list[np.ndarray]]:
    """Ends (6, n, 3) of the bars, and their directions and first axes (n, 3) each.

    Joint angles θ and φ take turns. All links of length one and twist of a right angle close where
    (1 + cos θ)(1 + cos φ) = 1 (Chen, You and Tarnai 2005), a closed curve with the period 4π in p.
    """
    lap = (p + 0.5 * np.pi) % (4 * np.pi)
    sides = np.where(lap < np.pi, 1, np.where(lap < 3 * np.pi, -1, 1)), np.where(lap < 2 * np.pi, 1, -1)
    turns = []
    for sign, side in zip((1.0, -1.0), sides, strict=True):
        cosine = 2.0 ** (sign * np.sin(p)) - 1.0
        turns.append(0.5 * np.pi - side * np.arccos(np.clip(cosine, -1.0, 1.0)))
    axes = np.array([[0, 1, 0], [0, 0, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1]], dtype=float)
    bars = np.array([[1, 0, 0], [0, -1, 0], [0, 0, 1], [-1, 0, 0], [0, 1, 0]], dtype=float)
    rotation = Rotation.from_rotvec(np.zeros((len(p), 3)))
    ends, along, across = [np.zeros((len(p), 3))], [], []
    for k, (axis, bar) in enumerate(zip(axes, bars, strict=True)):
        rotation = rotation * Rotation.from_rotvec(turns[k % 2][:, None] * axis)
        along.append(rotation.apply(bar))
        across.append(rotation.apply(axis))
        ends.append(ends[-1] + along[-1])
    return np.array(ends), along, across


def bricard(times: np.ndarray) -> np.ndarray:
    """(3, n) x, y and z of P3."""
    lengthwise, crosswise = 1.0 / 12.0, 0.1**2 / 12.0  # ∫ρ r² along and across a bar of 1 kg

    def places(p: np.ndarray) -> np.ndarray:
        ends, along, across = bricard_chain(p)
        rows = []
        for k in range(5):
            rows += [0.5 * (ends[k] + ends[k + 1]), along[k], across[k], np.cross(along[k], across[k])]
        return np.hstack(rows).T

    weights = np.tile(np.repeat([1.0, lengthwise, crosswise, crosswise], 3), 5)
    mechanism = OneCoordinate(places, weights, lambda x: _G * x[1::12].sum(axis=0), 4 * np.pi)
    path: np.ndarray = bricard_chain(mechanism.solve(times, 0.0)[0])[0][3].T
    return path


def flyball_governor(times: np.ndarray) -> np.ndarray:
    """(1, n) s, the slider's height.

    Rods stay each other's mirror image: coordinates are the shaft's angle, whose rate follows from the angular
    momentum, the rods' angle α below the horizontal and s.
    """
    rod, ball, slider, stiffness, damping = 0.3, 5.0, 3.0, 8e5, 4e4
    long, short = rod * (1.0 + 1e-4) / 12, rod * 2e-4 / 12
    about_joint = 2 * (long + rod * 0.25 + ball)

    def upright(alpha: float) -> tuple[float, float]:
        """Moment of inertia about the shaft, and its derivative."""
        c, s = np.cos(alpha), np.sin(alpha)
        inertia = rod * (0.05 + 0.5 * c) ** 2 + ball * (0.05 + c) ** 2 + long * c * c + short * s * s
        slope = -rod * (0.05 + 0.5 * c) * s - 2 * ball * (0.05 + c) * s + 2 * (short - long) * s * c
        return short + slider * 0.1**2 / 6 + 2 * inertia, 2 * slope

    momentum = upright(np.pi / 6)[0] * 2 * np.pi

    def motion(_: float, y: np.ndarray) -> list[float]:
        alpha, height, alpha_rate, rise = y
        c, s = np.cos(alpha), np.sin(alpha)
        across, up = 0.5 * c, 1.0 - 0.5 * s - height
        length = np.hypot(across, up)
        by_alpha, by_height = (-0.5 * s * across - 0.5 * c * up) / length, -up / length
        stretching = by_alpha * alpha_rate + by_height * rise
        pull = 2 * (stiffness * (length - 0.5) + damping * stretching)
        inertia, slope = upright(alpha)
        turn = 0.5 * slope * (momentum / inertia) ** 2 + 2 * _G * c * (0.5 * rod + ball) - pull * by_alpha
        return [alpha_rate, rise, turn / about_joint, -_G - pull * by_height / slider]

    start = [np.pi / 6, 0.5, 0.0, 0.0]
    span = (0.0, times[-1])
    solution = solve_ivp(motion, span, start, method="LSODA", t_eval=times, rtol=_RELATIVE, atol=_ABSOLUTE)
    return solution.y[1:2]
