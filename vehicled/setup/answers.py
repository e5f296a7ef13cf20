"""The answers from which a configuration is made, with their units and plausible ranges.

The same checks apply to typed answers and to a file of answers, which has these names as keys.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from drivers.ports import find_shared
from drivers.registry import load_driver
from vehicled.errors import UsageError
from vehicled.setup.bus import Bus
from vehicled.setup.tyre_size import read_tyre
from vehicled.units import (
    Hertz,
    Metres,
    MetresVector,
    NewtonMetresPerRadian,
    Newtons,
    Positive,
    Range,
    Rotation,
    SquareMetres,
    Unit,
)
from vehicled.vehicle.ranges import (
    CenterOfMassHeight,
    CorneringStiffness,
    Friction,
    Mass,
    SteeringRatio,
    Track,
    Wheelbase,
)

Place = Annotated[MetresVector, Range(-8.0, 8.0)]
"""x y z from the point of the ground below the middle of the front axle: forward, left, up."""
RideFrequency = Annotated[Hertz, Range(0.7, 6.0)]
RollStiffness = Annotated[NewtonMetresPerRadian, Range(0.0, 600e3)]

Downforce = Annotated[Newtons, Range(-2000.0, 9000.0)]

_ANY_RADIUS = 0.3
"""m: whether a signal is of a wheel's speed does not depend on it."""


@dataclass(frozen=True, kw_only=True)
class DeviceAnswer:
    """A device on a serial line or in the network."""

    driver: str
    port: str
    baud: Annotated[int, Positive] | None = None

    def check(self) -> Iterator[tuple[str, str]]:
        """Yield (key, what is wrong) for a driver that there is not, and for what its options cannot be."""
        try:
            kind = load_driver(self.driver).Options
        except UsageError as error:
            yield "driver", str(error)
            return
        given = {"port": self.port} | ({} if self.baud is None else {"baud": self.baud})
        for key in given.keys() - {option.name for option in dataclasses.fields(kind)}:
            yield key, f"the driver {self.driver!r} has no such option"
            return
        if all(o.name in given or _has_default(o) for o in dataclasses.fields(kind)) and hasattr(
            kind, "check"
        ):
            yield from kind(**given).check()


@dataclass(frozen=True, kw_only=True)
class Answers:
    """Answers about the car; None: not answered."""

    driven: Literal["front", "rear", "all"] | None = None
    mass: Mass | None = None
    wheelbase: Wheelbase | None = None
    front_share: Annotated[float, Unit("%"), Range(0.25, 0.75)] | None = None
    height: Annotated[Metres, Range(0.7, 4.0)] | None = None
    center_of_mass_height: CenterOfMassHeight | None = None
    front_track: Track | None = None
    rear_track: Track | None = None
    front_tyre: str | None = None
    rear_tyre: str | None = None
    steering_ratio: SteeringRatio | None = None
    details: bool | None = None
    front_ride_frequency: RideFrequency | None = None
    rear_ride_frequency: RideFrequency | None = None
    front_roll_stiffness: RollStiffness | None = None
    rear_roll_stiffness: RollStiffness | None = None
    front_cornering_stiffness: CorneringStiffness | None = None
    rear_cornering_stiffness: CorneringStiffness | None = None
    friction: Friction | None = None
    differential: Literal["open", "limited_slip", "locked"] | None = None
    drag_area: Annotated[SquareMetres, Range(0.0, 6.0)] | None = None
    front_downforce: Downforce | None = None
    rear_downforce: Downforce | None = None
    imu: bool | None = None
    imu_position: Place | None = None
    imu_rotation: Rotation | None = None
    gnss: bool | None = None
    gnss_antenna: Place | None = None
    wheels: Literal["speeds", "angles", "none"] | None = None
    steering: Literal["wheel", "rack", "road_wheels", "bicycle"] | None = None
    devices: dict[str, DeviceAnswer] | None = None
    """Devices by name. Not answered: the devices that are found on the ports."""
    dbc: Path | None = None
    """DBC file of the car's CAN bus."""
    can_channel: str | None = None
    signals: dict[str, str] | None = None
    """Channel to MESSAGE.SIGNAL. Not answered: those whose name and unit leave no doubt."""
    record: Path | None = None
    """Folder of recordings."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yield (key, what is wrong): tyres of no car, a mass over the roof, signals of no file, a port twice."""
        if self.steering == "bicycle" and self.steering_ratio not in (None, 1.0):
            yield "steering_ratio", "expected 1, or none, beside `steering: bicycle`"
        if self.signals is not None and self.dbc is None:
            yield "signals", "expected dbc as well, the DBC file that they are in"
        if self.dbc is not None:
            yield from self._check_bus(self.dbc)
        for name, fault in find_shared((n, d.port) for n, d in (self.devices or {}).items()):
            yield f"devices.{name}.port", fault
        for key in ("front_tyre", "rear_tyre"):
            size = getattr(self, key)
            if size is not None:
                try:
                    read_tyre(size)
                except ValueError as error:
                    yield key, str(error)
        if self.height is not None and (self.center_of_mass_height or 0.0) > 0.8 * self.height:
            yield "center_of_mass_height", f"expected at most 0.8 of the car's height of {self.height:g} m"

    def _check_bus(self, dbc: Path) -> Iterator[tuple[str, str]]:
        try:
            bus = Bus(dbc, _ANY_RADIUS, _ANY_RADIUS)
        except UsageError as error:
            yield "dbc", str(error)
            return
        for channel, name in (self.signals or {}).items():
            try:
                bus.find(channel, name)
            except UsageError as error:
                yield "signals", str(error).removeprefix("signals.")


def _has_default(field: dataclasses.Field[Any]) -> bool:
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
