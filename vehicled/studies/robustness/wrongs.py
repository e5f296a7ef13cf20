"""Possible errors of a configuration or of a log, each with a name.

The simulated car and its sensors stay the same; the error is in the configuration of the estimator, or in the
measurements that reach it. Therefore a plant is driven once for all of them.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from vehicled.configuration import Configuration
from vehicled.maths.geodesy import MEAN_RADIUS
from vehicled.messages import Measurement
from vehicled.points import rotations
from vehicled.sources.speeds.vehicle_speed import VehicleSpeed
from vehicled.vehicle.parameters import AnyAxle, Characteristic, LinearTyre
from vehicled.vehicle.steering import SteeringGeometry

Configured = Callable[[Configuration], Configuration]
Reached = Callable[[Measurement], Measurement | None]
"""A function from a measurement to the one that reaches the estimator; None if nothing reaches it."""


@dataclass(frozen=True)
class Wrong:
    """One error."""

    name: str
    subject: str
    """Subject of the error; two errors of one subject exclude each other."""
    configured: Configured | None = None
    """Makes the configuration of the estimator from the true one."""
    reached: Callable[[Configuration], Reached] | None = None
    """Makes the function that changes measurements, for a car that is configured correctly."""
    changes_grip: bool = False
    listed: bool = True
    """Whether it has its own row."""
    drawn: bool = True
    """Whether it is also among those that are combined at random."""


_FALSE_FROM, _GOING_OFF, _FALSE_FOR = 15.0, 5.0, 20.0
_PAUSE, _FALSE_AFTER_PAUSE = 8.0, 2.0
"""s: length of the pause without fixes, and of the false fixes after it."""
_METRES_PER_DEGREE = math.radians(1.0) * MEAN_RADIUS


# -- the configuration -----------------------------------------------------------------------------------


def _axles(configuration: Configuration, change: Callable[[AnyAxle], AnyAxle]) -> Configuration:
    vehicle = configuration.vehicle
    return replace(
        configuration, vehicle=replace(vehicle, front=change(vehicle.front), rear=change(vehicle.rear))
    )


def scale_radius(share: float, configuration: Configuration) -> Configuration:
    """Scale the wheel radius by a share."""

    def change(axle: AnyAxle) -> AnyAxle:
        return replace(axle, tyre=replace(axle.tyre, radius=axle.tyre.radius * (1 + share)))

    return _axles(configuration, change)


def scale_cornering_stiffness(share: float, configuration: Configuration) -> Configuration:
    """Scale the slope of the lateral force over slip, with the same largest force."""

    def change(axle: AnyAxle) -> AnyAxle:
        tyre = axle.tyre
        if isinstance(tyre, LinearTyre):
            return replace(axle, tyre=replace(tyre, slip_stiffness_y=tyre.slip_stiffness_y * (1 + share)))
        law = tyre.lateral
        law = replace(
            law,
            df0=_times(law.df0, 1 + share),
            sm=_times(law.sm, 1 / (1 + share)),
            ss=_times(law.ss, 1 / (1 + share)),
        )
        return replace(axle, tyre=replace(tyre, lateral=law))

    return _axles(configuration, change)


def scale_friction(share: float, configuration: Configuration) -> Configuration:
    """Scale the largest forces, lateral and longitudinal, at the same slope."""

    def change(axle: AnyAxle) -> AnyAxle:
        tyre = axle.tyre
        if isinstance(tyre, LinearTyre):
            return replace(axle, tyre=replace(tyre, friction=tyre.friction * (1 + share)))
        along, across = (_with_friction(law, 1 + share) for law in (tyre.longitudinal, tyre.lateral))
        return replace(axle, tyre=replace(tyre, longitudinal=along, lateral=across))

    return _axles(configuration, change)


def _with_friction(law: Characteristic, factor: float) -> Characteristic:
    return replace(
        law,
        fm=_times(law.fm, factor),
        fs=_times(law.fs, factor),
        sm=_times(law.sm, factor),
        ss=_times(law.ss, factor),
    )


def _times(pair: tuple[float, float], factor: float) -> tuple[float, float]:
    return pair[0] * factor, pair[1] * factor


def scale_mass(share: float, configuration: Configuration) -> Configuration:
    """Scale the mass of the whole car by changing that of its chassis, whose radii of gyration are kept."""
    vehicle = configuration.vehicle
    chassis = vehicle.chassis
    factor = 1 + share * vehicle.mass / chassis.mass
    x, y, z = chassis.inertia
    chassis = replace(chassis, mass=chassis.mass * factor, inertia=(x * factor, y * factor, z * factor))
    return replace(configuration, vehicle=replace(vehicle, chassis=chassis))


def scale_height(share: float, configuration: Configuration) -> Configuration:
    """Scale the height of the whole car's centre of mass by changing that of its chassis; sensors do not move."""
    vehicle = configuration.vehicle
    chassis = vehicle.chassis
    rise = share * float(vehicle.center_of_mass()[2])
    x, y, z = chassis.center_of_mass
    chassis = replace(chassis, center_of_mass=(x, y, z + rise * vehicle.mass / chassis.mass))
    sensors = configuration.sensors
    if sensors.imu is not None:
        sensors = replace(sensors, imu=replace(sensors.imu, position=_raised(sensors.imu.position, -rise)))
    if sensors.gnss is not None:
        sensors = replace(sensors, gnss=replace(sensors.gnss, antenna=_raised(sensors.gnss.antenna, -rise)))
    return replace(configuration, vehicle=replace(vehicle, chassis=chassis), sensors=sensors)


