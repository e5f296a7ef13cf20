"""The yaw rate by a sensor of the car's own stability control, beside or instead of the gyroscopes of an IMU.

Figures of such sensors: a resolution of 0.1 °/s and a range of ±163 °/s (Bosch MM7.10); an offset of up to
3.75 °/s over life and temperature, ±1 % of non-linearity and a cut-off frequency of 45 to 60 Hz (workshop manual
of a Hyundai of 2011). On the bus they come 50 or 100 times a second, about 10 ms after they were measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, ClassVar

from vehicled.filter.considered import Considered
from vehicled.filter.factors import calc_share
from vehicled.filter.states import COURSES, ErrorStates, Group, NoiseSetting, make_constant
from vehicled.messages import Measurement
from vehicled.sources.gate import Gate
from vehicled.sources.source import Context, Latency, Source, SourceSettings
from vehicled.units import NonNegative, Positive, RadiansPerSecond, Seconds, Unit
from vehicled.vehicle.arrays import AHEAD

if TYPE_CHECKING:
    from vehicled.filter.error_model import ErrorModel
    from vehicled.symbolic.graph import Atom

CHANNEL = "vehicle.wz"
"""And the kind of observation."""
_LARGEST = 10.0
"""rad/s: no car turns faster, and no such sensor measures more than 5 rad/s. A bend in deg/s exceeds it."""
_LARGEST_SCALE, _LATEST = 0.1, 0.1
"""Largest error of the scale, and of the latency, s: a larger apparent one has another cause."""
_TURN_ON = 0.3
"""Share of the bias by which it changes from one start to the next."""
_SMALL_RATE, _SMALL_CHANGE = 0.1, 0.3
"""rad/s: slower turns hardly show the scale; and rad/s²: slower changes do not show the latency."""
_APART = 3.0
"""Noise per difference from the gyroscope, if that is larger than usual: the difference lasts over many samples."""
_BESIDE = 25.0
"""Factor on the variance of its noise while gyroscopes measure: what lasts of its errors is larger than what lasts of
theirs. With less, estimates beside a good IMU were slightly worse than without this sensor."""
_OLD_NS = 200_000_000
"""Age of a sample that is out of date."""

YAW_RATE_BIAS = ErrorStates["YawRate | None"](
    "yaw_rate_bias",
    ("",),
    "rad/s",
    "bias of the car's own yaw rate",
    initial=lambda yaw_rate, i: 0.0 if yaw_rate is None else yaw_rate.bias**2,
    density=lambda yaw_rate: 0.0 if yaw_rate is None else yaw_rate.bias_drift**2,
    turn_on=_TURN_ON,
)
YAW_RATE_SCALE: ErrorStates[YawRate | None] = make_constant(
    "yaw_rate_scale",
    ("",),
    "–",
    "relative error of the car's own yaw rate",
    needs=("imu.gyro", *COURSES, "gnss.position", "gnss2.position"),
    limit=_LARGEST_SCALE,
    sigma=lambda yaw_rate: None if yaw_rate is None else yaw_rate.scale,
)
YAW_RATE_LATENCY: ErrorStates[YawRate | None] = make_constant(
    "yaw_rate_latency",
    ("",),
    "s",
    "by how much the car's own yaw rate is older than its time",
    needs=("imu.gyro",),  # the model's tyres respond sooner or later than those of the car
    limit=_LATEST,
    is_latency=True,
    sigma=lambda yaw_rate: None if yaw_rate is None else yaw_rate.latency_sigma,
)


def add_yaw_rate(model: ErrorModel) -> None:
    """Observation `vehicle.wz`: angular rate of the chassis about its own z axis, with bias, scale and latency."""
    g, s = model.g, model.states
    reading = model.models.chassis.w_body.z
    change = model.calc_change(model.models.differentiate(reading))
    (bias,), (scale,), (latency,) = map(model.estimates, (YAW_RATE_BIAS, YAW_RATE_SCALE, YAW_RATE_LATENCY))
    share = calc_share(g, change, _SMALL_CHANGE)
    # At walking pace sticking tyres make the model's yaw rate wrong by a per cent, as for the gyroscopes.
    slipping = model.calc_slipping(model.models.pose[AHEAD])

    def error(k: int, values: Sequence[Atom]) -> tuple[Atom, dict[int, Atom]]:
        (value,) = values
        row = s.entries(YAW_RATE_BIAS, {0: g.one})
        row |= s.entries(YAW_RATE_SCALE, {0: slipping * model.discount(value, _SMALL_RATE)})
        row |= s.entries(YAW_RATE_LATENCY, {0: -(share * change)})
        return bias + scale * value - latency * change, row

    others = [i for group in s.groups if group.is_latency for i in s.places(group)]
    own = [*s.places(YAW_RATE_LATENCY)] if YAW_RATE_LATENCY in s else []
    considered = Considered({i: g.one for i in others if i not in own})
    model.observe_readings(CHANNEL, [reading], error, considered=considered)


@dataclass(frozen=True, kw_only=True)
class YawRate(SourceSettings):
    """Settings of the car's own sensor of the yaw rate; the defaults are those of production cars."""

    LIMITS: ClassVar[Mapping[str, float]] = {CHANNEL: _LARGEST}
    STATES = (YAW_RATE_BIAS, YAW_RATE_SCALE, YAW_RATE_LATENCY)
    OBSERVATIONS = (add_yaw_rate,)
    NOISE = (
        NoiseSetting(
            "yaw_rate.noise",
            "the car's own yaw rate, one sample",
            "rad/s",
            ("sensors", "yaw_rate", "noise"),
            channels=(CHANNEL,),
        ),
    )
    IS_EXTRA = True

    noise: Annotated[RadiansPerSecond, Positive] = 0.006
    """Of one sample, 0.35 °/s: 0.15 °/s of the sensor and its resolution; the rest is for errors that last over
    many samples, such as its non-linearity."""
    bias: Annotated[RadiansPerSecond, NonNegative] = 0.03
    """1 σ at the start: half of the largest offset on data sheets."""
    bias_drift: Annotated[float, Unit("rad/s/√s"), NonNegative] = 1e-4
    """Random walk of the bias: 0.04 °/s within a minute, as the sensor warms up."""
    scale: Annotated[float, NonNegative] = 0.01
    """Its scale error, which the filter estimates: 1 σ."""
    latency: Latency = 0.01
    latency_sigma: Annotated[Seconds, NonNegative] = 0.01
    """How well `latency` is known, which the filter estimates too, beside gyroscopes: 1 σ."""
    gate: Gate = field(default_factory=Gate)

    def make_source(self, context: Context) -> YawRateSource:
        """The source that uses this section."""
        return YawRateSource(self, context)

    def calc_variances(self) -> dict[str, float]:
        """`vehicle.wz`, (rad/s)²."""
        return {CHANNEL: self.noise**2}

    def get_given(self) -> dict[Group, object]:
        """The latency. It takes no part in the vote on the time of the IMU, as control units smooth the yaw rate."""
        return {YAW_RATE_LATENCY: self.latency}


