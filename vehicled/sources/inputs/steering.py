"""Steering as an input of the model, measured at the rack, the steering wheel or the road wheels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from vehicled.messages import WHEELS
from vehicled.sources.inputs.model_input import InputSettings, ModelInput
from vehicled.sources.inputs.steering_health import SILENT, SteeringHealth
from vehicled.sources.inputs.tracker import Tracker
from vehicled.units import NonNegative, Positive, Seconds, Unit, UnitBy
from vehicled.vehicle.arrays import RACK, RACK_RATE, ROD, ROD_RATE
from vehicled.vehicle.steering import SteeringGeometry

if TYPE_CHECKING:  # commands that only read a configuration load no machine code
    from vehicled.vehicle.car import Car

_ONE_SIDED = 0.3
"""s: after this time without a sample of one road wheel, only the other one is used."""
_RODS, _ROD_RATES = (range(row * len(WHEELS), row * len(WHEELS) + 2) for row in (ROD, ROD_RATE))
"""Places of the front wheels in the flat inputs of corners."""
_REPLACED, _UNKNOWN = 0.03, 0.1
"""rad/√s: random walk of the error of the angle that replaces a sensor's; and of the last angle if nothing
replaces it: within a second, a driver turns the wheels by that much."""
_TURNING = 4.0
"""m/s²/√s: random walk of the lateral acceleration in bends. With wheels turning as fast at speed as in a car
park, the simulated car would skid."""
_STANDING = 0.1
"""m/s: a slower car does not show where its wheels point, as twisting of the standing tyres hides it."""
_ANYWHERE = 0.3
"""rad: σ of the angle of wheels that may point anywhere between their stops. Turning them takes a second."""
_SHOWING = 1.0
"""m: way after which tyres show how far the wheels have been turned. On a shorter way, noise of the
accelerometers would look like an angle: it would turn the simulated wheels to and fro, and these would push
the car."""

_ROLLING = 0.3
"""m/s: if the speed changes within one step from beyond this in one direction to beyond it in the other, it
has been corrected, not driven."""
MIRRORED = 0.1
"""rad: σ of the angle of wheels that are then assumed to be turned to the other side."""

_ANGLE = Unit("rad", plain=True)
_UNITS = {"rack": Unit("m", plain=True), "wheel": _ANGLE, "road_wheels": _ANGLE}
_MOST = {"rack": (0.3, "m"), "wheel": (20.0, "rad"), "road_wheels": (1.0, "rad")}
"""Largest offset, by source."""
_SCALES = {"rack": 0.01, "wheel": 0.03, "road_wheels": 0.01}
"""By source: 1 σ of the relative error of the front wheels' angle."""
_RACK, _WHEEL, _ROAD_WHEELS = "steer.rack", "steer.wheel", ("steer.fl", "steer.fr")
CHANNELS_BY_SOURCE = {"rack": (_RACK,), "wheel": (_WHEEL,), "road_wheels": _ROAD_WHEELS}
"""Channels of each source."""


@dataclass(frozen=True, kw_only=True)
class SteeringInput(InputSettings):
    """Settings of the measured steering that the model follows."""

    LIMITS: ClassVar[Mapping[str, float]] = {_WHEEL: 50.0, _RACK: 0.3, **dict.fromkeys(_ROAD_WHEELS, 1.5)}

    source: Literal["rack", "wheel", "road_wheels"] = "rack"
    """`rack`: steer.rack; `wheel`: steer.wheel times the steering ratio; `road_wheels`: steer.fl and steer.fr."""
    offset: Annotated[float, UnitBy(_UNITS, "source")] = 0.0
    """Of the source when driving straight on: a length of the rack (a plain number: m), otherwise an angle (rad)."""
    scale: Annotated[float | None, NonNegative] = None
    """Relative error of the front wheels' angle, which the filter estimates: 1 σ; 0: known. Left out: 3 % where a
    steering wheel is measured, whose ratio depends on car and angle; 1 % otherwise."""
    smoothing: Annotated[Seconds, Positive] = 0.02
    """Memory of the tracker that finds value and rate between samples."""

    @property
    def scale_sigma(self) -> float:
        """`scale`, or its default for the source."""
        return _SCALES[self.source] if self.scale is None else self.scale

    def check(self) -> Iterator[tuple[str, str]]:
        """Yield (key, what is wrong) for an offset beyond what the source can measure."""
        most, unit = _MOST[self.source]
        if not abs(self.offset) <= most:
            yield "offset", f"expected at most ±{most:g} {unit} of {self.source}, got {self.offset:g} {unit}"

    def make_input(self, car: Car) -> Steering:
        """The input that uses this section."""
        return Steering(self, car)


