"""Velocity of a point of the car in its own axes: optical sensors, radar, other navigation systems."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, ClassVar

from vehicled.filter.covariance import MISSING
from vehicled.filter.states import ErrorStates, Group, NoiseSetting, make_constant
from vehicled.messages import Measurement
from vehicled.sources.gate import Gate
from vehicled.sources.limits import FASTEST
from vehicled.sources.shifts import Shifts
from vehicled.sources.source import Context, Place, Source, SourceSettings
from vehicled.sources.speeds.late_speeds import calc_share_of_change, find_considered, make_latency
from vehicled.units import Direction, Metres, MetresPerSecond, NonNegative, Positive, Radians, Seconds
from vehicled.vehicle.arrays import AHEAD, YAW_RATE

if TYPE_CHECKING:
    from vehicled.filter.error_model import ErrorModel
    from vehicled.symbolic.graph import Atom

_CHANNELS = "velocity.x", "velocity.y"
_PLACE, _ANGLE = "velocity.place", "velocity.angle"
"""Arrays of the program: place, m in vehicle axes, and angle from ahead to the sensor's x axis, rad to the left."""

_LARGEST_SCALE = 0.1
"""A larger error is not one of its scale, but of its direction."""
_FARTHEST = 3.0
"""m: a sensor that is farther from its configured place is not on the car."""
_FOUND = 0.9
"""Share of its configured σ below which that of the place shows that the car has driven through bends."""
_LARGEST_ANGLE = 0.1
"""rad: a sensor that is turned farther is distrusted."""
_SMALL_SINE = 0.1
"""Sine of the mounting angle: with less, the lateral component of the sensor hardly affects the forward
speed."""

VELOCITY_SCALE: ErrorStates[BodyVelocity | None] = make_constant(
    "velocity_scale",
    ("",),
    "–",
    "relative error of the velocity sensor",
    contradiction=10.0,
    limit=_LARGEST_SCALE,
    sigma=lambda velocity: None if velocity is None else velocity.scale,
)
VELOCITY_ANGLE: ErrorStates[BodyVelocity | None] = make_constant(
    "velocity_angle",
    ("",),
    "rad",
    "heading of the velocity sensor in the car beside the one that is given, to the left",
    sigma=lambda velocity: None if velocity is None else velocity.angle_sigma,
)
VELOCITY_PLACE: ErrorStates[BodyVelocity | None] = make_constant(
    "velocity_place",
    ("x", "y"),
    "m",
    "place of the velocity sensor beside the one that is given, vehicle axes",
    # Such sensors are on bumpers, and a place that is left out is the vehicle origin.
    contradiction=7.0,
    limit=_FARTHEST,
    sigma=lambda velocity: None if velocity is None else velocity.position_sigma,
)
VELOCITY_LATENCY: ErrorStates[BodyVelocity | None] = make_latency(
    "velocity_latency",
    "by how much the velocity sensor's samples are older than their time",
    lambda velocity: None if velocity is None else velocity.latency_sigma,
)


def add_body_velocity(model: ErrorModel) -> None:
    """Observation `velocity`: velocity of the sensor's place along and across its axes, with scale and latency."""
    # Imported here, so that a daemon with compiled code on disk does not import it.
    from vehicled.symbolic.vector import Vector

    g, s, chassis = model.g, model.states, model.models.chassis
    (x, y, z), (ahead, left) = model.program.array(_PLACE, 3), model.estimates(VELOCITY_PLACE)
    place = Vector(x + ahead, y + left, z)
    (angle,) = model.program.array(_ANGLE, 1)
    angle = angle + model.estimates(VELOCITY_ANGLE)[0]
    scale = 1.0 + model.estimates(VELOCITY_SCALE)[0]
    velocity = chassis.axes.to_body(chassis.calc_velocity(place))
    cos, sin = g.cos(angle), g.sin(angle)
    along, across = cos * velocity.x + sin * velocity.y, cos * velocity.y - sin * velocity.x
    turned, yaw_rate = (across, -along), chassis.w_body.z
    by_place = (sin * yaw_rate, -cos * yaw_rate), (cos * yaw_rate, sin * yaw_rate)
    readings = [along * scale, across * scale]
    changes = [model.calc_change(model.models.differentiate(reading)) for reading in readings]
    share, late = calc_share_of_change(model), model.estimates(VELOCITY_LATENCY)[0]

    def error(k: int, values: Sequence[Atom]) -> tuple[Atom, dict[int, Atom]]:
        row = s.entries(VELOCITY_SCALE, {0: values[k] / scale})
        row |= s.entries(VELOCITY_LATENCY, {0: -(share * changes[k])})
        row |= s.entries(VELOCITY_PLACE, {n: by * scale for n, by in enumerate(by_place[k])})
        return -late * changes[k], row | s.entries(VELOCITY_ANGLE, {0: turned[k] * scale})

    considered = find_considered(model, VELOCITY_LATENCY)
    model.observe_readings("velocity", readings, error, considered=considered)


