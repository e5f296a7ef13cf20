"""Effect of an unmeasured drive or brake force on tyre forces and joints.

In the filter, that force acts on the chassis at the height of the road, at once and without the wheels, as
the accelerometer measures it before wheels and tyres could respond. The body pitches under it, and springs
and loads follow. On a real car it acts at the tyres: at the driven wheels, or, when braking, at all wheels in
proportion to their brake torques; the joints carry it. These forces do not affect the filter: they are added
to what is published.
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
    """Effects of the filter's estimated drive force on the four corners of its car."""

    def __init__(self, f: VehicleFilter) -> None:
        self._filter, car = f, f.car
        self._driving, self._braking = car.view("force_per_drive"), car.view("force_per_braking")
        """N by wheel, along the wheels, per m/s² of drive force over mass."""
        self._along = car.corner_outputs[_ALONG]
        self.added = _NONE
        """(4,) longitudinal tyre forces that were last added, by wheel, N."""

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
        """(5, 4) these forces in the order of ADDED_FORCES, by wheel, N; the other rows are zero."""
        forces = np.zeros((len(ADDED_FORCES), len(WHEELS)))
        forces[ADDED_FORCES.index("along")] = self.added
        return forces


class Additions:
    """What an uneven road and an unmeasured drive force add to an estimate."""

    def __init__(self, f: VehicleFilter, vehicle: Vehicle) -> None:
        self._road, self._drive = AddedTravel(f.car, vehicle), UnmeasuredDrive(f)
        self._road_forces = calc_road_forces_by_travel(vehicle)

    def add(self, t: float) -> None:
        """Add the effects at t (s) to the car's outputs in the workspace."""
        self._road.add(t)
        self._drive.add()

    def calc(self, t: float) -> tuple[float, ...]:
        """(16,) amounts added at t (s), the time of the last `add`, to the columns ADDED_PLACES."""
        return *self._road.calc(t), *self._drive.added.tolist()

    @property
    def forces(self) -> np.ndarray:
        """(5, 4) forces of both at the last `add`, in the order of ADDED_FORCES, by wheel, N.

        Of a rough road's load, only the part that springs, dampers and bars carry is included, not what the
        wheel's inertia takes up.
        """
        of_travel = np.array(self._road.read()[: 2 * len(WHEELS)])
        if not of_travel.any():
            return self._drive.forces
        forces: np.ndarray = self._drive.forces + (self._road_forces @ of_travel).reshape(
            len(ADDED_FORCES), -1
        )
        return forces
