"""Noise that drives show before any search: the start of tuning, and settings that drives do not excite.

The noise of a sensor shows in second differences of its samples, without any model; the running filter finds
that of gyroscopes and accelerometers in this way (`sources/imu/noise_floor.py`). Errors of the model show in
the filter's own estimates: with x and its variance P, σ² = mean of x² + P, a step of expectation–maximisation
(`VehicleFilter.adapt_noise`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from vehicled.configuration import Configuration, File
from vehicled.estimator import Estimator
from vehicled.filter.states import UNMODELLED, NoiseSetting
from vehicled.identification.vehicle.names import Parameter
from vehicled.identification.vehicle.noise import SETTINGS
from vehicled.identification.vehicle.plausibility import Channels
from vehicled.identification.vehicle.prediction_error import SETTLING, ScoredDrive
from vehicled.maths.white_noise import calc_variances
from vehicled.sources.imu.noise_floor import SPIKE
from vehicled.stepping import run_steps
from vehicled.vehicle.arrays import YAW_RATE

_FEWEST = 200
"""Least number of second differences for a variance: with these it is known to 10 %."""
_LARGEST_CHANGE = math.log(100.0)
"""Largest change of a setting's logarithm by samples: a channel that stands still shows no noise, although
its sensor has some."""
_Direction = Literal["ahead", "left"]
"""Accelerations along the car, by drive and brakes, and across it, in turns."""
_GROWS_WITH: dict[str, _Direction] = {
    "plant.longitudinal": "ahead",
    "plant.pitch": "ahead",
    "plant.wheel": "ahead",
    "unmodelled.longitudinal": "ahead",
    "drive_force.noise": "ahead",
    "plant.yaw": "left",
    "plant.roll": "left",
    "unmodelled.lateral": "left",
    "unmodelled.yaw": "left",
}
"""Acceleration of the car with which errors of the model grow; other errors do not depend on the driving."""
_EXCITED: dict[_Direction, float] = {"ahead": 0.3, "left": 0.5}
"""Least root mean square of these accelerations, m/s²: far beyond that on a straight, even road."""
_REASON: dict[_Direction, str] = {
    "ahead": "the car hardly accelerates or brakes in the drives",
    "left": "the car hardly turns in the drives",
}
_MOVING = 0.5
"""m/s: the noise includes starting and stopping, where the model is worst; a standing car shows none."""
_NS = 1_000_000_000


@dataclass(frozen=True)
class DriveMotion:
    """Results of the car's running filter on a drive, at steps where it has settled and the car moves."""

    t: np.ndarray
    """(n,) ns"""
    speed: np.ndarray
    """(n,) m/s"""
    yaw_rate: np.ndarray
    """(n,) rad/s"""
    lacking: np.ndarray
    """(n, 4) x² + P of the unmodelled accelerations, (m/s²)² and (rad/s²)²."""

    @property
    def counting(self) -> frozenset[int]:
        """The times of the steps, ns."""
        return frozenset(self.t.tolist())

    def within(self, drive: ScoredDrive) -> DriveMotion:
        """The motion at the evaluated steps of a drive."""
        kept = np.array([t in drive.counting for t in self.t.tolist()], bool)
        return DriveMotion(self.t[kept], self.speed[kept], self.yaw_rate[kept], self.lacking[kept])


