"""Latency of the IMU beside a precise receiver, from these two alone.

A model of tyres does not separate late gyroscopes from an antenna that sits elsewhere or from stiffer tyres: at one
speed they turn the same heading. Gyroscope and accelerometers, integrated over a few seconds, give the path of the
antenna without any tyre. It is compared with the fixes: a time shift moves it along its changes of velocity, another
place with its heading. Both are estimated at once by least squares, window by window (after Skog and Händel,
"Time synchronization errors in loosely coupled GPS-aided inertial navigation systems", IEEE Trans. ITS 12(4), 2011).

As of fixes (`fix_time.py`), the configured latency is right, or wrong by much: what is used is the mean of both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from vehicled.messages import SlowState
from vehicled.sources.gnss.fix_time import ODDS, Latency, mix

PRECISE = 0.1
"""m: only fixes with at most this standard deviation have any information on milliseconds."""
_WINDOW, _LONGEST_WINDOW = 4.0, 10.0
"""s: over which samples are integrated, and until when enough fixes must have come."""
_FEWEST_FIXES = 16
_LONGEST_GAP = 0.1
"""s between means."""
_SETTLING = 5.0
"""s after a start: roll and pitch are still being found."""
_MOST_SAMPLES = 20_000
_LATENESS = 0.5
"""s: by how much fixes may arrive later than the samples of their time."""
_BEGIN = ("x", "y", "vx", "vy", "yaw")
_BIASES = {"ahead": 0.3, "left": 0.3, "pitching": 0.05, "rolling": 0.05}
"""m/s², and relative, 1 σ. Ahead, left: of the accelerometers, slope and bank included. Pitching, rolling: by how
much forces are greater than measured, as the attitude of the body is wrong. Each window has its own."""
_LATE_ROLLING = 0.005, 0.0005
"""s, 1 σ: by how much the roll follows too late, by the estimate and by the gyroscopes of the same samples. The
estimate's is drawn by the late accelerometers, by as much as half of their latency."""
_OWN = (*_BEGIN, *_BIASES, "late rolling")
"""Unknowns of one window."""
_YAW = _OWN.index("yaw")
_OWN_PRIOR = [
    np.diag([*[0.0] * len(_BEGIN), *(1.0 / sigma for sigma in (*_BIASES.values(), late))])[len(_BEGIN) :]
    for late in _LATE_ROLLING
]
"""Rows that hold the biases, by the estimate's attitude and by that of gyroscopes."""
_SHARED = ("latency", "antenna ahead", "antenna left", "gyroscope", "late pitching")
"""Unknowns of all windows."""
_AHEAD = _SHARED.index("antenna ahead")
_MOVED, _NOT_MOVED = 1.0, 0.05
"""m, 1 σ of the antenna's place, if it is elsewhere and if it is where it is configured. Small errors of integrated
accelerations have the effect of some centimetres."""
_GYROSCOPE = 0.001
"""rad/s, 1 σ: what is left of the gyroscope's bias."""
_LATE_PITCHING = (0.006, 0.02)
"""s, 1 σ: by how much the estimated pitch follows too late. That depends on the car: a latency has to follow from
either."""
_LATE_LEVELLED = 0.0005
"""s, 1 σ: by how much that of the gyroscopes does."""
_NO_ROWS = np.zeros((len(_OWN) - len(_BEGIN), len(_SHARED) + 1))
_ITERATIONS = 3
_MODEL_ERROR = 0.001
"""s, 1 σ: what errors of roll and pitch that no unknown describes have the effect of."""
_CONTRADICTION = 2.5
"""Standard deviations from which on the configured latency is wrong if the attitude is estimated, and up to which one
that windows find explains an antenna that seems to be elsewhere."""
_UNDECIDED = 1.5
"""Likewise while windows do not tell the two apart."""
_POSITIVE, _STRONG = 2.0, 6.0
"""Of −2 ln of two evidences, the least differences that are positive and strong evidence (Kass and Raftery, "Bayes
factors", 1995). That an antenna is in its place takes strong one: as the simpler explanation it is ahead anyway."""
_SHOWN, _TOLD_APART = 0.5, 2.0
"""Of the configured σ, and of σ if the antenna is where it is configured: up to which share windows show the time of
samples. At constant speed a wrong time and another place move the path alike, and small errors of roll seem to be a
large one of each."""
_LARGEST = 0.1
"""s: what seems later is something else, such as a receiver whose latency has not been found yet."""
_SETTLED = 0.002
"""s: change from one window to the next below which the receiver's own latency has been found."""
_BY_SLIP = 0.006
"""s, 1 σ: of the latency that the filter finds for fixes, as wheels slip otherwise and antennas are elsewhere."""
LARGE_CHANGE = 0.008
"""s: a change of the latency that falsifies what has been found of other parameters."""