def _raised(point: tuple[float, float, float], by: float) -> tuple[float, float, float]:
    return point[0], point[1], point[2] + by


def scale_brake_gain(share: float, configuration: Configuration) -> Configuration:
    """Scale the braking torque per pressure by a share."""

    def change(axle: AnyAxle) -> AnyAxle:
        return replace(axle, brake=replace(axle.brake, gain=axle.brake.gain * (1 + share)))

    return _axles(configuration, change)


def move_antenna(ahead: float, configuration: Configuration) -> Configuration:
    """Move the antenna of the receiver ahead, m."""
    gnss = configuration.sensors.gnss
    if gnss is None:
        return configuration
    x, y, z = gnss.antenna
    gnss = replace(gnss, antenna=(x + ahead, y, z))
    return replace(configuration, sensors=replace(configuration.sensors, gnss=gnss))


def _doubt_speed(configuration: Configuration) -> Configuration:
    """Use the default time stamps of the car's own speed: those of a control unit."""
    speed = configuration.sensors.vehicle_speed
    if speed is None:
        return configuration
    speed = replace(speed, latency_sigma=VehicleSpeed().latency_sigma)
    return replace(configuration, sensors=replace(configuration.sensors, vehicle_speed=speed))


# -- what reaches the estimator --------------------------------------------------------------------------


def _changed(m: Measurement, values: dict[str, float], later: int = 0, arrival: int = 0) -> Measurement:
    return Measurement(m.source, m.t + later, m.arrival + arrival, values)


def offset_steering(angle: float, configuration: Configuration) -> Reached:
    """Add an angle (rad, to the left) to the readings of the road wheels; rack and steering wheel accordingly."""
    geometry = SteeringGeometry(configuration.vehicle)
    rack = geometry.sign * geometry.rack_per_angle * angle
    offsets = {
        "steer.fl": angle,
        "steer.fr": angle,
        "steer.rack": rack,
        "steer.wheel": rack / geometry.ratio,
    }

    def reach(m: Measurement) -> Measurement:
        if offsets.keys().isdisjoint(m.values):
            return m
        return _changed(m, {c: v + offsets.get(c, 0.0) for c, v in m.values.items()})

    return reach


_AXES = (("imu.ax", "imu.ay", "imu.az"), ("imu.wx", "imu.wy", "imu.wz"))


def turn_imu(angles: Sequence[float], _: Configuration) -> Reached:
    """Rotate the device by roll, pitch and yaw (rad) relative to its configured axes."""
    R = rotations(*(np.array([angle]) for angle in angles))[0]

    def reach(m: Measurement) -> Measurement:
        values = dict(m.values)
        for axes in _AXES:
            if all(a in values for a in axes):
                turned = np.array([values[a] for a in axes]) @ R
                values.update(zip(axes, turned.tolist(), strict=True))
        return _changed(m, values)

    return reach


def _roll_imu(angle: float, configuration: Configuration) -> Reached:
    return turn_imu((angle, 0.0, 0.0), configuration)


def scale_steering(share: float, _: Configuration) -> Reached:
    """Scale the readings of the steering sensor, as with another ratio than configured."""

    def reach(m: Measurement) -> Measurement:
        values = {c: v * (1 + share) if c.startswith("steer.") else v for c, v in m.values.items()}
        return _changed(m, values)

    return reach


def scale_gyro(share: float, _: Configuration) -> Reached:
    """Scale the readings of the gyroscope by a share."""

    def reach(m: Measurement) -> Measurement:
        if "imu.wz" not in m.values:
            return m
        return _changed(m, {c: v * (1 + share) if c in _AXES[1] else v for c, v in m.values.items()})

    return reach


