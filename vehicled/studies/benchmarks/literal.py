"""Details that affect the figures of a published toolbox of observers, and filters without such a form here."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from vehicled.multibody.elements import Angle
from vehicled.multibody.formulations import Ali3p
from vehicled.multibody.mechanism import Mechanism
from vehicled.multibody.model import Model

ALI3P = Ali3p(penalty=1e9, tolerance=1e-11, large=0.0, projections=1)
"""With such a low penalty, one projection leaves a thousandth of the violation: if sensors hardly observe the
position, this is visible in its error."""


_FLAT = 0.7
"""|sin θ| below which a crank's angle follows from y."""

NOTICES = {
    "errorEKF_AFE": "not the published form: its noise is not adapted, so that it is the same as errorEKF_FE",
    "errorEKF_SFE": "not the published form: memory and densities follow the likelihood",
}
"""By filter: difference of its literal run from the published filter of that name. The other filters have the
published figures."""


@dataclass(frozen=True)
class LiteralNoise:
    """Assumptions of the toolbox's other filters for a linkage; spectral densities of its accelerations, rad²/s³."""

    constrained_density: float
    """Density for SCKF."""
    encoder_density: float
    """Density for CEKF with encoders."""
    gyroscope_density: float
    """Density for CEKF with gyroscopes."""
    continuous_start: tuple[float, float]
    """Variances of each z (rad²) and ż (rad²/s²) for CEKF at the start."""
    wrong_branch: bool
    """Whether the toolbox's (Φ_q q̇)_q takes the wrong branch of the angles' constraints: `take_wrong_branch`."""


NOISE = {
    "four_bar": LiteralNoise(0.0916298, 0.733038, 0.733038, (7.615e-3, 7.615e-3), wrong_branch=False),
    "five_bar": LiteralNoise(15.2716, 1.52716, 0.0916298, (1.3e-5, 1.3e-3), wrong_branch=True),
}
"""Noise for each linkage, as published."""


def add_angle(model: Model, name: str, angle: Angle) -> None:
    """The angle of a crank by y = L sin θ if |sin θ| < 0.7, otherwise by x = L cos θ.

    If the constraints are met, this makes no difference. A correction along the tangent violates them; there
    the Jacobian differs, which changes the first two digits of some of the published figures.
    """
    graph = model.graph
    (x_axis, _), (crank, _) = (model.segment(s) for s in angle.between)
    assert angle.start is not None
    assert not isinstance(angle.between[1], str)
    points = set(angle.between[1])
    (body,) = (n for n, b in model.description.bodies.items() if set(getattr(b, "points", ())) == points)
    length = model.symbols[f"{body}.length"]
    theta = model.scalar(name, angle.start).q
    model.sines[name] = (
        model.cross(x_axis.position, crank.position),
        x_axis.position.dot(crank.position),
    )
    sine, cosine = graph.sin(theta), graph.cos(theta)
    by_x, by_y = crank.position.x - length * cosine, crank.position.y - length * sine
    model.constraint(f"angle {name}", graph.where_less(graph.abs(sine), _FLAT, by_y, by_x))


def take_wrong_branch(m: Mechanism, jacobian: np.ndarray, rate: np.ndarray) -> None:
    """Put into (Φ_q q̇)_q (m, n) the derivatives of the other equation of every angle, as the toolbox does.

    `jacobian`: Φ_q (m, n) of a mechanism with the angles of `add_angle`. With ∂Φ/∂θ = L sin θ the derivative is
    L cos θ θ̇, and the toolbox has L sin θ θ̇; with −L cos θ it is L sin θ θ̇, and the toolbox has L cos θ θ̇.
    """
    for name in m.description.angles:
        row, column = m.compiled.constraints.index(f"angle {name}"), m.index(name)
        by_y = abs(math.sin(m.q[column])) < _FLAT
        rate[row, column] = (-1.0 if by_y else 1.0) * jacobian[row, column] * m.qd[column]
