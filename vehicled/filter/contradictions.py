"""Parameters whose priors are contradicted by measurements."""

from __future__ import annotations

from collections.abc import Sequence

LEAST_INFORMED = 1e-3
"""Least share of a parameter's variance that measurements must have removed: with a smaller one, dividing by
it turns any small error of the model into a large one of the parameter."""
LASTING = 10
"""Number of consecutive calls with a contradiction after which it counts."""


class Contradictions:
    """Tests priors of parameters repeatedly.

    For an error p ~ N(0, σ²), information I leads to the variance P = 1/(σ⁻² + I) and to an estimate
    x ~ N(0, σ² − P) if the prior is right: x²/(σ² − P) tests this. If the test fails, the given value is wrong, not
    merely imprecise: the new σ is the estimate from measurements alone, x/(1 − P/σ²).

    A lasting error of the model contradicts a parameter more and more in a long drive, but the parameter's error that
    it causes does not grow. If that exceeds the largest possible error of the parameter, something else is wrong.
    """

    def __init__(self, largest: Sequence[float]) -> None:
        """`largest`: (k,) errors that the parameters can have."""
        self._largest = largest
        self._lasted = [0] * len(largest)
        """(k,) number of consecutive calls in which measurements have contradicted each parameter."""

    def find(
        self,
        estimate: Sequence[float],
        variance: Sequence[float],
        prior: Sequence[float],
        limits: Sequence[float],
        least: Sequence[float],
        open_to_doubt: Sequence[bool],
    ) -> dict[int, float]:
        """Find parameters that have been contradicted for long, with the σ that they should have had.

        Those that explain the measurements best come first: x²/(σ² − P) is how much χ² would decrease without the
        prior (score test).

        All arguments are (k,): estimates; their variances; σ of the priors; largest error in multiples of
        that σ; size of the error up to which another cause explains it; whether the parameter can be tested
        at present.
        """
        # Plain numbers: within a step, NumPy takes several times as long for so few of them.
        found: list[tuple[float, int, float]] = []
        given = zip(estimate, variance, prior, limits, least, self._largest, open_to_doubt, strict=True)
        for k, (x, p, sigma, limit, explained, largest, is_open) in enumerate(given):
            informed, bound = 1.0 - p / max(sigma * sigma, 1e-300), limit * sigma
            contradicted = (
                is_open
                and informed > LEAST_INFORMED
                and x * x > bound * bound * informed
                and explained <= abs(x) / informed <= largest
            )
            self._lasted[k] = self._lasted[k] + 1 if contradicted else 0
            if self._lasted[k] >= LASTING:
                self._lasted[k] = 0
                found.append((x * x / (sigma * sigma * informed), k, max(abs(x) / informed, 2.0 * sigma)))
        return {k: sigma for _, k, sigma in sorted(found, reverse=True)}
