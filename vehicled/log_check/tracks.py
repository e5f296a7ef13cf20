"""The positions of a receiver beside the path that its courses and a measured speed give.

Over a window positions p are z + κ ∫ v u dt − μ ∫ v̇ u dt, with speed v and direction u: κ is what the speed lacks,
and μ / κ by how much the positions are later than it, to first order. Both integrals are known, and z, κ and μ are
found by least squares, as complex numbers: east and north.
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
"""m, of a window."""
_HALF_CHORD = 25
"""Steps to either side, between which the direction of the positions is taken."""
_LEAST_CHORD = 3.0
"""m."""
_STRAIGHT = 0.9
"""Agreement of courses and positions from which on their path is fitted."""
_SYSTEMATIC = 0.01
"""s: latencies of speeds and of the smoothing of fixes, the same in all windows."""
LEAST_ACCELERATION = 0.2
"""m/s², root mean square: with less, speeds show no time offset, as in bends they differ by some parts in a thousand.
"""
_AVERAGED = 1.0
"""s, for that."""
_LEAST_SIGMA = 0.01
"""s, of one window: no path is known better."""
AS_GIVEN, IN_DEGREES, FROM_EAST, OPPOSITE_LONGITUDE, EXCHANGED = range(5)
"""What positions and courses may be."""


@dataclass(frozen=True)
class MeasuredSpeed:
    """Of the antenna, (n,) m/s on the grid of times."""

    speed: np.ndarray
    varied: tuple[np.ndarray, ...] = ()
    """(n,) each: with one property of the car changed by its standard deviation."""


@dataclass(frozen=True)
class MeasuredPath:
    """Of a window, on the grid of times."""

    latitude: np.ndarray
    """deg."""
    longitude: np.ndarray
    """deg."""
    course: np.ndarray
    """rad, clockwise from north, as it is in the log."""
    speeds: Mapping[str, MeasuredSpeed]
    """By the name of what measures it."""


@dataclass(frozen=True)
class Agreement:
    """Of the directions in which positions move with the courses."""

    angle: float
    """rad, by which the positions move more to the left than the courses have it."""
    share: float
    """1 where that angle is always the same, near 0 where it may be any."""


@dataclass(frozen=True)
class PathFit:
    """Of the path by one speed to the positions."""

    factor: float
    """Speed of the positions over the measured one."""
    latency: float
    """s, by which the positions are later than the speed; NaN without changes of speed."""
    sigma: float
    """s, standard deviation of it."""


@dataclass
class _Sums:
    distance: float = 0.0
    factor: float = 0.0
    """Times distance."""
    latencies: list[tuple[float, float]] = field(default_factory=list)
    """With the standard deviation, s, by window."""
    modelled: list[list[float]] = field(default_factory=list)
    """s, by how much one standard deviation of each property of the car changes them."""


class TrackFinder:
    """Gathers windows; its memory grows by some numbers for each."""

    def __init__(self) -> None:
        self._directions = np.zeros(5, dtype=complex)
        """By what positions and courses may be: sum of unit vectors, turned back by the courses."""
        self._chords = 0
        self._sums: dict[str, _Sums] = {}

    def take(self, track: MeasuredPath | None) -> None:
        """Take what a window has."""
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
        # By the positions, as the speed may be in another unit.
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
        # As many rests are independent as their bandwidth has room for in that time.
        bandwidth = math.sqrt(float(np.mean(np.abs(np.diff(rests)) ** 2)) / max(variance, 1e-12)) / STEP
        independent = max(len(v) * STEP * bandwidth / math.pi - 3.0, 1.0)
        spread = np.linalg.inv((columns.conj().T @ columns).real)[2, 2] * len(v)
        sigma = math.sqrt(0.5 * variance * spread / independent) / abs(kappa)
        sums.latencies.append((-(mu / kappa).real, math.hypot(sigma, _LEAST_SIGMA)))
        sums.modelled.append(modelled)

    def find_agreements(self, seconds: float) -> list[Agreement] | None:
        """By what positions and courses may be; None with less than these `seconds` in motion."""
        if self._chords * STEP < seconds:
            return None
        means = self._directions / self._chords
        return [Agreement(math.atan2(m.imag, m.real), float(abs(m))) for m in means]

    def find_fits(self) -> Iterator[tuple[str, PathFit]]:
        """By the name of a speed."""
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
    """(n, 3): what the place at the beginning, the speed's scale and the time offset add to positions."""
    driven, changed = np.cumsum(v * u) * STEP, np.cumsum(np.gradient(v) * u)
    return np.stack([np.ones_like(u), driven, changed], axis=1)


def _place(latitude: np.ndarray, longitude: np.ndarray) -> np.ndarray:
    """East + i north, m, from the first one."""
    east = np.unwrap(longitude, period=360.0) - longitude[0]
    placed: np.ndarray = (
        math.radians(1.0)
        * MEAN_RADIUS
        * (east * math.cos(math.radians(latitude[0])) + 1j * (latitude - latitude[0]))
    )
    return placed


def _find_directions(places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(n,) where they move, and the unit vectors of that."""
    chords = np.zeros_like(places)
    chords[_HALF_CHORD:-_HALF_CHORD] = places[2 * _HALF_CHORD :] - places[: -2 * _HALF_CHORD]
    lengths = np.abs(chords)
    return lengths > _LEAST_CHORD, chords / np.maximum(lengths, 1e-9)