class YawRateSource(Source[YawRate]):
    """Yaw rate as one observation; also keeps the latest sample, for when no gyroscope measures."""

    def __init__(self, settings: YawRate, context: Context) -> None:
        super().__init__(settings, context)
        self._latest, self._latest_ns = 0.0, -_OLD_NS

    def register(self) -> None:
        """Register `vehicle.wz`."""
        self.updates.register(CHANNEL, self.settings.gate, serves=("yaw", "sideslip"))

    def reset(self) -> None:
        """Forget the latest sample."""
        self._latest_ns = -_OLD_NS

    def note(self, m: Measurement) -> None:
        """Keep the sample of a measurement, if it has one."""
        if CHANNEL in m.values:
            self._latest, self._latest_ns = m.values[CHANNEL], self.updates.step_ns

    @property
    def yaw_rate(self) -> float | None:
        """Latest yaw rate, rad/s, less the estimated bias; None without a recent sample."""
        if self.updates.step_ns - self._latest_ns >= _OLD_NS:
            return None
        bias = self.filter.slow.view(YAW_RATE_BIAS).item() if YAW_RATE_BIAS in self.filter.states else 0.0
        return self._latest - bias

    @property
    def sigma(self) -> float:
        """1 σ of `yaw_rate`, rad/s, by its noise and bias."""
        variance = self.settings.bias**2
        if YAW_RATE_BIAS in self.filter.states:
            variance = min(self.filter.get_variance(YAW_RATE_BIAS), variance) or variance
        return math.sqrt(variance + self.settings.noise**2)

    def observe(self, m: Measurement) -> None:
        """Update with the yaw rate if the measurement has it."""
        if CHANNEL in m.values:
            self.note(m)
            # Until it is clear which of the two is wrong, it counts for little beside the gyroscope.
            variance = self._variances[CHANNEL] + (_APART * self.updates.yaw_rates_apart) ** 2
            gyroscopes = self.updates.health.get("imu.gyro")
            if gyroscopes is not None and gyroscopes.is_used and gyroscopes.state == "active":
                variance *= _BESIDE
            self.updates.update(m, CHANNEL, [m.values[CHANNEL]], [variance])
