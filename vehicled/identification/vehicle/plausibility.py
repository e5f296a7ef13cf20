"""Whether a log is fit for identification: its length, its channels, its units; before anything is computed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from vehicled.configuration import File
from vehicled.identification.vehicle.names import Parameter
from vehicled.messages import Step
from vehicled.sources.steering import CHANNELS_BY_SOURCE
from vehicled.vehicle.handbook import Handbook

SHORTEST = 10.0
"""s."""
_FACTORS = {
    "speed": ((3.6, "km/h"), (2.237, "mph")),
    "rate": ((57.3, "deg/s"),),
    "acceleration": ((1 / 9.81, "g"),),
}
_TOLERANCE = 0.25
"""Of a ratio to such a factor, relative."""
_MOVING = 3.0
"""m/s."""


class Channels:
    """Samples of a log by channel."""

    def __init__(self, steps: Iterable[Step]) -> None:
        found: dict[str, tuple[list[float], list[float]]] = {}
        first = last = None
        for step in steps:
            first, last = step.t if first is None else first, step.t
            for m in step.measurements:
                for channel, value in m.values.items():
                    times, values = found.setdefault(channel, ([], []))
                    times.append(m.t * 1e-9)
                    values.append(value)
        self.length = 0.0 if first is None or last is None else (last - first) * 1e-9
        """s."""
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
        """(n,) when the channel was measured, s. Raises KeyError for one that the log does not have."""
        return self._samples[channel][0]


def find_faults(log: Channels, file: File, parameters: Sequence[Parameter]) -> Iterator[str]:
    """What is wrong, one line each."""
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
    yield from _speeds(log, file)
    for channel, largest, unit, wanted in (
        ("steer.fl", 1.0, "deg", "rad"),
        ("steer.fr", 1.0, "deg", "rad"),
        ("steer.wheel", 25.0, "deg", "rad"),
        ("steer.rack", 0.25, "mm", "m"),
        ("gnss.course", 6.5, "deg", "rad"),
        ("imu.wz", 6.0, "deg/s", "rad/s"),
    ):
        if channel in log:
            typical = float(np.quantile(np.abs(log[channel]), 0.99))
            if typical > largest:
                yield f"{channel} goes up to {typical:.3g} {wanted}: is it in {unit}?"
    if "brake.pressure" in log and 0.5 < float(log["brake.pressure"].max()) < 500.0:
        yield f"brake.pressure stays below {log['brake.pressure'].max():.3g} Pa: is it in bar?"
    yield from _gravity(log, file)
    yield from _turning(log, file)


def _gravity(log: Channels, file: File) -> Iterator[str]:
    imu = file.sensors.imu
    if "imu.az" not in log or imu is None or imu.accelerometers is None:
        return
    upward = float(np.median(log["imu.az"]))
    removed, gravity = imu.accelerometers.gravity_removed, file.vehicle.gravity
    if 0.8 < abs(upward) < 1.25:
        yield f"imu.az is {upward:.3g} m/s² most of the time: is it in g?"
    elif upward < -0.7 * gravity:
        yield f"imu.az is {upward:.3g} m/s² most of the time: does the z axis point down? Expected it to point up"
    elif removed and upward > 0.7 * gravity:
        yield f"imu.az is {upward:.3g} m/s² most of the time, but gravity_removed is true"
    elif not removed and abs(upward) < 0.3 * gravity:
        yield f"imu.az is {upward:.3g} m/s² most of the time, but gravity_removed is false"


def _speeds(log: Channels, file: File) -> Iterator[str]:
    """The car's own speed against other sources of it."""
    if "vehicle.speed" not in log:
        return
    t, v = log.times("vehicle.speed"), log["vehicle.speed"]
    for other, factor in (("gnss.speed", 1.0), ("wheel.rl.speed", _radius(file))):
        if other in log:
            reference = factor * log.at(other, t)
            moving = reference > _MOVING
            if moving.sum() > 10:
                ratio = float(np.median(v[moving] / reference[moving]))
                yield from _suspect("vehicle.speed", ratio, "speed", f"that of {other}", "m/s")


def _turning(log: Channels, file: File) -> Iterator[str]:
    """In corners ay = v wz, and wz = v δ / wheelbase up to slip."""
    if "vehicle.speed" not in log or "imu.wz" not in log:
        return
    t, wz = log.times("imu.wz"), log["imu.wz"]
    v = log.at("vehicle.speed", t)
    moving = v > _MOVING
    if "imu.ay" in log:
        ay = log.at("imu.ay", t)
        product = _slope(ay[moving], v[moving] * wz[moving])
        if product is not None:
            for kind, channel, wanted in (("rate", "imu.wz", "rad/s"), ("speed", "vehicle.speed", "m/s")):
                yield from _suspect(channel, product, kind, "the value that imu.ay gives in corners", wanted)
            yield from _suspect("imu.ay", 1 / product, "acceleration", "what speed and yaw rate make", "m/s²")
    if "steer.fl" in log and "steer.fr" in log:
        steer = 0.5 * (log.at("steer.fl", t) + log.at("steer.fr", t))
        ratio = _slope(v[moving] * steer[moving] / file.vehicle.wheelbase, wz[moving])
        if ratio is not None:
            yield from _suspect("imu.wz", ratio, "rate", "what speed and steering make", "rad/s")
            yield from _suspect("steer.fl", 1 / ratio, "rate", "what speed and yaw rate make", "rad")


def _slope(x: np.ndarray, y: np.ndarray) -> float | None:
    """Of y over x where they agree in course; None where they do not."""
    if len(x) < 100 or x.std() == 0.0 or y.std() == 0.0 or np.corrcoef(x, y)[0, 1] < 0.8:
        return None
    return float(y.std() / x.std())


def _suspect(channel: str, ratio: float, kind: str, than: str, wanted: str) -> Iterator[str]:
    for factor, unit in _FACTORS[kind]:
        if abs(ratio / factor - 1.0) < _TOLERANCE:
            unit = unit if wanted != "rad" else "deg"
            yield f"{channel} is {ratio:.3g} times {than}: is it in {unit}? Expected {wanted}"


def _radius(file: File) -> float:
    v = file.vehicle
    return v.rear.wheel_radius if isinstance(v, Handbook) else v.rear.tyre.radius
