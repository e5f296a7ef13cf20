"""An optical sensor of lateral velocity: the example of docs/extending.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, ClassVar

from vehicled.filter.states import ErrorStates, NoiseSetting
from vehicled.messages import Measurement
from vehicled.sources.gate import Gate
from vehicled.sources.limits import FASTEST
from vehicled.sources.source import Context, Source, SourceSettings
from vehicled.units import MetresPerSecond, NonNegative, Positive, Radians

if TYPE_CHECKING:  # not imported when the daemon starts: the compiled model is on disk then
    from vehicled.filter.error_model import ErrorModel

CHANNEL = "velocity.y"

# Its slow error. The settings are None where the sensor is left out: the state is then known to be 0.
MISALIGNMENT = ErrorStates["Optical | None"](
    "optical_misalignment",
    ("",),
    "rad",
    "heading of the optical sensor in the car",
    initial=lambda optical, i: 0.0 if optical is None else optical.misalignment**2,
)


def add_optical(model: ErrorModel) -> None:
    """Observation `velocity.y`: vy − ε vx of the vehicle origin, ε the misalignment."""
    vx, vy, _ = model.models.readings["body_velocity"]
    by_vx, by_vy, _ = model.models.jacobians["body_velocity"]
    (angle,) = model.estimates(MISALIGNMENT)
    jacobian = [y - angle * x for x, y in zip(by_vx, by_vy, strict=True)]
    row, late = model.to_present(jacobian)
    row[model.states.index(MISALIGNMENT)] = -vx
    predicted = vy - angle * vx + model.calc_corrected(jacobian)
    model.observe(CHANNEL, [predicted], [row], noise=[late])


@dataclass(frozen=True, kw_only=True)
class Optical(SourceSettings):
    """Its section in the configuration."""

    LIMITS: ClassVar[Mapping[str, float]] = {CHANNEL: FASTEST}
    STATES = (MISALIGNMENT,)
    OBSERVATIONS = (add_optical,)
    NOISE = (
        NoiseSetting("optical.noise", "optical sensor, one sample", "m/s", ("sensors", "optical", "noise")),
    )

    noise: Annotated[MetresPerSecond, Positive] = 0.05
    misalignment: Annotated[Radians, NonNegative] = 0.01
    """1 σ."""
    gate: Gate = field(default_factory=Gate)

    def make_source(self, context: Context) -> OpticalSource:
        """The source of this section."""
        return OpticalSource(self, context)

    def calc_variances(self) -> dict[str, float]:
        """Of one sample."""
        return {CHANNEL: self.noise**2}


class OpticalSource(Source[Optical]):
    """Updates the filter with each of its samples."""

    def register(self) -> None:
        """Register the observation with its gate."""
        self.updates.register(CHANNEL, self.settings.gate)

    def observe(self, m: Measurement) -> None:
        """Update the filter with the sample, if there is one."""
        if CHANNEL in m.values:
            self.updates.update(m, CHANNEL, [m.values[CHANNEL]], [self._variances[CHANNEL]])
