"""Configuration of `vehicled particles`: the filter, its sensors, and the daemon's devices."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from drivers.can import OFFSET_UNITS
from vehicled.daemon.configuration import check_with_devices
from vehicled.daemon.daemon import DaemonOptions
from vehicled.errors import SettingsError
from vehicled.messages import CHANNELS
from vehicled.reading import settings
from vehicled.reading.mistakes import Mistakes
from vehicled.reading.settings import Deferred
from vehicled.units import Positive, Range, Seconds, UnitBy

Quantity = float | str
"""A number in SI units, or with its unit: `5 deg`."""


@dataclass(frozen=True, kw_only=True)
class CoordinateOptions:
    """An independent coordinate of the mechanism: its range at the start, and the noise of its motion."""

    low: Quantity | None = None
    """Least value at the start; without bounds an angle may have any value."""
    high: Quantity | None = None
    rate: Quantity = 0.0
    """Standard deviation of its initial rate about that of the mechanism's file, used if no sensor measures
    the rate. When the particles are drawn anew, it is at least as large as the readings show."""
    motion: Quantity | None = None
    """Standard deviation of the noise of motion in each `longest_step`; for an angle 0.01 rad by default."""
    speed: Quantity = 0.0
    """Standard deviation of the noise of its rate in each `longest_step`."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yield (key, what is wrong) if only one bound is given."""
        if (self.low is None) != (self.high is None):
            yield "", "expected low and high together, or neither"


@dataclass(frozen=True, kw_only=True)
class ParticleOptions:
    """Options of the filter."""

    count: Annotated[int, Range(2, 1_000_000)] = 500
    """Number of particles; up to four times as many while readings do not fit."""
    seed: Annotated[int, Range(0)] = 1
    """Seed of all random numbers: the same log gives the same estimates."""
    coordinates: dict[str, CoordinateOptions] = field(default_factory=dict)
    """By name, of the mechanism's independent coordinates."""
    plant_noise: bool = False
    """Whether disturbances act on the mechanism itself: then noise increases the particles' covariance.
    Otherwise noise only keeps the particles different from each other, and preserves their covariance."""
    memory: Annotated[Seconds, Range(0.01, 1e6)] | None = 1.0
    """Without plant noise, longest memory for readings, s; shorter if innovations show that the motion
    differs from the model. `null`: nothing is forgotten, which takes more particles and a perfect model."""
    longest_step: Annotated[Seconds, Range(1e-6, 0.1)] = 0.006
    """Longest step of integration, s; it is divided if particles turn fast."""
    wait: Annotated[Seconds, Range(0.0, 10.0)] = 0.0
    """Readings are used in the order of measurement, this long after it; later arrivals are dropped. With
    several devices: the latency of the slowest."""
    reject_beyond: Annotated[float, Positive] = 6.0
    """Gate, in standard deviations of the innovation: readings beyond it are rejected."""
    restart_after: Annotated[Seconds, Range(0.01, 60.0)] = 1.0
    """If many readings within this time, s, are rejected, the particles are drawn anew; or the sensor is not
    used, if the others confirm the particles."""


