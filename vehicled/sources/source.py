"""What a kind of sensor is to the estimator: a section of the configuration, and a source that uses it.

A new kind of sensor is a module with these two classes, and a field of `Sensors` (see `sensors.py`). Sensors that
drive the model instead of updating the filter are in `model_input.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Generic, TypeVar

from vehicled.filter.boundary import ObservedFilter
from vehicled.filter.states import Group, NoiseSetting
from vehicled.filter.structure import AddObservation
from vehicled.messages import Measurement, SlowState
from vehicled.sources.departure import Departure
from vehicled.sources.imu.timing import ImuTiming
from vehicled.sources.measured_rates import MeasuredRates
from vehicled.sources.updates import MeasurementUpdates
from vehicled.sources.world import WorldFrame
from vehicled.units import MetresVector, Range, Seconds

Place = Annotated[MetresVector, Range(-20.0, 20.0)]
"""Place in or on a vehicle, from its origin. The range detects a number in mm that is given as m."""
Latency = Annotated[Seconds, Range(-1.0, 1.0)]
"""Longer latencies exceed the filter's memory. The range detects a number in ms that is given as s."""


@dataclass(frozen=True)
class Context:
    """Objects that all sources share."""

    filter: ObservedFilter
    updates: MeasurementUpdates
    world: WorldFrame
    counters: Counter[str]
    timing: ImuTiming
    given_noise: bool = False
    """Whether to use the configured noise of samples even where the samples show more."""
    rates: MeasuredRates = field(default_factory=MeasuredRates)
    """Samples of the gyroscopes, for other sources."""
    departure: Departure = field(default_factory=Departure)
    """Whether a standing car may have pulled off, by the accelerometers."""
    latencies: dict[Group, float] = field(default_factory=dict)
    """Configured latencies, s, by the states of their errors."""

    def forget_samples(self) -> Context:
        """A copy for new sources, without what sources have kept of samples."""
        return Context(
            self.filter, self.updates, self.world, self.counters, ImuTiming(), given_noise=self.given_noise
        )


@dataclass(frozen=True, kw_only=True)
class SensorSettings(ABC):
    """The section of a kind of sensor in the configuration, whether it updates the filter or drives the model."""

    LIMITS: ClassVar[Mapping[str, float]]
    """Channels that it reads, with the largest magnitude that can be a measurement, in the channel's unit."""

    latency: Latency = 0.0
    """Age of its measurements at the time stamp that they come with."""


@dataclass(frozen=True, kw_only=True)
class SourceSettings(SensorSettings):
    """The section of a kind of sensor that updates the filter."""

    STATES: ClassVar[tuple[Group, ...]] = ()
    """States of its slow errors. Their numbers come from this section, or from None if the sensor is left
    out."""
    OBSERVATIONS: ClassVar[tuple[AddObservation, ...]] = ()
    """Its measurement models."""
    NOISE: ClassVar[tuple[NoiseSetting, ...]] = ()
    """Its noise parameters that can be identified from innovations."""
    IS_EXTRA: ClassVar[bool] = False
    """Whether its states and measurement models are compiled only if it is configured, as few cars have
    it."""
    LATENCY: ClassVar[Group | None] = None
    """The state of its latency, if it has one."""
    SPEED_PRECEDENCE: ClassVar[int | None] = None
    """Order among the sources of speed when the filter starts, the least number first; None: it measures no
    speed."""

    @abstractmethod
    def make_source(self, context: Context) -> Source[SourceSettings]:
        """The source that uses this section."""

    def calc_variances(self) -> dict[str, float]:
        """Variance of one sample by kind of observation, where it does not depend on the sample."""
        return {}

    def get_arrays(self) -> dict[str, tuple[float, ...]]:
        """Numbers that its measurement models read, such as a mounting angle, by name of the program's array."""
        return {}

    def get_offsets(self) -> dict[str, tuple[float, ...]]:
        """What is subtracted from the components, by kind of observation."""
        return {}

    def get_given(self) -> dict[Group, object]:
        """Configured values that slow errors are relative to, by group. By default the latency.

        If one changes, the estimated error is no longer valid.
        """
        return {} if self.LATENCY is None else {self.LATENCY: self.latency}


T = TypeVar("T", bound=SourceSettings, covariant=True)


class Source(ABC, Generic[T]):
    """Hands one kind of sensor's measurements to the filter."""

    def __init__(self, settings: T, context: Context) -> None:
        self.filter, self.updates = context.filter, context.updates
        self._latencies = context.latencies
        self._configure(settings)

    def reconfigure(self, settings: SourceSettings) -> None:
        """Take other settings of the same kind while running."""
        self._configure(settings)  # type: ignore[arg-type]

    def _configure(self, settings: T) -> None:  # type: ignore[misc]
        self.settings = settings
        self._variances = settings.calc_variances()
        if settings.LATENCY is not None:
            self._latencies[settings.LATENCY] = settings.latency
        self.register()

    @abstractmethod
    def register(self) -> None:
        """Register its kinds of observation with their gates."""

    @abstractmethod
    def observe(self, m: Measurement) -> None:
        """Update the filter with those of its channels that a measurement has."""

    def reset(self) -> None:
        """The filter starts anew; what samples have shown of the sensor itself may be kept."""

    def parameters(self) -> dict[str, SlowState]:
        """Parameters of its sensor that it has estimated outside the filter, by name."""
        return {}

    def set_parameters(self, given: Mapping[str, SlowState], age: float) -> None:
        """Begin with parameters as `parameters` gave them `age` seconds ago."""

    def measure_speed(self, m: Measurement) -> float | None:
        """Speed in a measurement, m/s, for the start of the filter; None if it has none."""
        return None
