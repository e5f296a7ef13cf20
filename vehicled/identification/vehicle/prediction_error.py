"""Prediction error of the filter on a drive, and its derivatives by the parameters.

The criterion is the negative logarithm of the likelihood of all measurements, by the innovations ν of the
filter that runs in the car and their covariance S: ½ Σ νᵀS⁻¹ν + ln |S| (Schweppe 1965; Ljung, System
Identification, section 7.4). Components are decorrelated as in the filter. Beyond the gate g, at r times the
gate, a measurement counts g (1 + ln r) instead of its NIS: an outlier has little influence on the search, but
a rejection never improves the criterion.
"""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from vehicled.configuration import Configuration
from vehicled.errors import RunError
from vehicled.identification.vehicle.observed import Change, Decorrelated, ObservedEstimator
from vehicled.messages import Innovation, Step

_log = logging.getLogger(__name__)

SETTLING = 1.0
"""Time after the start of the filter, s, during which innovations depend on how it was started."""
LEAST_SPEED = 3.0
"""m/s: near standstill the tyres stick, and innovations do not depend on the car's parameters."""
AT_LIMIT = 2.0
"""s: shortest time at the limit of grip that shows friction."""
_MOST_REJECTED = 0.2
"""Largest share of a sensor's observations that the filter rejects if the configuration is about right."""
_WORSE = 0.02
"""Largest increase of the mean of ½ (ν²/S + ln S): the effect of a standard deviation that is wrong by 14
%."""
_BLOCK_NS = 1_000_000_000
"""Length of blocks over which gradients are summed, ns: longer than the correlation of innovations."""


@dataclass
class SensorError:
    """Prediction error of one kind of observation."""

    count: int = 0
    rejected: int = 0
    nis: float = 0.0
    """Sum over the accepted observations, per component."""
    likelihood: float = 0.0
    """Sum of ½ (νᵀS⁻¹ν + ln |S|)."""

    @property
    def mean_nis(self) -> float:
        """Mean NIS of the accepted observations: 1 if the filter is consistent."""
        accepted = self.count - self.rejected
        return self.nis / accepted if accepted else math.nan


@dataclass
class PredictionError:
    """Prediction error of a drive, by sensor and as a whole."""

    sensors: dict[str, SensorError] = field(default_factory=dict)

    @property
    def criterion(self) -> float:
        """Sum of ½ (νᵀS⁻¹ν + ln |S|) over all observations: the negative log likelihood, up to a constant."""
        return sum(s.likelihood for s in self.sensors.values())

    @property
    def count(self) -> int:
        """Number of observations."""
        return sum(s.count for s in self.sensors.values())

    @property
    def mean(self) -> float:
        """The criterion per observation."""
        return self.criterion / self.count

    def is_better_than(self, other: PredictionError) -> bool:
        """Whether all observations together are predicted better, and no kind of observation worse.

        Samples of an IMU are so many that errors of other kinds, such as positions, have no weight in the
        sum.
        """
        means = {name: s.likelihood / s.count for name, s in other.sensors.items() if s.count}
        worse = [
            name
            for name, s in self.sensors.items()
            if s.count and s.likelihood / s.count > means[name] + _WORSE
        ]
        return self.mean < other.mean and not worse

    def describe_rejected(self) -> list[str]:
        """Sensors of whose observations the filter has rejected many: then it has not followed the car."""
        return [
            f"{name}: {s.rejected} of {s.count} observations are rejected with these values: they and their standard "
            "deviations may be wrong, as another value of the file is, or as the search has ended beside the solution"
            for name, s in self.sensors.items()
            if s.rejected > _MOST_REJECTED * s.count
        ]

    def __add__(self, other: PredictionError) -> PredictionError:
        sensors = {name: SensorError(**vars(s)) for name, s in self.sensors.items()}
        for name, s in other.sensors.items():
            mine = sensors.setdefault(name, SensorError())
            for key, value in vars(s).items():
                setattr(mine, key, getattr(mine, key) + value)
        return PredictionError(sensors)

    def add(self, record: Innovation, log_determinant: float) -> None:
        """Count an innovation, with ln det S of its covariance; beyond its gate it counts logarithmically."""
        sensor = self.sensors.setdefault(record.sensor, SensorError())
        sensor.count += 1
        nis = record.nis
        if record.test_ratio > 1.0:
            sensor.rejected += 1
            nis *= (1.0 + math.log(record.test_ratio)) / record.test_ratio
        else:
            sensor.nis += nis / len(record.innovation)
        sensor.likelihood += 0.5 * (nis + log_determinant)


