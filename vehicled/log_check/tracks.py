"""Compares a receiver's positions with the path that its courses and a measured speed give.

Over a window positions p are z + κ ∫ v u dt − μ ∫ v̇ u dt, with speed v and direction u: κ is what the speed
lacks, and μ / κ by how much the positions are later than it, to first order. Both integrals are known, and z,
κ and μ are found by least squares, as complex numbers: east and north.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from vehicled.log_check.grid import STEP, derive, smooth
from vehicled.maths.geodesy import MEAN_RADIUS

_LEAST_SAMPLES = 500
_LEAST_DISTANCE = 50.0
"""Least distance driven in a window, m."""
_HALF_CHORD = 25
"""Half the length of the chord that gives the direction of the positions, steps."""
_LEAST_CHORD = 3.0
"""Least length of the chord, m."""
_STRAIGHT = 0.9
"""Least agreement of courses and positions for fitting the path."""
_SYSTEMATIC = 0.01
"""Standard deviation, s, of an error common to all windows: latencies of speeds, smoothing of fixes."""
LEAST_ACCELERATION = 0.2
"""m/s², root mean square: with less, speeds show no time offset, as in bends they differ by some parts in a thousand.
"""
_AVERAGED = 1.0
"""Length of the average for `LEAST_ACCELERATION`, s."""
_LEAST_SIGMA = 0.01
"""Least standard deviation of the time offset of one window, s."""
AS_GIVEN, IN_DEGREES, FROM_EAST, OPPOSITE_LONGITUDE, EXCHANGED = range(5)
"""Possible meanings of positions and courses in a log."""


@dataclass(frozen=True)
class MeasuredSpeed:
    """Speed of the antenna, (n,) m/s on the grid of times."""

    speed: np.ndarray
    varied: tuple[np.ndarray, ...] = ()
    """(n,) each: the speed with one property of the car changed by its standard deviation."""


@dataclass(frozen=True)
class MeasuredPath:
    """Path in a window, on the grid of times."""

    latitude: np.ndarray
    """deg."""
    longitude: np.ndarray
    """deg."""
    course: np.ndarray
    """Course as in the log, by definition in rad clockwise from north."""
    speeds: Mapping[str, MeasuredSpeed]
    """Speeds by the name of their source."""


@dataclass(frozen=True)
class Agreement:
    """Agreement of the directions in which positions move with the courses."""

    angle: float
    """Angle from the courses to the directions of the positions, rad, positive to the left."""
    share: float
    """1 if the angle is always the same, near 0 if it is arbitrary."""


@dataclass(frozen=True)
class PathFit:
    """Fit of the path from one speed to the positions."""

    factor: float
    """Ratio of the positions' speed to the measured one."""
    latency: float
    """Delay of the positions relative to the speed, s; NaN without changes of speed."""
    sigma: float
    """Standard deviation of the latency, s."""


@dataclass
class _Sums:
    distance: float = 0.0
    factor: float = 0.0
    """Sum of the windows' factors, each times its distance."""
    latencies: list[tuple[float, float]] = field(default_factory=list)
    """Latency and its standard deviation, s, of each window."""
    modelled: list[list[float]] = field(default_factory=list)
    """Change of each latency, s, by one standard deviation of each property of the car."""


