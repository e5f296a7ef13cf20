"""The details of a published toolbox of observers that its figures show, and filters that have no such form here."""

from __future__ import annotations

import math

from vehicled.multibody.elements import Angle
from vehicled.multibody.formulations import Ali3p
from vehicled.multibody.model import Model

ALI3P = Ali3p(penalty=1e9, tolerance=1e-11, large=0.0, projections=1)
"""With a penalty so low, one projection leaves a thousandth of the violation: where sensors hardly observe the
position, this is visible in its error."""


_CONSTRAINED = (
    "not the published form: uncertainty is that of z, ż, carried to all coordinates by the constraints, so that "
    "DIEKFpm and SCKF are practically the same filter"
)
NOTICES = {
    "errorEKF_AFE": "not the published form: its noise is not adapted, so that it is the same as errorEKF_FE",
    "errorEKF_SFE": "not the published form: the memory is given, and the densities follow the likelihood",
    "CEKF": "not the published form: implicit correction, covariance in closed form",
    "DIEKFpm": _CONSTRAINED,
    "SCKF": _CONSTRAINED,
}
"""By filter: difference of its literal run from the published filter of that name. The others have the published
figures."""


def add_angle(model: Model, name: str, angle: Angle) -> None:
    """The angle of a crank by whichever of x = L cos θ and y = L sin θ is steeper in θ.

    On the constraints it makes no difference. Off them, where a correction along the tangent leads, the Jacobian is
    another one, and some of the published figures show it in their first two digits.
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
    model.constraint(f"angle {name}", graph.where_less(graph.abs(cosine), math.sqrt(0.5), by_x, by_y))