class ImuTiming:
    """Finds by how much samples are older than their time, s. Times are in s, places in the world frame."""

    def __init__(self) -> None:
        self.sigma = 0.0
        """s, of the configured latency; 0: it is known."""
        self.place: Sequence[float] = (0.0, 0.0, 0.0)
        self.antenna: Sequence[float] = (0.0, 0.0, 0.0)
        """Where IMU and antenna are, m, vehicle axes."""
        self.is_levelled = False
        """Whether gravity is subtracted by an attitude that the gyroscopes of the same samples add up to, and not by
        the estimated one."""
        self.has_reference: Callable[[], bool] = lambda: True
        """Whether the receiver's time is known, or found beside a speed of known time. Else fixes only show how far
        samples are from the time that the filter has found for fixes by the samples."""
        self.forget()

    def forget(self) -> None:
        """Return to the configured latency."""
        self.latency = 0.0
        """s: by how much samples are older than their time, beside what is configured, as far as found."""
        self._suspected, self._alike_most = 0.0, math.inf
        """s, up to which a wrong time may be why the antenna seems to be elsewhere; and m/s, by how much at most."""
        self.place_doubt = 0.0
        """σ of what the time of samples does to the place of an antenna that is found beside them, m."""
        self.moved: tuple[complex, complex] | None = None
        """Where the antenna has just been found to be beside its place, and σ of that, m, ahead + i left."""
        self._found = False
        size = len(_SHARED)
        self._information, self._vector = np.zeros((size, size)), np.zeros(size)
        self._squares, self._freedom, self._excess = 0.0, 0, 1.0
        self._given = SlowState(0.0, 0.0, "s")
        self.has_precise_fixes = False
        """Whether any of them have come, of at most `PRECISE`."""
        self._solved: dict[tuple[bool, bool, float], tuple[float, float, float]] = {}
        self._solved_by: tuple[float, ...] = ()
        """Explanations of the windows, and all that they depend on beside what is asked."""
        self._doubt: tuple[tuple[float, ...], float] = (), 0.0
        """All that `doubt` depends on when it was calculated last, and its value, s."""
        self._fix_latency = self._latency_before = 0.0
        """Of the receiver, now and at the end of the last window."""
        self._settling_until: float | None = None
        self._comparison: Iterator[None] | None = None
        """That of the last window, which is going on."""
        self.interrupt()

    def interrupt(self) -> None:
        """Samples or the estimate have jumped: begin another window."""
        self._means: list[tuple[float, ...]] = []
        """Time, yaw rate, accelerations and rises."""
        self._fixes: list[tuple[float, float, float, float]] = []
        self._yaw = 0.0

    def set(self, found: SlowState) -> None:
        """Begin with what an earlier drive has found."""
        if self.sigma > 0.0 and abs(found.value) < _LARGEST and found.sigma < self.sigma:
            self.latency, self._given, self._found = found.value, found, True

    @property
    def state(self) -> SlowState | None:
        """The latency with its σ; None if it is not estimated."""
        return None if self.sigma == 0.0 else SlowState(self.latency, self.doubt, "s")

    @property
    def doubt(self) -> float:
        """σ of the latency, s; 0 if it is known. It costs little to be read in every step."""
        if self.sigma == 0.0:
            return 0.0
        # With the degrees of freedom the information of windows changes, and with nothing else.
        by = self.sigma, self._given.sigma, self._freedom, self._found
        if by != self._doubt[0]:
            change, sigma = self._explain()
            # What windows only suspect is not taken, and is an error of what is.
            self._doubt = by, math.hypot(sigma, _MODEL_ERROR, 0.0 if self._found else change)
        return self._doubt[1]

    @property
    def found_doubt(self) -> float:
        """The same of a latency that has been found; 0 where samples are taken to be of their time."""
        return self.doubt if self._found or self.latency else 0.0

    def take_fix(self, t: float, place: complex, sigma: float, latency: float) -> None:
        """Take a fix: x + i y (m), and what the filter has found of the receiver's latency (s)."""
        if self.sigma == 0.0 or sigma > PRECISE:
            return
        self._fix_latency, self.has_precise_fixes = latency, True
        if len(self._fixes) < _MOST_SAMPLES:
            self._fixes.append((t, place.real, place.imag, sigma))

    def take_means(
        self, means: tuple[float, float, float, float], rises: complex, yaw: float, bias: float
    ) -> float:
        """Take the means of samples over a moment.

        means: time (s), yaw rate (rad/s), accelerations ahead and to the left without gravity (m/s²). rises: of the
        axes ahead (real part) and to the left (imaginary part), rad.

        Biases are not subtracted: that of the accelerometers is among the unknowns, and the gyroscope's, rad/s, is
        taken as what it is by the end of a window. `yaw`: the estimated one, rad.

        Returns the change of the latency that they have led to, s.
        """
        t = means[0]
        if self._settling_until is None:
            self._settling_until = t + _SETTLING
        if not self._fixes or t < self._settling_until:
            return 0.0
        change, self.moved = 0.0, None
        if self._comparison is not None and next(self._comparison, self) is self:
            self._comparison = None
            change = self._decide()
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
        """Add the information of a window about the shared unknowns; its own are eliminated.

        What is summed up is the latency beside that of fixes as they came: theirs may be found later. One iteration
        at a time, as this is part of the real-time step.
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
            both = np.vstack([np.column_stack([shared, residual]) * weight, _NO_ROWS])
            basis, triangle = np.linalg.qr(np.vstack([own * weight, _OWN_PRIOR[self.is_levelled]]))
            along = basis.T @ both
            # The yaw is the one unknown that enters otherwise than linearly.
            yaw += float(np.linalg.solve(triangle, along[:, -1])[_YAW])
            yield
        both -= basis @ along
        # Taken as older than their time stamps, fixes have left as much less to the samples.
        both[:, -1] -= fix_latency * both[:, 0]
        products = both.T @ both
        self._information += products[:-1, :-1]
        self._vector += products[:-1, -1]
        self._squares += float(products[-1, -1])
        self._freedom += 2 * len(at) - own.shape[1]
        # Where fixes scatter by more than their σ, the result does as well. That they do not fit an explanation
        # speaks against that alone: what counts is by how much the best one leaves.
        best = self._calc_squares(np.linalg.lstsq(self._information, self._vector)[0])
        self._excess = max(1.0, best / self._freedom)

    def _solve(
        self, late: bool = True, moved: bool = True, pitching: float | None = None
    ) -> tuple[float, float, float]:
        """Explain the windows by samples that are `late` and an antenna that has `moved`, or not.

        `pitching`: 1 σ of late pitching, s, if another one than in general.

        Returns the change of the latency and its σ, s, and −2 ln of the evidence of that explanation.
        """
        asked = late, moved, pitching or self._pitching
        # Of the same windows it is asked several times within one step.
        by = self.sigma, self._given.sigma, self._freedom, self.latency, self._fix_latency
        if by != self._solved_by:
            self._solved_by = by
            self._solved.clear()
        if asked not in self._solved:
            self._solved[asked] = self._calc_solution(*asked)
        return self._solved[asked]

    @property
    def _pitching(self) -> float:
        """σ of late pitching, s, in general."""
        return _LATE_LEVELLED if self.is_levelled else max(_LATE_PITCHING)

    def _calc_solution(self, late: bool, moved: bool, pitching: float) -> tuple[float, float, float]:
        found, covariance, mean, prior = self._find(late, moved, pitching)
        left = self._calc_squares(found)
        cost = float(left / self._excess + prior @ (found - mean) ** 2 - np.log(prior).sum())
        cost -= float(np.linalg.slogdet(covariance).logabsdet)
        change = float(found[0]) + self._fix_latency
        return change, math.sqrt(covariance[0, 0] * self._excess), cost

    def _explain(self, pitching: float | None = None) -> tuple[float, float]:
        """Change of the latency and its σ, s, as the mean of a configured one that is right, and of another one.

        By the better explanation of the antenna's place: one that has moved, if in doubt.
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
        """Whether the windows show the time of samples, and tell a wrong one from an antenna that is elsewhere."""
        sigma = self._solve()[1]
        is_shown = sigma < min(_SHOWN * self.sigma, _TOLD_APART * self._solve(moved=False)[1])
        return is_shown and not -_POSITIVE < self._compare_places() < _STRONG

    def _find(self, late: bool, moved: bool, pitching: float) -> tuple[np.ndarray, ...]:
        """The shared unknowns by such an explanation, and their covariance but for the excess.

        And what they are expected to be: means, and 1/σ².
        """
        known = self._given.sigma or self.sigma
        sigmas = [known if late else _MODEL_ERROR, *[_MOVED if moved else _NOT_MOVED] * 2]
        prior = 1.0 / np.array([*sigmas, _GYROSCOPE, pitching]) ** 2
        mean = np.zeros(len(prior))
        mean[0] = self._given.value - self.latency - self._fix_latency
        covariance = np.linalg.inv(self._information + np.diag(prior))
        return covariance @ (self._vector + prior * mean), covariance, mean, prior

    def _calc_squares(self, found: np.ndarray) -> float:
        """Sum of the squares that all windows have left, with these values of the shared unknowns."""
        return self._squares - 2.0 * float(found @ self._vector) + float(found @ self._information @ found)

    @property
    def _alike(self) -> float:
        """How far ahead, over a latency, an antenna would be that has the same effect on the windows, m/s."""
        of_antenna = self._information[_AHEAD, _AHEAD]
        return abs(float(self._information[0, _AHEAD] / of_antenna)) if of_antenna > 0.0 else 0.0

    def _decide(self) -> float:
        settled = abs(self._fix_latency - self._latency_before) < _SETTLED
        self._latency_before = self._fix_latency
        self._suspected, self._alike_most = self._find_suspected(), self._alike
        if self._is_told_apart and self._has_moved():
            self.moved = self._find_antenna()
        self.place_doubt = self._alike * self.doubt
        change, _ = self._explain()
        if not (settled and self._is_certain()) or abs(self.latency + change) > _LARGEST:
            return 0.0
        self._found = True
        self._move(change)
        return change

    def _is_certain(self) -> bool:
        """Whether the time of samples that windows show is to be used."""
        if not (self._is_told_apart and self.has_reference()):
            return False
        # By the estimate's attitude, small errors of that seem to be a wrong time.
        return self.is_levelled or self._found or all(map(self._is_wrong, _LATE_PITCHING))

    def find_offset(self, speed: float) -> float:
        """m: by how much the antenna may seem to be elsewhere, at a speed (m/s), as samples are of another time."""
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
        """Take samples as older by `change`, s, as other sensors than receivers show; begin another window.

        These know it better than the windows do: as before, only a clear contradiction changes it.
        """
        self._move(change)
        self._comparison = None
        self.interrupt()

    def denies(self, change: float) -> bool:
        """Whether samples may well be in time, although the filter's latency of fixes shows them `change` (s) older.

        Wheels that slip otherwise than the model's make that latency wrong, but not the windows.
        """
        if abs(self.latency + change) < abs(self.latency):
            return False
        beside_fixes, sigma, _ = self._solve()
        found = np.array([change, beside_fixes - self._fix_latency])
        weights = 1.0 / np.array([_BY_SLIP, sigma]) ** 2
        # Of the difference of −2 ln of two evidences: a latency that is zero, and the most likely one.
        late = float(weights @ found) / (float(weights.sum()) + 1.0 / self.sigma**2)
        gain = float(weights @ (found**2 - (found - late) ** 2)) - (late / self.sigma) ** 2
        return gain < _STRONG

    def _move(self, change: float) -> None:
        self.latency += change
        # The problem is linear: what has been summed up becomes that of samples of the new times.
        self._squares += change * (change * self._information[0, 0] - 2.0 * self._vector[0])
        self._vector -= change * self._information[:, 0]

    def _has_moved(self, pitching: float | None = None) -> bool:
        """Whether the antenna is elsewhere by the better explanation, with samples that are late or not."""
        return self._compare_places(pitching) < 0.0

    def _compare_places(self, pitching: float | None = None) -> float:
        """By how much −2 ln of the evidence speaks for an antenna that is in its place."""
        moved, right = (
            min(self._solve(late, m, pitching)[2] for late in (True, False)) for m in (True, False)
        )
        return moved - right

    def _is_wrong(self, pitching: float) -> bool:
        """Whether the configured latency is, with that σ of late pitching, s."""
        change, sigma = self._explain(pitching)
        # Neither an antenna elsewhere nor nothing must be the better explanation.
        right, late = (
            min(self._solve(late, m, pitching)[2] for m in (True, False)) for late in (False, True)
        )
        return abs(change) > _CONTRADICTION * math.hypot(sigma, _MODEL_ERROR) and late < right - _POSITIVE


