"""Explanations of the path by the IMU beside fixes: samples late or in time, antenna displaced or in its place."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from vehicled.messages import SlowState
from vehicled.sources.gnss.fix_time import ODDS, Latency, mix, weigh
from vehicled.sources.imu.path_sums import AHEAD, LATENCY, LEFT, PathSums

MODEL_ERROR = 0.001
"""s, 1 σ: effect of errors of roll and pitch that no unknown describes."""
_MOVED, _NOT_MOVED = 1.0, 0.05
"""m, 1 σ of the antenna's place relative to the configured one: if it is elsewhere, and if it is there. Small
errors of integrated accelerations look like some centimetres."""
_GYROSCOPE = 0.001
"""rad/s, 1 σ: remaining error of the gyroscope's bias."""
_LATE_PITCHING = (0.006, 0.02)
"""s, 1 σ: delay of the estimated pitch. It depends on the car: a latency counts only if it follows with both
values."""
_LATE_LEVELLED = 0.0005
"""s, 1 σ: delay of the pitch by gyroscopes."""
_CONTRADICTION = 2.5
"""Number of standard deviations above which the configured latency is wrong if the attitude is the estimated
one, and up to which a latency found from windows explains an antenna that seems to be elsewhere."""
_UNDECIDED = 1.5
"""The latter number while windows cannot tell the two apart."""
_POSITIVE, _STRONG = 2.0, 6.0
"""Least differences of −2 ln of two evidences that are positive and strong evidence (Kass and Raftery, "Bayes
factors", 1995). An antenna in its configured place needs strong evidence, as the simpler explanation has an
advantage anyway."""
_SHOWN, _TOLD_APART = 0.5, 2.0
"""Limits of σ of the latency for windows to determine it: share of the configured σ, and multiple of σ with
the antenna in its configured place. At constant speed a wrong time and a displaced antenna move the path
alike, and small errors of roll look like a large error of each."""
_BY_SLIP = 0.006
"""s, 1 σ: error of the latency that the filter finds for fixes, by slip and antennas that differ from the model."""
_ANY = 1.0
"""s, 1 σ: of a latency of which nothing is known."""


class Given(NamedTuple):
    """What explanations depend on besides the windows."""

    sigma: float
    """s: σ of the configured latency of samples."""
    earlier: SlowState
    """Result of an earlier drive, relative to the configured latency; σ is 0 without one."""
    latency: float
    """s: latency in use, relative to the configured one."""
    of_fixes: float
    """s: latency of fixes that the filter has found, relative to the configured one."""
    is_levelled: bool
    """Whether gravity is subtracted with an attitude from the gyroscopes of the same samples."""
    freedom: int
    """Degrees of freedom of the windows, which change with each of them."""


