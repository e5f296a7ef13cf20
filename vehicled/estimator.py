"""The estimator that daemon and replay share: measurements in, estimates and innovation records out.

It has no I/O and reads no clock: the same measurements in the same order give the same bytes. Here is its life:
start, steps, restarts, commands, output; what measurements do to the filter is in `aiding`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from vehicled.configuration import Configuration
from vehicled.errors import RunError, UsageError
from vehicled.filter.kinds import make_filter
from vehicled.filter.settings import Filter
from vehicled.filter.vehicle_errors import (
    ACCELERATION_ERROR,
    ACCELEROMETER_BIAS,
    AHEAD,
    DRIVE,
    GYRO_BIAS,
    LEFT,
    PAIRS,
    SPEED_SCALE,
    SUSPENSION,
    WANDER,
    WHEEL_ANGLE,
    WHEEL_RATE,
    YAW,
)
from vehicled.filter.vehicle_filter import VehicleFilter
from vehicled.geodesy import WorldOrigin
from vehicled.messages import ESTIMATE_COLUMNS, ESTIMATE_INDEX, WHEELS, Estimate, Innovation, Measurement
from vehicled.settings import find_fault
from vehicled.sources.fusion import Fusion
from vehicled.sources.gnss import CHANNELS as GNSS_CHANNELS
from vehicled.sources.gnss import UNKNOWN_YAW, GnssAiding, Place
from vehicled.sources.inputs import Inputs
from vehicled.sources.limits import FASTEST, without_absurd
from vehicled.sources.onboard import Onboard
from vehicled.sources.settings import Sensors
from vehicled.sources.start import FirstWords
from vehicled.symbolic.program import Layout
from vehicled.vehicle.outputs import CORNER_OUTPUTS, ROOT_OUTPUTS
from vehicled.vehicle.sensor_models import MOUNTING

_LONGEST_STEP_NS = 10_000_000
"""A longer time between steps is simulated in several."""
_LONGEST_GAP_NS = 2_000_000_000
"""After a longer time without steps the filter starts anew."""
_LEVEL_EVERY_NS = 100_000_000
"""Time between reminders that roads are level but for a small slope."""
_SAVE_EVERY = 250
"""Steps between copies of a good state."""
_SIDESLIP = 0.01
"""rad: of a car that is first seen while it drives."""
_COURSE_SIGMA = 0.03
"""rad: of a heading that is taken from the first course over ground."""
_GEODETIC = np.array([ESTIMATE_INDEX[n] for n in ("lat", "lon", "alt")])
_SIGMAS = ("x", "y", "z", "yaw", "vx", "vy", "sideslip")
_SIGMA_YAW = ESTIMATE_INDEX["sigma.yaw"]


class Estimator:
    """Runs the filter on a car's measurements.

    Not for several threads at once. Between `step` calls nothing happens.
    """

    def __init__(self, configuration: Configuration):
        self._filter_settings = configuration.filter
        self._sensors = configuration.sensors
        self._filter = self._make_filter(configuration)
        self._counters: Counter[str] = Counter(
            dict.fromkeys(("steps", "starts", "restarts", "position_sets", "alignments", "absurd"), 0)
        )
        self._fusion = Fusion(self._filter)
        self._place = Place(configuration.world)
        self._onboard = Onboard(self._filter, self._fusion)
        self._gnss: GnssAiding | None = None
        self._told = _find_columns(self._filter.car.layout)
        self._configure()
        self._forget()

    # -- configuration -----------------------------------------------------------------------------

    def _make_filter(self, configuration: Configuration) -> VehicleFilter:
        return make_filter(configuration.vehicle, configuration.filter)

    def _configure(self) -> None:
        """Sensors and noise, also while running."""
        s, f = self._sensors, self._filter
        self._fusion.reconfigure()
        self._onboard.configure(s)
        self._gnss = None
        mounting = dict.fromkeys(MOUNTING, 0.0)
        rotation = np.eye(3)
        if s.gnss is not None:
            self._gnss = GnssAiding(f, self._fusion, self._place, self._counters)
            self._gnss.configure(s.gnss, self._filter_settings.start)
            mounting |= dict(zip(("antenna.x", "antenna.y", "antenna.z"), s.gnss.antenna, strict=True))
        if s.imu is not None:
            mounting |= dict(zip(("imu.x", "imu.y", "imu.z"), s.imu.position, strict=True))
            rotation = _rotation(*s.imu.rotation).T
        mounting |= {f"imu.r{i + 1}{j + 1}": rotation[i, j] for i in range(3) for j in range(3)}
        f.car.view("mounting")[:] = [mounting[n] for n in MOUNTING]
        drift = dict.fromkeys(range(GYRO_BIAS, f.ekf.size), 0.0)
        if self._filter_settings.drive_force is not None:
            drift[DRIVE] = self._filter_settings.drive_force.noise**2
        if s.imu is not None and s.imu.gyroscopes is not None:
            drift |= dict.fromkeys(range(GYRO_BIAS, ACCELEROMETER_BIAS), s.imu.gyroscopes.bias_drift**2)
        if s.imu is not None and s.imu.accelerometers is not None:
            drift |= dict.fromkeys(range(ACCELEROMETER_BIAS, WANDER), s.imu.accelerometers.bias_drift**2)
        f.extra_drift[:] = list(drift.values())
        f.acceleration_error(s.imu.accelerometers if s.imu is not None else None)

    def _reconfigure(self) -> None:
        """Settings into a filter that runs."""
        self._configure()
        self._heard.configure(self._sensors, self._gnss)
        self._filter.set_noise(self._filter_settings)

    def _forget(self) -> None:
        """Back to before the start."""
        self._running = False
        self._t_ns: int | None = None
        self._first_ns: int | None = None
        self._place.forget()
        self._onboard.forget()
        self._inputs = Inputs(self._filter.car, self._sensors)
        radius = float(self._filter.car.rolling_radius[2:].mean())
        self._heard = FirstWords(self._sensors, self._gnss, radius)
        self._saved: np.ndarray | None = None
        """The whole workspace of a good state."""
        self._since_saved = 0
        self._since_level_ns = 0

    # -- the loop's interface ----------------------------------------------------------------------

    def step(self, t_ns: int, measurements: list[Measurement]) -> Estimate | None:
        """Advance to `t_ns` with what arrived since the last step; None until the filter has started.

        Steps may come at any interval; time never goes back (RunError).
        """
        fusion = self._fusion
        fusion.records, fusion.step_ns = [], t_ns
        before = self._t_ns
        if before is not None and t_ns <= before:
            raise RunError(f"step at {t_ns} ns after one at {before} ns: time went back")
        if self._first_ns is None and measurements:
            self._first_ns = t_ns
        sound = []
        for given in measurements:
            m, absurd = without_absurd(given, fusion)
            if absurd:
                self._counters["absurd"] += absurd
            sound.append(m)
            self._inputs.take(m.t, m.values)
            self._heard.take(m)
        if self._running and before is not None and t_ns - before > _LONGEST_GAP_NS:
            self._counters["restarts"] += 1
            self._forget()
            self._first_ns = t_ns
        if not self._running:
            self._t_ns = t_ns
            self._look_for_start(t_ns)
            if not self._running:
                return None
        else:
            assert before is not None
            self._advance(t_ns)
            for m in sound:
                if self._gnss is not None and not GNSS_CHANNELS.isdisjoint(m.values):
                    self._gnss.observe(m)
                self._onboard.observe(m)
            if fusion.is_filter_lost():
                self._restart_in_place(t_ns)
            self._since_level_ns += t_ns - before
            if self._since_level_ns >= _LEVEL_EVERY_NS:
                self._filter.expect_level_ground(self._since_level_ns * 1e-9)
                self._since_level_ns = 0
            self._filter.correct()
        fusion.look(t_ns)
        self._counters["steps"] += 1
        return self._estimate(t_ns)

    def innovations(self) -> list[Innovation]:
        """Records of the last step."""
        return self._fusion.records

    def status(self) -> dict[str, Any]:
        """Counters, the sources' states, and biases; `state` is `waiting`, `aligning` or `running`."""
        state = "waiting" if not self._running else "running" if self._place.aligned else "aligning"
        origin, extra = self._place.origin, self._filter.extra.tolist()
        return {
            "state": state,
            **self._counters,
            "unconverged": self._filter.unconverged,
            "repairs": self._filter.repairs,
            "sensors": {name: source.status() for name, source in self._fusion.sources.items()},
            "origin": None if origin is None else [origin.latitude, origin.longitude, origin.height],
            "gyro_bias": extra[: ACCELEROMETER_BIAS - GYRO_BIAS],
            "accelerometer_bias": extra[ACCELEROMETER_BIAS - GYRO_BIAS : WANDER - GYRO_BIAS],
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
            f.ekf.set_variance(YAW, wanted.yaw_sigma**2)
            self._place.aligned = True
        pose = f.look()
        if wanted.lat is not None and wanted.lon is not None:
            place = self._place
            if place.origin is None:
                place.origin = WorldOrigin(wanted.lat, wanted.lon, (wanted.alt or 0.0) - pose[2])
            alt = wanted.alt if wanted.alt is not None else place.origin.height + pose[2]
            target = place.origin.to_world(wanted.lat, wanted.lon, alt)
            place.known = True
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
        self._reconfigure()
        return {}

    # -- start -------------------------------------------------------------------------------------

    def _look_for_start(self, t_ns: int) -> None:
        """Start as soon as position and speed are known, or without position when none will come."""
        if self._first_ns is None:
            return  # nothing has spoken yet
        waited = (t_ns - self._first_ns) * 1e-9
        missing = self._heard.speed is None or (self._gnss is not None and self._heard.fix is None)
        if not missing or waited >= self._filter_settings.start.wait_for_gnss:
            self._start(t_ns)

    def _start(self, t_ns: int) -> None:
        f, settings, heard, place = self._filter, self._filter_settings.start, self._heard, self._place
        speed = heard.speed or 0.0
        yaw, yaw_sigma = settings.yaw, settings.yaw_sigma
        known = heard.fix is not None
        # Without a receiver nothing will ever tell: the local frame is what it is.
        place.aligned = heard.course is not None or not known
        if heard.course is not None:
            yaw, yaw_sigma = math.pi / 2 - heard.course, _COURSE_SIGMA
        if not known:
            yaw_sigma = min(yaw_sigma, 1e-3)
        f.place(np.array([0.0, 0.0, f.car.design_height]), yaw, speed)
        if heard.fix is not None:
            assert self._gnss is not None
            measured_ns, fix = heard.fix
            place.find_origin(fix)
            # The fix is as old as its way here was long; the car has gone on since.
            gone = speed * (t_ns - measured_ns) * 1e-9
            f.move(self._gnss.offset(fix) + gone * np.array([math.cos(yaw), math.sin(yaw), 0.0]))
        p = np.zeros(f.ekf.size)
        p[:3] = settings.position_sigma**2 if known else 1e-6
        p[YAW] = yaw_sigma**2 if place.aligned else UNKNOWN_YAW
        p[YAW + 1 : WHEEL_ANGLE] = self._filter_settings.ground_slope**2
        p[WHEEL_ANGLE:PAIRS] = 10.0
        p[PAIRS:WHEEL_RATE] = 1e-6
        p[AHEAD] = settings.speed_sigma**2
        p[LEFT] += (_SIDESLIP * speed) ** 2
        p[PAIRS + YAW] = settings.rate_sigma**2
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
        p[SUSPENSION:] = 1e-8
        f.ekf.covariance = np.diag(p)
        f.ekf.x[:] = 0.0
        f.extra[:] = 0.0
        f.wander[1:] = 0.0
        self._running = True
        self._counters["starts"] += 1
        f.remember(t_ns)
        self._save()

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
        if math.isfinite(pose.sum() + f.ekf.packed.sum()) and abs(pose[6]) + abs(pose[7]) < FASTEST:
            self._since_saved += 1
            if self._since_saved >= _SAVE_EVERY or self._saved is None:
                f.repair()
                self._save()
            return
        assert self._t_ns is not None and self._saved is not None
        f.car.workspace[:] = self._saved
        self._reconfigure()  # the copy may be older than the settings
        self._restart_in_place(self._t_ns)

    def _save(self) -> None:
        f = self._filter
        self._since_saved = 0
        self._saved = f.car.workspace.copy()

    def _restart_in_place(self, t_ns: int) -> None:
        """Begin anew where the car is thought to be, at the speed that is measured now."""
        f = self._filter
        pose, extra, aligned = f.look().copy(), f.extra.copy(), self._place.aligned
        variances = f.ekf.variances
        # A good state may be a second old.
        travelled = abs(pose[6]) * _SAVE_EVERY / 250.0
        self._counters["restarts"] += 1
        self._heard.fix = self._heard.course = None
        self._start(t_ns)
        self._place.aligned = aligned
        self._onboard.forget()
        f.extra[:] = extra
        f.turn(pose[YAW] - f.look()[YAW])
        f.move(pose[:3] - f.look()[:3])
        for i, least in ((0, 1.0 + travelled), (1, 1.0 + travelled), (2, 1.0), (YAW, 0.1)):
            f.ekf.set_variance(i, max(float(variances[i]), least**2))
        f.remember(t_ns)
        self._save()
        self._fusion.forgive()

    # -- output ------------------------------------------------------------------------------------

    def _estimate(self, t_ns: int) -> Estimate | None:
        f = self._filter
        f.tell()
        values = f.car.workspace[self._told]
        if self._place.origin is None or not self._place.known:
            values[_GEODETIC] = math.nan
        else:
            values[_GEODETIC] = self._place.origin.to_geodetic(f.car.outputs[:3])
        if not self._place.aligned:
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
