"""Inertial parameters, in which the equations of motion are linear.

Ten per body: mass m, first moments m·r, and the inertia matrix about the origin of the body's axes, with the
matrix elements Ixy, Ixz, Iyz including their sign. They are equivalent to the body's moments of mass μ
(`placement.PlacedBody`): μ₀₀ = m, μ₀ᵢ = m rᵢ, and the second moments Σ = ½ tr(I) 1 − I. A body without
orientation has fewer: a point mass m, a slender bar in space m, mx and the transverse moment I about its
first point.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from vehicled.multibody.mechanism import Mechanism
from vehicled.multibody.placement import PlacedBody

INERTIAL = ("m", "mx", "my", "mz", "Ixx", "Ixy", "Ixz", "Iyy", "Iyz", "Izz")
_KINDS = {4: INERTIAL, 2: ("m", "mx", "I"), 1: ("m",)}
"""Parameters by the number of a body's elements."""


def get_kinds(elements: int) -> tuple[str, ...]:
    """Parameters of a body with that number of elements (`placement.PlacedBody`)."""
    return _KINDS[elements]


def get_names(mechanism: Mechanism) -> list[str]:
    """`body.m`, `body.mx` …, (p,) in the order of the bodies."""
    bodies = mechanism.placement.bodies.values()
    return [f"{body.name}.{kind}" for body in bodies for kind in get_kinds(len(body.moments))]


def calc_values(mechanism: Mechanism) -> np.ndarray:
    """(p,) values of the description: kg, kg·m, kg·m².

    For planar bodies, which are described by Izz alone, Ixx and Iyy have no meaning and no effect.
    """
    return np.concatenate([_body_values(mechanism, body) for body in mechanism.placement.bodies.values()])


def _body_values(mechanism: Mechanism, body: PlacedBody) -> np.ndarray:
    scale = calc_scale(mechanism, body)
    return to_parameters(body.moments * np.outer(scale, scale))


def calc_scale(mechanism: Mechanism, body: PlacedBody) -> np.ndarray:
    """(k,) lengths of a body's elements in the units of its parameters.

    Ones, except for the vector from end to end of a bar in space, which has the bar's length (m).
    """
    scale = np.ones(len(body.moments))
    if len(scale) == 2:
        scale[1] = np.linalg.norm(body.place(mechanism.q)[1])
    return scale


@cache
def calc_moment_basis(elements: int) -> np.ndarray:
    """(p, k, k) B of a body with k elements: μ = Σ φ_i B_i."""
    basis = np.zeros((len(get_kinds(elements)), elements, elements))
    basis[0, 0, 0] = 1.0
    for axis in range(1, elements):
        basis[axis, 0, axis] = basis[axis, axis, 0] = 1.0
    if elements == 2:
        basis[2, 1, 1] = 1.0
    elif elements == 4:
        pairs = [(i, k) for i in range(3) for k in range(i, 3)]
        for n, (i, k) in enumerate(pairs, 4):
            inertia = np.zeros((3, 3))
            inertia[i, k] = inertia[k, i] = 1.0
            basis[n, 1:, 1:] = 0.5 * np.trace(inertia) * np.eye(3) - inertia
    basis.flags.writeable = False
    return basis


def to_moments(values: np.ndarray, elements: int) -> np.ndarray:
    """(k, k) μ of a body's parameters (p,)."""
    return np.tensordot(values, calc_moment_basis(elements), axes=1)


def to_parameters(moments: np.ndarray) -> np.ndarray:
    """(p,) parameters of a body with the moments μ (k, k), symmetric."""
    if len(moments) < 4:
        return np.concatenate([moments[0], np.diag(moments)[1:]])
    second = moments[1:, 1:]
    inertia = np.trace(second) * np.eye(3) - second
    return np.concatenate([moments[0], inertia[np.triu_indices(3)]])


def calc_shift(place: np.ndarray) -> np.ndarray:
    """(10, 10) T of a body with axes: φ = T φ', with φ' about another place (3,), m in the body's axes."""
    move = np.eye(4)
    move[1:, 0] = place
    about = [to_parameters(move @ moments @ move.T) for moments in calc_moment_basis(4)]
    return np.column_stack(about)