class PathHypotheses:
    """Explanations of the present windows. Latencies are in s, places in m."""

    def __init__(self, sums: PathSums, given: Given) -> None:
        self.given = given
        self._sums = sums
        self._pitching = _LATE_LEVELLED if given.is_levelled else max(_LATE_PITCHING)
        self._solved: dict[tuple[bool, bool, float], tuple[float, float, float]] = {}

    def explain(self, pitching: float | None = None) -> tuple[float, float]:
        """Change of the latency and its σ, s: mean over the hypotheses that the configured one is right, or wrong.

        With the better explanation of the antenna's place; if in doubt, that it has moved. `pitching`: 1 σ of late
        pitching, s; None: the usual one.
        """
        has_moved = not self.is_told_apart or self._has_moved(pitching)
        (late, of_late, cost), (right, of_right, other) = (
            self.solve(wrong, has_moved, pitching) for wrong in (True, False)
        )
        log_odds = math.log(ODDS) + 0.5 * (cost - other)
        found = mix(log_odds, Latency(right, of_right**2), Latency(late, of_late**2))
        return found.mean, math.sqrt(found.variance)

    def solve(
        self, late: bool = True, moved: bool = True, pitching: float | None = None
    ) -> tuple[float, float, float]:
        """Explain the windows by samples that are `late` or not, and an antenna that has `moved` or not.

        Returns the change of the latency and its σ, s, and −2 ln of the evidence of that explanation.
        """
        # The same is asked for several times within one step.
        asked = late, moved, pitching or self._pitching
        if asked not in self._solved:
            self._solved[asked] = self._calc_solution(*asked)
        return self._solved[asked]

    @property
    def is_told_apart(self) -> bool:
        """Whether windows determine the time of samples, and can tell an error of it from a displaced antenna."""
        sigma = self.solve()[1]
        is_shown = sigma < min(_SHOWN * self.given.sigma, _TOLD_APART * self.solve(moved=False)[1])
        return is_shown and not -_POSITIVE < self._compare_places() < _STRONG

    def is_wrong(self) -> bool:
        """Whether the latency in use is wrong even if the attitude is the estimated one.

        Small errors of that attitude look like a wrong time.
        """
        return all(map(self._is_wrong, _LATE_PITCHING))

    def find_antenna(self) -> tuple[complex, complex] | None:
        """Place of the antenna relative to the configured one, and its σ, ahead + i left; None if it is there."""
        if not (self.is_told_apart and self._has_moved()):
            return None
        found, covariance, *_ = self._find(True, True, self._pitching)
        sigmas = np.sqrt(np.diag(covariance) * self._sums.excess)
        return complex(found[AHEAD], found[LEFT]), complex(sigmas[AHEAD], sigmas[LEFT])

    def find_suspected(self) -> float:
        """Largest wrong time of samples that may explain an antenna that seems to be elsewhere, s."""
        if self.is_told_apart and self._has_moved():
            return 0.0
        late, sigma, _ = self.solve(moved=False)
        beyond = _CONTRADICTION if self.is_told_apart else _UNDECIDED
        return abs(late) + beyond * math.hypot(sigma, MODEL_ERROR)

    def denies(self, change: float) -> bool:
        """Whether samples may well be in time, although the filter's latency of fixes shows them `change` (s) older.

        Wheels that slip otherwise than the model's make that latency wrong, but not the windows, wherever the antenna
        is.
        """
        latency = self.given.latency
        if abs(latency + change) < abs(latency):
            return False
        return any(self._weigh_late(change, moved) < _STRONG for moved in (True, False))

    def find_fixes(self, sigma: float) -> tuple[Latency, float] | None:
        """Latency of fixes and change of the samples' if the filter's latency of fixes is wrong; else None.

        `sigma`: of the configured latency of fixes. The windows have to contradict the filter wherever the antenna
        is. Samples whose time others have changed, by that latency, return to the configured one if fixes are then
        nearer to theirs.
        """
        by_filter = self.given.of_fixes
        for moved in (True, False):
            shown = self._find_fixes_alone(moved)
            least = max(_BY_SLIP, _CONTRADICTION * math.sqrt(shown.variance))
            if abs(shown.mean - by_filter) < least or shown.variance > _BY_SLIP**2:
                return None
            if abs(self._weigh_fixes(shown, sigma).mean - by_filter) < _BY_SLIP:
                return None
        shown, latency = self._find_fixes_alone(self._has_moved()), self.given.latency
        restored = latency if abs(shown.mean - latency) < abs(shown.mean) else 0.0
        return self._weigh_fixes(shown, sigma, restored), -restored

    def _find_fixes_alone(self, moved: bool) -> Latency:
        """Latency of fixes by the windows alone, beside samples of the present time."""
        prior = self._calc_prior(_ANY, moved, self._pitching)
        found, covariance = self._sums.solve(np.zeros(len(prior)), prior)
        variance = float(covariance[LATENCY, LATENCY]) * self._sums.excess + MODEL_ERROR**2
        return Latency(-float(found[LATENCY]), variance)

    def _weigh_fixes(self, shown: Latency, sigma: float, restored: float = 0.0) -> Latency:
        """Latency of fixes by windows (`shown`) and by the filter, if samples are newer by `restored`, s."""
        precision = 1.0 / sigma**2 + 1.0 / shown.variance + 1.0 / _BY_SLIP**2
        both = (shown.mean - restored) / shown.variance + (self.given.of_fixes - restored) / _BY_SLIP**2
        return weigh(Latency(both / precision, 1.0 / precision), sigma, 0.0)

    def _weigh_late(self, change: float, moved: bool) -> float:
        """Evidence, as difference of −2 ln, of late samples by the filter's latency of fixes and by the windows."""
        beside_fixes, sigma, _ = self.solve(moved=moved)
        found = np.array([change, beside_fixes - self.given.of_fixes])
        weights = 1.0 / np.array([_BY_SLIP, sigma]) ** 2
        of_prior = self.given.sigma
        late = float(weights @ found) / (float(weights.sum()) + 1.0 / of_prior**2)
        return float(weights @ (found**2 - (found - late) ** 2)) - (late / of_prior) ** 2

    def _calc_solution(self, late: bool, moved: bool, pitching: float) -> tuple[float, float, float]:
        found, covariance, mean, prior = self._find(late, moved, pitching)
        left = self._sums.calc_squares(found)
        cost = float(left / self._sums.excess + prior @ (found - mean) ** 2 - np.log(prior).sum())
        cost -= float(np.linalg.slogdet(covariance).logabsdet)
        change = float(found[LATENCY]) + self.given.of_fixes
        return change, math.sqrt(covariance[LATENCY, LATENCY] * self._sums.excess), cost

    def _find(self, late: bool, moved: bool, pitching: float) -> tuple[np.ndarray, ...]:
        """The unknowns with such an explanation, and their covariance without the factor of excess scatter.

        Also returns their prior: means, and 1/σ².
        """
        given = self.given
        known = given.earlier.sigma or given.sigma
        prior = self._calc_prior(known if late else MODEL_ERROR, moved, pitching)
        mean = np.zeros(len(prior))
        mean[LATENCY] = given.earlier.value - given.latency - given.of_fixes
        return *self._sums.solve(mean, prior), mean, prior

    @staticmethod
    def _calc_prior(latency: float, moved: bool, pitching: float) -> np.ndarray:
        """1/σ² of the unknowns, with σ of latency and late pitching, s."""
        places = [_MOVED if moved else _NOT_MOVED] * 2
        return 1.0 / np.array([latency, *places, _GYROSCOPE, pitching]) ** 2

    def _has_moved(self, pitching: float | None = None) -> bool:
        """Whether the better explanation, with samples late or not, has a displaced antenna."""
        return self._compare_places(pitching) < 0.0

    def _compare_places(self, pitching: float | None = None) -> float:
        """Difference of −2 ln of evidence in favour of an antenna in its configured place."""
        moved, right = (
            min(self.solve(late, m, pitching)[2] for late in (True, False)) for m in (True, False)
        )
        return moved - right

    def _is_wrong(self, pitching: float) -> bool:
        change, sigma = self.explain(pitching)
        # Late samples must explain the windows better than samples in time do, with the antenna displaced or
        # not.
        right, late = (min(self.solve(late, m, pitching)[2] for m in (True, False)) for late in (False, True))
        return abs(change) > _CONTRADICTION * math.hypot(sigma, MODEL_ERROR) and late < right - _POSITIVE
