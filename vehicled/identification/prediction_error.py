"""How badly the filter predicts a drive, and how that changes with its parameters.

The criterion is the negative logarithm of the likelihood of all measurements, by the innovations ν of the very
filter that runs in the car and their covariance S: ½ Σ νᵀS⁻¹ν + ln |S| (Schweppe 1965; Ljung, System
Identification, section 7.4). Components are taken as the filter decorrelates them. A measurement that fails its gate
counts as one that just passes it, so that nothing is gained by having measurements refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from replay.steps import Step
from vehicled.configuration import Configuration
from vehicled.errors import RunError
from vehicled.identification.differentiated import Change, DifferentiatedEstimator
from vehicled.identification.watched import Judged, WatchedEstimator
from vehicled.messages import Innovation

SETTLING_NS = 1_000_000_000
"""After the start of the filter: what it says until then tells of how it was started."""
_BLOCK_NS = 1_000_000_000
"""Gradients are summed over blocks of this length: longer than innovations remember each other."""


@dataclass
class SensorError:
    """Prediction error of one kind of observation."""

    count: int = 0
    refused: int = 0
    nis: float = 0.0
    """Sum over those that were not refused, per component."""
    likelihood: float = 0.0
    """Sum of ½ (νᵀS⁻¹ν + ln |S|)."""

    @property
    def mean_nis(self) -> float:
        """1 when the filter knows how well it predicts."""
        fused = self.count - self.refused
        return self.nis / fused if fused else math.nan


@dataclass
class PredictionError:
    """Of a drive."""

    sensors: dict[str, SensorError] = field(default_factory=dict)
    first_ns: int | None = None

    @property
    def criterion(self) -> float:
        return sum(s.likelihood for s in self.sensors.values())

    @property
    def count(self) -> int:
        return sum(s.count for s in self.sensors.values())

    def __add__(self, other: PredictionError) -> PredictionError:
        sensors = {name: SensorError(**vars(s)) for name, s in self.sensors.items()}
        for name, s in other.sensors.items():
            mine = sensors.setdefault(name, SensorError())
            for key, value in vars(s).items():
                setattr(mine, key, getattr(mine, key) + value)
        return PredictionError(sensors, self.first_ns)

    def begins(self, step_ns: int) -> bool:
        """Whether the filter has settled at that time; it starts with the first call."""
        if self.first_ns is None:
            self.first_ns = step_ns
        return step_ns - self.first_ns >= SETTLING_NS

    def add(self, record: Innovation, log_determinant: float) -> None:
        sensor = self.sensors.setdefault(record.sensor, SensorError())
        sensor.count += 1
        surprise = record.nis
        if record.test_ratio > 1.0:
            sensor.refused += 1
            surprise /= record.test_ratio
        else:
            sensor.nis += surprise / len(record.innovation)
        sensor.likelihood += 0.5 * (surprise + log_determinant)


@dataclass
class Derivatives:
    """Of the criterion by the parameters."""

    gradient: np.ndarray
    """(p,)"""
    information: np.ndarray
    """(p, p) as expected if the filter's covariances are right (Fisher)."""
    blocks: np.ndarray
    """(n, p) parts of the gradient from successive stretches of time."""

    def __add__(self, other: Derivatives) -> Derivatives:
        blocks = np.concatenate([self.blocks, other.blocks])
        return Derivatives(
            self.gradient + other.gradient, self.information + other.information, blocks
        )


def measure(
    configuration: Configuration, steps: Iterable[Step], progress: Callable[[float], None] | None = None
) -> PredictionError:
    """Prediction error of a configuration on a drive; `progress` is told the seconds done. RunError when the filter
    does not start."""
    estimator = WatchedEstimator(configuration)
    error = PredictionError()
    for t_s, pairs in _run(estimator, steps, error):
        for record, judged in pairs:
            error.add(record, -float(np.log(judged.precision).sum()))
        if progress is not None:
            progress(t_s)
    return _checked(error)


def differentiate(
    configuration: Configuration,
    changes: Sequence[Change],
    steps: Iterable[Step],
    progress: Callable[[float], None] | None = None,
) -> tuple[PredictionError, Derivatives]:
    """As `measure`, with the derivatives by the parameters that `changes` are changes of."""
    estimator = DifferentiatedEstimator(configuration, changes)
    error, p = PredictionError(), len(changes)
    information = np.zeros((p, p))
    blocks: dict[int, np.ndarray] = {}
    for t_s, pairs in _run(estimator, steps, error):
        block = blocks.setdefault(int(t_s * 1e9) // _BLOCK_NS, np.zeros(p))
        for record, judged in pairs:
            error.add(record, -float(np.log(judged.precision).sum()))
            _add_derivatives(judged, record.test_ratio <= 1.0, block, information)
        if progress is not None:
            progress(t_s)
    stacked = np.array(list(blocks.values())).reshape(-1, p)
    return _checked(error), Derivatives(stacked.sum(axis=0), information, stacked)


def _add_derivatives(j: Judged, fused: bool, gradient: np.ndarray, information: np.ndarray) -> None:
    p = len(gradient)
    nu, w, d_nu = j.innovation, j.precision, j.d_innovation[:, :p]
    d_log = j.d_precision[:, :p] / w[:, None]
    gradient -= 0.5 * d_log.sum(axis=0)
    if fused:
        gradient += (w * nu) @ d_nu + (0.5 * w * nu * nu) @ d_log
        information += (d_nu * w[:, None]).T @ d_nu
    information += 0.5 * d_log.T @ d_log


def _run(
    estimator: WatchedEstimator, steps: Iterable[Step], error: PredictionError
) -> Iterator[tuple[float, list[tuple[Innovation, Judged]]]]:
    """By step: time since the first, s, and what was judged."""
    begun: int | None = None
    for t, measurements, _ in steps:
        begun = t if begun is None else begun
        estimator.step(t, measurements)
        judged = estimator.judged()
        if judged and error.begins(t):
            yield (t - begun) * 1e-9, judged


def _checked(error: PredictionError) -> PredictionError:
    if error.count == 0:
        raise RunError("the filter never started: neither position nor speed were measured")
    if not math.isfinite(error.criterion):
        raise RunError("the filter lost its way: its innovations are not finite")
    return error
