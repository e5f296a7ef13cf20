"""The forward speed from the car's own bus."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, ClassVar

from vehicled.filter.states import ErrorStates, NoiseSetting, make_constant
from vehicled.messages import Measurement
from vehicled.sources.gate import Gate
from vehicled.sources.limits import FASTEST
from vehicled.sources.source import Context, Source, SourceSettings
from vehicled.sources.speeds.coarse_speed import CoarseSpeed
from vehicled.sources.speeds.direction import Direction
from vehicled.sources.speeds.late_speeds import calc_lateness, find_considered, make_latency
from vehicled.sources.speeds.smoothed_velocity import SmoothedVelocity
from vehicled.units import MetresPerSecond, NonNegative, Positive, Seconds
from vehicled.vehicle.arrays import AHEAD, LEFT, YAW_RATE

if TYPE_CHECKING:
    from vehicled.filter.error_model import ErrorModel

CHANNEL = "vehicle.speed"
"""And the kind of observation."""

SPEED_SCALE: ErrorStates[VehicleSpeed | None] = make_constant(
    "speed_scale",
    ("",),
    "–",
    "relative error of the car's own speed",
    sigma=lambda speed: None if speed is None else speed.scale,
)
SPEED_LATENCY: ErrorStates[VehicleSpeed | None] = make_latency(
    "speed_latency",
    "by how much the car's own speed is older than its time",
    lambda speed: None if speed is None else speed.latency_sigma,
)


def add_vehicle_speed(model: ErrorModel) -> None:
    """Observation `vehicle.speed`: forward speed of the vehicle origin, with a scale and a latency of its own."""
    jacobian = model.models.jacobians["body_velocity"][0]
    row, late = model.to_present(jacobian)
    now = model.models.readings["body_velocity"][0] + model.calc_corrected(jacobian)
    less, by_latency = calc_lateness(model, SPEED_LATENCY, model.g.one)
    true, scale = now - less, 1.0 + model.estimates(SPEED_SCALE)[0]
    row |= model.states.entries(SPEED_SCALE, {0: true}) | {k: scale * by for k, by in by_latency.items()}
    considered = find_considered(model, SPEED_LATENCY)
    model.observe(CHANNEL, [true * scale], [row], noise=[late], sensor="body_velocity", considered=considered)


@dataclass(frozen=True, kw_only=True)
class VehicleSpeed(SourceSettings):
    """Settings of the speed that the car's own bus gives."""

    LIMITS: ClassVar[Mapping[str, float]] = {CHANNEL: FASTEST}
    STATES = (SPEED_SCALE, SPEED_LATENCY)
    LATENCY = SPEED_LATENCY
    OBSERVATIONS = (add_vehicle_speed,)
    NOISE = (
        NoiseSetting(
            "vehicle_speed.noise",
            "the car's own speed, one sample",
            "m/s",
            ("sensors", "vehicle_speed", "noise"),
            channels=(CHANNEL,),
        ),
    )
    SPEED_PRECEDENCE = 0

    noise: Annotated[MetresPerSecond, Positive] = 0.03
    scale: Annotated[float, NonNegative] = 0.005
    """Its scale error, which the filter estimates: 1 σ."""
    latency_sigma: Annotated[Seconds, NonNegative] = 0.02
    """How well `latency` is known, which the filter estimates too: 1 σ."""
    gate: Gate = field(default_factory=Gate)

    def make_source(self, context: Context) -> VehicleSpeedSource:
        """The source that uses this section."""
        return VehicleSpeedSource(self, context)

    def calc_variances(self) -> dict[str, float]:
        """`vehicle.speed`, (m/s)²."""
        return {CHANNEL: self.noise**2}


class VehicleSpeedSource(Source[VehicleSpeed]):
    """Speed as one observation."""

    def __init__(self, settings: VehicleSpeed, context: Context) -> None:
        super().__init__(settings, context)
        self._direction = Direction(self.filter, self.updates)
        self._steps, self._timing = CoarseSpeed(), context.timing
        self._smoothed = SmoothedVelocity(self.filter, SPEED_LATENCY, has_direction=False)

    def register(self) -> None:
        """Register `vehicle.speed`."""
        self.updates.register(CHANNEL, self.settings.gate, serves=("vx",))

    def observe(self, m: Measurement) -> None:
        """Update with the speed if the measurement has it."""
        if CHANNEL in m.values:
            reading = m.values[CHANNEL]
            ahead = self.filter.pose.item(AHEAD)
            estimate = ahead if reading < 0.0 else abs(ahead)  # one that is not negative may have no sign
            variance = self._steps.find_variance(reading, self._variances[CHANNEL], estimate)
            variance += self._smoothed.calc_noise(m.t) ** 2
            variance += self.updates.speed_doubt**2
            if self.updates.is_sliding:
                variance += self._calc_spin_noise() ** 2
            speed, variance = self._direction.resolve(CHANNEL, reading, variance)
            if math.isinf(variance):
                self.updates.reject(m, CHANNEL, [reading], "either way")
            else:
                self.updates.update(m, CHANNEL, [speed], [variance])

    def _calc_spin_noise(self) -> float:
        """Error of the estimated speed ahead due to the unknown latency of the IMU in a spin, m/s, 1 σ.

        A spin changes the speed ahead by lateral velocity times yaw rate. If that is late, the sensor would correct
        heading and scale of the gyroscopes by it.
        """
        left, turning = (float(self.filter.pose.item(k)) for k in (LEFT, YAW_RATE))
        return self._timing.doubt * abs(left * turning)

    def measure_speed(self, m: Measurement) -> float | None:
        """The speed, m/s, if the measurement has it."""
        return m.values.get(CHANNEL)
