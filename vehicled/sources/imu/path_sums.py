"""Sums over windows of what the path of the antenna by the IMU, beside fixes, shows of a few unknowns.

Each window has unknowns of its own, which are eliminated by least squares. Information on the unknowns that all
windows share is added up.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vehicled.sources.imu.antenna_path import compare_paths

FEWEST_FIXES = 16
"""Least number of fixes in a window."""
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
"""Unknowns of all windows: latency of samples, s; place of the antenna relative to the configured one, m; bias of the
gyroscope, rad/s; delay of the pitch, s."""
LATENCY, AHEAD, LEFT = range(3)
_NO_ROWS = np.zeros((len(OWN) - len(_BEGIN), len(SHARED) + 1))
_ITERATIONS = 3


class PathSums:
    """Information of all windows on the unknowns `SHARED`."""

    def __init__(self) -> None:
        size = len(SHARED)
        self._information, self._vector = np.zeros((size, size)), np.zeros(size)
        self._squares = 0.0
        self.freedom = 0
        """Degrees of freedom; with each window, more."""
        self.excess = 1.0
        """By how much fixes scatter more than their σ, squared; at least 1."""

    def add(
        self,
        samples: np.ndarray,
        fixes: np.ndarray,
        yaw: float,
        latency: float,
        arm: complex,
        height: float,
        is_levelled: bool,
    ) -> Iterator[None]:
        """Add a window in parts, each between two values, as this belongs to the real-time step.

        `samples`, `yaw`, `arm`, `height`: as of `compare_paths`; `fixes`: (m, 4) times less the receiver's `latency`
        (s), x, y, and σ (m); `is_levelled`: whether the attitude is by gyroscopes of the same samples.

        The sums are for the latency relative to fixes with their given times, as that of fixes may be found later.
        """
        t = samples[:, 0]
        inside = (fixes[:, 0] > t[0]) & (fixes[:, 0] < t[-1])
        if np.count_nonzero(inside) < FEWEST_FIXES:
            return
        at, sigma = fixes[inside, 0], fixes[inside, 3]
        places = fixes[inside, 1] + 1j * fixes[inside, 2]
        weight = np.concatenate([1.0 / sigma, 1.0 / sigma])[:, None]
        for _ in range(_ITERATIONS):
            residual, own, shared = compare_paths(samples, at, places, yaw, arm, height)
            yield
            both = np.vstack([np.column_stack([shared, residual]) * weight, _NO_ROWS])
            basis, triangle = np.linalg.qr(np.vstack([own * weight, _OWN_PRIOR[is_levelled]]))
            along = basis.T @ both
            # The yaw is the only nonlinear unknown.
            yaw += float(np.linalg.solve(triangle, along[:, -1])[_YAW])
            yield
        both -= basis @ along
        # Fixes were taken as older by their latency, so the samples' latency is smaller by as much.
        both[:, -1] -= latency * both[:, 0]
        products = both.T @ both
        self._information += products[:-1, :-1]
        self._vector += products[:-1, -1]
        self._squares += float(products[-1, -1])
        self.freedom += 2 * len(at) - own.shape[1]
        # If fixes scatter by more than their σ, so does the result. The scatter is taken from the best
        # explanation, as a worse explanation may not fit for other reasons.
        best = self.calc_squares(np.linalg.lstsq(self._information, self._vector)[0])
        self.excess = max(1.0, best / self.freedom)

    def move(self, change: float) -> None:
        """Convert the sums to samples that are older by `change`, s."""
        # The problem is linear.
        self._squares += change * (change * self._information[0, 0] - 2.0 * self._vector[0])
        self._vector -= change * self._information[:, 0]

    def solve(self, mean: np.ndarray, prior: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The unknowns, given `mean` with 1/σ² of `prior`; and their covariance without the factor `excess`."""
        covariance = np.linalg.inv(self._information + np.diag(prior))
        return covariance @ (self._vector + prior * mean), covariance

    def calc_squares(self, found: np.ndarray) -> float:
        """Sum of squared residuals of all windows with these values of the unknowns."""
        return self._squares - 2.0 * float(found @ self._vector) + float(found @ self._information @ found)

    @property
    def alike(self) -> float:
        """Forward displacement of the antenna with the same effect on windows as a latency, per latency, m/s."""
        of_antenna = self._information[AHEAD, AHEAD]
        return abs(float(self._information[LATENCY, AHEAD] / of_antenna)) if of_antenna > 0.0 else 0.0