def observe(
    configuration: Configuration, drive: ScoredDrive, progress: Callable[[float], None] | None = None
) -> DriveMotion:
    """Run the filter as it runs in the car; `progress` takes the seconds done. Raises what the estimator raises."""
    estimator = Estimator(configuration)
    filter, started = estimator.filter, None
    places = list(filter.states.places(UNMODELLED))
    times: list[int] = []
    rows: list[list[float]] = []
    for result in run_steps(estimator, drive.steps, raises=True):
        if started is None and result.estimate is not None:
            started = result.t
        if started is not None and result.t - started >= SETTLING * _NS and abs(estimator.speed) > _MOVING:
            lacking = filter.slow.view(UNMODELLED) ** 2 + filter.variances[places]
            times.append(result.t)
            rows.append([estimator.speed, float(filter.pose[YAW_RATE]), *lacking.tolist()])
        if progress is not None:
            progress((result.t - drive.steps[0].t) / _NS)
    table = np.array(rows).reshape(len(rows), 2 + len(UNMODELLED.elements))
    return DriveMotion(np.array(times, dtype=np.int64), table[:, 0], table[:, 1], table[:, 2:])


def calc_excitation(motions: Sequence[DriveMotion]) -> dict[_Direction, float]:
    """Root mean square of the car's acceleration along and across, m/s²."""
    squares = {"ahead": [0.0], "left": [0.0]}
    for motion in motions:
        squares["left"] += np.square(motion.speed * motion.yaw_rate).tolist()
        # From means over a second, as corrections of the speed are no accelerations.
        seconds, group = np.unique(motion.t // _NS, return_inverse=True)
        means = np.bincount(group, motion.speed) / np.maximum(np.bincount(group), 1)
        squares["ahead"] += np.square(np.diff(means)[np.diff(seconds) == 1]).tolist()
    return {"ahead": _root(squares["ahead"]), "left": _root(squares["left"])}


def find_unexcited(parameters: Sequence[Parameter], motions: Sequence[DriveMotion]) -> dict[str, str]:
    """Reasons, by name, for settings that nothing in the drives depends on."""
    excitation = calc_excitation(motions)
    found = {}
    for p in parameters:
        direction = _GROWS_WITH.get(p.name)
        if direction is not None and excitation[direction] < _EXCITED[direction]:
            found[p.name] = _REASON[direction]
    return found


def find_start(
    parameters: Sequence[Parameter], file: File, drives: Sequence[ScoredDrive], motions: Sequence[DriveMotion]
) -> np.ndarray:
    """(p,) logarithms of the ratio of shown noise to the file's; 0 where the drives show nothing."""
    logs = [Channels(drive.steps) for drive in drives]
    lacking = np.concatenate([m.lacking for m in motions]).mean(axis=0)
    of_model = dict(zip((s.name for s in UNMODELLED.settings), lacking.tolist(), strict=True))
    found = np.zeros(len(parameters))
    for k, p in enumerate(parameters):
        variance = of_model.get(p.name) or calc_sample_variance(logs, SETTINGS[p.name])
        given = p.get(file)
        if variance and given:
            change = 0.5 * math.log(variance) - math.log(given)
            found[k] = change if abs(change) < _LARGEST_CHANGE else 0.0
    return found


def calc_sample_variance(logs: Sequence[Channels], setting: NoiseSetting) -> float | None:
    """Variance of the white noise of a sensor's samples, its unit squared; None if too few samples show it."""
    squares = np.concatenate([np.zeros(0), *_find_variances(logs, setting.channels)])
    if len(squares) < _FEWEST:
        return None
    # Deviations beyond five standard deviations are no noise; two thirds of normal numbers are within one.
    variance = float(np.quantile(squares, 2 / 3))
    for _ in range(5):
        variance = float(np.minimum(squares, SPIKE * variance).mean())
    return variance or None


def _find_variances(logs: Sequence[Channels], channels: Sequence[str]) -> Iterator[np.ndarray]:
    """Squared deviations by channel of each log, from consecutive samples at equal intervals."""
    for log in logs:
        for channel in channels:
            if channel in log:
                intervals = np.diff(log.times(channel))
                usual = np.median(intervals) if len(intervals) else 0.0
                regular = np.abs(intervals - usual) < 0.5 * usual
                yield calc_variances(log[channel])[regular[1:] & regular[:-1]]


def _root(squares: Sequence[float]) -> float:
    return float(np.sqrt(np.mean(squares)))
