"""Results for each parameter after an estimate.

They answer two questions. Can any motion distinguish a parameter from the others? The base parameters of the
mechanism show this, without the data. Does this motion determine it? It does if its standard deviation is
less than half of the prior's. A parameter that is not determined keeps the file's value.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from vehicled.identification.mechanism.unknowns import FileQuantity, MechanismUnknowns

PRIOR_DEVIATION = 0.3
"""Prior standard deviation of the file's values: of a mass as a share of itself, of moments in terms of the
body's mass and size."""
IDENTIFIED = 0.5
"""Share of its prior standard deviation below which a parameter counts as identified."""
FAR = 3.0
"""Prior standard deviations beyond which a value contradicts the file."""
_STRUCTURAL = 1e-6
"""Share of a parameter in some changes below which it does not take part in them."""
_NAMED = 2
"""Number of parameters named in a reason: those with the strongest coupling."""
_NEVER = "no motion determines it"
_NOT_DETERMINED = "the motion does not determine it better than the file"
_NOT_VALIDATED = "its estimate does not hold on the log that was not used"


@dataclass(frozen=True)
class FoundQuantity:
    """A number of the file and its result, SI."""

    quantity: FileQuantity
    prior: float
    prior_sigma: float
    value: float
    sigma: float
    reason: str
    """Why it is not identified; empty if it is."""
    changes: bool
    """Whether the estimate changes it, by itself or together with others. Otherwise it keeps the file's
    value."""

    @property
    def identified(self) -> bool:
        """Whether the runs determine it, by itself."""
        return not self.reason


@dataclass(frozen=True)
class FoundCombination:
    """A base parameter: motions determine it even if its single parameters cannot be distinguished."""

    text: str
    prior: float
    value: float
    sigma: float
    reason: str
    """Why it has the file's value; empty if it is identified."""

    @property
    def identified(self) -> bool:
        """Whether the runs determine it."""
        return not self.reason


