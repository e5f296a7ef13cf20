"""What is known of each parameter after an estimate.

It follows from two questions. Can any motion distinguish a parameter from the others? That is answered by the base
parameters of the mechanism, without the data. Does this motion determine it? It does where its standard deviation is
less than half of the prior's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from vehicled.identification.base import BaseSet, find_base_by_qr
from vehicled.identification.mechanism.unknowns import FileQuantity, MechanismUnknowns
from vehicled.identification.symbolic_base import find_symbolic_base

PRIOR_DEVIATION = 0.3
"""Of the file's values: of a mass as a share of itself, of moments in terms of the body's mass and size."""
IDENTIFIED = 0.5
"""Share of its prior standard deviation below which a parameter counts as identified."""
_STRUCTURAL = 1e-6
"""Share of a parameter in changes without effect that counts as none."""
_NAMED = 2
"""Parameters that a reason names, those that it is coupled with most."""
_FAR = 3.0
"""Prior standard deviations beyond which a value contradicts the file."""
_UNEXPLAINED = 0.5
"""Share of a force that is left, above which the mechanism is not that of the log."""


@dataclass(frozen=True)
class FoundQuantity:
    """A number of the file and what is known of it now, SI."""

    quantity: FileQuantity
    prior: float
    prior_sigma: float
    value: float
    sigma: float
    reason: str
    """Why it is not identified; empty where it is."""
    has_influence: bool
    """Whether any motion has information on it, by itself or together with others."""

    @property
    def identified(self) -> bool:
        """Whether the runs determine it, by itself."""
        return not self.reason


@dataclass(frozen=True)
class FoundCombination:
    """A base parameter: what motions determine where single parameters cannot be distinguished."""

    text: str
    prior: float
    value: float
    sigma: float
    identified: bool


def find_base(unknowns: MechanismUnknowns) -> BaseSet:
    """Of the unknowns: by the base parameters of the bodies, which follow from the mechanism's joints.

    Springs, dampers and friction count as determined; whether a motion determines them, the data shows.
    """
    inertial = find_symbolic_base(unknowns.regressor.mechanism).base.matrix
    p = inertial.shape[1]
    further = len(unknowns.regressor.names) - p
    return find_base_by_qr(scipy.linalg.block_diag(inertial, np.eye(further)) @ unknowns.matrix)


def find_contradictions(
    unknowns: MechanismUnknowns, quantities: Sequence[FoundQuantity], noise: np.ndarray, forces: np.ndarray
) -> list[str]:
    """What contradicts the file so much that log or file may be wrong.

    `noise` (f,): what is left of the forces (N, f), N, N·m.
    """
    notes = []
    mechanism = unknowns.regressor.mechanism
    size = np.sqrt(np.mean(forces**2, axis=0))
    for k, left, whole in zip(mechanism.independent, noise, size, strict=True):
        if left > _UNEXPLAINED * whole > 0.0:
            notes.append(
                f"{mechanism.coordinate_names[k]}: {left / whole:.0%} of its force is not explained; "
                "check signs, units and geometry"
            )
    far = [q.quantity.name for q in quantities if abs(q.value - q.prior) > _FAR * q.prior_sigma]
    if far:
        notes.append(f"far from the file: {_list_some(far)}; check signs, units and geometry")
    return notes


def describe_quantities(
    unknowns: MechanismUnknowns, base: BaseSet, theta: np.ndarray, units: np.ndarray, covariance: np.ndarray
) -> list[FoundQuantity]:
    """The numbers of the file for θ (n,) with its covariance (n, n); `units` (n,) are those of the prior."""
    free = base.calc_null_space() / units[:, None]
    free = np.linalg.qr(free)[0] if free.shape[1] else free
    gradients = unknowns.calc_gradients(theta, units)
    slopes = np.linalg.norm(gradients, axis=1)
    inside = (gradients / slopes[:, None]) @ free
    shares = np.linalg.norm(inside, axis=1)
    scaled = covariance / np.outer(units, units)
    sigmas = np.sqrt(np.einsum("in,nm,im->i", gradients, scaled, gradients))
    prior_sigmas = PRIOR_DEVIATION * slopes
    values = unknowns.calc_quantities(theta)
    priors = unknowns.calc_quantities(unknowns.prior)
    names = [q.name for q in unknowns.quantities]
    rows = []
    for k, quantity in enumerate(unknowns.quantities):
        has_influence = bool(shares[k] < 1.0 - _STRUCTURAL)
        reason = ""
        if not has_influence:
            reason = "no motion determines it"
        elif shares[k] > _STRUCTURAL:
            coupled = np.abs(inside @ inside[k])
            coupled[k] = 0.0
            others = [names[i] for i in np.argsort(-coupled, kind="stable") if coupled[i] > _STRUCTURAL]
            reason = f"only together with {_list_some(others)}"
        elif sigmas[k] > IDENTIFIED * prior_sigmas[k]:
            reason = "the motion does not determine it better than the file"
        prior, prior_sigma, value, sigma = map(float, (priors[k], prior_sigmas[k], values[k], sigmas[k]))
        rows.append(FoundQuantity(quantity, prior, prior_sigma, value, sigma, reason, has_influence))
    return rows


def _list_some(names: list[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def describe_base(
    unknowns: MechanismUnknowns, base: BaseSet, theta: np.ndarray, units: np.ndarray, covariance: np.ndarray
) -> list[FoundCombination]:
    """The base parameters for θ (n,) with its covariance (n, n); `units` (n,) are those of the prior."""
    matrix = base.matrix
    sigmas = np.sqrt(np.einsum("in,nm,im->i", matrix, covariance, matrix))
    slopes = np.linalg.norm(matrix * units, axis=1)
    parts = zip(
        base.describe(unknowns.names),
        base.combine(unknowns.prior),
        base.combine(theta),
        sigmas,
        sigmas <= IDENTIFIED * PRIOR_DEVIATION * slopes,
        strict=True,
    )
    return [FoundCombination(text, float(a), float(b), float(s), bool(k)) for text, a, b, s, k in parts]
