"""What a drive or brake force that nothing measures adds to suspensions, wheel loads and tyre forces.

In the filter that force acts at the vehicle origin, at once and without turning wheels or body, for the accelerometer
knows of it before wheels and tyres would. On a road it acts at the tyres: the loads of the axles change by its moment
about the origin, springs and dampers carry that (c·ṡ + k·s = F, as in `road_travel`), the tyres of the driven wheels
have it, when it brakes those of all by the torques of their brakes, and the joints carry all of that. Nothing of it
corrects the filter: it is added to what is published.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from vehicled.filter.states import DRIVE_FORCE
from vehicled.messages import ESTIMATE_INDEX, WHEELS
from vehicled.sources.imu_statistics import AddedTravel
from vehicled.sources.road_travel import NOTHING, ROAD_PLACES
from vehicled.vehicle.arrays import ADDED_FORCES, CORNER_OUTPUTS
from vehicled.vehicle.ride import calc_road_forces_by_travel, calc_travel_modes

if TYPE_CHECKING:
    from vehicled.filter.vehicle_filter import VehicleFilter
    from vehicled.vehicle.parameters import Vehicle

_SUSPENSION = "suspension.deflection", "suspension.rate", "suspension.force"
_ROWS = [CORNER_OUTPUTS.index(name) for name in (*_SUSPENSION, "tyre.fz", "tyre.fx")]
_NONE = np.zeros((len(_ROWS), len(WHEELS)))
_NO_FORCES = np.zeros((len(ADDED_FORCES), len(WHEELS)))
_LEAST_TIME = 1e-3
"""s: least time constant c/k."""
_LEAST_TRAVEL = 1e-6
"""m: less is none."""
_LONGEST = 1.0
"""s: after a longer time all springs are at rest."""
ADDED_PLACES = np.array(
    [*ROAD_PLACES.tolist(), *(ESTIMATE_INDEX[f"tyre.{w}.{f}"] for f in ("fz", "fx") for w in WHEELS)]
)
"""Columns of an estimate that road and unmeasured drive add to."""
NOTHING_ADDED: tuple[float, ...] = (0.0,) * len(ADDED_PLACES)


class UnmeasuredDrive:
    """Effects of the drive force that a filter estimates, on the four corners of its car."""

    def __init__(self, f: VehicleFilter, vehicle: Vehicle) -> None:
        self._filter, car = f, f.car
        axles = vehicle.front, vehicle.front, vehicle.rear, vehicle.rear
        modes = [calc_travel_modes(axle)[0] for axle in axles]
        k = np.array([m.stiffness for m in modes])
        c = np.maximum([m.damping for m in modes], _LEAST_TIME * k)
        self._fading = k / c
        self._struts = np.array([(m.strut_stiffness, m.strut_damping) for m in modes]).T
        base = vehicle.front.hard_points.wheel_center[0] - vehicle.rear.hard_points.wheel_center[0]
        load = 0.5 * vehicle.mass * car.design_height / base
        self._loads = np.array([-load, -load, load, load])
        """N by wheel, per m/s² of drive force over mass."""
        self._rest = self._loads / k
        """m likewise: where springs carry that."""
        self._driving, self._braking = car.view("force_per_drive"), car.view("force_per_braking")
        """N likewise, along the wheels."""
        self._height = car.view("drive_height")
        self._outputs = car.corner_outputs
        self.reset()

    def reset(self) -> None:
        """The filter begins anew: springs are at rest."""
        self._travel = np.zeros(len(WHEELS))
        self._t = math.nan
        self.added = _NONE
        """(5, 4) what has been added last, by wheel: travel, its rate, force of the struts, load and longitudinal
        force of the tyres; m, m/s and N."""
        self.forces = _NO_FORCES
        """(5, 4) the forces among that in the order of ADDED_FORCES, by wheel, N."""

    def add(self, t: float) -> None:
        """Add them, as they are at t (s), to the car's outputs in the workspace."""
        self.added = self._calc(t)
        if self.added is not _NONE:
            self._outputs[_ROWS] += self.added

    def _calc(self, t: float) -> np.ndarray:
        h = min(t - self._t, _LONGEST) if t >= self._t else _LONGEST
        self._t = t
        f = self._filter
        force = 0.0 if f.is_drive_known else float(f.view_slow_states(DRIVE_FORCE)[0])
        if not force:
            if self.added is _NONE:  # as in nearly all steps of a car whose torques are measured
                return _NONE
            if np.abs(self._travel).max() < _LEAST_TRAVEL:
                self._travel[:] = 0.0
                self.forces = _NO_FORCES
                return _NONE
        # Where torques and pressure have been measured before, the car itself pitches by it.
        moving = 0.0 if self._height[0] else force
        rest = moving * self._rest
        self._travel = rest + (self._travel - rest) * np.exp(-h * self._fading)
        rate = (rest - self._travel) * self._fading
        spring, damper = self._struts[0] * self._travel, self._struts[1] * rate
        along = force * (self._driving if force > 0.0 else self._braking)
        load = moving * self._loads
        self.forces = np.array([spring, damper, np.zeros(len(WHEELS)), load, along])
        return np.array([self._travel, rate, spring + damper, load, along])


class Additions:
    """What an uneven road and an unmeasured drive force add to an estimate."""

    def __init__(self, f: VehicleFilter, vehicle: Vehicle) -> None:
        self._road, self._drive = AddedTravel(f.car, vehicle), UnmeasuredDrive(f, vehicle)
        self._road_forces = calc_road_forces_by_travel(vehicle)

    def reset(self) -> None:
        """The filter begins anew; what the road has added is that of the IMU's samples, and ends with these."""
        self._drive.reset()

    def add(self, t: float) -> None:
        """Add it, as it is at t (s), to the car's outputs in the workspace."""
        self._road.add(t)
        self._drive.add(t)

    def calc(self, t: float) -> tuple[float, ...]:
        """(20,) what has been added at t (s), the time of the last `add`, to the columns at ADDED_PLACES."""
        total = self._drive.added.ravel().copy()
        total[: len(NOTHING)] += self._road.calc(t)
        return tuple(total.tolist())

    @property
    def forces(self) -> np.ndarray:
        """(5, 4) forces of both at the last `add`, in the order of ADDED_FORCES, by wheel, N.

        The load of a rough road is the part that springs, dampers and bars carry. What the wheel's inertia takes up
        does not reach them.
        """
        of_travel = np.array(self._road.read()[: 2 * len(WHEELS)])
        if not of_travel.any():
            return self._drive.forces
        forces: np.ndarray = self._drive.forces + (self._road_forces @ of_travel).reshape(_NO_FORCES.shape)
        return forces