class FreeDirections:
    """Changes of the unknowns, in their units, that an estimate may make. All others keep the file's values."""

    def __init__(self, unknowns: MechanismUnknowns, left: Collection[int] = ()) -> None:
        """All changes with an effect on motions, except those of the base parameters `left`, by number."""
        self._unknowns, self._left = unknowns, sorted(left)
        null = unknowns.base.calc_null_space() / unknowns.units[:, None]
        self._null = np.linalg.qr(null)[0] if null.shape[1] else null
        """(n, d) orthonormal: changes without effect on any motion."""
        rows = unknowns.base.matrix * unknowns.units
        self._slopes = np.linalg.norm(rows, axis=1)
        self._rows = rows / self._slopes[:, None]
        """(r, n) directions of the base parameters."""
        held = _find_held(self._rows, unknowns.bodies)
        self._kept = np.vstack(
            [np.eye(len(null))[held], (self._null @ scipy.linalg.null_space(self._null[held])).T]
        )
        """(d, n) directions that need not change: the other directions together have every possible
        effect."""
        self._undetermined = np.zeros((0, len(unknowns.prior)))
        """(k, n) directions that the runs do not determine."""
        self._left_quantities: set[int] = set()
        gradients, self._prior_slopes = self._calc_gradients(unknowns.prior)
        self._never = np.linalg.norm(gradients @ self._exclude(self._rows[:0]), axis=1) <= _STRUCTURAL
        """(quantities,) whether no motion determines them."""
        self.basis = self._exclude(self._rows[self._left])
        """(n, s) orthonormal: the free changes."""

    def _exclude(self, rows: np.ndarray) -> np.ndarray:
        """(n, s) orthonormal changes across the directions `rows` (k, n), and across those excluded before."""
        left = np.vstack([self._kept, self._undetermined, rows])
        found: np.ndarray = scipy.linalg.null_space(left, rcond=_STRUCTURAL)
        return found

    def narrow(self, theta: np.ndarray, covariance: np.ndarray) -> bool:
        """Exclude directions left undetermined by an estimate θ (n,) with its covariance (n, n), in units.

        Returns whether more are excluded than before.
        """
        count = self.basis.shape[1]
        gradients, slopes = self._calc_gradients(theta)
        relative = gradients * (slopes / self._prior_slopes)[:, None]
        poor = self._find_poor(relative, covariance)
        # A number that only has an effect together with others may change, as long as their combination is
        # determined.
        poor &= np.linalg.norm(gradients @ self._null, axis=1) <= _STRUCTURAL
        self._left_quantities |= set(np.flatnonzero(poor).tolist())
        self._leave(self._rows[self._find_poor(self._rows, covariance)])
        # A centre of mass is a first moment divided by the mass: if the first moment keeps the file's value,
        # only the mass remains in its gradient, and the mass may be determined.
        for gradient in gradients[poor]:
            rest = self.basis @ (gradient @ self.basis)
            rest /= max(float(np.linalg.norm(rest)), _STRUCTURAL)
            self._leave(rest[None][self._find_poor(rest[None], covariance)])
        return bool(self.basis.shape[1] < count)

    def _leave(self, directions: np.ndarray) -> None:
        """Exclude changes along these directions (k, n), too."""
        self._undetermined = np.vstack([self._undetermined, directions])
        self.basis = self._exclude(self._rows[self._left])

    def _find_poor(self, directions: np.ndarray, covariance: np.ndarray) -> np.ndarray:
        """(k,) whether an estimate has changed directions (k, n) without determining them."""
        moved = np.linalg.norm(directions @ self.basis, axis=1) > _STRUCTURAL
        poor: np.ndarray = moved & (_calc_sigmas(directions, covariance) > IDENTIFIED * PRIOR_DEVIATION)
        return poor

    def _calc_gradients(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(quantities, n) unit gradients of the file's numbers by the unknowns in units; and their lengths."""
        gradients = self._unknowns.calc_gradients(theta)
        slopes = np.linalg.norm(gradients, axis=1)
        return gradients / slopes[:, None], slopes

    def _explain(self, direction: np.ndarray) -> str:
        """Reason why a direction (n,) keeps the file's value; empty if it does not."""
        if np.linalg.norm(direction @ self.basis) > _STRUCTURAL:
            return ""
        without = self._exclude(self._rows[:0])
        return _NOT_VALIDATED if np.linalg.norm(direction @ without) > _STRUCTURAL else _NOT_DETERMINED

    def describe_quantities(self, theta: np.ndarray, covariance: np.ndarray) -> list[FoundQuantity]:
        """The numbers of the file for θ (n,) with its covariance (n, n) in units."""
        unknowns = self._unknowns
        gradients, slopes = self._calc_gradients(theta)
        inside = gradients @ self._null
        shares = np.linalg.norm(inside, axis=1)
        sigmas = _calc_sigmas(gradients, covariance)
        values, priors = unknowns.calc_quantities(theta), unknowns.calc_quantities(unknowns.prior)
        names = [q.name for q in unknowns.quantities]
        rows = []
        for k, quantity in enumerate(unknowns.quantities):
            if self._never[k]:
                reason = _NEVER
            elif k in self._left_quantities:
                reason = _NOT_DETERMINED
            else:
                reason = self._explain(gradients[k])
            changes = not reason
            if changes and shares[k] > _STRUCTURAL:
                coupled = np.abs(inside @ inside[k])
                coupled[k] = 0.0
                others = [names[i] for i in np.argsort(-coupled, kind="stable") if coupled[i] > _STRUCTURAL]
                reason = f"only together with {_list_some(others)}"
            value = values[k] if changes else priors[k]
            rows.append(
                FoundQuantity(
                    quantity,
                    float(priors[k]),
                    float(PRIOR_DEVIATION * self._prior_slopes[k]),
                    float(value),
                    float(slopes[k] * sigmas[k]),
                    reason,
                    changes,
                )
            )
        return rows

    def describe_base(self, theta: np.ndarray, covariance: np.ndarray) -> list[FoundCombination]:
        """The base parameters for θ (n,) with its covariance (n, n) in units."""
        base, unknowns = self._unknowns.base, self._unknowns
        parts = zip(
            base.describe(unknowns.names),
            base.combine(unknowns.prior),
            base.combine(theta),
            self._slopes * _calc_sigmas(self._rows, covariance),
            map(self._explain, self._rows),
            strict=True,
        )
        return [
            FoundCombination(text, float(prior), float(prior if why else value), float(sigma), why)
            for text, prior, value, sigma, why in parts
        ]


def _find_held(rows: np.ndarray, bodies: Sequence[range]) -> list[int]:
    """Unknowns of rigid `bodies` that keep the file's values, as others of the same body can replace them.

    For an arm about a fixed axis these are its mass, which may have been weighed, and without gravity its
    centre of mass as well. Vectors and matrices are held as a whole, or the choice would depend on the axes.
    `rows` (r, n): directions of the base parameters.
    """
    held: list[int] = []
    for body in bodies:
        free = list(body)
        for kind in (body[:1], body[1:4], body[4:]):
            inner = scipy.linalg.null_space(rows[:, free], rcond=_STRUCTURAL)
            if np.linalg.matrix_rank(inner[[free.index(k) for k in kind]], tol=_STRUCTURAL) == len(kind):
                held += kind
                free = [k for k in free if k not in kind]
    return held


def _calc_sigmas(directions: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """(k,) standard deviations along directions (k, n)."""
    sigmas: np.ndarray = np.sqrt(np.einsum("in,nm,im->i", directions, covariance, directions))
    return sigmas


def find_far(quantities: Sequence[FoundQuantity]) -> list[str]:
    """A note, if any, on values that contradict the file so much that log or file may be wrong."""
    far = [q.quantity.name for q in quantities if abs(q.value - q.prior) > FAR * q.prior_sigma]
    return [f"far from the file: {_list_some(far)}; check signs, units and geometry"] if far else []


def _list_some(names: list[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
