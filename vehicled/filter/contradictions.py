"""Parameters whose prior measurements contradict."""

from __future__ import annotations

from collections.abc import Sequence

_LEAST_INFORMED = 1e-3
"""Least share of a parameter's variance that measurements must have taken: with less, any small error of the model is
divided by it into a large one of the parameter."""
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

    def __init__(self, largest: Sequence[float]) -> None:
        """`largest`: (k,) errors that the parameters can have."""
        self._largest = largest
        self._lasted = [0] * len(largest)
        """(k,) for how many calls in a row measurements have contradicted each."""

    def find(
        self,
        estimate: Sequence[float],
        variance: Sequence[float],
        prior: Sequence[float],
        limits: Sequence[float],
        least: Sequence[float],
        open_to_doubt: Sequence[bool],
    ) -> dict[int, float]:
        """The parameters that have been contradicted for long, with the σ that they should have had.

        All are (k,): estimates, their variances, σ of the priors, by how many of these an estimate may be off, up
        to which error something else explains it, and whether the parameter can be tested at present.
        """
        # Plain numbers: this comes in the midst of a step, and so few of them take NumPy several times as long.
        found = {}
        given = zip(estimate, variance, prior, limits, least, self._largest, open_to_doubt, strict=True)
        for k, (x, p, sigma, limit, explained, largest, is_open) in enumerate(given):
            informed, bound = 1.0 - p / max(sigma * sigma, 1e-300), limit * sigma
            contradicted = (
                is_open
                and informed > _LEAST_INFORMED
                and x * x > bound * bound * informed
                and explained <= abs(x) / informed <= largest
            )
            self._lasted[k] = self._lasted[k] + 1 if contradicted else 0
            if self._lasted[k] >= _LASTING:
                self._lasted[k] = 0
                found[k] = max(abs(x) / informed, 2.0 * sigma)
        return found
