"""Inputs of the car, interpolated between samples, as a recording also contains later samples.

In the car, the model follows steering, torque and pressure with a small delay: samples are held or
extrapolated, and noise is smoothed with past samples alone. Parameters fitted with such inputs would
compensate for the delay.

A pressure sensor has noise and an error of its zero. In the car, pressures below zero count as zero: noise alone
brakes the model while nobody brakes, for which too small a mass would compensate. A recording shows what the sensor
gives while the brakes are released.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import msgspec
import numpy as np

from vehicled.configuration import File
from vehicled.messages import Measurement, Step
from vehicled.sources.sensors import find_input_limits

_ORDER = 3
"""Order of the polynomials that smooth the steering (Savitzky and Golay 1964)."""
_NO_SMOOTHING = 1e-6
"""s: memory of a tracker that practically does not smooth."""
_SOURCE = "inputs"
_PRESSURE = "brake.pressure"
_NEARLY_RELEASED = 1e5
"""Pa: with less pressure than this, brakes count as released, as pads hardly reach their discs."""
_LEAST_RELEASED = 0.1
"""Share of the samples with released brakes, below which a recording does not show the zero of the sensor."""
_ONE_SIGMA = 0.84
"""Share of samples of a normal distribution below 1 σ; noise below zero may be missing."""
_BEYOND_NOISE = 4.0
"""Standard deviations of the released sensor, beyond which somebody brakes."""


def interpolate_inputs(steps: Sequence[Step], smoothing: float, released: float = 0.0) -> list[Step]:
    """The same steps of equal length, with inputs at each step, linearly interpolated between their samples.

    Steering inputs are smoothed over `smoothing` s on both sides. The pressure is exactly `released` (Pa, what the
    configuration says that the sensor gives then) while nobody brakes, and without the error of its zero otherwise.
    """
    from scipy.signal import (
        savgol_filter,  # takes a second, which others who import this module need not wait
    )

    times = np.array([s.t for s in steps], float) * 1e-9
    period = float(np.median(np.diff(times))) if len(times) > 1 else smoothing
    half = max(round(smoothing / period), _ORDER // 2 + 1)
    columns = {}
    for channel, (t, v) in _series(steps).items():
        values = np.interp(times, t, find_pressures(v, released) if channel == _PRESSURE else v)
        if channel.startswith("steer.") and len(values) > 2 * half:
            values = savgol_filter(values, 2 * half + 1, _ORDER)
        columns[channel] = values.tolist()
    return [_with_inputs(s, {c: column[k] for c, column in columns.items()}) for k, s in enumerate(steps)]


def find_pressures(readings: np.ndarray, released: float) -> np.ndarray:
    """(n,) pressures, Pa, from readings: `released` while nobody brakes, and without the error of the sensor's zero.

    Readings of brakes that are hardly ever released stay.
    """
    near = readings[np.abs(readings - released) < _NEARLY_RELEASED]
    if len(near) < _LEAST_RELEASED * len(readings) or not len(near):
        return readings
    zero, above = np.quantile(near, (0.5, _ONE_SIGMA))
    least = min(zero + _BEYOND_NOISE * (above - zero), released + _NEARLY_RELEASED)
    return released + np.where(readings > least, readings - zero, 0.0)


def without_smoothing(file: File) -> File:
    """The configuration that uses such inputs without further smoothing."""
    return with_smoothing(file, _NO_SMOOTHING)


def with_smoothing(file: File, smoothing: float) -> File:
    """The configuration with another memory of the steering, s."""
    steering = replace(file.sensors.steering, smoothing=smoothing)
    return replace(file, sensors=replace(file.sensors, steering=steering))


def _with_inputs(step: Step, inputs: dict[str, float]) -> Step:
    """A step with these inputs at its time instead of the sampled ones."""
    kept = list(_without_inputs(step.measurements))
    if inputs:
        kept.append(Measurement(_SOURCE, step.t, step.t, inputs))
    return step._replace(measurements=kept)


def _without_inputs(measurements: Sequence[Measurement]) -> Iterator[Measurement]:
    channels = find_input_limits().keys()
    for m in measurements:
        if channels.isdisjoint(m.values):
            yield m
        elif rest := {c: v for c, v in m.values.items() if c not in channels}:
            yield msgspec.structs.replace(m, values=rest)


def _series(steps: Sequence[Step]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Times, s, and values of each input in order of time; values outside the limits are left out."""
    samples: dict[str, dict[int, float]] = {}
    limits = find_input_limits()
    for step in steps:
        for m in step.measurements:
            for channel, value in m.values.items():
                if channel in limits and abs(value) <= limits[channel]:
                    samples.setdefault(channel, {})[m.t] = value
    found = {}
    for channel, of_time in samples.items():
        times = sorted(of_time)
        found[channel] = (np.array(times) * 1e-9, np.array([of_time[t] for t in times]))
    return found