class TrackFinder:
    """Collects windows; needs memory for a few numbers per window."""

    def __init__(self) -> None:
        self._directions = np.zeros(5, dtype=complex)
        """For each possible meaning: sum of the unit vectors of the directions, rotated back by the
        courses."""
        self._chords = 0
        self._sums: dict[str, _Sums] = {}

    def take(self, track: MeasuredPath | None) -> None:
        """Take the path of a window."""
        if track is None:
            return
        known = np.isfinite(track.latitude) & np.isfinite(track.longitude) & np.isfinite(track.course)
        if known.sum() < _LEAST_SAMPLES:
            return
        latitude, longitude, course = track.latitude[known], track.longitude[known], track.course[known]
        places, direction = _place(latitude, longitude), np.exp(1j * (0.5 * math.pi - course))
        moved, directions = _find_directions(places)
        if not moved.any():
            return
        variants = (
            directions * direction.conj(),
            directions * np.exp(-1j * (0.5 * math.pi - np.radians(course))),
            directions * np.exp(-1j * course),
            _find_directions(_place(latitude, -longitude))[1] * direction.conj(),
            _find_directions(_place(longitude, latitude))[1] * direction.conj(),
        )
        turned = np.array([v[moved].sum() for v in variants])
        self._directions += turned
        self._chords += int(moved.sum())
        if abs(turned[AS_GIVEN]) < _STRAIGHT * moved.sum():
            return
        for name, speed in track.speeds.items():
            self._fit(name, places, direction, speed.speed[known], [v[known] for v in speed.varied])

    def _fit(
        self,
        name: str,
        places: np.ndarray,
        direction: np.ndarray,
        speed: np.ndarray,
        varied: Sequence[np.ndarray],
    ) -> None:
        inside = np.isfinite(speed)
        for other in varied:
            inside &= np.isfinite(other)
        v, u, p = np.abs(speed[inside]), direction[inside], places[inside]
        distance = float(v.sum()) * STEP
        if len(v) < _LEAST_SAMPLES:
            return
        columns = _find_columns(v, u)
        found, _, rank, _ = np.linalg.lstsq(columns, p, rcond=None)
        _, kappa, mu = found
        # Distance according to the positions, as the speed may have a wrong unit.
        if rank < 3 or not abs(kappa) * distance > _LEAST_DISTANCE:
            return
        sums = self._sums.setdefault(name, _Sums())
        sums.distance += distance
        sums.factor += abs(kappa) * distance
        if np.nanstd(derive(smooth(v, _AVERAGED))) < LEAST_ACCELERATION:
            return
        modelled = []
        for other in varied:
            moved, *_ = np.linalg.lstsq(_find_columns(np.abs(other[inside]), u), p, rcond=None)
            modelled.append(float((mu / kappa).real - (moved[2] / moved[1]).real))
        rests = p - columns @ found
        variance = float(np.mean(np.abs(rests) ** 2))
        # The number of independent residuals follows from their bandwidth and the duration.
        bandwidth = math.sqrt(float(np.mean(np.abs(np.diff(rests)) ** 2)) / max(variance, 1e-12)) / STEP
        independent = max(len(v) * STEP * bandwidth / math.pi - 3.0, 1.0)
        spread = np.linalg.inv((columns.conj().T @ columns).real)[2, 2] * len(v)
        sigma = math.sqrt(0.5 * variance * spread / independent) / abs(kappa)
        sums.latencies.append((-(mu / kappa).real, math.hypot(sigma, _LEAST_SIGMA)))
        sums.modelled.append(modelled)

    def find_agreements(self, seconds: float) -> list[Agreement] | None:
        """Agreement for each possible meaning; None with less than `seconds` in motion."""
        if self._chords * STEP < seconds:
            return None
        means = self._directions / self._chords
        return [Agreement(math.atan2(m.imag, m.real), float(abs(m))) for m in means]

    def find_fits(self) -> Iterator[tuple[str, PathFit]]:
        """Fits by the name of the speed."""
        for name, sums in self._sums.items():
            factor = sums.factor / sums.distance
            if not sums.latencies:
                yield name, PathFit(factor, math.nan, math.inf)
                continue
            found, sigmas = np.array(sums.latencies).T
            weights = sigmas**-2.0
            mean = float(weights @ found / weights.sum())
            scatter = float(weights @ (found - mean) ** 2) / max(len(found) - 1, 1)
            modelled = weights @ np.array(sums.modelled) / weights.sum()
            spread = math.sqrt(max(scatter, 1.0) / float(weights.sum()))
            sigma = math.hypot(spread, _SYSTEMATIC, *modelled)
            yield name, PathFit(factor, mean, sigma)


def _find_columns(v: np.ndarray, u: np.ndarray) -> np.ndarray:
    """(n, 3) columns of the least-squares problem: initial place, scale of the speed, time offset."""
    driven, changed = np.cumsum(v * u) * STEP, np.cumsum(np.gradient(v) * u)
    return np.stack([np.ones_like(u), driven, changed], axis=1)


def _place(latitude: np.ndarray, longitude: np.ndarray) -> np.ndarray:
    """Places as east + i north, m, relative to the first one."""
    east = np.unwrap(longitude, period=360.0) - longitude[0]
    placed: np.ndarray = (
        math.radians(1.0)
        * MEAN_RADIUS
        * (east * math.cos(math.radians(latitude[0])) + 1j * (latitude - latitude[0]))
    )
    return placed


def _find_directions(places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(n,) whether the positions move, and the unit vectors of their directions."""
    chords = np.zeros_like(places)
    chords[_HALF_CHORD:-_HALF_CHORD] = places[2 * _HALF_CHORD :] - places[: -2 * _HALF_CHORD]
    lengths = np.abs(chords)
    return lengths > _LEAST_CHORD, chords / np.maximum(lengths, 1e-9)
