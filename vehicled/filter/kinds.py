"""Makes the filter that a configuration asks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from vehicled.errors import UsageError
from vehicled.filter.boundary import SensorSetup
from vehicled.filter.forward_euler import ForwardEulerFilter
from vehicled.filter.settings import Filter, Kind
from vehicled.filter.tangents import Companion
from vehicled.filter.unscented import UnscentedVehicleFilter
from vehicled.filter.vehicle_filter import VehicleFilter
from vehicled.vehicle.parameters import Vehicle

_CLASSES: dict[str, type[ForwardEulerFilter] | type[UnscentedVehicleFilter]] = {
    "DEKF": ForwardEulerFilter,
    "UKF": UnscentedVehicleFilter,
}


def make_filter(
    vehicle: Vehicle, settings: Filter, sensors: SensorSetup, companions: Sequence[Companion] = ()
) -> VehicleFilter:
    """A filter of the kind in the settings.

    Filters of the errorEKF family differ in what is compiled, and can calculate derivatives with respect to
    parameters, given filters with changed parameters (`companions`). Raises ValueError for companions of a
    kind that cannot, and UsageError for a kind that there is not.
    """
    if settings.kind not in get_args(Kind):
        raise UsageError(f"filter.kind: expected one of {', '.join(get_args(Kind))}, got {settings.kind!r}")
    other = _CLASSES.get(settings.kind)
    if other is None:
        return VehicleFilter(vehicle, settings, sensors, companions)
    if companions:
        raise ValueError(f"{settings.kind} has no derivatives")
    return other(vehicle, settings, sensors)