def delay(device: str, seconds: float, _: Configuration) -> Reached:
    """Make time stamps `seconds` late; if positive, the arrival is late too, if negative, it is not early."""
    shift = round(seconds * 1e9)

    def reach(m: Measurement) -> Measurement:
        if not any(c.startswith(device) for c in m.values):
            return m
        return _changed(m, m.values, shift, max(shift, 0))

    return reach


def _drop(channels: tuple[str, ...], _: Configuration) -> Reached:
    def reach(m: Measurement) -> Measurement | None:
        values = {c: v for c, v in m.values.items() if not c.startswith(channels)}
        return None if not values else m if len(values) == len(m.values) else _changed(m, values)

    return reach


def _thin(device: str, interval: float, _: Configuration) -> Reached:
    """Pass no more than one measurement of a device per interval, s."""
    shortest, last = round(interval * 1e9), -math.inf

    def reach(m: Measurement) -> Measurement | None:
        nonlocal last
        if any(c.startswith(device) for c in m.values):
            if m.t - last < shortest:
                return None
            last = m.t
        return m

    return reach


def _displace_fixes(metres: float, _: Configuration) -> Reached:
    """Move positions to the east within 5 s, as between buildings, and back at once after 20 s."""
    begun = math.nan

    def reach(m: Measurement) -> Measurement:
        nonlocal begun
        begun = m.t if math.isnan(begun) else begun
        since = (m.t - begun) * 1e-9 - _FALSE_FROM
        if "gnss.lon" not in m.values or not 0.0 < since < _FALSE_FOR:
            return m
        by = metres * min(since / _GOING_OFF, 1.0)
        return _changed(m, _move_east(m.values, by))

    return reach


def _displace_after_pause(metres: float, _: Configuration) -> Reached:
    """Remove fixes for 8 s, as in a tunnel; the first ones after it are off to the east for 2 s."""
    begun = math.nan

    def reach(m: Measurement) -> Measurement | None:
        nonlocal begun
        begun = m.t if math.isnan(begun) else begun
        since = (m.t - begun) * 1e-9 - _FALSE_FROM
        if "gnss.lon" not in m.values or not 0.0 < since < _PAUSE + _FALSE_AFTER_PAUSE:
            return m
        return None if since < _PAUSE else _changed(m, _move_east(m.values, metres))

    return reach


def _move_east(values: dict[str, float], metres: float) -> dict[str, float]:
    east = metres / (_METRES_PER_DEGREE * math.cos(math.radians(values["gnss.lat"])))
    return values | {"gnss.lon": values["gnss.lon"] + east}


def _change_velocity(change: Callable[[float, complex], complex]) -> Reached:
    """Change the receiver's speed and course: `change` takes time (s) and velocity, north + i east."""

    def reach(m: Measurement) -> Measurement:
        v = m.values
        if "gnss.speed" not in v or "gnss.course" not in v:
            return m
        speed, course = cmath.polar(change(m.t * 1e-9, cmath.rect(v["gnss.speed"], v["gnss.course"])))
        return _changed(m, v | {"gnss.speed": speed, "gnss.course": course % (2.0 * math.pi)})

    return reach


def _smooth_velocity(seconds: float, _: Configuration) -> Reached:
    """Apply a first-order filter in the receiver, to the velocity only."""
    smooth: complex | None = None
    before = 0.0

    def change(t: float, velocity: complex) -> complex:
        nonlocal smooth, before
        share = 1.0 - math.exp(-(t - before) / seconds)
        smooth = velocity if smooth is None else smooth + share * (velocity - smooth)
        before = t
        return smooth

    return _change_velocity(change)


def _add_velocity_noise(sigma: float, _: Configuration) -> Reached:
    """Add white noise, m/s per axis, that the receiver does not report."""
    random = np.random.default_rng(5)
    return _change_velocity(lambda t, v: v + complex(*random.normal(0.0, sigma, 2)))


# -- all of them -----------------------------------------------------------------------------------------


def _signed(
    subject: str,
    size: float,
    unit: str,
    shown: float,
    configured: Callable[[float, Configuration], Configuration] | None = None,
    reached: Callable[[float, Configuration], Reached] | None = None,
    changes_grip: bool = False,
    listed: bool = True,
) -> list[Wrong]:
    """An error with both signs; `size` in SI, `shown` as in the name."""
    return [
        Wrong(
            f"{subject} {sign * shown:+g}{unit}",
            subject,
            None if configured is None else partial(configured, sign * size),
            None if reached is None else partial(reached, sign * size),
            changes_grip,
            listed,
        )
        for sign in (1, -1)
    ]


