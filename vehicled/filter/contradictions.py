"""Parameters whose prior measurements contradict."""

from __future__ import annotations

import numpy as np

_LEAST_INFORMED = 1e-5
"""Least share of a parameter's variance that measurements must have taken: less is rounding."""
_LASTING = 10
"""Calls in a row for which that must be so."""


class Contradictions:
    """Tests priors of parameters, again and again.

    Of an error p ~ N(0, σ²), information I leaves the variance P = 1/(σ⁻² + I) and the estimate x, which is
    N(0, σ² − P) as long as that is true: x²/(σ² − P) tests it. Where it fails, the parameter was given wrongly,
    not merely imprecisely: σ is then what measurements alone make of the error, x/(1 − P/σ²).

    An error of the model that lasts contradicts a parameter more and more, the longer the drive. What it makes of
    the parameter does not depend on that: where it is more than the parameter can be off by, something else is wrong.
    """

    def __init__(self, largest: np.ndarray) -> None:
        """`largest`: (k,) errors that the parameters can have."""
        self._largest = largest
        self._lasted = np.zeros(len(largest), dtype=int)
        """(k,) for how many calls in a row measurements have contradicted each."""

    def find(
        self,
        estimate: np.ndarray,
        variance: np.ndarray,
        prior: np.ndarray,
        limits: np.ndarray,
        least: np.ndarray,
        open_to_doubt: np.ndarray,
    ) -> dict[int, float]:
        """The parameters that have been contradicted for long, with the σ that they should have had.

        All are (k,): estimates, their variances, σ of the priors, by how many of these an estimate may be off, up
        to which error something else explains it, and whether the parameter can be tested at present.
        """
        informed = np.maximum(1.0 - variance / np.maximum(prior**2, 1e-300), 0.0)
        limit = limits * prior
        alone = np.abs(estimate) / np.maximum(informed, _LEAST_INFORMED)
        contradicted = (informed > _LEAST_INFORMED) & (estimate**2 > limit**2 * informed)
        contradicted &= (least <= alone) & (alone <= self._largest)
        self._lasted = np.where(contradicted & open_to_doubt, self._lasted + 1, 0)
        wrong = np.flatnonzero(self._lasted >= _LASTING)
        self._lasted[wrong] = 0
        return {k: max(float(alone[k]), 2.0 * float(prior[k])) for k in wrong.tolist()}
