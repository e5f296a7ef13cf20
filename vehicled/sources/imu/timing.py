"""Latency of the IMU relative to a precise receiver, from these two sensors alone.

With a tyre model, late gyroscopes cannot be told from a displaced antenna or from stiffer tyres: at constant
speed all three have the same effect on the heading. Gyroscope and accelerometers, integrated over a few
seconds, give the path of the antenna without tyres. It is compared with the fixes: a time shift moves the
path along its changes of velocity, a displaced antenna moves it with the heading. Both are estimated together
by least squares, window by window (after Skog and Händel, "Time synchronization errors in loosely coupled
GPS-aided inertial navigation systems", IEEE Trans. ITS 12(4), 2011).

As for fixes (`fix_time.py`), the configured latency is either right or far off: the mean of both hypotheses
is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from vehicled.filter.kept import fade
from vehicled.messages import SlowState
from vehicled.sources.gnss.fix_time import ODDS, Latency, mix, weigh
from vehicled.sources.imu.antenna_path import compare_paths

PRECISE = 0.1
"""m: only fixes with at most this standard deviation have information on milliseconds."""
_WINDOW, _LONGEST_WINDOW = 4.0, 10.0
"""s: time over which samples are integrated, and longest time for enough fixes to come."""
_FEWEST_FIXES = 16
_LONGEST_GAP = 0.1
"""Longest time between means, s."""
_SETTLING = 5.0
"""Time after a start for which roll and pitch are still being found, s."""
_MOST_SAMPLES = 20_000
_LATENESS = 0.5
"""s: largest delay of the arrival of fixes after samples of the same time."""
_BEGIN = ("x", "y", "vx", "vy", "yaw")
_BIASES = {"ahead": 0.3, "left": 0.3, "pitching": 0.05, "rolling": 0.05}
"""m/s², and relative, 1 σ. Ahead, left: of the accelerometers, slope and bank included. Pitching, rolling: by how
much forces are greater than measured, as the attitude of the body is wrong. Each window has its own."""
_LATE_ROLLING = 0.005, 0.0005
"""s, 1 σ: delay of the roll, if estimated and if from the gyroscopes of the same samples. Late accelerometers
delay the estimated roll by up to half of their latency."""
OWN = (*_BEGIN, *_BIASES, "late rolling")
"""Unknowns of one window."""
_YAW = OWN.index("yaw")
_OWN_PRIOR = [
    np.diag([*[0.0] * len(_BEGIN), *(1.0 / sigma for sigma in (*_BIASES.values(), late))])[len(_BEGIN) :]
    for late in _LATE_ROLLING
]
"""Rows of the biases' prior, with the estimate's attitude and with that of gyroscopes."""
SHARED = ("latency", "antenna ahead", "antenna left", "gyroscope", "late pitching")
"""Unknowns of all windows."""
_AHEAD = SHARED.index("antenna ahead")
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
_NO_ROWS = np.zeros((len(OWN) - len(_BEGIN), len(SHARED) + 1))
_ITERATIONS = 3
_MODEL_ERROR = 0.001
"""s, 1 σ: effect of errors of roll and pitch that no unknown describes."""
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
_INFORMED = 0.99
"""Share of σ without any measurement above which a result of an earlier drive shows nothing."""
_LARGEST = 0.1
"""s: a larger latency has another cause, such as a receiver whose latency has not been found yet."""
_SETTLED = 0.002
"""s: the receiver's own latency has been found once it changes by less than this from window to window."""
_BY_SLIP = 0.006
"""s, 1 σ: error of the latency that the filter finds for fixes, by slip and antennas that differ from the model."""
_ANY = 1.0
"""s, 1 σ: of a latency of which nothing is known."""
LARGE_CHANGE = 0.008
"""s: a larger change of the latency has falsified other parameters."""