def compare_paths(
    samples: np.ndarray, at: np.ndarray, fixes: np.ndarray, yaw: float, arm: complex, height: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Compare fixes with the path that samples give, in complex numbers x + i y.

    Parameters: samples (n, 6) of time, yaw rate, accelerations ahead and to the left, and rises of these axes; times
    `at` (m,) and places `fixes` (m,) of the antenna; yaw at the first sample, rad; `arm` from IMU to antenna, and its
    `height` above the IMU, m, by which it moves as the car leans.

    Returns the residuals (2m,), real parts first; their derivatives by the unknowns of the window `_OWN` (2m, 10) and
    of all windows `_SHARED` (2m, 5).
    """
    t, yaw_rate, force = samples[:, 0], samples[:, 1], samples[:, 2] + 1j * samples[:, 3]

    def integrate(rate: np.ndarray) -> np.ndarray:
        steps = 0.5 * (rate[1:] + rate[:-1]) * np.diff(t)
        return np.concatenate([np.zeros(1, rate.dtype), np.cumsum(steps)])

    def sample(path: np.ndarray) -> np.ndarray:
        found: np.ndarray = np.interp(at, t, path)
        return found

    def travel(acceleration: np.ndarray) -> np.ndarray:
        return sample(integrate(integrate(acceleration)))

    heading = np.exp(1j * (yaw + integrate(yaw_rate)))
    velocity = integrate(heading * force)
    since = at - t[0]
    turned = sample(heading)
    leaned = -height * heading * (samples[:, 4] + 1j * samples[:, 5])
    path = sample(integrate(velocity) + leaned) + turned * arm
    one = np.ones(len(at))
    own = [
        *(one, 1j * one, since, 1j * since, 1j * path),
        *(travel(heading), travel(1j * heading)),
        *(travel(heading * force.real), travel(1j * heading * force.imag)),
        travel(1j * heading * np.gradient(force.imag, t)),
    ]
    shared = [
        # A sample of t + τ is taken for one of t: the path is as it was τ before.
        sample(velocity + np.gradient(leaned, t)) + 1j * sample(yaw_rate) * turned * arm,
        turned,
        1j * turned,
        travel(1j * heading * force * (t - t[0])) + 1j * since * (turned * arm + sample(leaned)),
        travel(heading * np.gradient(force.real, t)),
    ]

    def split(column: np.ndarray) -> np.ndarray:
        return np.concatenate([column.real, column.imag])

    residual = split(fixes - path)
    return residual, np.column_stack([split(c) for c in own]), np.column_stack([split(c) for c in shared])
