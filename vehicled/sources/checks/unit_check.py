"""Whether channels are in the units and axes of the configuration, by comparison with each other.

Speed follows from positions, receiver, the car's bus and wheels; yaw rate from course, gyroscope, lateral
acceleration over speed, and steering angle. Every half second the logarithm of the ratio of each pair is
taken if the car moves and turns; `unit_ratios` finds the units that explain these ratios. Courses are
compared with the directions in which positions move. A source certainly has a wrong unit if it is in every
explanation, or if its values are impossible in its own unit: it is then not used.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from vehicled.messages import CHANNELS, WHEELS, Measurement
from vehicled.sources.checks.averages import Averager, Averages
from vehicled.sources.checks.course_check import IN_DEGREES, CourseCheck
from vehicled.sources.checks.unit_ratios import KEPT, LEAST, UnitRatios
from vehicled.sources.imu.imu import ACCELEROMETERS, GYROSCOPES
from vehicled.sources.inputs.steering import CHANNELS_BY_SOURCE
from vehicled.sources.sensors import Sensors
from vehicled.sources.speeds.wheels import ANGLES, SPEEDS
from vehicled.sources.yaw_rate import CHANNEL as YAW_RATE
from vehicled.vehicle.parameters import Vehicle
from vehicled.vehicle.steering import SteeringGeometry

_MOVING, _SLOWEST = 5.0, 1.0
"""m/s: least values of the faster and of the slower of two speeds that are compared."""
_TURNING, _SLOWEST_TURN = 0.15, 0.05
"""rad/s: the same for yaw rates."""
_CORNERING, _LEAST_CORNERING = 1.0, 0.1
"""m/s²: the same for lateral accelerations, which are about a tenth if given in g."""

_LIKELY_TURN = 0.3
"""rad/s: mean of a gyroscope. Roll and pitch rates of a car are smaller, but larger if given in deg/s."""

_DEGREES = 180.0 / math.pi
_SPEED_UNITS = {"in km/h": 3.6, "in mph": 2.23694, "in kn": 1.94384}
_RECEIVER_UNITS = {"kn taken for km/h": 1.94384 / 3.6, "mph taken for km/h": 2.23694 / 3.6}
"""Further units of a receiver's speed: many give knots, and a conversion from km/h is often applied to
them."""
_SETTINGS = {
    "in mph": None,
    "kn taken for km/h": "`unit: kn`",
    "mph taken for km/h": None,
    "in revolutions": "`unit: rev`",
    "in m/s": "`unit: m/s` with a `radius`",
    "km/h taken for m/s": "`unit: km/h`",
}
"""Setting that corrects a unit, if it is not the unit's name; None: the configuration has no setting for
it."""
_MAGNITUDES = {
    **dict.fromkeys(("steer.fl", "steer.fr"), (1.0, 90.0, "in deg")),
    "steer.wheel": (25.0, 2000.0, "in deg"),
    "steer.rack": (0.25, 250.0, "in mm"),
    "gnss.course": (6.5, 361.0, "in deg"),
    "imu.wz": (6.0, 400.0, "in deg/s"),
    YAW_RATE: (6.0, 400.0, "in deg/s"),
}
"""By channel: value that is too large in its own unit, largest value in the other unit, and that unit."""

_UNEVEN, _UNEVEN_SHARE = 1.0, 0.1
"""m/s, and share of the speed: difference of wheel speeds in bends. A car with a track of 1.6 m may turn at
0.5 rad/s."""
_LATER_NS = 10_000_000
"""From the end of an interval to its conclusions, which take as long as half a step: they are drawn some steps
later."""
POSITION = "position"
_ANCHORS = (POSITION, "course")
"""Sources whose unit is not in doubt."""


class UnitCheck:
    """Compares channels that measure the same quantity, independently of the filter."""

    def __init__(self, sensors: Sensors, vehicle: Vehicle) -> None:
        geometry = SteeringGeometry(vehicle)
        per_rack = 1.0 / abs(geometry.rack_per_angle)
        self._angle_per_reading = {"rack": per_rack, "wheel": per_rack * geometry.ratio, "road_wheels": 1.0}
        """Angle of the road wheels per reading of the steering, by its source."""
        self._wheelbase, self._gravity = vehicle.wheelbase, vehicle.gravity
        self._radii = {w: vehicle.axle(w).tyre.radius for w in WHEELS}
        self._averager = Averager()
        self._ratios = UnitRatios()
        self._upward: deque[float] = deque(maxlen=KEPT)
        self._largest: dict[str, float] = {}
        """Largest magnitude of the averages, by channel."""
        self._beyond = dict.fromkeys(_MAGNITUDES, 0)
        """Number of intervals in which a channel was too large for its own unit."""
        self._course = CourseCheck()
        self._means: dict[str, float] = {}
        """Means of the previous interval."""
        self.averages = Averages()
        """Averages of the last interval, once its conclusions are drawn."""
        self._ended, self._ended_ns = self.averages, 0
        """Averages of the last interval that has ended; and arrival, ns, of the measurement that ended it."""
        self.wrong: frozenset[str] = frozenset()
        """Channels that are certainly in another unit, and not to be used."""
        self._steering = sensors.steering
        self.configure(sensors)

    def configure(self, sensors: Sensors) -> None:
        """Other settings, also while running."""
        imu, source = sensors.imu, sensors.steering.source
        if source != self._steering.source:
            # This is another channel, about which nothing is known yet.
            self._ratios.forget("steering")
        self._axes = None if imu is None else imu.R_imu_vehicle.T.tolist()
        self._accelerometers = None if imu is None else imu.accelerometers
        self._steering = sensors.steering
        radius = sum(self._radii.values()) / len(self._radii)
        self._ratios.units = {
            "gnss.speed": _SPEED_UNITS | _RECEIVER_UNITS,
            "vehicle.speed": _SPEED_UNITS,
            "wheel speeds": {
                "in rpm": 30.0 / math.pi,
                "in deg/s": _DEGREES,
                "in m/s": radius,
                "in rev/s": 0.5 / math.pi,
                "km/h taken for m/s": 3.6,
            },
            "wheel angles": {"in deg": _DEGREES, "in revolutions": 0.5 / math.pi},
            "gyroscopes": {"in deg/s": _DEGREES},
            "own yaw rate": {"in deg/s": _DEGREES},
            "accelerometers": {"in g": 1.0 / 9.80665},
            "steering": {"in mm": 1e3, "in cm": 1e2} if source == "rack" else {"in deg": _DEGREES},
        }
        self._channels: dict[str, Sequence[str]] = {
            "gnss.speed": ("gnss.speed",),
            "vehicle.speed": ("vehicle.speed",),
            "wheel speeds": SPEEDS,
            "wheel angles": ANGLES,
            "gyroscopes": GYROSCOPES,
            "own yaw rate": (YAW_RATE,),
            "accelerometers": ACCELEROMETERS,
            "steering": CHANNELS_BY_SOURCE[source],
            "road wheels": CHANNELS_BY_SOURCE["road_wheels"],
        }

    def take(self, m: Measurement) -> None:
        """Take a measurement as received, before anything is removed from it."""
        if self._ratios.search is not None:
            self._ratios.advance()
        now = self._averager.take(m)
        if self._ended is not self.averages and (now is not None or m.arrival - self._ended_ns >= _LATER_NS):
            self._conclude()
        if now is not None:
            self._ended, self._ended_ns = now, m.arrival
            self._take_interval(now)

    def _take_interval(self, now: Averages) -> None:
        for channel, mean in now.means.items():
            self._largest[channel] = max(self._largest.get(channel, 0.0), abs(mean))
        for channel, (least, most, _) in _MAGNITUDES.items():
            mean = now.means.get(channel, 0.0)
            self._beyond[channel] += least < abs(mean) <= most and mean != self._means.get(channel)
        self._compare(now)
        self._means = now.means

    def _conclude(self) -> None:
        """Find which channels are in another unit, by all intervals so far."""
        self.averages = self._ended
        self._ratios.explain(frozenset({"accelerometers"} if self._is_gravity_right() else ()))
        sources = set(self._ratios.certain)
        sources |= {self._find_source(c) for c in _MAGNITUDES if self.is_too_large(c)}
        if self._course.is_certain:
            sources.add("gnss.course")
        accelerometers = self._accelerometers
        has_gravity = accelerometers is not None and not accelerometers.gravity_removed
        if has_gravity and len(self._upward) >= LEAST and _is_one_g(median(self._upward)):
            sources.add("accelerometers")
        self.wrong = frozenset(c for s in sources for c in self._channels.get(s, (s,)))

    def find(self) -> dict[str, str]:
        """Faults found so far, in words, by the names of the channels."""
        found = {
            source: self._describe(self._channels[source], unit)
            for source, unit in self._ratios.found.items()
        }
        for channel, (_, _, unit) in _MAGNITUDES.items():
            source = self._find_source(channel)
            if self.is_too_large(channel):
                found.setdefault(source, self._describe(self._channels.get(source, (channel,)), unit))
        course = self._describe_course()
        if course is not None:
            found.setdefault("gnss.course", course)
        gravity = self._describe_gravity()
        if gravity is not None:
            found["accelerometers"] = gravity
        return {self._name(source): text for source, text in found.items()}

    def _find_source(self, channel: str) -> str:
        return next((s for s, channels in self._channels.items() if channel in channels), channel)

    def _name(self, source: str) -> str:
        channels = [c for c in self._channels.get(source, (source,)) if c in self._largest]
        if source == "gyroscopes":
            # The compared axis may come from another device than the other axes.
            channels = [c for c in channels if self._largest[c] > _LIKELY_TURN] or channels
        return ", ".join(channels)

    def _describe(self, channels: Sequence[str], unit: str) -> str:
        largest = max(self._largest.get(c, 0.0) for c in channels)
        text = f"values up to {largest:.3g} seem to be {unit}, not in {CHANNELS[channels[0]]}"
        setting = _SETTINGS.get(unit, f"`unit: {unit.removeprefix('in ')}`")
        return f"{text}: convert the log" + (
            f", or set {setting} of the signal, on CAN or in the mapping" if setting else ""
        )

    def _describe_gravity(self) -> str | None:
        """Fault of the upward acceleration, which is gravity most of the time; None if there is none."""
        if self._accelerometers is None or len(self._upward) < LEAST:
            return None
        removed, gravity, upward = self._accelerometers.gravity_removed, self._gravity, median(self._upward)
        if _is_one_g(upward):
            return self._describe(ACCELEROMETERS, "in g")
        seen = f"{upward:.3g} m/s² upwards most of the time"
        if self.points_down:
            return (
                f"{seen}: does the z axis point down? Expected it to point up by `sensors.imu.rotation`, "
                "which is `180 0 0 deg` for axes forward, right, down"
            )
        if removed and upward > 0.7 * gravity:
            return f"{seen}: expected none, as `gravity_removed` is true"
        if not removed and abs(upward) < 0.3 * gravity:
            return f"{seen}: expected {gravity:.3g}, as `gravity_removed` is false"
        return None

    @property
    def points_down(self) -> bool:
        """Whether the accelerometers' z axis, as configured, points down."""
        return len(self._upward) >= LEAST and median(self._upward) < -0.7 * self._gravity

    def is_too_large(self, channel: str) -> bool:
        """Whether the size of its values alone shows that a channel is in another unit."""
        return self._beyond[channel] >= LEAST

    def _describe_course(self) -> str | None:
        fault = self._course.find()
        return self._describe(("gnss.course",), fault) if fault == IN_DEGREES else fault

    def _is_gravity_right(self) -> bool:
        return len(self._upward) >= LEAST and 0.75 < median(self._upward) / self._gravity < 1.25

    # -- comparing ---------------------------------------------------------------------------------------

    def _compare(self, now: Averages) -> None:
        """Add the ratios of the averages of an interval."""
        upward = self._measure(ACCELEROMETERS, 2, now)
        if upward is not None:
            self._upward.append(upward)
        speeds = dict(self.find_speeds(now))
        if not speeds:
            return
        (reference, ahead), *others = speeds.items()
        for source, speed in others:
            # For a slow car, noise of positions adds speed: this must not look like knots taken for km/h.
            slowest = _MOVING if source == "gnss.speed" and speed < ahead else _SLOWEST
            self._add({source: 1, reference: -1}, speed, ahead, slowest, _MOVING)
        if ahead < _MOVING:
            return
        course = now.course_rate if self._beyond["gnss.course"] == 0 else None
        gyro, lateral = self._measure(GYROSCOPES, 2, now), self._measure(ACCELEROMETERS, 1, now)
        angle, by_angle = self._find_road_wheel_angle(now), None
        if angle is not None:
            by_angle = ahead * angle / self._wheelbase
            terms = {"steering": 1, reference: 1}
            self._add(terms, by_angle, course, _SLOWEST_TURN, _TURNING)
            self._add({**terms, "gyroscopes": -1}, by_angle, gyro, _SLOWEST_TURN, _TURNING)
        if gyro is not None:
            self._add({"gyroscopes": 1}, gyro, course, _SLOWEST_TURN, _TURNING)
            terms = {"gyroscopes": 1, reference: 1, "accelerometers": -1}
            self._add(terms, ahead * gyro, lateral, _LEAST_CORNERING, _CORNERING)
        own = now.means.get(YAW_RATE)
        if own is not None:
            self._add({"own yaw rate": 1}, own, course, _SLOWEST_TURN, _TURNING)
            self._add({"own yaw rate": 1, "gyroscopes": -1}, own, gyro, _SLOWEST_TURN, _TURNING)
            if by_angle is not None:
                terms = {"own yaw rate": 1, "steering": -1, reference: -1}
                self._add(terms, own, by_angle, _SLOWEST_TURN, _TURNING)
        if now.course is not None and now.position_course is not None:
            turns_otherwise = _differ_in_sense(course, by_angle if gyro is None else gyro)
            self._course.take(now.course, now.position_course, turns_otherwise)

    def _measure(self, channels: Sequence[str], axis: int, now: Averages) -> float | None:
        """Average along an axis of the vehicle; None if the same axis of the IMU is not measured."""
        if self._axes is None or channels[axis] not in now.means:
            return None
        along: list[float] = self._axes[axis]
        return sum(r * now.means.get(c, 0.0) for r, c in zip(along, channels, strict=True))

    def find_speeds(self, now: Averages) -> Iterator[tuple[str, float]]:
        """Yield sources and speeds, m/s; those whose unit is least in doubt come first."""
        if now.position_speed is not None:
            yield POSITION, now.position_speed
        for channel in ("gnss.speed", "vehicle.speed"):
            if channel in now.means:
                yield channel, abs(now.means[channel])
        for source, rates in (
            ("wheel speeds", {c: now.means[c] for c in SPEEDS if c in now.means}),
            ("wheel angles", now.rates),
        ):
            if rates:
                speeds = [abs(rate) * self._radii[channel.split(".")[1]] for channel, rate in rates.items()]
                mean = sum(speeds) / len(speeds)
                # If wheels differ by more than in a bend, some spin or lock: none of them shows the car's
                # speed.
                if max(speeds) - min(speeds) < _UNEVEN + _UNEVEN_SHARE * mean:
                    yield source, mean

    def _find_road_wheel_angle(self, now: Averages) -> float | None:
        means, before = now.means, self._means
        # A reading that does not change is that of a dead sensor.
        readings = [means[c] for c in self._channels["steering"] if c in means and means[c] != before.get(c)]
        if not readings:
            return None
        reading = sum(readings) / len(readings) - self._steering.offset
        return self._angle_per_reading[self._steering.source] * reading

    def _add(
        self, terms: Mapping[str, int], one: float, other: float | None, least: float, enough: float
    ) -> None:
        """Add a ratio if the smaller magnitude is above noise and the larger one is well known."""
        if other is None or not min(abs(one), abs(other)) > least or not max(abs(one), abs(other)) > enough:
            return
        doubtful = {source: power for source, power in terms.items() if source not in _ANCHORS}
        self._ratios.add(doubtful, one / other)


def _differ_in_sense(one: float | None, other: float | None) -> bool | None:
    """Whether two rates, rad/s, have opposite signs; None if either is too small or unknown."""
    if one is None or other is None or not min(abs(one), abs(other)) > _SLOWEST_TURN:
        return None
    return one * other < 0.0


def _is_one_g(upward: float) -> bool:
    return 0.8 < abs(upward) < 1.25
