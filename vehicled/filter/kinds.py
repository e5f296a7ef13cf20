"""The filter on the vehicle that a configuration asks for."""

from __future__ import annotations

from vehicled.filter.settings import Filter
from vehicled.filter.vehicle_filter import ForwardEulerFilter, VehicleFilter
from vehicled.filter.vehicle_unscented import UnscentedVehicleFilter
from vehicled.vehicle.parameters import Vehicle

_CLASSES = {"DEKF": ForwardEulerFilter, "UKF": UnscentedVehicleFilter}


def make_filter(vehicle: Vehicle, settings: Filter) -> VehicleFilter:
    """Of the kind in the settings; those of the errorEKF family differ in what is compiled."""
    return _CLASSES.get(settings.kind, VehicleFilter)(vehicle, settings)
