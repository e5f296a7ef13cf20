"""Which sensors there are: the section `sensors` of the configuration, and the sources that use it.

Positions are in vehicle axes from the vehicle origin, the centre of gravity of the car at rest. Noise is the
standard deviation of one sample, unless the sensor reports its own.
"""

from __future__ import annotations

import cmath
import dataclasses
import math
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple, TypeVar, get_args, get_type_hints

import numpy as np

from vehicled.filter.boundary import Mounting, SensorSetup
from vehicled.filter.states import STEERING_OFFSET, STEERING_RATIO, Group
from vehicled.messages import Measurement, SlowState
from vehicled.sources.added_doubt import AddedDoubt
from vehicled.sources.by_channels import ByChannels
from vehicled.sources.gnss.fix_time import FixTime
from vehicled.sources.gnss.gnss import Gnss, GnssSource
from vehicled.sources.gnss.gnss2 import Gnss2
from vehicled.sources.gnss.model import GNSS
from vehicled.sources.imu.common_lateness import Configured
from vehicled.sources.imu.imu import Imu, ImuSource
from vehicled.sources.inputs.brakes import BrakePressure
from vehicled.sources.inputs.model_input import InputSettings
from vehicled.sources.inputs.steering import CHANNELS_BY_SOURCE, SteeringInput
from vehicled.sources.inputs.torques import WheelTorques
from vehicled.sources.source import Context, SensorSettings, Source, SourceSettings
from vehicled.sources.speeds.body_velocity import BodyVelocity
from vehicled.sources.speeds.vehicle_speed import VehicleSpeed
from vehicled.sources.speeds.wheels import WheelAngles, WheelSpeeds
from vehicled.sources.start.acceleration_heading import Alignment
from vehicled.sources.yaw_rate import YawRate, YawRateSource
from vehicled.units import Vector
from vehicled.vehicle.arrays import AHEAD


@dataclass(frozen=True, kw_only=True)
class Sensors:
    """Sensors that are used. One that is left out or null is ignored; absent sensors do no harm.

    A field whose type is a `SourceSettings` or an `InputSettings` registers that kind of sensor.
    """

    imu: Imu | None = field(default_factory=Imu)
    gnss: Gnss | None = field(default_factory=Gnss)
    wheel_angles: WheelAngles | None = field(default_factory=WheelAngles)
    wheel_speeds: WheelSpeeds | None = field(default_factory=WheelSpeeds)
    vehicle_speed: VehicleSpeed | None = field(default_factory=VehicleSpeed)
    steering: SteeringInput = field(default_factory=SteeringInput)
    wheel_torques: WheelTorques = field(default_factory=WheelTorques)
    brake_pressure: BrakePressure = field(default_factory=BrakePressure)
    gnss2: Gnss2 | None = None
    velocity: BodyVelocity | None = None
    yaw_rate: YawRate | None = None

    def items(self) -> Iterator[tuple[str, SourceSettings]]:
        """Name and settings of each sensor that updates the filter."""
        for name in find_kinds():
            settings = getattr(self, name)
            if settings is not None:
                yield name, settings

    def inputs(self) -> Iterator[tuple[str, InputSettings]]:
        """Name and settings of each sensor that drives the model."""
        for name in find_inputs():
            yield name, getattr(self, name)

    def calc_variances(self) -> dict[str, float]:
        """Variance of one sample by kind of observation, where it does not depend on the sample."""
        return {kind: v for _, s in self.items() for kind, v in s.calc_variances().items()}

    def get_offsets(self) -> dict[str, tuple[float, ...]]:
        """What is subtracted from the components, by kind of observation."""
        return {kind: o for _, s in self.items() for kind, o in s.get_offsets().items()}

    def get_given(self) -> dict[Group, object]:
        """Configured values that slow errors are relative to, by group."""
        given: dict[Group, object] = {group: g for _, s in self.items() for group, g in s.get_given().items()}
        source = self.steering.source
        return given | {STEERING_OFFSET: (source, self.steering.offset), STEERING_RATIO: source}

    def find_unread(self, channels: Container[str]) -> dict[str, tuple[str, ...]]:
        """Those of the channels that no sensor reads, by the setting with which one would, as `sensors.yaw_rate`.

        One steering angle is enough: others are named only where that of `steering.source` is missing.
        """
        read = {channel for _, s in self.items() for channel in s.LIMITS}
        readers: dict[str, Iterable[str]] = {f"sensors.{name}": k.LIMITS for name, k in find_kinds().items()}
        if not any(c in channels for c in CHANNELS_BY_SOURCE[self.steering.source]):
            readers |= {f"sensors.steering.source: {s}": own for s, own in CHANNELS_BY_SOURCE.items()}
        found = {
            key: tuple(c for c in own if c in channels and c not in read) for key, own in readers.items()
        }
        return {key: unread for key, unread in found.items() if unread}

    def make_setup(self) -> SensorSetup:
        """What the filter has to know about the sensors: states, observations, mounting and arrays."""
        kinds = {n: k for n, k in find_kinds().items() if not k.IS_EXTRA or getattr(self, n) is not None}
        mounting = Mounting()
        if self.gnss is not None:
            mounting = dataclasses.replace(mounting, antenna=self.gnss.antenna)
        if self.imu is not None:
            accelerometers = self.imu.accelerometers
            mounting = dataclasses.replace(
                mounting,
                imu=self.imu.position,
                R_imu_vehicle=self.imu.R_imu_vehicle,
                gravity_removed=accelerometers is not None and accelerometers.gravity_removed,
            )
        states = [(group, getattr(self, name)) for name, kind in kinds.items() for group in kind.STATES]
        return SensorSetup(
            (*states, (STEERING_RATIO, self.steering)),
            tuple(add for kind in kinds.values() for add in kind.OBSERVATIONS),
            mounting,
            {array: numbers for _, s in self.items() for array, numbers in s.get_arrays().items()},
        )


