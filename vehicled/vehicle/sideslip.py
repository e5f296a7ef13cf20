"""Sideslip of a car in a steady turn, from its dimensions, loads and tyres."""

from __future__ import annotations

from typing import NamedTuple

from vehicled.vehicle.parameters import LinearTyre, Vehicle


class SteadySideslip(NamedTuple):
    """Sideslip per yaw rate: the faster a car turns at the same rate, the further its rear swings out."""

    rear: float
    """Distance from the vehicle origin back to the rear axle, m."""
    slip: float
    """Slip angle of the rear axle per lateral acceleration, rad/(m/s²)."""

    def calc_per_rate(self, speed: float) -> float:
        """Sideslip per yaw rate, s, at a speed above 0, m/s."""
        return self.rear / speed - self.slip * speed

    def calc_largest_part(self, speed: float) -> float:
        """The larger one of the parts of that by the place of the rear axle and by its tyres, s."""
        return max(abs(self.rear) / speed, self.slip * speed)


def calc_steady_sideslip(vehicle: Vehicle) -> SteadySideslip:
    """That of a car, below the limits of its tyres."""
    front, rear = (axle.hard_points.wheel_center[0] for axle in (vehicle.front, vehicle.rear))
    x = float(vehicle.center_of_mass()[0])
    mass, tyre = (front - x) / (front - rear) * vehicle.mass / 2, vehicle.rear.tyre
    if isinstance(tyre, LinearTyre):
        return SteadySideslip(x - rear, mass / tyre.slip_stiffness_y)
    ratio = mass * vehicle.gravity / tyre.nominal_load
    one, two = tyre.lateral.df0
    return SteadySideslip(x - rear, mass / (ratio * ((2 * one - two / 2) - (one - two / 2) * ratio)))