_UNMEASURED = partial(_drop, ("torque.", "brake."))


ALONE = "IMU and GNSS alone"
_ABSENT: dict[str, tuple[str, ...]] = {
    "no roll and pitch gyroscopes, no vertical accelerometer": ("imu.wx", "imu.wy", "imu.az"),
    "no gyroscopes": ("imu.w",),
    "no accelerometers": ("imu.a",),
    "no IMU": ("imu.",),
    "no wheels, no vehicle speed": ("wheel.", "vehicle."),
    "no steering": ("steer.",),
    "no speed and course of GNSS": ("gnss.speed", "gnss.course"),
    ALONE: ("wheel.", "vehicle.", "steer.", "torque.", "brake."),
}
"""Sensors that a car does not have: prefixes of the missing channels."""


def _make_all() -> Iterable[Wrong]:
    yield from _signed("steering offset", math.radians(1), "°", 1, reached=offset_steering)
    yield from _signed("wheel radius", 0.02, " %", 2, scale_radius)
    yield from _signed("cornering stiffness", 0.3, " %", 30, scale_cornering_stiffness, changes_grip=True)
    yield from _signed("friction", 0.2, " %", 20, scale_friction, changes_grip=True)
    yield from _signed("mass", 0.2, " %", 20, scale_mass)
    yield from _signed("height of the centre of mass", 0.2, " %", 20, scale_height)
    yield from _signed("brake gain", 0.3, " %", 30, scale_brake_gain)
    yield from _signed("IMU rolled", math.radians(3), "°", 3, reached=_roll_imu)
    yield from _signed("gyro scale", 0.01, " %", 1, reached=scale_gyro)
    yield from _signed("antenna", 0.5, " m", 0.5, move_antenna)
    for name, device, ms in (("GNSS", "gnss.", 100), ("IMU", "imu.", 20)):
        for error, sign in (("late", 1), ("early", -1)):
            late = partial(delay, device, sign * ms / 1000)
            yield Wrong(f"{name} time stamps {ms} ms {error}", f"{name} latency", reached=late)
    for name, device, ms in (
        ("speed of the car time stamps 40 ms late", "vehicle.speed", 40),
        ("IMU time stamps 20 ms late, speed of the car of unknown time", "imu.", 20),
    ):
        late = partial(delay, device, ms / 1000)
        yield Wrong(name, "speed latency", _doubt_speed, late, drawn=False)
    for sign in (1, -1):
        scaled = partial(scale_steering, sign * 0.1)
        yield Wrong(f"steering ratio {10 * sign:+d} %", "steering ratio", reached=scaled, drawn=False)
    yield from _signed("wheel radius", 0.01, " %", 1, scale_radius, listed=False)
    yield from _signed("gyro scale", 0.005, " %", 0.5, reached=scale_gyro, listed=False)
    yield Wrong("no torque, no pressure", "inputs", None, _UNMEASURED)
    for name, channels in _ABSENT.items():
        yield Wrong(name, "sensors", None, partial(_drop, channels), listed=False)
    yield Wrong("fixes 7 m off for 20 s", "sensors", None, partial(_displace_fixes, 7.0), listed=False)
    paused = partial(_displace_after_pause, 5.0)
    yield Wrong("fixes 5 m off for 2 s after none for 8 s", "sensors", None, paused, listed=False)
    smoothed, noisy = partial(_smooth_velocity, 0.1), partial(_add_velocity_noise, 0.1)
    yield Wrong("velocity of GNSS smoothed over 0.1 s", "sensors", None, smoothed, listed=False)
    yield Wrong("velocity of GNSS noisier by 0.1 m/s", "sensors", None, noisy, listed=False)
    yield Wrong("a fix per second", "sensors", None, partial(_thin, "gnss.", 1.0), listed=False)


WRONGS: dict[str, Wrong] = {w.name: w for w in _make_all()}
"""All errors by name."""


def apply_wrongs(
    wrongs: Iterable[Wrong], configuration: Configuration, measurements: list[Measurement]
) -> tuple[Configuration, list[Measurement]]:
    """The configuration of the estimator, and the measurements that reach it, in order of arrival."""
    configured = configuration
    for wrong in wrongs:
        if wrong.configured is not None:
            configured = wrong.configured(configured)
        if wrong.reached is not None:
            reach = wrong.reached(configuration)
            measurements = [found for m in measurements if (found := reach(m)) is not None]
    return configured, sorted(measurements, key=lambda m: m.arrival)