K = TypeVar("K", bound=SensorSettings)


def _find(base: type[K]) -> dict[str, type[K]]:
    found = {}
    for name, hint in get_type_hints(Sensors).items():
        for kind in get_args(hint) or (hint,):
            if isinstance(kind, type) and issubclass(kind, base):
                found[name] = kind
    return found


@cache
def find_kinds() -> dict[str, type[SourceSettings]]:
    """The kinds of sensors that update the filter, by their names in the configuration."""
    return _find(SourceSettings)  # type: ignore[type-abstract]


@cache
def find_inputs() -> dict[str, type[InputSettings]]:
    """The kinds of sensors that drive the model, by their names in the configuration."""
    return _find(InputSettings)  # type: ignore[type-abstract]


@cache
def find_limits() -> dict[str, float]:
    """The largest magnitude that can be a measurement, in the channel's unit, by channel of all sensors."""
    kinds = *find_kinds().values(), *find_inputs().values()
    return {channel: limit for kind in kinds for channel, limit in kind.LIMITS.items()}


@cache
def find_input_limits() -> dict[str, float]:
    """Limits of the channels of the sensors that drive the model."""
    return {channel: limit for kind in find_inputs().values() for channel, limit in kind.LIMITS.items()}


_FOUND = 2.0
"""In σ of the configured place of the antenna: with a larger variance, the antenna has been found to be
elsewhere."""


_LOOK_NS = 20_000_000
"""Time between evaluations of the receivers' added uncertainty while none of their measurements arrives."""


class Readers(NamedTuple):
    """Which sources read any of certain channels."""

    speeds: list[Source[SourceSettings]]
    """Those that measure the speed, the preferred ones first."""
    sources: list[tuple[Source[SourceSettings], int]]
    """All sources with their latencies, ns."""
    are_receivers: bool
    """Whether any of them is a GNSS receiver."""