class Steering(ModelInput[SteeringInput]):
    """Keeps the latest displacement of both tie rods."""

    NAME = "steering"
    SERVES = ("sideslip", "slip")
    HOLDS = SILENT

    def __init__(self, settings: SteeringInput, car: Car) -> None:
        super().__init__(settings, car)
        self.geometry = SteeringGeometry(car.vehicle)
        self._rods = (Tracker(settings.smoothing), Tracker(settings.smoothing))
        self._angles, self._angles_at = [0.0, 0.0], [-math.inf, -math.inf]
        """Latest angles of the road wheels, rad, and their times, s."""
        self.health = SteeringHealth(car.vehicle.wheelbase)
        self.noise = _REPLACED
        """Random walk of the error of the angle while it is not measured, rad/√s."""
        self._was_shown = False
        """Whether rolling has ever shown where the car's wheels point."""
        self._hidden, self._checked = 0.0, math.inf
        """rad²: variance of the angle by which the wheels may have been turned and that no way driven has
        shown; time of the last check, s."""
        self._ahead = 0.0
        """Speed at the last check, m/s."""
        self.is_replaced_anew = False
        """Whether the angle of rolling has just replaced the last measured angle."""
        self.found_off = 0.0
        """rad: by how much the last measured angle has just been found to be off; else 0."""

    @property
    def measured_at(self) -> float:
        """When it was measured last, s; −∞ if never."""
        return self.health.seen

    @property
    def fault(self) -> str | None:
        """Its fault other than silence, in words; None without one."""
        if self.health.state != "distrusted":
            return None
        if self.health.is_noisy:
            return "noise of more than 3 mrad at the road wheels"
        return "jumps, or stays the same"

    def take(self, t: float, values: Mapping[str, float]) -> None:
        """Take the channels that came with the time t, s."""
        t -= self.settings.latency
        source, offset, geometry = self.settings.source, self.settings.offset, self.geometry
        if source == "road_wheels":
            for n, channel in enumerate(_ROAD_WHEELS):
                if channel in values:
                    self._angles[n], self._angles_at[n] = values[channel] - offset, t
            if t in self._angles_at:
                self._take_angles(t)
        elif source == "rack" and _RACK in values:
            self._take_both(t, geometry.sign * (values[_RACK] - offset))
        elif source == "wheel" and _WHEEL in values:
            self._take_both(t, geometry.sign * geometry.ratio * (values[_WHEEL] - offset))

    def _take_angles(self, t: float) -> None:
        """Take the latest angles of the road wheels; an unmeasured one follows from the other's rack position."""
        known = [n for n, at in enumerate(self._angles_at) if t - at < _ONE_SIDED]
        angles = [self._angles[n] for n in known]
        rods = [self.geometry.rod(n, angle) for n, angle in zip(known, angles, strict=True)]
        self._take(t, sum(angles) / len(angles), [(n, rods[n if len(rods) > 1 else 0]) for n in (0, 1)])

    def _take_both(self, t: float, displacement: float) -> None:
        self._take(t, displacement / self.geometry.rack_per_angle, [(0, displacement), (1, displacement)])

    def _take(self, t: float, angle: float, displacements: Sequence[tuple[int, float]]) -> None:
        # Silence counts from the arrival of samples, whatever their latency.
        if self.health.take(t + self.settings.latency, angle):
            for n, displacement in displacements:
                self._rods[n].update(t, displacement)

    def check(self, t: float, ahead: float, yaw_rate: float | None, slides: bool = False) -> bool:
        """Whether it is measured at t, s; if not, the angle of rolling replaces it, if known.

        `ahead`: speed, m/s; `yaw_rate` as measured, rad/s, None where it is not; `slides`: whether the car
        goes sideways.
        """
        was_measured = self.health.state == "measured"
        instead = self.health.check(t, ahead, yaw_rate, slides)
        is_found = was_measured and self.health.state == "distrusted" and not slides
        self.found_off = instead - self._find_angle(t) if is_found and instead is not None else 0.0
        is_measured, is_last = self.health.state == "measured", self.noise != _REPLACED
        self.is_replaced_anew = instead is not None and is_last
        dt, self._checked = max(t - self._checked, 0.0), t
        if instead is not None:
            self.noise, self._was_shown, self._hidden = _REPLACED, True, 0.0
            for n, rod in enumerate(self._rods):
                rod.update(t, self.geometry.rod(n, instead))
        elif is_measured:
            self.noise, self._hidden = _UNKNOWN, 0.0
        else:
            self.noise = self._find_noise(dt, abs(ahead))
        return is_measured

    def take_speed(self, ahead: float) -> bool:
        """Take the estimated speed, m/s; returns whether a correction has changed its sign since last time."""
        before, self._ahead = self._ahead, ahead
        return before * ahead < 0.0 and min(abs(before), abs(ahead)) > _ROLLING

    def find_held_angle(self, t: float) -> float:
        """Last measured angle of the front wheels, if still in use at t (s), rad to the left.

        0 if the angle of rolling has replaced it, as that belongs to the present speed.
        """
        return 0.0 if self.noise == _REPLACED else self._find_angle(t)

    def _find_angle(self, t: float) -> float:
        """Angle of the front wheels that the model has at t (s), rad to the left."""
        left, right = (rod.at(t)[0] for rod in self._rods)
        return 0.5 * (left + right) / self.geometry.rack_per_angle

    def _find_noise(self, dt: float, speed: float) -> float:
        """Random walk of the last angle's error, rad/√s, `dt` s after the last check at a speed in m/s."""
        if speed < _STANDING:
            # A car that has not driven yet mostly starts straight ahead, in accordance with the prior at the
            # start.
            if self._was_shown:
                self._hidden = min(self._hidden + _ANYWHERE**2 * dt, _ANYWHERE**2)
            return 0.0
        shown = self._hidden * speed / _SHOWING
        self._hidden *= math.exp(-speed * dt / _SHOWING)
        unknown = min(_UNKNOWN, _TURNING * self._car.vehicle.wheelbase / speed**2)
        return math.sqrt(unknown**2 + shown)

    def apply(self, t: float) -> None:
        """Write displacements and rates at t, s, into the car."""
        left, left_rate = self._rods[0].at(t)
        right, right_rate = self._rods[1].at(t)
        inputs, corners = self._car.inputs, self._car.flat_corner_inputs
        inputs[RACK], inputs[RACK_RATE] = 0.5 * (left + right), 0.5 * (left_rate + right_rate)
        corners[_RODS[0]], corners[_RODS[1]] = left, right
        corners[_ROD_RATES[0]], corners[_ROD_RATES[1]] = left_rate, right_rate
