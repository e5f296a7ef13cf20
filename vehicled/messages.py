"""Messages within the program: measurements in; estimates, innovations and status out.

Names, units and frames are those of the tables in docs/formats.md: SI units and radians, except latitude and
longitude in degrees. Times are integer nanoseconds on one monotonic clock.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np

WHEELS = ("fl", "fr", "rl", "rr")
JOINTS = ("1", "2", "3", "4")

SCHEMA_VERSION = 1
"""The field `schema` of every published message; increases when a field changes its meaning."""

_OF_RECEIVERS = {
    **{"lat": "deg", "lon": "deg", "alt": "m", "quality": "", "hdop": "", "h_acc": "m", "v_acc": "m"},
    **{"speed": "m/s", "course": "rad"},
    **{"vn": "m/s", "ve": "m/s", "vd": "m/s", "s_acc": "m/s"},
    **{"heading": "rad", "heading_acc": "rad"},
}
REFERENCE: dict[str, str] = {
    **{f"reference.{c}": "deg" for c in ("lat", "lon")},
    "reference.alt": "m",
    **{f"reference.{c}": "rad" for c in ("roll", "pitch", "yaw")},
    **{f"reference.{c}": "m/s" for c in ("vn", "ve", "vd", "vx", "vy", "vz")},
    **{f"reference.{c}": "rad/s" for c in ("wx", "wy", "wz")},
    "reference.sideslip": "rad",
}
"""Channels of a reference, such as the solution of an INS, and their units: recorded and compared, but not
used by the filter."""

CHANNELS: dict[str, str] = {
    "imu.ax": "m/s²",
    "imu.ay": "m/s²",
    "imu.az": "m/s²",
    "imu.wx": "rad/s",
    "imu.wy": "rad/s",
    "imu.wz": "rad/s",
    **{f"gnss.{what}": unit for what, unit in _OF_RECEIVERS.items()},
    "gnss.utc": "s",
    **{f"wheel.{w}.angle": "rad" for w in WHEELS},
    **{f"wheel.{w}.speed": "rad/s" for w in WHEELS},
    "steer.wheel": "rad",
    "steer.rack": "m",
    "steer.fl": "rad",
    "steer.fr": "rad",
    "brake.pressure": "Pa",
    **{f"torque.{w}": "N·m" for w in WHEELS},
    "torque.front": "N·m",
    "torque.rear": "N·m",
    "vehicle.speed": "m/s",
    **{f"gnss2.{what}": unit for what, unit in _OF_RECEIVERS.items()},
    "velocity.x": "m/s",
    "velocity.y": "m/s",
    "vehicle.wz": "rad/s",
    **{
        f"joint.{j}.{what}": unit
        for j in JOINTS
        for what, unit in (("angle", "rad"), ("speed", "rad/s"), ("distance", "m"))
    },
    **REFERENCE,
}
"""Every channel that a measurement may contain, and its unit."""


class Measurement(msgspec.Struct, frozen=True, gc=False):
    """One sample of one device: all channels that it measured at one instant.

    A channel without a value is absent from `values`; it is never 0.0 or NaN in its place.
    """

    source: str
    """Name of the device in the configuration, or of the log."""
    t: int
    """Time of the measurement, ns, host monotonic clock."""
    arrival: int
    """Time of arrival, ns, host monotonic clock."""
    values: dict[str, float]
    """Channel (a key of `CHANNELS`) to value."""


class Command(NamedTuple):
    """Something that comes from outside (`reset`, `set_position`, `mark`, …)."""

    name: str
    arguments: dict[str, Any]


class Step(NamedTuple):
    """One filter step and what it consumes, in this order: commands first, then measurements."""

    t: int
    """Time of the step, ns."""
    measurements: list[Measurement]
    commands: tuple[Command, ...] = ()


def _per_wheel() -> list[str]:
    columns = []
    for w in WHEELS:
        columns += [f"slip.{w}.angle", f"slip.{w}.ratio", f"tyre.{w}.fx", f"tyre.{w}.fy", f"tyre.{w}.fz"]
        columns += [f"suspension.{w}.deflection", f"suspension.{w}.rate", f"suspension.{w}.force"]
        columns += [f"wheel.{w}.angle", f"wheel.{w}.speed"]
    return columns


ESTIMATE_COLUMNS: tuple[str, ...] = (
    *("x", "y", "z", "lat", "lon", "alt", "roll", "pitch", "yaw", "vx", "vy", "vz", "wx", "wy", "wz"),
    *("ax", "ay", "az", "sideslip"),
    *_per_wheel(),
    *("sigma.x", "sigma.y", "sigma.z", "sigma.yaw", "sigma.vx", "sigma.vy", "sigma.sideslip"),
)
"""The columns of an estimate after `t`, in order."""

ESTIMATE_INDEX = {name: i for i, name in enumerate(ESTIMATE_COLUMNS)}


CORRELATION = "correlation.xy"
"""Correlation of the errors of x and y: in messages after the columns of the position."""


POINT_QUANTITIES = ("x", "y", "z", "vx", "vy", "vz", "sideslip", "ax", "ay", "az")
"""Quantities of each of `output.points`, in order: columns of an estimate, at that point."""


CORNER_LOADS: tuple[str, ...] = (
    *(f"{joint}_ball_joint.f{a}" for joint in ("lower", "upper") for a in "xyz"),
    "tie_rod.force",
    *(
        f"{joint}.{quantity}{a}"
        for joint in ("lower_hinge", "upper_hinge", "wheel_bearing")
        for quantity in "fm"
        for a in "xyz"
    ),
    *("spring.force", "damper.force", "stops.force", "anti_roll_bar.force", "brake.torque"),
)
"""Forces (N) and moments (N·m) in the joints of one corner; docs/formats.md has axes and signs."""

LOAD_COLUMNS: tuple[str, ...] = tuple(name.replace(".", f".{w}.") for w in WHEELS for name in CORNER_LOADS)
"""Columns that `output.loads` adds to an estimate, in order."""


class Estimate(msgspec.Struct, gc=False):
    """The state at one filter step."""

    t: int
    """ns, host monotonic clock."""
    values: np.ndarray
    """(len(ESTIMATE_COLUMNS),) float64 in the order of `ESTIMATE_COLUMNS`; NaN where unknown."""
    points: dict[str, np.ndarray] | None = None
    """(len(POINT_QUANTITIES),) for each of `output.points` by its name; None without any."""
    loads: np.ndarray | None = None
    """(len(LOAD_COLUMNS),) N and N·m; None without `output.loads`."""
    correlation: float = math.nan
    """Correlation of the errors of x and y, −1 to 1; NaN if unknown."""

    def __getitem__(self, column: str) -> float:
        return float(self.values[ESTIMATE_INDEX[column]])


class CoordinateEstimate(msgspec.Struct, gc=False):
    """One coordinate of a mechanism, by the heaviest cluster of particles and by all of them."""

    unit: str
    """`rad` or `m`, for all but the rates, which are per second."""
    value: float
    """Mean of the heaviest cluster; for an angle in (−π, π]."""
    sigma: float
    """Standard deviation in that cluster."""
    rate: float
    rate_sigma: float
    mean: float
    """Weighted mean of all particles, which lies between clusters if there are several."""
    deviation: float
    """Standard deviation of all particles; circular for an angle."""


class ParticleEstimate(msgspec.Struct, gc=False):
    """The state of a mechanism by particles, when its sensors were read last."""

    t: int
    """Time of the last reading, ns, host monotonic clock."""
    coordinates: dict[str, CoordinateEstimate]
    """Angles, distances and independent coordinates of the mechanism, by name."""
    cluster: float
    """Weight of the heaviest cluster: below about 0.9 the state is ambiguous."""
    effective: float
    """Effective sample size as a share of the particles."""
    independent: list[str]
    """The coordinates that determine the others, in the order of `covariance`."""
    covariance: list[list[float]]
    """Covariance of the independent coordinates, followed by their rates, in the heaviest cluster; rad, m, s."""


AnyEstimate = Estimate | ParticleEstimate
"""Estimate of a car, or of another mechanism."""


class Innovation(msgspec.Struct, gc=False):
    """How the filter handled one observation: one record each, accepted or rejected."""

    t: int
    """Time of the measurement, ns."""
    step: int
    """Time of the filter step that handled it, ns."""
    sensor: str
    """Kind of observation, such as `gnss.position`, `imu.gyro`, `wheel.fl.angle`."""
    source: str
    value: list[float]
    predicted: list[float]
    innovation: list[float]
    variance: list[float]
    """Diagonal of the innovation covariance."""
    nis: float
    """Normalised innovation squared, νᵀ S⁻¹ ν; its expectation is the number of components."""
    test_ratio: float
    """`nis` over m r², with the m measured components and `reject_beyond` r of the gate.

    Above 1 the observation as a whole is beyond the limit of rejection. The gate itself is by component: in `reason`
    of `gate` and `partly`, what was rejected."""
    fused: bool
    """Whether any component corrected or reset the filter."""
    reason: str
    """`fused`, `weighted` (with more noise), `partly` (without some components) or `reset`; or why it was not used:
    `gate`, `too old`, `no fix`, `not moving`, `absurd`, … (docs/formats.md has all)."""


REASONS = (
    *("fused", "weighted", "partly", "reset", "gate", "too old", "no fix", "not moving", "absurd", "stuck"),
    *("mounting", "implausible", "no baseline", "unit", "future", "not aligned", "either way"),
)
"""Reasons in innovation records; a published message also has the index of its reason here, for programs that
plot numbers."""
OTHER_REASON = 99


class SlowState(msgspec.Struct):
    """A slow state of the filter: what it has found of the car or of a sensor."""

    value: float
    sigma: float
    unit: str


class Parameters(msgspec.Struct):
    """Slow states of the filter with their standard deviations, about once a second."""

    t: int
    value: dict[str, float]
    """Values by name, such as `gyro_bias.z`; docs/states.md has their meanings."""
    sigma: dict[str, float]
    unit: dict[str, str]

    @classmethod
    def of(cls, t: int, parameters: Mapping[str, SlowState]) -> Parameters:
        """Slow states from those of an estimator."""
        items = parameters.items()
        return cls(
            t, {n: p.value for n, p in items}, {n: p.sigma for n, p in items}, {n: p.unit for n, p in items}
        )


_NUMBER = re.compile(r"\d+(\.\d+)?(e[+-]\d+)?")


class SourceFault(msgspec.Struct, frozen=True):
    """A source that does not serve the estimate at present."""

    source: str
    """Kind of observation, such as `imu.gyro` or `wheel.fl.angle`; `steering`, `torques`, `brakes`; channels
    that are unknown or in a wrong unit; or a device by its name, or `gnss.corrections` of the receiver
    `gnss`."""
    reason: str
    """Description of the fault, in words."""
    less_certain: tuple[str, ...]
    """Quantities of the estimate that are less certain without it."""

    @property
    def kind(self) -> tuple[str, str]:
        """Source, and reason without its numbers, such as the largest value so far: constant during the fault."""
        return self.source, _NUMBER.sub("…", self.reason)


State = Literal["waiting", "aligning", "running", "degraded", "recovering", "failed"]
"""`waiting`: position or speed are not known yet, and there are no estimates; `aligning`: the heading is not
known yet; `degraded`: running, but with faults; `recovering`: for a time after a restart; `failed`: no
estimates until the next restart."""


STATES: tuple[State, ...] = ("waiting", "aligning", "running", "degraded", "recovering", "failed")
"""A published status also has the index of its state here."""


class Condition(msgspec.Struct, frozen=True):
    """What an estimator is doing, and what it does without."""

    state: State = "waiting"
    since: int | None = None
    """Step at which this condition began, ns."""
    reason: str | None = None
    """Reason of a restart or a failure."""
    faults: tuple[SourceFault, ...] = ()


class Status(msgspec.Struct):
    """State and counters of the program: about once a second, and whenever state or faults change."""

    t: int
    """Time of the last step, ns."""
    state: State
    counters: dict[str, Any]
    """Nested: by device, queue, loop, publisher, recorder and sensor."""
    since: int | None = None
    """Step of the last change of state, reason or faults, ns."""
    reason: str | None = None
    """Reason of a restart or a failure."""
    faults: tuple[SourceFault, ...] = ()
    """Sources that do not serve the estimate at present."""
    state_code: int = 0
    """Index of the state in STATES."""

    def __post_init__(self) -> None:
        self.state_code = STATES.index(self.state)

    @classmethod
    def of(cls, t: int, condition: Condition, counters: dict[str, Any]) -> Status:
        """A status from a condition and counters."""
        return cls(t, condition.state, counters, condition.since, condition.reason, condition.faults)