@dataclass(frozen=True, kw_only=True)
class SensorOptions:
    """A channel of a device, and the quantity of the mechanism that it measures."""

    value: str | None = None
    """Angle, distance or component of a point (`P.x`) that it measures."""
    rate: str | None = None
    """Alternatively, the quantity whose rate it measures: a gyroscope measures the rate of an angle."""
    sigma: Annotated[float, UnitBy(OFFSET_UNITS), Positive]
    """Standard deviation of a reading."""
    multiplier: Annotated[float, Positive] = 1.0
    """Factor on `sigma` for the filter; above 1 if there are few particles for a precise sensor."""
    scale: float = 1.0
    """Factor on the reading; −1 if the sensor is mounted the other way round."""
    offset: Annotated[float, UnitBy(OFFSET_UNITS)] = 0.0
    """Added after `scale`."""

    @property
    def measured(self) -> str:
        """Name of the coordinate that it measures, or whose rate it measures."""
        return self.value or self.rate or ""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yield (key, what is wrong) unless it measures exactly one quantity."""
        if (self.value is None) == (self.rate is None):
            yield "", "expected value or rate, the coordinate that it measures"
        if self.scale == 0.0:
            yield "scale", "expected another number than 0"


def _unknown(channel: str) -> str:
    own = [c for c in CHANNELS if c.startswith("joint.")]
    near = difflib.get_close_matches(channel, CHANNELS, 3) or [own[0], own[1], own[2], "imu.wz"]
    return f"unknown channel; expected one such as {', '.join(near)} (docs/formats.md has all)"


@dataclass(frozen=True, kw_only=True)
class ParticlesFile:
    """Contents of the YAML file."""

    particles: ParticleOptions = field(default_factory=ParticleOptions)
    sensors: dict[str, dict[str, SensorOptions]]
    """By device, then by channel."""
    daemon: DaemonOptions = field(default_factory=lambda: DaemonOptions(devices={}))
    """Devices, rate, publishing and recording, as of `vehicled run`."""

    def check(self) -> Iterable[tuple[str, str]]:
        """Yield (key, what is wrong) for channels and devices that do not fit together."""
        if not any(self.sensors.values()):
            yield "sensors", "expected at least one"
        for device in self.sensors:
            if self.daemon.devices and device not in self.daemon.devices:
                there = ", ".join(self.daemon.devices)
                yield f"sensors.{device}", f"expected a device of daemon.devices ({there})"
        if self.daemon.learned is not None:
            yield "daemon.learned", "expected none: nothing of a mechanism is kept from one run to the next"


@dataclass(frozen=True)
class ParticlesConfiguration:
    """A configuration that has been read and checked."""

    particles: ParticleOptions
    sensors: dict[str, dict[str, SensorOptions]]
    daemon: DaemonOptions
    text: str
    """Text of the file."""


def is_particles_file(path: str | Path) -> bool:
    """Whether a file configures particles: no car, but `particles`, or a sensor of a coordinate or its rate.

    False for a file that is not YAML: reading it as another configuration then reports the error.
    """
    try:
        whole = settings.document(settings.read(path))
    except SettingsError:
        return False
    keys = whole.parts()
    channels = [o for device in whole.parts("sensors").values() for o in device.parts().values()]
    return "vehicle" not in keys and (
        "particles" in keys or any({"value", "rate"} & set(o.parts()) for o in channels)
    )


def load_particles_configuration(path: str | Path) -> ParticlesConfiguration:
    """The configuration in a file. Raises SettingsError."""
    return _configure(*_read(path))


def check_particles_configuration(path: str | Path) -> ParticlesConfiguration:
    """As `load_particles_configuration`, with the options of every device read by its driver, which opens nothing.

    Raises SettingsError with the mistakes of all of them.
    """
    document, text = _read(path)
    return check_with_devices(document, Path(path), lambda: _configure(document, text))


def _read(path: str | Path) -> tuple[Deferred, str]:
    text = settings.read(path)
    return settings.document(text, str(path), Path(path).parent), text


def _configure(document: Deferred, text: str) -> ParticlesConfiguration:
    if (car := document.parts().get("vehicle")) is not None:
        car.fail(
            "expected a configuration of particles, with what each sensor measures; this is one of a car"
        )
    if (space := document.parts().get("space")) is not None:
        space.fail("expected a configuration of particles; this file describes a mechanism")
    # Channels are checked first, as the unit of a standard deviation is that of its channel.
    mistakes = Mistakes()
    for device in document.parts("sensors").values():
        for channel, options in device.parts().items():
            if channel not in CHANNELS:
                with mistakes.part():
                    options.fail(_unknown(channel))
    mistakes.raise_any()
    file = document.to(ParticlesFile)
    return ParticlesConfiguration(file.particles, file.sensors, file.daemon, text)
