"""What a drive or brake force that nothing measures adds to tyre forces and joints.

In the filter that force acts on the chassis at the height of the road, at once and without turning wheels, for the
accelerometer knows of it before wheels and tyres would. The body pitches by it, and springs and loads follow. On a
road it acts at the tyres: those of the driven wheels have it, when it brakes those of all by the torques of their
brakes, and the joints carry that. Nothing of it corrects the filter: it is added to what is published.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vehicled.filter.states import DRIVE_FORCE
from vehicled.messages import ESTIMATE_INDEX, WHEELS
from vehicled.sources.imu.road_travel import ROAD_PLACES
from vehicled.sources.imu.statistics import AddedTravel
from vehicled.vehicle.arrays import ADDED_FORCES, CORNER_OUTPUTS
from vehicled.vehicle.ride import calc_road_forces_by_travel

if TYPE_CHECKING:
    from vehicled.filter.vehicle_filter import VehicleFilter
    from vehicled.vehicle.parameters import Vehicle

_ALONG = CORNER_OUTPUTS.index("tyre.fx")
_NONE = np.zeros(len(WHEELS))
ADDED_PLACES = np.array([*ROAD_PLACES.tolist(), *(ESTIMATE_INDEX[f"tyre.{w}.fx"] for w in WHEELS)])
"""Columns of an estimate that road and unmeasured drive add to."""
NOTHING_ADDED: tuple[float, ...] = (0.0,) * len(ADDED_PLACES)


class UnmeasuredDrive:
    """Effects of the drive force that a filter estimates, on the four corners of its car."""

    def __init__(self, f: VehicleFilter) -> None:
        self._filter, car = f, f.car
        self._driving, self._braking = car.view("force_per_drive"), car.view("force_per_braking")
        """N by wheel, per m/s² of drive force over mass, along the wheels."""
        self._along = car.corner_outputs[_ALONG]
        self.added = _NONE
        """(4,) longitudinal force of the tyres that has been added last, by wheel, N."""

    def add(self) -> None:
        """Add it to the car's outputs in the workspace."""
        f = self._filter
        force = 0.0 if f.is_drive_known else float(f.slow.view(DRIVE_FORCE)[0])
        if not force:
            self.added = _NONE
            return
        self.added = force * (self._driving if force > 0.0 else self._braking)
        self._along += self.added

    @property
    def forces(self) -> np.ndarray:
        """(5, 4) it among the forces in the order of ADDED_FORCES, by wheel, N."""
        forces = np.zeros((len(ADDED_FORCES), len(WHEELS)))
        forces[ADDED_FORCES.index("along")] = self.added
        return forces


class Additions:
    """What an uneven road and an unmeasured drive force add to an estimate."""

    def __init__(self, f: VehicleFilter, vehicle: Vehicle) -> None:
        self._road, self._drive = AddedTravel(f.car, vehicle), UnmeasuredDrive(f)
        self._road_forces = calc_road_forces_by_travel(vehicle)

    def add(self, t: float) -> None:
        """Add it, as it is at t (s), to the car's outputs in the workspace."""
        self._road.add(t)
        self._drive.add()

    def calc(self, t: float) -> tuple[float, ...]:
        """(16,) what has been added at t (s), the time of the last `add`, to the columns at ADDED_PLACES."""
        return *self._road.calc(t), *self._drive.added.tolist()

    @property
    def forces(self) -> np.ndarray:
        """(5, 4) forces of both at the last `add`, in the order of ADDED_FORCES, by wheel, N.

        The load of a rough road is the part that springs, dampers and bars carry. What the wheel's inertia takes up
        does not reach them.
        """
        of_travel = np.array(self._road.read()[: 2 * len(WHEELS)])
        if not of_travel.any():
            return self._drive.forces
        forces: np.ndarray = self._drive.forces + (self._road_forces @ of_travel).reshape(
            len(ADDED_FORCES), -1
        )
        return forces