@dataclass(frozen=True, kw_only=True)
class BodyVelocity(SourceSettings):
    """Settings of a sensor of the velocity over ground, along and across its axes."""

    LIMITS: ClassVar[Mapping[str, float]] = dict.fromkeys(_CHANNELS, FASTEST)
    STATES = (VELOCITY_SCALE, VELOCITY_ANGLE, VELOCITY_LATENCY, VELOCITY_PLACE)
    LATENCY = VELOCITY_LATENCY
    OBSERVATIONS = (add_body_velocity,)
    NOISE = (
        NoiseSetting(
            "velocity.noise",
            "sensor of velocity over ground, one sample",
            "m/s",
            ("sensors", "velocity", "noise"),
            channels=_CHANNELS,
        ),
    )
    IS_EXTRA = True
    SPEED_PRECEDENCE = 5

    position: Place = (0.0, 0.0, 0.0)
    """Of the point whose velocity it gives, vehicle axes."""
    position_sigma: Annotated[Metres, NonNegative] = 0.02
    """How well that is known along and across the car, 1 σ per axis; the filter estimates the rest."""
    angle: Direction = 0.0
    """Angle from the forward direction to its x axis, to the left."""
    angle_sigma: Annotated[Radians, NonNegative] = 0.005
    """How well that is known, 1 σ; the filter estimates the rest."""
    scale: Annotated[float, NonNegative] = 0.005
    """Its scale error, which the filter estimates: 1 σ."""
    noise: Annotated[MetresPerSecond, Positive] = 0.05
    """Along each of its axes."""
    latency_sigma: Annotated[Seconds, NonNegative] = 0.02
    """How well `latency` is known, which the filter estimates too: 1 σ."""
    gate: Gate = field(default_factory=Gate)

    def make_source(self, context: Context) -> BodyVelocitySource:
        """The source that uses this section."""
        return BodyVelocitySource(self, context)

    def calc_variances(self) -> dict[str, float]:
        """`velocity`, (m/s)²."""
        return {"velocity": self.noise**2}

    def get_given(self) -> dict[Group, object]:
        """Angle, place and latency."""
        return super().get_given() | {VELOCITY_ANGLE: self.angle, VELOCITY_PLACE: self.position}

    def get_arrays(self) -> dict[str, tuple[float, ...]]:
        """Place and angle."""
        return {_PLACE: self.position, _ANGLE: (self.angle,)}


class BodyVelocitySource(Source[BodyVelocity]):
    """Velocity along and across as one observation."""

    def register(self) -> None:
        """Register `velocity`."""
        self._shifts, self._is_placed = Shifts(), False
        self.updates.register("velocity", self.settings.gate, channels=_CHANNELS, serves=("vx", "sideslip"))

    def observe(self, m: Measurement) -> None:
        """Update with the components that a measurement has."""
        present = [k for k, channel in enumerate(_CHANNELS) if channel in m.values]
        if present:
            noise = self._variances["velocity"]
            self.updates.update(
                m,
                "velocity",
                [m.values.get(channel, 0.0) for channel in _CHANNELS],
                [noise if k in present else MISSING for k in range(len(_CHANNELS))],
                present if len(present) < len(_CHANNELS) else None,
            )
            if len(present) == len(_CHANNELS):
                self._look_for_shift()

    def _look_for_shift(self) -> None:
        """Find angle and place anew if the lateral velocity shifts against the estimate, while tyres do not slide.

        A sensor that has lost the ground, or has another sense of its axis, is neither turned nor moved; but its
        errors then are those of angle and place, and not of the car's motion.
        """
        f, updates = self.filter, self.updates
        record = updates.records[-1]
        if not (record.innovation and updates.is_imu_sound and self._has_found_place()) or updates.is_sliding:
            self._shifts.reset()
            return
        cos, sin = math.cos(self.settings.angle), math.sin(self.settings.angle)
        (x, y), (of_x, of_y) = record.innovation, record.variance
        sigma = math.sqrt(cos * cos * of_y + sin * sin * of_x)
        if shift := self._shifts.take(record.t, cos * y + sin * x, sigma):
            ahead, turning = (abs(f.pose.item(k)) for k in (AHEAD, YAW_RATE))
            f.add_variance(VELOCITY_ANGLE, "", min(shift / max(ahead, 1.0), _LARGEST_ANGLE) ** 2)
            f.add_variance(VELOCITY_PLACE, "x", min(shift / max(turning, 0.05), _FARTHEST) ** 2)
            updates.health["velocity"].bias_changed_ns = updates.step_ns

    def _has_found_place(self) -> bool:
        """Whether bends have shown where the sensor is: until then, a deviation may be that of a wrong place."""
        if not self._is_placed:
            found, f = (_FOUND * self.settings.position_sigma) ** 2, self.filter
            # A place that is known is no state.
            self._is_placed = VELOCITY_PLACE not in f.states or f.get_variance(VELOCITY_PLACE, "x") < found
        return self._is_placed

    def reset(self) -> None:
        """Restart with the filter."""
        self._shifts.reset()
        self._is_placed = False

    def measure_speed(self, m: Measurement) -> float | None:
        """The speed along the car, m/s, if the sensor measures ahead."""
        ahead, across = (m.values.get(channel) for channel in _CHANNELS)
        cos, sin = math.cos(self.settings.angle), math.sin(self.settings.angle)
        if ahead is None or (across is None and abs(sin) > _SMALL_SINE):
            return None
        return cos * ahead - sin * (across or 0.0)
