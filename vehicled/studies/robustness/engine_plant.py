"""The published reference vehicle in another engine as a plant, with drive and brakes; see `drive.Plant`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

import numpy as np

from vehicled.errors import UsageError
from vehicled.messages import ESTIMATE_COLUMNS, ESTIMATE_INDEX, WHEELS
from vehicled.simulation.driver import Controls, Handling
from vehicled.simulation.manoeuvres import InitialMotion
from vehicled.simulation.road import Road
from vehicled.simulation.scenario import Ground
from vehicled.simulation.sensors import SensorPlaces
from vehicled.studies.benchmarks.peers.wheels import Wheels
from vehicled.studies.robustness.engine_wheels import (
    SLIPS_AND_FORCES,
    TRAVEL,
    calc_slips_and_forces,
    calc_travel,
)
from vehicled.vehicle.parameters import LinearTyre, Vehicle
from vehicled.vehicle.steering import SteeringGeometry

SLOWEST = 3.0
"""m/s: at lower speeds, the tyre law chatters in explicit steps."""
STEP = 1e-3
"""Default step, s."""
_SETTLING = 3.0
"""s: time for which the car rolls straight on before the drive, as its springs do not rest in design position."""
_STANDING = 1.5
"""s after which a standing car is within 0.1 mm of its rest."""
_BRAKE_PER_PRESSURE = 3e-4
"""Gain of the brakes, which the published car lacks: torque of all wheels, N·m/Pa."""
BRAKE_GAINS = _BRAKE_PER_PRESSURE * np.array([0.65, 0.65, 0.35, 0.35]) / 2
"""Gain of each wheel's brake, N·m/Pa."""

Motion = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Chassis: centre of mass (3,), R_world_chassis (3, 3), velocity (3,) in world axes, body rates (3,); wheels:
rates (4,). SI."""


class DrivenEngine(Protocol):
    """The car in an engine that is stepped from outside, straight on from the world's origin in design position."""

    def advance(self, rack: float, rack_rate: float, torques: np.ndarray, roads: np.ndarray) -> None:
        """Make one step: rack at its end (m, m/s), torques (4,) about the wheels' axes (N·m).

        `roads` (2, 4): height of the road under each wheel at the end (m), and its rate in the step (m/s).
        """

    def read(self) -> Motion:
        """The present motion."""

    def read_wheels(self) -> Wheels:
        """The present state of the wheels."""

    def close(self) -> None:
        """Finish the drive."""


MakeEngine = Callable[[Vehicle, float, float], DrivenEngine]
"""A function of the vehicle, its initial speed (m/s) and the step (s)."""