class Sources:
    """The sources of all sensors that are used."""

    def __init__(self, sensors: Sensors, context: Context) -> None:
        self._context = context
        self._sources: dict[str, Source[SourceSettings]] = {}
        self.configure(sensors)

    def configure(self, sensors: Sensors) -> None:
        """Take settings, also while running: sensors may be added or removed."""
        self._sensors = sensors
        self._context.updates.unregister_all()
        before, self._sources = self._sources, {}
        for name, settings in sensors.items():
            source = before.get(name)
            if source is None:
                source = settings.make_source(self._context)
            else:
                source.reconfigure(settings)
            self._sources[name] = source
        self._by_channels = [
            (frozenset(s.settings.LIMITS), s, round(s.settings.latency * 1e9)) for s in self._sources.values()
        ]
        self.readers = ByChannels(self._find_readers)
        """By the channels of a measurement."""
        ranked = [s for s in self._sources.values() if s.settings.SPEED_PRECEDENCE is not None]
        self.of_speed = sorted(ranked, key=lambda s: s.settings.SPEED_PRECEDENCE or 0)
        """Those that measure the speed, the preferred ones first."""
        self.receivers = [s for s in self._sources.values() if isinstance(s, GnssSource)]
        """Sources that are GNSS receivers, the first receiver first."""
        self._known_antenna = 0.0 if sensors.gnss is None else (_FOUND * sensors.gnss.antenna_sigma) ** 2
        """Variance of the antenna's place up to which it is as configured, m²."""
        gnss = sensors.gnss
        self._of_fixes = (
            Configured(0.0, 0.0) if gnss is None else Configured(gnss.latency, gnss.latency_sigma)
        )
        self._fix_time = FixTime(self._context.filter, GNSS.latency, *self._of_fixes)
        self._looked_ns: float = -math.inf
        """Time of the step at which `find_doubt` last evaluated the uncertainty."""
        self._doubt = 0.0, AddedDoubt()
        """Unknown latency of the IMU's samples, s, and what does not depend on the yaw rate."""
        self.imu = next((s for s in self._sources.values() if isinstance(s, ImuSource)), None)
        """The inertial measurement unit."""
        self.own_yaw_rate = next((s for s in self._sources.values() if isinstance(s, YawRateSource)), None)
        """The car's own sensor of the yaw rate."""

    @property
    def yaw_rate(self) -> float | None:
        """Latest yaw rate of the gyroscopes less their known bias, or else of the car's own sensor, rad/s.

        None without a recent sample.
        """
        imu, own = self.imu, self.own_yaw_rate
        measured = None if imu is None else imu.lateral.yaw_rate
        return own.yaw_rate if measured is None and own is not None else measured

    @property
    def yaw_rate_sigma(self) -> float:
        """1 σ of `yaw_rate` due to a bias that is not known yet, rad/s; 0 of gyroscopes, whose biases are small."""
        imu, own = self.imu, self.own_yaw_rate
        is_own = own is not None and (imu is None or imu.lateral.yaw_rate is None)
        return own.sigma if own is not None and is_own else 0.0

    @property
    def is_motion_opposite(self) -> bool:
        """Whether a receiver has been showing velocities opposite to the estimate's for some time."""
        return any(r.motion.is_opposite for r in self.receivers)

    def find_motion(self, t: float, yaw: float, sigma: float, yaw_rate: float) -> Alignment | None:
        """Motion of the vehicle origin at t (s) by a receiver's velocity; None without a recent one.

        `yaw`: heading then, rad, with its `sigma`; `yaw_rate`: rad/s.
        """
        for receiver in self.receivers:
            found = receiver.motion.find(t)
            if found is not None:
                age, velocity = found
                antenna = complex(*receiver.settings.antenna[:2])
                v = velocity * cmath.rect(1.0, yaw_rate * age - yaw) - 1j * yaw_rate * antenna
                return Alignment(yaw, sigma, v.real, v.imag)
        return None

    def look_at_time(self) -> None:
        """Evaluate the time error of fixes; `correct_pose` uses the result from then on."""
        timing = self._context.timing
        self._fix_time.look(timing.found_doubt, timing.has_reference)

    def find_doubt(self, t_ns: int, yaw_rate: float, is_aligned: bool) -> AddedDoubt:
        """Uncertainty of an estimate at t_ns that no state of the filter represents.

        `yaw_rate`: of that estimate, rad/s; `is_aligned`: whether its heading is known. The parts that depend
        on fixes, and the time error of fixes, are evaluated after each measurement of a receiver, and
        otherwise every `_LOOK_NS`.
        """
        if not 0 <= t_ns - self._looked_ns < _LOOK_NS:
            self._looked_ns = t_ns
            self.look_at_time()
            self._look_at_doubt(is_aligned)
        time, doubt = self._doubt
        return AddedDoubt(yaw_rate * time, *doubt[1:]) if time else doubt

    def look_again(self) -> None:
        """Evaluate the uncertainty again in the next step, as a fix or a command has changed the position."""
        self._looked_ns = -math.inf

    def _look_at_doubt(self, is_aligned: bool) -> None:
        time, has_precise_fixes = 0.0, False
        timing, gyroscopes = self._context.timing, self._context.updates.health.get("imu.gyro")
        # If gyroscopes have never corrected the heading, their latency does not affect it.
        if timing.sigma and gyroscopes is not None and gyroscopes.state != "waiting":
            time, has_precise_fixes = timing.doubt, timing.has_precise_fixes
        place = max((r.place_doubt for r in self.receivers), default=0.0)
        if timing.place_doubt and self._is_antenna_found:
            place = math.hypot(place, timing.place_doubt)
        if not is_aligned:
            # Only the antennas' places are known. The vehicle origin may be in any direction from them, as
            # far as the farthest antenna is from it.
            arm = max((math.hypot(*r.settings.antenna[:2]) for r in self.receivers), default=0.0)
            place = math.hypot(place, arm)
        late = timing.find_common(self._fix_time.found, self._of_fixes)
        apart = self._context.updates.turned_apart
        self._doubt = time, AddedDoubt(0.0, late, has_precise_fixes, place, apart)

    def correct_pose(self, values: np.ndarray, correlation: float, point: Vector) -> float:
        """Correct position and heading of an estimate for the time error of fixes; see `FixTime.correct`."""
        return self._fix_time.correct(values, correlation, point)

    @property
    def _is_antenna_found(self) -> bool:
        """Whether the antenna of the first receiver has been found to be elsewhere than configured."""
        f = self._context.filter
        return GNSS.antenna in f.states and f.get_variance(GNSS.antenna, "x") > self._known_antenna

    @property
    def explained(self) -> dict[Group, float]:
        """By parameter: error, in its unit, that another cause explains better than the parameter does.

        For the antenna, m: a wrong time of the IMU's samples.
        """
        return {GNSS.antenna: self._context.timing.find_offset(self._context.filter.pose.item(AHEAD))}

    def make_anew(self) -> None:
        """Replace all sources by new ones that know nothing of earlier samples; counters stay."""
        self._sources.clear()
        self._context = self._context.forget_samples()
        self.configure(self._sensors)

    def reset(self) -> None:
        """The filter begins anew."""
        self.look_again()
        for source in self._sources.values():
            source.reset()

    def parameters(self) -> dict[str, SlowState]:
        """Parameters that sources have estimated outside the filter, by name."""
        return {name: found for s in self._sources.values() for name, found in s.parameters().items()}

    def set_parameters(self, given: Mapping[str, SlowState], age: float) -> None:
        """Begin with parameters as `parameters` gave them `age` seconds ago; unknown names are ignored."""
        for source in self._sources.values():
            source.set_parameters(given, age)

    def _find_readers(self, channels: tuple[str, ...]) -> Readers:
        sources = [(s, late) for own, s, late in self._by_channels if not own.isdisjoint(channels)]
        return Readers(
            [s for s in self.of_speed if not s.settings.LIMITS.keys().isdisjoint(channels)],
            sources,
            any(isinstance(s, GnssSource) for s, _ in sources),
        )

    def observe(self, measurements: Iterable[tuple[Measurement, Readers]]) -> None:
        """Update the filter with measurements, each through the sources that read it."""
        for m, readers in measurements:
            if readers.are_receivers:
                self.look_again()
            for source, late_ns in readers.sources:
                source.observe(Measurement(m.source, m.t - late_ns, m.arrival, m.values) if late_ns else m)
