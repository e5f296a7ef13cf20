"""The axles in other engines' models of a car."""

from vehicled.errors import UsageError
from vehicled.vehicle.parameters import Axle, Vehicle


def get_axle(vehicle: Vehicle, wheel: str) -> Axle:
    """The axle of a wheel. Raises UsageError for one without double wishbones."""
    axle = vehicle.axle(wheel)
    if not isinstance(axle, Axle):
        end = "front" if wheel[0] == "f" else "rear"
        raise UsageError(
            f"vehicle.{end}.suspension: other engines have models of double_wishbone only, got {axle.suspension}"
        )
    return axle