class EnginePlant:
    """The reference vehicle on roads over a level plane.

    The engine starts straight on at the origin; its motion is rotated and shifted to the initial pose. Tyres
    meet the road as in `MultibodyPlant`: each on a level plane at the height of the road under its hub.
    """

    def __init__(
        self, vehicle: Vehicle, mounting: SensorPlaces, engine: MakeEngine, step: float = STEP
    ) -> None:
        """`step`: length of all steps, s."""
        self._vehicle, self._make, self._dt = vehicle, engine, step
        self._radii = np.array([vehicle.axle(w).tyre.radius for w in WHEELS])
        self.mounting, self.gravity = mounting, vehicle.gravity
        self._arm = vehicle.center_of_mass() - np.array(vehicle.chassis.center_of_mass)
        self._geometry = SteeringGeometry(vehicle)
        self.handling = Handling(
            wheelbase=vehicle.wheelbase,
            width=2 * vehicle.front.hard_points.wheel_center[1] + 0.2,
            mass=vehicle.mass,
            wheel_radius=vehicle.rear.tyre.radius,
            rack_per_steer=self._geometry.rack_per_angle,
            brake_torque_per_pressure=_BRAKE_PER_PRESSURE,
            front_share=vehicle.calc_front_share(_find_slip_stiffness(vehicle)),
        )

    def reset(self, initial: InitialMotion, ground: Ground) -> None:
        """Start on settled springs at the initial pose and speed. UsageError for a slope, or below `SLOWEST`."""
        plane = replace(ground, roughness=None, edges=[], seed=0)
        if plane != Ground() or initial.speed < SLOWEST:
            raise UsageError(f"this car drives over a level plane and starts at {SLOWEST:g} m/s or more")
        self._engine = self._make(self._vehicle, initial.speed, self._dt)
        self._turn, self._shift = np.eye(3), np.zeros(3)
        self._rack, self._angles, self._heights = 0.0, np.zeros(4), np.zeros(4)
        for _ in range(round(_SETTLING / self._dt)):
            self._engine.advance(0.0, 0.0, np.zeros(4), np.zeros((2, 4)))
        self._rates = self._engine.read()[4]
        self._rest = self._find_rest()
        turn = initial.yaw - float(self.truth()[ESTIMATE_INDEX["yaw"]])
        c, s = math.cos(turn), math.sin(turn)
        self._turn = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
        away = self.truth()[[ESTIMATE_INDEX["x"], ESTIMATE_INDEX["y"]]] - (initial.x, initial.y)
        self._shift[:2] = -away
        start = initial.x, initial.y
        self._road = None if ground == plane else Road(ground.roughness, ground.edges, ground.seed, start)

    def _find_rest(self) -> np.ndarray:
        """(4,) m: positions of the hubs in the chassis at standstill; when rolling, toe causes forces and travel."""
        engine = self._make(self._vehicle, 0.0, STEP)
        for _ in range(round(_STANDING / STEP)):
            engine.advance(0.0, 0.0, np.zeros(4), np.zeros((2, 4)))
        *chassis, _ = engine.read()
        rest: np.ndarray = calc_travel(engine.read_wheels(), *chassis)[0]
        engine.close()
        return rest

    def step(self, t: float, dt: float, controls: Controls) -> None:
        """Make one step with the rack, torques and pressure at its end."""
        rack, brakes = (
            controls.rack,
            controls.brake_pressure * BRAKE_GAINS * np.tanh(self._rates),
        )
        rack_rate = (rack - self._rack) / self._dt
        self._engine.advance(rack, rack_rate, self.wheel_torques(controls) - brakes, self._find_roads())
        self._rack, before = rack, self._rates
        self._rates = self._engine.read()[4]
        self._angles += 0.5 * self._dt * (before + self._rates)

    def _find_roads(self) -> np.ndarray:
        """(2, 4): height of the road at the wheels' positions at the end of the step (m), and its rate (m/s)."""
        before = self._heights
        if self._road is not None:
            wheels = self._engine.read_wheels()
            places = (wheels.places + self._dt * wheels.velocities) @ self._turn.T + self._shift
            self._heights = self._road.heights(places[:, 0], places[:, 1], self._radii)
        return np.stack((self._heights, (self._heights - before) / self._dt))

    def truth(self) -> np.ndarray:
        """(len(ESTIMATE_COLUMNS),) present motion of the vehicle origin and of the wheels; NaN in other columns."""
        place, R_engine, v_engine, rates, spins = self._engine.read()
        R, velocity = self._turn @ R_engine, self._turn @ v_engine
        along = R.T @ velocity + np.cross(rates, self._arm)
        angles = (math.atan2(R[2, 1], R[2, 2]), -math.asin(R[2, 0]), math.atan2(R[1, 0], R[0, 0]))
        origin = self._turn @ place + R @ self._arm + self._shift
        row = np.full(len(ESTIMATE_COLUMNS), np.nan)
        row[_MOTION] = (*origin, *angles, *along, *rates, math.atan2(along[1], along[0]))
        row[_ANGLES], row[_SPEEDS] = self._angles, spins
        wheels = self._engine.read_wheels()
        row[SLIPS_AND_FORCES] = calc_slips_and_forces(wheels)
        row[TRAVEL] = calc_travel(wheels, place, R_engine, v_engine, rates)
        row[TRAVEL[0]] -= self._rest
        return row

    def road_wheel_angles(self) -> tuple[float, float]:
        """Front left and right, rad, positive to the left, from the steering geometry."""
        return self._geometry.angle(0, self._rack), self._geometry.angle(1, self._rack)

    def wheel_torques(self, controls: Controls) -> np.ndarray:
        """(4,) N·m: half of its axle's torque on each wheel, as with open differentials."""
        front, rear = 0.5 * controls.front_torque, 0.5 * controls.rear_torque
        return np.array([front, front, rear, rear])

    def close(self) -> None:
        """Finish the drive."""
        self._engine.close()


def _find_slip_stiffness(vehicle: Vehicle) -> np.ndarray:
    """(4,) N per unit of longitudinal slip. UsageError for a tyre law that the engines do not have."""
    tyres = [vehicle.axle(w).tyre for w in WHEELS]
    linear = [tyre.slip_stiffness_x for tyre in tyres if isinstance(tyre, LinearTyre)]
    if len(linear) < len(tyres):
        raise UsageError(
            "the car of this engine has linear tyres: expected `tyre: {kind: linear}` on both axles"
        )
    return np.array(linear)


_MOTION = [
    ESTIMATE_INDEX[c]
    for c in ("x", "y", "z", "roll", "pitch", "yaw", "vx", "vy", "vz", "wx", "wy", "wz", "sideslip")
]
_ANGLES, _SPEEDS = ([ESTIMATE_INDEX[f"wheel.{w}.{what}"] for w in WHEELS] for what in ("angle", "speed"))
