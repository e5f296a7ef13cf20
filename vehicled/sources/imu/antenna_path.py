"""Path of an antenna by integrated samples of the IMU, compared with fixes."""

from __future__ import annotations

import numpy as np


def compare_paths(
    samples: np.ndarray, at: np.ndarray, fixes: np.ndarray, yaw: float, arm: complex, height: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Compare fixes with the path from integrated samples, in complex numbers x + i y.

    `samples`: (n, 6) time, yaw rate, forward and lateral acceleration, and rises of these axes; `at`: (m,)
    times, and `fixes`: (m,) places of the antenna; `yaw`: at the first sample, rad; `arm`: from IMU to
    antenna, m, and `height`: of the antenna above the IMU, m, due to which it moves as the car leans.

    Returns residuals (2m,), real parts first, and their derivatives by the unknowns of the window (2m, 10), and by
    those of all windows (2m, 5): `OWN` and `SHARED` in `path_sums.py`.
    """
    t, yaw_rate, force = samples[:, 0], samples[:, 1], samples[:, 2] + 1j * samples[:, 3]
    since, steps = t - t[0], np.diff(t)
    before = np.clip(np.searchsorted(t, at, "right") - 1, 0, len(steps) - 1)
    share = (at - t[before]) / steps[before]

    # Several quantities at once, (…, n) and (…, m): this is part of the real-time step.
    def integrate(rate: np.ndarray) -> np.ndarray:
        path = np.zeros_like(rate)
        np.cumsum(0.5 * (rate[..., 1:] + rate[..., :-1]) * steps, axis=-1, out=path[..., 1:])
        return path

    def sample(path: np.ndarray) -> np.ndarray:
        found = path.take(before, axis=-1)
        found += share * (path.take(before + 1, axis=-1) - found)
        return found

    heading = np.exp(1j * (yaw + integrate(yaw_rate)))
    leaned = -height * heading * (samples[:, 4] + 1j * samples[:, 5])
    change, one = np.gradient(force, t), np.ones(len(t))
    # Accelerations by the biases ahead, left, pitching, rolling; by late rolling; by gyroscope and late pitching.
    biases = one, 1j * one, force.real, 1j * force.imag
    parts = np.array([*biases, 1j * change.imag, 1j * force * since, change.real, force])
    velocities = integrate(heading * parts)
    *of_biases, late_rolling, by_gyroscope, late_pitching, travelled = sample(integrate(velocities))
    turned, lean, rate, moving = sample(
        np.array([heading, leaned, yaw_rate, velocities[-1] + np.gradient(leaned, t)])
    )
    path = travelled + lean + turned * arm
    start, elapsed = np.ones(len(at)), at - t[0]
    own = [start, 1j * start, elapsed, 1j * elapsed, 1j * path, *of_biases, late_rolling]
    shared = [
        # A sample taken for one of t is of t − τ: the path is as it was τ before.
        moving + 1j * rate * turned * arm,
        turned,
        1j * turned,
        by_gyroscope + 1j * elapsed * (turned * arm + lean),
        late_pitching,
    ]

    def split(columns: list[np.ndarray]) -> np.ndarray:
        found = np.array(columns)
        return np.concatenate([found.real, found.imag], axis=1).T

    return split([fixes - path])[:, 0], split(own), split(shared)