class ImuTiming:
    """Finds the latency of samples, s. Times are in s, places in the world frame."""

    def __init__(self) -> None:
        self.sigma = 0.0
        """s: σ of the configured latency; 0: it is known."""
        self.fix_sigma = 0.0
        """s: σ of the receiver's configured latency; 0: it is known."""
        self.place: Sequence[float] = (0.0, 0.0, 0.0)
        self.antenna: Sequence[float] = (0.0, 0.0, 0.0)
        """Places of IMU and antenna, m, vehicle axes."""
        self.is_levelled = False
        """Whether gravity is subtracted with an attitude from the gyroscopes of the same samples, and not
        with the estimated one."""
        self.has_reference: Callable[[], bool] = lambda: True
        """Whether the receiver's time is known, or found relative to a speed of known time. Without that,
        fixes only show the time of samples relative to the receiver's latency, which the filter has found by
        these samples."""
        self.forget()

    def forget(self) -> None:
        """Return to the configured latency."""
        self.latency = 0.0
        """s: latency of samples relative to the configured one, as far as found."""
        self._suspected, self._alike_most = 0.0, math.inf
        """s: largest wrong time that may explain an antenna that seems to be elsewhere; and m/s: largest
        displacement per time."""
        self.place_doubt = 0.0
        """σ of the place of an antenna that is estimated with these samples, due to their latency, m."""
        self.moved: tuple[complex, complex] | None = None
        """Place where the antenna has just been found relative to the configured one, and its σ, m, ahead + i
        left."""
        self.fixes: Latency | None = None
        """Latency of fixes relative to the configured one as it has just been found, if that of the filter is
        wrong."""
        self.restored = 0.0
        """s: change of the latency that came with it."""
        self._found = False
        size = len(SHARED)
        self._information, self._vector = np.zeros((size, size)), np.zeros(size)
        self._squares, self._freedom, self._excess = 0.0, 0, 1.0
        self._given = SlowState(0.0, 0.0, "s")
        self.has_precise_fixes = False
        """Whether any fixes of at most `PRECISE` have come."""
        self._solved: dict[tuple[bool, bool, float], tuple[float, float, float]] = {}
        self._solved_by: tuple[float, ...] = ()
        """Explanations of the windows by what is asked, and everything else that they depend on."""
        self._doubt: tuple[tuple[float, ...], float] = (), 0.0
        """Everything that `doubt` depended on when last calculated, and its value, s."""
        self._fix_latency = self._latency_before = 0.0
        """Latency of the receiver, now and at the end of the last window."""
        self._settling_until: float | None = None
        self._comparison: Iterator[None] | None = None
        """The comparison of the last window while it is running."""
        self.interrupt()

    def interrupt(self) -> None:
        """Begin another window, as samples or the estimate have jumped."""
        self._means: list[tuple[float, ...]] = []
        """Time, yaw rate, accelerations and rises."""
        self._fixes: list[tuple[float, float, float, float]] = []
        self._yaw = 0.0

    def set(self, found: SlowState, age: float) -> None:
        """Start with the latency that measurements have shown, `age` seconds ago.

        A result that is no better than the prior odds alone shows nothing, and is not used: as a result, it would
        count these odds again.
        """
        unshown = self.doubt
        if not (abs(found.value) < _LARGEST and found.sigma < _INFORMED * unshown):
            return
        value, variance = fade(found.value, found.sigma**2, unshown**2, age)
        self._given = SlowState(value, math.sqrt(variance), found.unit)
        self.latency, self._found = value, True

    @property
    def state(self) -> SlowState | None:
        """The latency with its σ; None if it is not estimated.

        Without a window, it is no more certain than what an earlier drive has found.
        """
        least = 0.0 if self._freedom else self._given.sigma
        return None if self.sigma == 0.0 else SlowState(self.latency, max(self.doubt, least), "s")

    @property
    def doubt(self) -> float:
        """σ of the latency, s; 0 if it is known. Cheap enough to be read in every step."""
        if self.sigma == 0.0:
            return 0.0
        # The windows' information changes only when their degrees of freedom do.
        by = self.sigma, self._given.sigma, self._freedom, self._found
        if by != self._doubt[0]:
            change, sigma = self._explain()
            # A latency that windows only suspect is not used: it is an error of the one in use.
            self._doubt = by, math.hypot(sigma, _MODEL_ERROR, 0.0 if self._found else change)
        return self._doubt[1]

    @property
    def found_doubt(self) -> float:
        """The same for a latency that has been found; 0 while samples are assumed to have no latency error."""
        return self.doubt if self._found or self.latency else 0.0

    def take_fix(self, t: float, place: complex, sigma: float, latency: float) -> None:
        """Take a fix: x + i y (m), its σ (m), and the receiver's latency that the filter has found (s)."""
        if self.sigma == 0.0 or sigma > PRECISE:
            return
        self._fix_latency, self.has_precise_fixes = latency, True
        if len(self._fixes) < _MOST_SAMPLES:
            self._fixes.append((t, place.real, place.imag, sigma))

    def take_means(
        self, means: tuple[float, float, float, float], rises: complex, yaw: float, bias: float
    ) -> float:
        """Take means of samples over a short time.

        `means`: time (s), yaw rate (rad/s), forward and lateral acceleration without gravity (m/s²). `rises`:
        of the forward axis (real part) and left axis (imaginary part), rad.

        Biases are not subtracted: those of accelerometers are among the unknowns; for the gyroscope, `bias`
        (rad/s) at the end of a window is used. `yaw`: estimated, rad.

        Returns the resulting change of the latency, s.
        """
        t, change = means[0], 0.0
        self.moved, self.fixes, self.restored = None, None, 0.0
        if self._settling_until is None:
            self._settling_until = t + _SETTLING
        if not self._fixes or t < self._settling_until:
            return 0.0
        if self._comparison is not None and next(self._comparison, self) is self:
            self._comparison = None
            change = self._decide()
            if self.restored:
                return 0.0
        if self._means and not 0.0 < t - self._means[-1][0] < _LONGEST_GAP:
            self.interrupt()
            return change
        if not self._means:
            self._yaw = yaw
        self._means.append((*means, rises.real, rises.imag))
        begin = self._means[0][0]
        lasted, come = t - begin, self._fixes[-1][0] - begin
        if lasted < _WINDOW or (come < _WINDOW and lasted < _WINDOW + _LATENESS):
            return change
        if len(self._fixes) >= _FEWEST_FIXES:
            fixes, path = np.array(self._fixes), np.array(self._means)
            fixes[:, 0] -= self._fix_latency
            path[:, 1] -= bias
            self._comparison = self._add_window(path, fixes, self._yaw, self._fix_latency)
            self.interrupt()
        elif lasted > _LONGEST_WINDOW:
            self.interrupt()
        return change

    def _add_window(
        self, samples: np.ndarray, fixes: np.ndarray, yaw: float, fix_latency: float
    ) -> Iterator[None]:
        """Add the information of a window on the shared unknowns, after eliminating its own unknowns.

        The sums are for the latency relative to fixes with their given times, as the latency of fixes may be
        found later. Yields twice in each iteration, as this is part of the real-time step.
        """
        t = samples[:, 0]
        inside = (fixes[:, 0] > t[0]) & (fixes[:, 0] < t[-1])
        if np.count_nonzero(inside) < _FEWEST_FIXES:
            return
        at, sigma = fixes[inside, 0], fixes[inside, 3]
        places = fixes[inside, 1] + 1j * fixes[inside, 2]
        x, y, height = (a - b for a, b in zip(self.antenna, self.place, strict=True))
        weight = np.concatenate([1.0 / sigma, 1.0 / sigma])[:, None]
        for _ in range(_ITERATIONS):
            residual, own, shared = compare_paths(samples, at, places, yaw, complex(x, y), height)
            yield
            both = np.vstack([np.column_stack([shared, residual]) * weight, _NO_ROWS])
            basis, triangle = np.linalg.qr(np.vstack([own * weight, _OWN_PRIOR[self.is_levelled]]))
            along = basis.T @ both
            # The yaw is the only nonlinear unknown.
            yaw += float(np.linalg.solve(triangle, along[:, -1])[_YAW])
            yield
        both -= basis @ along
        # Fixes were taken as older by their latency, so the samples' latency is smaller by as much.
        both[:, -1] -= fix_latency * both[:, 0]
        products = both.T @ both
        self._information += products[:-1, :-1]
        self._vector += products[:-1, -1]
        self._squares += float(products[-1, -1])
        self._freedom += 2 * len(at) - own.shape[1]
        # If fixes scatter by more than their σ, so does the result. The scatter is taken from the best
        # explanation, as a worse explanation may not fit for other reasons.
        best = self._calc_squares(np.linalg.lstsq(self._information, self._vector)[0])
        self._excess = max(1.0, best / self._freedom)

    def _solve(
        self, late: bool = True, moved: bool = True, pitching: float | None = None
    ) -> tuple[float, float, float]:
        """Explain the windows by samples that are `late` or not, and an antenna that has `moved` or not.

        `pitching`: 1 σ of late pitching, s; None: the usual one.

        Returns the change of the latency and its σ, s, and −2 ln of the evidence of that explanation.
        """
        asked = late, moved, pitching or self._pitching
        # The same windows are asked for several times within one step.
        by = self.sigma, self._given.sigma, self._freedom, self.latency, self._fix_latency
        if by != self._solved_by:
            self._solved_by = by
            self._solved.clear()
        if asked not in self._solved:
            self._solved[asked] = self._calc_solution(*asked)
        return self._solved[asked]

    @property
    def _pitching(self) -> float:
        """Usual σ of late pitching, s."""
        return _LATE_LEVELLED if self.is_levelled else max(_LATE_PITCHING)

    def _calc_solution(self, late: bool, moved: bool, pitching: float) -> tuple[float, float, float]:
        found, covariance, mean, prior = self._find(late, moved, pitching)
        left = self._calc_squares(found)
        cost = float(left / self._excess + prior @ (found - mean) ** 2 - np.log(prior).sum())
        cost -= float(np.linalg.slogdet(covariance).logabsdet)
        change = float(found[0]) + self._fix_latency
        return change, math.sqrt(covariance[0, 0] * self._excess), cost

    def _explain(self, pitching: float | None = None) -> tuple[float, float]:
        """Change of the latency and its σ, s: mean over the hypotheses that the configured one is right, or wrong.

        With the better explanation of the antenna's place; if in doubt, that it has moved.
        """
        has_moved = not self._is_told_apart or self._has_moved(pitching)
        (late, of_late, cost), (right, of_right, other) = (
            self._solve(wrong, has_moved, pitching) for wrong in (True, False)
        )
        log_odds = math.log(ODDS) + 0.5 * (cost - other)
        found = mix(log_odds, Latency(right, of_right**2), Latency(late, of_late**2))
        return found.mean, math.sqrt(found.variance)

    @property
    def _is_told_apart(self) -> bool:
        """Whether windows determine the time of samples, and can tell an error of it from a displaced antenna."""
        sigma = self._solve()[1]
        is_shown = sigma < min(_SHOWN * self.sigma, _TOLD_APART * self._solve(moved=False)[1])
        return is_shown and not -_POSITIVE < self._compare_places() < _STRONG

    def _find(self, late: bool, moved: bool, pitching: float) -> tuple[np.ndarray, ...]:
        """Shared unknowns with such an explanation, and their covariance without the factor of excess scatter.

        Also returns their prior: means, and 1/σ².
        """
        known = self._given.sigma or self.sigma
        sigmas = [known if late else _MODEL_ERROR, *[_MOVED if moved else _NOT_MOVED] * 2]
        prior = 1.0 / np.array([*sigmas, _GYROSCOPE, pitching]) ** 2
        mean = np.zeros(len(prior))
        mean[0] = self._given.value - self.latency - self._fix_latency
        covariance = np.linalg.inv(self._information + np.diag(prior))
        return covariance @ (self._vector + prior * mean), covariance, mean, prior

    def _calc_squares(self, found: np.ndarray) -> float:
        """Sum of squared residuals of all windows with these values of the shared unknowns."""
        return self._squares - 2.0 * float(found @ self._vector) + float(found @ self._information @ found)

    @property
    def _alike(self) -> float:
        """Forward displacement of the antenna with the same effect on windows as a latency, per latency, m/s."""
        of_antenna = self._information[_AHEAD, _AHEAD]
        return abs(float(self._information[0, _AHEAD] / of_antenna)) if of_antenna > 0.0 else 0.0

    def _decide(self) -> float:
        settled = abs(self._fix_latency - self._latency_before) < _SETTLED
        self._latency_before = self._fix_latency
        self._suspected, self._alike_most = self._find_suspected(), self._alike
        if self._is_told_apart and self._has_moved():
            self.moved = self._find_antenna()
        self.place_doubt = self._alike * self.doubt
        if self.is_levelled and self.fix_sigma > 0.0 and not self.has_reference():
            self.fixes = self._find_fixes()
            if self.restored:
                return 0.0
        change, _ = self._explain()
        if not (settled and self._is_certain()) or abs(self.latency + change) > _LARGEST:
            return 0.0
        self._found = True
        self._move(change)
        return change

    def _find_fixes(self) -> Latency | None:
        """Latency of fixes that follows from windows, filter and settings if the filter's is wrong; else None.

        Wherever the antenna is. Samples whose time others have changed, by that latency, return to the configured
        one if fixes are then nearer to theirs.
        """
        moved = self._has_moved()
        for place in (not moved, moved):
            found = self._weigh_fixes(place)
            if found is None or abs(found.mean - self._fix_latency) < _BY_SLIP:
                return None
        shown = self._find_beside(moved).mean
        if abs(shown - self.latency) < abs(shown):
            found = self._weigh_fixes(moved, self.latency)
            self.restored = -self.latency
            self.set_by_others(self.restored)
        return found

    def _find_beside(self, moved: bool) -> Latency:
        """Latency of fixes by the windows alone, beside samples of the present time."""
        places = [_MOVED if moved else _NOT_MOVED] * 2
        prior = 1.0 / np.array([_ANY, *places, _GYROSCOPE, self._pitching]) ** 2
        covariance = np.linalg.inv(self._information + np.diag(prior))
        variance = float(covariance[0, 0]) * self._excess + _MODEL_ERROR**2
        return Latency(-float(covariance[0] @ self._vector), variance)

    def _weigh_fixes(self, moved: bool, restored: float = 0.0) -> Latency | None:
        """Latency of fixes if samples are newer by `restored`, s; None unless windows contradict the filter."""
        shown = self._find_beside(moved)
        least = max(_BY_SLIP, _CONTRADICTION * math.sqrt(shown.variance))
        if abs(shown.mean - self._fix_latency) < least or shown.variance > _BY_SLIP**2:
            return None
        precision = 1.0 / self.fix_sigma**2 + 1.0 / shown.variance + 1.0 / _BY_SLIP**2
        both = (shown.mean - restored) / shown.variance + (self._fix_latency - restored) / _BY_SLIP**2
        return weigh(Latency(both / precision, 1.0 / precision), self.fix_sigma, 0.0)

    def _is_certain(self) -> bool:
        """Whether the latency found from windows is to be used."""
        if not (self._is_told_apart and self.has_reference()):
            return False
        # With the estimate's attitude, small errors of it look like a wrong time.
        return self.is_levelled or self._found or all(map(self._is_wrong, _LATE_PITCHING))

    def find_offset(self, speed: float) -> float:
        """m: apparent displacement of the antenna that a wrong time of samples may cause at a speed (m/s)."""
        return min(abs(speed), self._alike_most) * self._suspected

    def _find_suspected(self) -> float:
        if self._is_told_apart and self._has_moved():
            return 0.0
        late, sigma, _ = self._solve(moved=False)
        beyond = _CONTRADICTION if self._is_told_apart else _UNDECIDED
        return abs(late) + beyond * math.hypot(sigma, _MODEL_ERROR)

    def _find_antenna(self) -> tuple[complex, complex]:
        found, covariance, *_ = self._find(True, True, self._pitching)
        x, y = _AHEAD, _AHEAD + 1
        sigmas = np.sqrt(np.diag(covariance) * self._excess)
        return complex(found[x], found[y]), complex(sigmas[x], sigmas[y])

    def set_by_others(self, change: float) -> None:
        """Increase the latency by `change`, s, as other sensors than receivers show; begin another window.

        They know it better than windows: as before, only a clear contradiction by windows changes it.
        """
        self._move(change)
        self._comparison = None
        self.interrupt()

    def denies(self, change: float) -> bool:
        """Whether samples may well be in time, although the filter's latency of fixes shows them `change` (s) older.

        Wheels that slip otherwise than the model's make that latency wrong, but not the windows, wherever the antenna
        is.
        """
        if abs(self.latency + change) < abs(self.latency):
            return False
        return any(self._weigh_beside(change, moved) < _STRONG for moved in (True, False))

    def _weigh_beside(self, change: float, moved: bool) -> float:
        """Evidence, as difference of −2 ln, of late samples by the filter's latency of fixes and by the windows."""
        beside_fixes, sigma, _ = self._solve(moved=moved)
        found = np.array([change, beside_fixes - self._fix_latency])
        weights = 1.0 / np.array([_BY_SLIP, sigma]) ** 2
        late = float(weights @ found) / (float(weights.sum()) + 1.0 / self.sigma**2)
        return float(weights @ (found**2 - (found - late) ** 2)) - (late / self.sigma) ** 2

    def _move(self, change: float) -> None:
        self.latency += change
        # The problem is linear, so the sums can be converted to the new sample times.
        self._squares += change * (change * self._information[0, 0] - 2.0 * self._vector[0])
        self._vector -= change * self._information[:, 0]

    def _has_moved(self, pitching: float | None = None) -> bool:
        """Whether the better explanation, with samples late or not, has a displaced antenna."""
        return self._compare_places(pitching) < 0.0

    def _compare_places(self, pitching: float | None = None) -> float:
        """Difference of −2 ln of evidence in favour of an antenna in its configured place."""
        moved, right = (
            min(self._solve(late, m, pitching)[2] for late in (True, False)) for m in (True, False)
        )
        return moved - right

    def _is_wrong(self, pitching: float) -> bool:
        """Whether the configured latency is wrong, with this σ of late pitching, s."""
        change, sigma = self._explain(pitching)
        # Late samples must explain the windows better than samples in time do, with the antenna displaced or
        # not.
        right, late = (
            min(self._solve(late, m, pitching)[2] for m in (True, False)) for late in (False, True)
        )
        return abs(change) > _CONTRADICTION * math.hypot(sigma, _MODEL_ERROR) and late < right - _POSITIVE
