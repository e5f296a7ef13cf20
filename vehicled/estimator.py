"""The estimator that daemon and replay share: measurements in, estimates and innovation records out.

It has no I/O and reads no clock: the same measurements in the same order give the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np

from vehicled.configuration import Configuration
from vehicled.errors import RunError, UsageError
from vehicled.geodesy import WorldOrigin
from vehicled.messages import ESTIMATE_COLUMNS, ESTIMATE_INDEX, WHEELS, Estimate, Innovation, Measurement
from vehicled.observers.error_ekf import UNSEEN
from vehicled.observers.settings import Filter
from vehicled.observers.vehicle_errors import (
    ACCELERATION_ERROR,
    ACCELEROMETER_BIAS,
    AHEAD,
    CHART_PAIRS,
    DRIVE,
    GYRO_BIAS,
    LEFT,
    PAIRS,
    SPEED_SCALE,
    SUSPENSION,
    WANDER,
    WHEEL_ANGLE,
    WHEEL_RATE,
)
from vehicled.observers.vehicle_filter import VehicleFilter
from vehicled.sensors.inputs import Inputs
from vehicled.sensors.kernels import MOUNTING
from vehicled.sensors.settings import FixNoise, Gate, Sensors
from vehicled.sensors.source import Source
from vehicled.settings import find_fault
from vehicled.symbolic.program import Layout
from vehicled.vehicle.outputs import CORNER_OUTPUTS, ROOT_OUTPUTS

_LONGEST_STEP_NS = 10_000_000
"""A longer time between steps is simulated in several."""
_LONGEST_GAP_NS = 2_000_000_000
"""After a longer time without steps the filter starts anew."""
_WHEEL_ANGLES = tuple(f"wheel.{w}.angle" for w in WHEELS)
_WHEEL_SPEEDS = tuple(f"wheel.{w}.speed" for w in WHEELS)
_GNSS = frozenset(("gnss.lat", "gnss.speed", "gnss.course", "gnss.quality"))
_STARTERS = frozenset((*_GNSS, "vehicle.speed", *_WHEEL_ANGLES, *_WHEEL_SPEEDS))
_GYRO = ("imu.wx", "imu.wy", "imu.wz")
_ACCELEROMETER = ("imu.ax", "imu.ay", "imu.az")
_SIDESLIP = 0.01
"""rad: difference of heading and course that the model may leave when the car is first turned."""
_TURNING_NS = 100_000_000
"""Time over which the turning of wheels tells the speed."""
_LEVEL_EVERY_NS = 100_000_000
"""Time between reminders that roads are level but for a small slope."""
_UNKNOWN_YAW = 1e-4
"""rad²: an unknown heading is not estimated before the car is turned, as a wide variance would be linearised
over far too wide a range."""
_SAVE_EVERY = 250
"""Steps between copies of a good state."""
_FASTEST = 200.0
"""m/s: no car is faster; beyond it the filter has diverged."""

_LEAST_ACCURACY = 2e-3
"""m: no receiver is better, whatever it says."""
_FARTHEST = 1e5
"""m: a given origin farther away than this is not meant for this drive; a tangent plane is no map of a country."""
_GEODETIC = np.array([ESTIMATE_INDEX[n] for n in ("lat", "lon", "alt")])
_SIGMAS = ("x", "y", "z", "yaw", "vx", "vy", "sideslip")
_SIGMA_YAW = ESTIMATE_INDEX["sigma.yaw"]

_SEE = {
    name: f"see.{name}"
    for name in (
        *("gnss.position", "gnss.speed", "gnss.course", "imu.gyro", "imu.accel", "vehicle.speed"),
        *(*_WHEEL_ANGLES, *_WHEEL_SPEEDS),
    )
}
"""Kind of observation to the kernel that judges it."""

LIMITS = {
    **dict.fromkeys(_ACCELEROMETER, 500.0),
    **dict.fromkeys(_GYRO, 50.0),
    **{"gnss.lat": 90.0, "gnss.lon": 360.0, "gnss.alt": 1e5, "gnss.quality": 100.0},
    **{"gnss.h_acc": 1e5, "gnss.v_acc": 1e5, "gnss.speed": _FASTEST, "gnss.course": 7.0},
    **{f"wheel.{w}.angle": 1e9 for w in WHEELS},
    **{f"wheel.{w}.speed": 1000.0 for w in WHEELS},
    **{"steer.wheel": 50.0, "steer.rack": 0.3, "steer.fl": 1.5, "steer.fr": 1.5},
    **{"brake.pressure": 1e8, "torque.rl": 1e5, "torque.rr": 1e5, "vehicle.speed": _FASTEST},
}
"""Magnitudes beyond which a value is no measurement (NaN never is within), by channel, in its unit."""


class Estimator:
    """Runs the filter on a car's measurements.

    Not for several threads at once. Between `step` calls nothing happens.
    """

    def __init__(self, configuration: Configuration):
        self._filter_settings = configuration.filter
        self._sensors = configuration.sensors
        self._filter = VehicleFilter(configuration.vehicle, configuration.filter)
        self._gravity = configuration.vehicle.gravity
        self._records: list[Innovation] = []
        self._counters = {
            "steps": 0,
            "starts": 0,
            "restarts": 0,
            "position_sets": 0,
            "alignments": 0,
            "absurd": 0,
        }
        self._told = _find_columns(self._filter.car.layout)
        self._configure_sensors()
        world = configuration.world
        self._given_origin = None if world is None else WorldOrigin.of(world)
        self._forget()

    # -- configuration -----------------------------------------------------------------------------

    def _configure_sensors(self) -> None:
        s = self._sensors
        self._sources: dict[str, Source] = {}

        def source(name: str, gate: Gate) -> None:
            self._sources[name] = Source(gate)

        mounting = dict.fromkeys(MOUNTING, 0.0)
        rotation = np.eye(3)
        if s.imu is not None:
            mounting |= dict(zip(("imu.x", "imu.y", "imu.z"), s.imu.position, strict=True))
            rotation = _rotation(*s.imu.rotation).T
            if s.imu.gyroscopes is not None:
                source("imu.gyro", s.imu.gyroscopes.gate)
            if s.imu.accelerometers is not None:
                source("imu.accel", s.imu.accelerometers.gate)
        if s.gnss is not None:
            mounting |= dict(zip(("antenna.x", "antenna.y", "antenna.z"), s.gnss.antenna, strict=True))
            for name in ("gnss.position", "gnss.speed", "gnss.course"):
                source(name, s.gnss.gate)
            self._fix_kinds = {1: s.gnss.single, 2: s.gnss.dgnss, 4: s.gnss.rtk_fixed, 5: s.gnss.rtk_float}
        for i in range(3):
            for j in range(3):
                mounting[f"imu.r{i + 1}{j + 1}"] = rotation[i, j]
        for w in WHEELS:
            if s.wheel_angles is not None:
                source(f"wheel.{w}.angle", s.wheel_angles.gate)
            if s.wheel_speeds is not None:
                source(f"wheel.{w}.speed", s.wheel_speeds.gate)
        if s.vehicle_speed is not None:
            source("vehicle.speed", s.vehicle_speed.gate)
        self._filter.car.view("mounting")[:] = [mounting[n] for n in MOUNTING]
        drift = self._filter.extra_drift
        drift[:] = 0.0
        if self._filter_settings.drive_force is not None:
            drift[DRIVE - GYRO_BIAS] = self._filter_settings.drive_force.noise**2
        self._filter.acceleration_error(s.imu.accelerometers if s.imu is not None else None)
        if s.imu is not None and s.imu.gyroscopes is not None:
            drift[: ACCELEROMETER_BIAS - GYRO_BIAS] = s.imu.gyroscopes.bias_drift**2
        if s.imu is not None and s.imu.accelerometers is not None:
            drift[ACCELEROMETER_BIAS - GYRO_BIAS : WANDER - GYRO_BIAS] = s.imu.accelerometers.bias_drift**2

    def _forget(self) -> None:
        """Back to before the start."""
        self._running = False
        self._t_ns: int | None = None
        self._first_ns: int | None = None
        self._origin = self._given_origin
        self._in_world = False
        self._inputs = Inputs(self._filter.car, self._sensors.steering)
        self._fix: tuple[int, float, float, float] | None = None
        self._speed: float | None = None
        self._course: float | None = None
        self._turned: tuple[int, float] | None = None
        self._wheel_seen = [False] * 4
        self._aligned = False
        self._saved: np.ndarray | None = None
        """The whole workspace of a good state."""
        self._since_saved = 0
        self._since_level_ns = 0

    # -- the loop's interface ----------------------------------------------------------------------

    def step(self, t_ns: int, measurements: list[Measurement]) -> Estimate | None:
        """Advance to `t_ns` with what arrived since the last step; None until the filter has started.

        Steps may come at any interval; time never goes back (RunError).
        """
        self._records = []
        if self._t_ns is not None and t_ns <= self._t_ns:
            raise RunError(f"step at {t_ns} ns after one at {self._t_ns} ns: time went back")
        if self._first_ns is None and measurements:
            self._first_ns = t_ns
        measurements = [self._sound(m) for m in measurements]
        for m in measurements:
            self._inputs.take(m.t, m.values)
            self._note(m)
        if self._running and self._t_ns is not None and t_ns - self._t_ns > _LONGEST_GAP_NS:
            self._counters["restarts"] += 1
            self._forget()
            self._first_ns = t_ns
        if not self._running:
            self._t_ns = t_ns
            self._look_for_start(t_ns)
            if not self._running:
                return None
        else:
            before = self._t_ns
            assert before is not None
            self._advance(t_ns)
            for m in measurements:
                self._observe(m)
            if self._disbelieved():
                self._restart_in_place(t_ns)
            self._since_level_ns += t_ns - before
            if self._since_level_ns >= _LEVEL_EVERY_NS:
                self._filter.expect_level_ground(self._since_level_ns * 1e-9)
                self._since_level_ns = 0
            self._filter.correct()
        for source in self._sources.values():
            source.look(t_ns)
        self._counters["steps"] += 1
        return self._estimate(t_ns)

    def innovations(self) -> list[Innovation]:
        """Records of the last step."""
        return self._records

    def status(self) -> dict[str, Any]:
        """Counters, the sources' states, and biases; `state` is `waiting`, `aligning` or `running`."""
        state = "waiting" if not self._running else "running" if self._aligned else "aligning"
        extra = self._filter.extra
        return {
            "state": state,
            **self._counters,
            "unconverged": self._filter.unconverged,
            "sensors": {name: source.status() for name, source in self._sources.items()},
            "origin": None
            if self._origin is None
            else [self._origin.latitude, self._origin.longitude, self._origin.height],
            "gyro_bias": extra[: ACCELEROMETER_BIAS - GYRO_BIAS].tolist(),
            "accelerometer_bias": extra[ACCELEROMETER_BIAS - GYRO_BIAS : WANDER - GYRO_BIAS].tolist(),
        }

    def command(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """`reset`; `set_position` (lat and lon, or x and y; optionally alt or z, yaw, sigma, yaw_sigma);
        `reload_noise` (sensors, filter). Raises UsageError."""
        handlers: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "reset": self._command_reset,
            "set_position": self._command_set_position,
            "reload_noise": self._command_reload_noise,
        }
        if name not in handlers:
            raise UsageError(f"unknown command {name!r}: expected one of {', '.join(handlers)}")
        return handlers[name](arguments)

    def _command_reset(self, _: dict[str, Any]) -> dict[str, Any]:
        self._counters["restarts"] += 1
        self._forget()
        return {}

    def _command_set_position(self, arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            wanted = msgspec.convert(arguments, _Position)
        except msgspec.ValidationError as error:
            raise UsageError(f"set_position: {error}") from None
        fault = wanted.find_fault()
        if fault is not None:
            raise UsageError(f"set_position: {fault}")
        if not self._running or self._t_ns is None:
            raise UsageError("set_position: the filter has not started yet")
        f = self._filter
        if wanted.yaw is not None:
            f.turn(wanted.yaw - f.look()[3])
            f.ekf.set_variance(3, wanted.yaw_sigma**2)
            self._aligned = True
        pose = f.look()
        if wanted.lat is not None and wanted.lon is not None:
            if self._origin is None:
                height = (wanted.alt or 0.0) - pose[2]
                self._origin = WorldOrigin(wanted.lat, wanted.lon, height)
            alt = wanted.alt if wanted.alt is not None else self._origin.height + pose[2]
            target = self._origin.to_world(wanted.lat, wanted.lon, alt)
            self._in_world = True
        elif wanted.x is not None and wanted.y is not None:
            target = np.array([wanted.x, wanted.y, pose[2] if wanted.z is None else wanted.z])
        else:
            raise UsageError("set_position: expected either lat and lon, or x and y")
        f.move(target - pose[:3])
        for i in (0, 1):
            f.ekf.set_variance(i, wanted.sigma**2)
        f.remember(self._t_ns)
        self._counters["position_sets"] += 1
        return {}

    def _command_reload_noise(self, arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            sensors = msgspec.convert(arguments["sensors"], Sensors, strict=False)
            settings = msgspec.convert(arguments["filter"], Filter, strict=False)
        except (KeyError, msgspec.ValidationError) as error:
            raise UsageError(f"reload_noise: {error}") from None
        fault = find_fault(sensors, "sensors") or find_fault(settings, "filter")
        if fault is not None:
            raise UsageError(f"reload_noise: {fault}")
        if (settings.suspension is None) != (self._filter_settings.suspension is None):
            raise UsageError("reload_noise: filter.suspension adds or removes states, which takes a restart")
        self._sensors, self._filter_settings = sensors, settings
        self._configure_sensors()
        self._filter.set_noise(settings)
        return {}

    # -- start -------------------------------------------------------------------------------------

    def _sound(self, m: Measurement) -> Measurement:
        """The measurement without values that no sensor of a car can give; each is counted and recorded."""
        for channel, value in m.values.items():
            if not abs(value) <= LIMITS.get(channel, math.inf):
                break
        else:
            return m
        good = {}
        for channel, value in m.values.items():
            if abs(value) <= LIMITS.get(channel, math.inf):
                good[channel] = value
                continue
            self._counters["absurd"] += 1
            nan = math.nan
            t = self._t_ns if self._t_ns is not None else m.t
            self._records.append(
                Innovation(m.t, t, channel, m.source, [value], [], [], [], nan, nan, False, "absurd")
            )
        return Measurement(m.source, m.t, m.arrival, good)

    def _look_for_start(self, t_ns: int) -> None:
        """Start as soon as position and speed are known, or without position when none will come."""
        if self._first_ns is None:
            return  # nothing has spoken yet
        settings = self._filter_settings.start
        waited = (t_ns - self._first_ns) * 1e-9
        if self._sensors.gnss is not None and self._fix is None and waited < settings.wait_for_gnss:
            return
        if self._speed is None and waited < settings.wait_for_gnss:
            return
        self._start(t_ns)

    def _note(self, m: Measurement) -> None:
        """What a start needs to know."""
        v = m.values
        if _STARTERS.isdisjoint(v):
            return
        fix = self._usable_fix(v)
        if fix is not None:
            self._fix = (m.t, *fix)
        if "vehicle.speed" in v and self._sensors.vehicle_speed is not None:
            self._speed = v["vehicle.speed"]
        elif "gnss.speed" in v and self._sensors.gnss is not None:
            self._speed = v["gnss.speed"]
        elif "wheel.rl.speed" in v and "wheel.rr.speed" in v and self._sensors.wheel_speeds is not None:
            mean = 0.5 * (v["wheel.rl.speed"] + v["wheel.rr.speed"])
            self._speed = mean * float(self._filter.car.rolling_radius[2])
        elif "wheel.rl.angle" in v and "wheel.rr.angle" in v and self._sensors.wheel_angles is not None:
            self._note_turning(m.t, 0.5 * (v["wheel.rl.angle"] + v["wheel.rr.angle"]))
        if (
            "gnss.course" in v
            and self._sensors.gnss is not None
            and (self._speed or 0.0) > self._sensors.gnss.least_speed
        ):
            self._course = v["gnss.course"]

    def _note_turning(self, t_ns: int, angle: float) -> None:
        """Speed from how far the rear wheels have turned in a while."""
        if self._turned is None or t_ns < self._turned[0]:
            self._turned = (t_ns, angle)
        elif t_ns - self._turned[0] >= _TURNING_NS:
            radius = float(self._filter.car.rolling_radius[2:].mean())
            self._speed = radius * (angle - self._turned[1]) / ((t_ns - self._turned[0]) * 1e-9)
            self._turned = (t_ns, angle)

    def _usable_fix(self, v: dict[str, float]) -> tuple[float, float, float] | None:
        """Latitude, longitude, height of a fix that has a position; height NaN where it has none."""
        if self._sensors.gnss is None or "gnss.lat" not in v or "gnss.lon" not in v:
            return None
        if v.get("gnss.quality", 1.0) < 1.0:
            return None
        return v["gnss.lat"], v["gnss.lon"], v.get("gnss.alt", math.nan)

    def _start(self, t_ns: int) -> None:
        f, settings = self._filter, self._filter_settings.start
        speed = self._speed or 0.0
        yaw, yaw_sigma = settings.yaw, settings.yaw_sigma
        gnss = self._sensors.gnss
        self._aligned = False
        if self._course is not None and gnss is not None:
            yaw, yaw_sigma = math.pi / 2 - self._course, 0.03
            self._aligned = True
        if self._sensors.gnss is None or self._fix is None:
            self._aligned = True  # nothing will ever tell: the local frame is what it is
            yaw_sigma = min(yaw_sigma, 1e-3)
        position = np.array([0.0, 0.0, f.car.design_height])
        known = self._fix is not None
        f.place(position, yaw, speed)
        if self._fix is not None:
            self._set_origin(self._fix)
            self._in_world = True
            # The fix is as old as its way here was long; the car has gone on since.
            gone = speed * (t_ns - self._fix[0]) * 1e-9
            f.move(self._antenna_offset(self._fix) + gone * np.array([math.cos(yaw), math.sin(yaw), 0.0]))
        p = np.zeros(f.ekf.size)
        p[0:2] = settings.position_sigma**2 if known else 1e-6
        p[2] = settings.position_sigma**2 if known else 1e-6
        p[3] = yaw_sigma**2 if self._aligned else _UNKNOWN_YAW
        p[4:6] = self._filter_settings.ground_slope**2
        p[WHEEL_ANGLE:PAIRS] = 10.0
        p[AHEAD] = settings.speed_sigma**2
        p[LEFT] = (_SIDESLIP * speed) ** 2 + 1e-6
        p[PAIRS + 2] = 1e-6
        p[PAIRS + 3] = settings.rate_sigma**2
        p[PAIRS + 4 : WHEEL_RATE] = 1e-6
        p[WHEEL_RATE:GYRO_BIAS] = 0.1**2 + (0.002 * speed / 0.3) ** 2
        imu = self._sensors.imu
        if imu is not None and imu.gyroscopes is not None:
            p[GYRO_BIAS:ACCELEROMETER_BIAS] = imu.gyroscopes.bias**2
        if imu is not None and imu.accelerometers is not None:
            p[ACCELEROMETER_BIAS:WANDER] = imu.accelerometers.bias**2
            p[ACCELERATION_ERROR:DRIVE] = np.square(imu.accelerometers.model_error)
        if self._sensors.vehicle_speed is not None:
            p[SPEED_SCALE] = self._sensors.vehicle_speed.scale**2
        if self._filter_settings.drive_force is not None:
            p[DRIVE] = 1.0
        if self._filter_settings.suspension is not None:
            p[SUSPENSION:] = 1e-8
        f.ekf.covariance = np.diag(p)
        f.ekf.x[:] = 0.0
        f.extra[:] = 0.0
        f.wander[1:] = 0.0
        self._running = True
        self._counters["starts"] += 1
        f.remember(t_ns)
        self._save()

    def _set_origin(self, fix: tuple[int, float, float, float]) -> None:
        """The first fix, unless an origin is given that is not on the other side of the country."""
        _, latitude, longitude, height = fix
        height = 0.0 if math.isnan(height) else height
        if self._origin is not None:
            away = self._origin.to_world(latitude, longitude, height)
            if float(np.hypot(away[0], away[1])) <= _FARTHEST:
                return
        self._origin = WorldOrigin(latitude, longitude, height)

    def _antenna_offset(self, fix: tuple[int, float, float, float]) -> np.ndarray:
        """(3,) from where the antenna is to where a fix says it is; vertical 0 without height."""
        assert self._origin is not None
        _, latitude, longitude, height = fix
        known = not math.isnan(height)
        place = self._origin.to_world(latitude, longitude, height if known else self._origin.height)
        offset = place - self._filter.antenna()
        if not known:
            offset[2] = 0.0
        return offset

    # -- prediction --------------------------------------------------------------------------------

    def _advance(self, t_ns: int) -> None:
        assert self._t_ns is not None
        f = self._filter
        begin = self._t_ns
        pieces = max(1, -(-(t_ns - begin) // _LONGEST_STEP_NS))
        for k in range(1, pieces + 1):
            until = begin + (t_ns - begin) * k // pieces
            self._inputs.apply(until * 1e-9)
            f.advance(until, (until - self._t_ns) * 1e-9)
            self._t_ns = until
        self._guard()

    def _guard(self) -> None:
        """Divergence: begin again from the last good state."""
        f = self._filter
        pose = f.now
        # What is not finite makes its sum so.
        if math.isfinite(pose.sum() + f.ekf.packed.sum()) and abs(pose[6]) + abs(pose[7]) < _FASTEST:
            self._since_saved += 1
            if self._since_saved >= _SAVE_EVERY or self._saved is None:
                self._save()
            return
        assert self._t_ns is not None and self._saved is not None
        f.car.workspace[:] = self._saved
        self._restart_in_place(self._t_ns)

    def _save(self) -> None:
        f = self._filter
        self._since_saved = 0
        self._saved = f.car.workspace.copy()

    def _disbelieved(self) -> bool:
        """Whether most of the sensors that speak have long been failing their gates: then it is the filter that
        has lost its way, and not they."""
        failing = [s for s in self._sources.values() if s.failures >= s.gate.persistent]
        if len(failing) < 2:
            return False
        speaking = [s for s in self._sources.values() if s.state in ("active", "distrusted")]
        lost = [s for s in failing if s in speaking]
        return len(lost) >= 2 and 2 * len(lost) > len(speaking)

    def _restart_in_place(self, t_ns: int) -> None:
        """Begin anew where the car is thought to be, at the speed that is measured now."""
        f = self._filter
        pose, extra, aligned = f.look().copy(), f.extra.copy(), self._aligned
        variances = f.ekf.variances
        # A good state may be a second old.
        travelled = abs(pose[6]) * _SAVE_EVERY / 250.0
        self._counters["restarts"] += 1
        self._fix = self._course = None
        self._start(t_ns)
        self._aligned, self._wheel_seen = aligned, [False] * len(WHEELS)
        f.extra[:] = extra
        f.turn(pose[3] - f.look()[3])
        f.move(pose[:3] - f.look()[:3])
        for i, least in ((0, 1.0 + travelled), (1, 1.0 + travelled), (2, 1.0), (3, 0.1)):
            f.ekf.set_variance(i, max(float(variances[i]), least**2))
        f.remember(t_ns)
        self._save()
        for source in self._sources.values():
            source.failures = 0

    # -- observations ------------------------------------------------------------------------------

    def _observe(self, m: Measurement) -> None:
        v, s = m.values, self._sensors
        if s.gnss is not None and not _GNSS.isdisjoint(v):
            self._observe_gnss(m)
        if s.imu is not None:
            if s.imu.gyroscopes is not None:
                self._observe_axes(m, "imu.gyro", _GYRO, s.imu.gyroscopes.noise**2)
            if s.imu.accelerometers is not None:
                self._observe_axes(m, "imu.accel", _ACCELEROMETER, s.imu.accelerometers.noise**2)
        if s.wheel_angles is not None:
            noise = s.wheel_angles.resolution**2 / 12 + s.wheel_angles.noise**2
            for n, channel in enumerate(_WHEEL_ANGLES):
                if channel in v:
                    self._observe_wheel_angle(m, n, channel, noise)
        if s.wheel_speeds is not None:
            for channel in _WHEEL_SPEEDS:
                if channel in v:
                    self._fuse(m, channel, [v[channel]], [s.wheel_speeds.noise**2])
        if s.vehicle_speed is not None and "vehicle.speed" in v:
            self._fuse(m, "vehicle.speed", [v["vehicle.speed"]], [s.vehicle_speed.noise**2])

    def _observe_axes(self, m: Measurement, name: str, channels: tuple[str, ...], variance: float) -> None:
        """Gyroscopes or accelerometers, with whatever axes the measurement has."""
        v = m.values
        present = [k for k, c in enumerate(channels) if c in v]
        if len(present) == 3:
            self._fuse(m, name, [v[c] for c in channels], [variance] * 3)
        elif present:
            value = [v.get(c, 0.0) for c in channels]
            self._fuse(m, name, value, [variance if c in v else UNSEEN for c in channels], present)

    def _observe_wheel_angle(self, m: Measurement, wheel: int, channel: str, noise: float) -> None:
        if not self._wheel_seen[wheel] or self._sources[channel].state == "lost":
            # Counters start anywhere: the first one sets the angle.
            self._wheel_seen[wheel] = True
            self._filter.correct()
            if self._filter.judge(_SEE[channel], m.t, [m.values[channel]], [noise]) is not None:
                self._set_wheel_angle(wheel, float(self._filter.ekf.innovation[0]))
        self._fuse(m, channel, [m.values[channel]], [noise])

    def _set_wheel_angle(self, wheel: int, change: float) -> None:
        f = self._filter
        f.correct()
        wheels = np.zeros((2, len(WHEELS)))
        wheels[0, wheel] = change
        f.car.correct(np.zeros(2 * CHART_PAIRS), wheels)
        f.ekf.set_variance(WHEEL_ANGLE + wheel, 1e-4)
        f.note(WHEEL_ANGLE + wheel, change)

    # -- GNSS --------------------------------------------------------------------------------------

    def _observe_gnss(self, m: Measurement) -> None:
        s, v = self._sensors.gnss, m.values
        assert s is not None
        fix = self._usable_fix(v)
        if fix is None and ("gnss.lat" in v or v.get("gnss.quality", 1.0) < 1.0):
            self._refuse(m, "gnss.position", [], "no fix")
        moving = v.get("gnss.speed", 0.0) > s.least_speed
        if fix is not None and not self._in_world:
            self._join_world((m.t, *fix))
        if "gnss.course" in v and moving and not self._aligned:
            self._align(m, fix)
        if fix is not None:
            self._observe_position(m, fix)
        if "gnss.speed" in v:
            if v["gnss.speed"] < 0.3:
                # Next to standstill the speed of a noisy velocity is no longer Gaussian.
                self._refuse(m, "gnss.speed", [v["gnss.speed"]], "not moving")
            else:
                self._fuse(m, "gnss.speed", [v["gnss.speed"]], [self._fix_noise(v).velocity ** 2])
        if "gnss.course" in v:
            if not moving:
                self._refuse(m, "gnss.course", [v["gnss.course"]], "not moving")
                return  # nor without a speed beside it, which its noise depends on
            noise = (self._fix_noise(v).velocity / v["gnss.speed"]) ** 2 + s.sideslip_error**2
            self._fuse(m, "gnss.course", [v["gnss.course"]], [noise])

    def _fix_noise(self, v: dict[str, float]) -> FixNoise:
        return self._fix_kinds.get(int(v.get("gnss.quality", 1.0)), self._fix_kinds[1])

    def _observe_position(self, m: Measurement, fix: tuple[float, float, float]) -> None:
        s, v = self._sensors.gnss, m.values
        assert s is not None and self._origin is not None
        kind = self._fix_noise(v)
        horizontal, vertical = kind.horizontal, kind.vertical
        wander = kind.wander
        if s.trust_reported_accuracy and "gnss.h_acc" in v:
            reported = max(v["gnss.h_acc"], _LEAST_ACCURACY)
            horizontal, wander = reported, wander * reported / horizontal
        if s.trust_reported_accuracy and "gnss.v_acc" in v:
            vertical = max(v["gnss.v_acc"], _LEAST_ACCURACY)
        self._filter.begin_wander(wander, kind.wander_time)
        known = not math.isnan(fix[2])
        place = self._origin.to_world(fix[0], fix[1], fix[2] if known else self._origin.height)
        level = horizontal**2 - wander**2
        if known:
            white = [level, level, max(vertical**2 - 4 * wander**2, 0.25 * vertical**2)]
            self._fuse(m, "gnss.position", place.tolist(), white)
        else:
            self._fuse(m, "gnss.position", place.tolist(), [level, level, UNSEEN], [0, 1])

    def _join_world(self, fix: tuple[int, float, float, float]) -> None:
        """The first fix of a filter that began without one: from now on it knows where in the world it is."""
        self._set_origin(fix)
        self._in_world = True
        f = self._filter
        f.correct()
        f.move(self._antenna_offset(fix))
        for i in range(3):
            f.ekf.set_variance(i, self._filter_settings.start.position_sigma**2)
        f.ekf.set_variance(3, _UNKNOWN_YAW)
        self._aligned = False
        assert self._t_ns is not None
        f.remember(self._t_ns)
        self._counters["position_sets"] += 1

    def _align(self, m: Measurement, fix: tuple[float, float, float] | None) -> None:
        """The first course over ground turns a car whose heading was unknown."""
        s, f, v = self._sensors.gnss, self._filter, m.values
        assert s is not None and self._t_ns is not None
        f.correct()
        if f.judge(_SEE["gnss.course"], m.t, [v["gnss.course"]], [1.0]) is None:
            return
        f.turn(-float(f.ekf.innovation[0]))
        f.ekf.set_variance(3, (self._fix_noise(v).velocity / v["gnss.speed"]) ** 2 + _SIDESLIP**2)
        if fix is not None:
            f.move(self._antenna_offset((m.t, *fix)))
            for i in (0, 1):
                f.ekf.set_variance(i, self._filter_settings.start.position_sigma**2)
        f.remember(self._t_ns)
        self._counters["alignments"] += 1
        self._aligned = True

    # -- fusion ------------------------------------------------------------------------------------

    def _fuse(
        self,
        m: Measurement,
        name: str,
        value: list[float],
        noise: list[float],
        present: Sequence[int] | None = None,
    ) -> None:
        """Judge one observation; fuse it, refuse it, or, when the policy says so, begin anew from it; record it.

        `noise`: variances; `present`: which of the components were measured, if not all.
        """
        source, f = self._sources[name], self._filter
        source.heard(m.t)
        nis = f.judge(_SEE[name], m.t, value, noise)
        if nis is None:
            self._refuse(m, name, value if present is None else [value[k] for k in present], "too old")
            return
        m_dim = len(value)
        innovation, variance = f.ekf.innovation[:m_dim].tolist(), f.ekf.variance[:m_dim].tolist()
        if present is not None:
            value, innovation, variance = ([x[k] for k in present] for x in (value, innovation, variance))
        ratio = nis / source.thresholds[len(value) - 1]
        reason = "fused" if ratio <= 1.0 else "gate"
        if reason == "fused":
            f.ekf.fuse(m_dim)
            source.accept()
        elif source.fail():
            self._believe(name, f.ekf.innovation[:m_dim].copy(), noise)
            reason = "reset"
        assert self._t_ns is not None
        self._records.append(
            Innovation(
                m.t,
                self._t_ns,
                name,
                m.source,
                value,
                [v - i for v, i in zip(value, innovation, strict=True)],
                innovation,
                variance,
                nis,
                ratio,
                reason != "gate",
                reason,
            )
        )

    def _believe(self, name: str, innovation: np.ndarray, noise: list[float]) -> None:
        """A source that keeps failing is right: take what it says, and forget what was thought of it."""
        f = self._filter
        seen = np.array(noise) < UNSEEN
        if name == "gnss.position":
            f.correct()
            offset = np.where(seen, innovation, 0.0)
            f.move(offset)
            for k in map(int, np.flatnonzero(seen)):
                f.note(k, float(offset[k]))
                f.ekf.set_variance(k, noise[k])
        elif name.startswith("wheel.") and name.endswith(".angle"):
            self._set_wheel_angle(WHEELS.index(name.split(".")[1]), float(innovation[0]))
        else:
            # Open the states that it sees to what it says, and let it in again.
            variances, rows = f.ekf.variances, f.ekf.rows[: len(noise)][seen]
            surprise = float(innovation[seen] @ innovation[seen])
            for i in map(int, np.flatnonzero(np.abs(rows).max(axis=0) > 0.1)):
                f.ekf.set_variance(i, float(variances[i] + surprise))

    def _refuse(self, m: Measurement, name: str, value: list[float], reason: str) -> None:
        """A measurement that cannot be judged."""
        source = self._sources[name]
        source.heard(m.t)
        source.refuse(reason)
        assert self._t_ns is not None
        nan = math.nan
        self._records.append(
            Innovation(m.t, self._t_ns, name, m.source, value, [], [], [], nan, nan, False, reason)
        )

    # -- output ------------------------------------------------------------------------------------

    def _estimate(self, t_ns: int) -> Estimate:
        f = self._filter
        f.tell()
        values = f.car.workspace[self._told]
        if self._origin is None or not self._in_world:
            values[_GEODETIC] = math.nan
        else:
            values[_GEODETIC] = self._origin.to_geodetic(f.car.outputs[:3])
        if not self._aligned:
            values[_SIGMA_YAW] = self._filter_settings.start.yaw_sigma
        return Estimate(t_ns, values)


class _Position(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of the command `set_position`: degrees and metres on the Earth, or metres in the world frame."""

    lat: float | None = None
    lon: float | None = None
    alt: float | None = None
    x: float | None = None
    y: float | None = None
    z: float | None = None
    yaw: float | None = None
    """rad."""
    sigma: float = 0.1
    yaw_sigma: float = 0.05

    def find_fault(self) -> str | None:
        """The first number that cannot be; None if all can."""
        bounds = {"lat": 90.0, "lon": 360.0, "alt": 1e5, "yaw": 100.0, "sigma": 1e5, "yaw_sigma": 4.0}
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is None:
                continue
            bound = bounds.get(name, 1e7)
            if not abs(value) <= bound or ("sigma" in name and value <= 0.0):
                return (
                    f"{name}: expected a number within ±{bound:g}, standard deviations above 0, got {value:g}"
                )
        return None


def _find_columns(layout: Layout) -> np.ndarray:
    """(len(ESTIMATE_COLUMNS),) where in a workspace each column is told; 0 for those that are not told there."""
    places = np.zeros(len(ESTIMATE_COLUMNS), dtype=np.intp)
    every = np.arange(layout.size)
    for names, array in ((ROOT_OUTPUTS, "outputs"), ([f"sigma.{n}" for n in _SIGMAS], "sigmas")):
        places[[ESTIMATE_INDEX[n] for n in names]] = layout.view(every, array)
    for output, row in zip(CORNER_OUTPUTS, layout.view(every, "corner_outputs"), strict=True):
        group, quantity = output.split(".")
        places[[ESTIMATE_INDEX[f"{group}.{w}.{quantity}"] for w in WHEELS]] = row
    return places


def _rotation(roll: float, pitch: float, yaw: float) -> np.ndarray:
    """Matrix whose columns are the turned axes, z-y-x order."""
    cr, sr, cp, sp, cy, sy = (f(a) for a in (roll, pitch, yaw) for f in (math.cos, math.sin))
    return np.array(
        [
            [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
            [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
            [-sp, cp * sr, cp * cr],
        ]
    )