@dataclass
class Derivatives:
    """Derivatives of the criterion by the parameters."""

    gradient: np.ndarray
    """(p,)"""
    information: np.ndarray
    """(p, p) as expected if the filter's covariances are right (Fisher)."""
    blocks: np.ndarray
    """(n, p) parts of the gradient from successive stretches of time."""

    def of(self, places: Sequence[int]) -> Derivatives:
        """The derivatives by some of the parameters only."""
        k = np.array(places, dtype=int)
        return Derivatives(self.gradient[k], self.information[np.ix_(k, k)], self.blocks[:, k])

    def __add__(self, other: Derivatives) -> Derivatives:
        blocks = np.concatenate([self.blocks, other.blocks])
        return Derivatives(self.gradient + other.gradient, self.information + other.information, blocks)


@dataclass(frozen=True)
class ScoredDrive:
    """Steps of a log, and the steps that are evaluated: the same for all parameters."""

    steps: Sequence[Step]
    counting: frozenset[int]
    """Times of the evaluated steps, ns."""

    @classmethod
    def of(cls, configuration: Configuration, steps: Sequence[Step]) -> ScoredDrive:
        """A drive, evaluated at steps where the filter of a configuration has settled and the car moves."""
        return cls(steps, survey(configuration, cls(steps, frozenset())).counting)

    @property
    def length(self) -> float:
        """Time from the first to the last step, s."""
        return (self.steps[-1].t - self.steps[0].t) * 1e-9

    def after(self, share: float) -> ScoredDrive:
        """The evaluated steps after a share of its time; the filter still runs from the beginning."""
        border = self.steps[0].t + round(share * self.length * 1e9)
        return ScoredDrive(self.steps, frozenset(t for t in self.counting if t >= border))

    def before(self, share: float) -> ScoredDrive:
        """The part of the drive before a share of its time."""
        border = self.steps[0].t + round(share * self.length * 1e9)
        steps = [s for s in self.steps if s.t < border]
        return ScoredDrive(steps, frozenset(t for t in self.counting if t < border))


class Survey(NamedTuple):
    """What a drive contains, by the filter of a configuration."""

    counting: frozenset[int]
    """Times of the steps, ns, at which the filter has settled and the car moves."""
    cornering: float
    """Speed times yaw rate, m/s², which is exceeded for `AT_LIMIT` s in all; 0 in a shorter drive."""


def survey(
    configuration: Configuration, drive: ScoredDrive, progress: Callable[[float], None] | None = None
) -> Survey:
    """Run the filter of a configuration through a drive.

    Warns if that filter, which takes all parameters as known, loses the car.
    """
    estimator, counting, cornering = ObservedEstimator(configuration), [], []
    started: int | None = None
    lost: str | None = None
    for t in estimator.run(drive.steps):
        if lost is None and estimator.loss is not None:
            lost = f"{t * 1e-9:.1f} s ({estimator.loss})"
        if started is None and estimator.observations:
            started = t
        if started is not None and t - started >= SETTLING * 1e9 and abs(estimator.speed) > LEAST_SPEED:
            counting.append(t)
            cornering.append(abs(estimator.speed * estimator.yaw_rate))
        if progress is not None:
            progress((t - drive.steps[0].t) * 1e-9)
    if lost is not None:
        _log.warning(
            "with the parameters of the file taken as known, the filter loses the car at %s: the search may take "
            "long and find nothing. Expected a drive further from the limit of grip, or figures nearer to the car",
            lost,
        )
    number = round(AT_LIMIT * len(drive.steps) / max(drive.length, AT_LIMIT))
    return Survey(frozenset(counting), sorted(cornering)[-number] if number <= len(cornering) else 0.0)


