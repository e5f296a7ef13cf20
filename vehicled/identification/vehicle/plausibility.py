"""Checks of a log before identification: its length, channels and units, before any computation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from vehicled.configuration import File
from vehicled.identification.vehicle.names import Parameter
from vehicled.messages import Measurement, Step
from vehicled.sources.checks.unit_check import UnitCheck
from vehicled.sources.inputs.steering import CHANNELS_BY_SOURCE

SHORTEST = 10.0
"""Least length of a log, s."""


class Channels:
    """Samples of a log by channel."""

    def __init__(self, steps: Iterable[Step]) -> None:
        found: dict[str, tuple[list[float], list[float]]] = {}
        first = last = None
        self.measurements: list[Measurement] = []
        for step in steps:
            self.measurements += step.measurements
            first, last = step.t if first is None else first, step.t
            for m in step.measurements:
                for channel, value in m.values.items():
                    times, values = found.setdefault(channel, ([], []))
                    times.append(m.t * 1e-9)
                    values.append(value)
        self.length = 0.0 if first is None or last is None else (last - first) * 1e-9
        """Length of the log, s."""
        self._samples = {c: (np.array(t), np.array(v)) for c, (t, v) in found.items()}

    def __contains__(self, channel: str) -> bool:
        return channel in self._samples

    def __getitem__(self, channel: str) -> np.ndarray:
        return self._samples[channel][1]

    def at(self, channel: str, times: np.ndarray) -> np.ndarray:
        """(n,) values of a channel at times (n,) in s, linear between samples. Raises KeyError."""
        t, v = self._samples[channel]
        order = np.argsort(t, kind="stable")
        values: np.ndarray = np.interp(times, t[order], v[order])
        return values

    def times(self, channel: str) -> np.ndarray:
        """(n,) times of a channel's samples, s. Raises KeyError if the log does not have it."""
        return self._samples[channel][0]


def find_faults(log: Channels, file: File, parameters: Sequence[Parameter]) -> Iterator[str]:
    """Faults, one line each."""
    if log.length < SHORTEST:
        yield f"{log.length:.3g} s long: expected at least {SHORTEST:g} s of driving"
        return
    yield from _missing(log, file, parameters)
    yield from _wrong_units(log, file)


def _missing(log: Channels, file: File, parameters: Sequence[Parameter]) -> Iterator[str]:
    source = file.sensors.steering.source
    for channel in CHANNELS_BY_SOURCE[source]:
        if channel not in log:
            yield f"{channel} is missing: sensors.steering.source is '{source}'"
    lacking = []
    for axle in ("front", "rear"):
        wheels = [f"torque.{axle[0]}{side}" for side in "lr"]
        absent = [c for c in wheels if c not in log] if f"torque.{axle}" not in log else []
        if len(absent) == 1:
            yield f"{absent[0]} is missing: expected the torques of both {axle} wheels, or none"
        if file.vehicle.driven in (axle, "all"):
            lacking += absent
    if not any(c in log for c in ("vehicle.speed", "gnss.speed", *_wheels("speed"), *_wheels("angle"))):
        yield "no speed: expected vehicle.speed, gnss.speed, or the wheels' speeds or angles"
    if not any(c in log for c in ("imu.wz", "imu.ay", "gnss.course")):
        yield "nothing measures how the car turns: expected imu.wz, imu.ay or gnss.course"
    for p in parameters:
        for prefix, channel in (
            ("gyro_offset.", "imu.w"),
            ("accel_offset.", "imu.a"),
            ("antenna.", "gnss.lat"),
        ):
            wanted = channel + p.name[-1] if channel.startswith("imu") else channel
            if p.name.startswith(prefix) and wanted not in log:
                yield f"{wanted} is missing, which {p.name} needs"
        if p.name.endswith("brake_gain") and "brake.pressure" not in log:
            yield f"brake.pressure is missing, which {p.name} needs"
        if p.name == "torque_gain" and lacking:
            yield f"{lacking[0]} is missing, which {p.name} needs"


def _wheels(quantity: str) -> tuple[str, ...]:
    return tuple(f"wheel.{w}.{quantity}" for w in ("fl", "fr", "rl", "rr"))


def _wrong_units(log: Channels, file: File) -> Iterator[str]:
    check = UnitCheck(file.sensors, file.vehicle.to_vehicle())
    for m in log.measurements:
        check.take(m)
    for channels, fault in check.find().items():
        yield f"{channels}: {fault}"
    if "brake.pressure" in log and 0.5 < float(log["brake.pressure"].max()) < 500.0:
        yield f"brake.pressure stays below {log['brake.pressure'].max():.3g} Pa: is it in bar?"