def measure(
    configuration: Configuration, drive: ScoredDrive, progress: Callable[[float], None] | None = None
) -> PredictionError:
    """Prediction error of a configuration on a drive; `progress` receives the seconds done.

    Raises RunError if no step of it is evaluated.
    """
    error = PredictionError()
    for _, pairs in _run(ObservedEstimator(configuration), drive, progress):
        for record, observed in pairs:
            error.add(record, -float(np.log(observed.precision).sum()))
    return _checked(error)


def calc_nis_over_time(configuration: Configuration, drive: ScoredDrive) -> dict[str, np.ndarray]:
    """(n, 2) by kind of observation: time since the drive's start, s, and mean NIS per component.

    The mean is over the second before that time, of the accepted observations.
    """
    sums: dict[str, dict[int, np.ndarray]] = {}
    for t, pairs in _run(ObservedEstimator(configuration), drive, None):
        second = (t - drive.steps[0].t) // 1_000_000_000
        for record, observed in pairs:
            here = sums.setdefault(record.sensor, {}).setdefault(second, np.zeros(2))
            if record.test_ratio <= 1.0:
                here += record.nis, len(observed.innovation)
    return {
        sensor: np.array([(second + 1, total / count) for second, (total, count) in seconds.items() if count])
        for sensor, seconds in sums.items()
    }


def differentiate(
    configuration: Configuration,
    changes: Sequence[Change],
    drive: ScoredDrive,
    progress: Callable[[float], None] | None = None,
) -> tuple[PredictionError, Derivatives]:
    """`measure`, with derivatives by the parameters changed in `changes`."""
    error, p = PredictionError(), len(changes)
    information, blocks = np.zeros((p, p)), []
    stream = _run(ObservedEstimator(configuration, changes), drive, progress)
    for _, block in itertools.groupby(stream, lambda step: step[0] // _BLOCK_NS):
        pairs = [pair for _, of_step in block for pair in of_step]
        for record, observed in pairs:
            error.add(record, -float(np.log(observed.precision).sum()))
        if pairs:
            gradient, more = _derivatives(pairs, p)
            blocks.append(gradient)
            information += more
    stacked = np.array(blocks).reshape(-1, p)
    return _checked(error), Derivatives(stacked.sum(axis=0), information, stacked)


def _derivatives(pairs: Sequence[tuple[Innovation, Decorrelated]], p: int) -> tuple[np.ndarray, np.ndarray]:
    """Gradient (p,) and information (p, p) of observations."""
    observed = [o for _, o in pairs]
    nu, w = (np.concatenate([getattr(o, n) for o in observed]) for n in ("innovation", "precision"))
    d_nu, d_w = (
        np.concatenate([getattr(o, n) for o in observed])[:, :p] for n in ("d_innovation", "d_precision")
    )
    beyond = [max(r.test_ratio, 1.0) for r, _ in pairs]
    d_log, weight = d_w / w[:, None], w / np.repeat(beyond, [len(o.innovation) for o in observed])
    gradient = (weight * nu) @ d_nu + (0.5 * weight * nu * nu - 0.5) @ d_log
    return gradient, (d_nu * weight[:, None]).T @ d_nu + 0.5 * d_log.T @ d_log


def _run(
    estimator: ObservedEstimator, drive: ScoredDrive, progress: Callable[[float], None] | None
) -> Iterator[tuple[int, list[tuple[Innovation, Decorrelated]]]]:
    """For each evaluated step: its time, ns, and its observations."""
    for t in estimator.run(drive.steps):
        if t in drive.counting:
            yield t, estimator.observations
        if progress is not None:
            progress((t - drive.steps[0].t) * 1e-9)


def _checked(error: PredictionError) -> PredictionError:
    if error.count == 0:
        raise RunError("nothing to compare: the filter never started, or the car never moved")
    if not math.isfinite(error.criterion):
        raise RunError("the filter diverged: its innovations are not finite")
    return error
