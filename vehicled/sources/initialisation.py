"""How the filter begins: at the first fix, along the first course, at the speed and yaw rate that are measured."""

from __future__ import annotations

import math

import numpy as np

from vehicled.filter.boundary import EstimatedFilter, InitialPose
from vehicled.filter.settings import Start
from vehicled.filter.states import UNKNOWN_YAW, InitialConditions
from vehicled.requests import SetParameters
from vehicled.sources.inputs import Inputs
from vehicled.sources.sensors import Sources
from vehicled.sources.start import StartConditions
from vehicled.sources.world import WorldFrame
from vehicled.units import Vector
from vehicled.vehicle.arrays import AHEAD, LEFT

LATERAL_SIGMA = (0.5, 0.05)
"""m/s, and that per speed: of a lateral velocity of which nothing is known."""
ATTITUDE_SIGMA = 0.03
"""rad: of roll and pitch then."""
_SETTLED_LATERAL_SIGMA = (0.05, 0.01)
_SETTLED_ATTITUDE_SIGMA = 0.01
"""The same where the simulated car turns as the real one does."""
_OWN_HEADING_SIGMA = 1e-3
"""rad: of the heading where the local frame is the car's own; it is exact but for rounding."""
_TURNING = 0.5
"""m/s²: speed times yaw rate, beyond which a car is in a turn."""


class Initialisation:
    """Begins a filter, and begins it anew."""

    def __init__(self, filter: EstimatedFilter, inputs: Inputs, sources: Sources, world: WorldFrame) -> None:
        self._filter, self._inputs, self._sources, self._world = filter, inputs, sources, world

    def begin(self, t_ns: int, conditions: StartConditions, settings: Start, given: SetParameters) -> None:
        """Begin at t_ns with what is known. `given`: parameters of an earlier drive."""
        f, world = self._filter, self._world
        speed, course = conditions.speed or 0.0, conditions.yaw
        yaw, yaw_sigma = settings.yaw, settings.yaw_sigma
        known = conditions.fix is not None
        # Without a receiver there is nothing to align with: the local frame is the car's own.
        world.aligned = course is not None or not known
        if course is not None:
            yaw, yaw_sigma = course
        if not known:
            yaw_sigma = min(yaw_sigma, _OWN_HEADING_SIGMA)
        initial = InitialConditions(speed, known, yaw_sigma**2 if world.aligned else UNKNOWN_YAW)
        f.initialise(t_ns, InitialPose(np.array([0.0, 0.0, f.car.design_height]), yaw, speed), initial)
        f.set_parameters(given.parameters, given.age)
        self._sources.set_parameters(given.parameters)
        antenna = None if conditions.fix is None else conditions.fix[2]
        self._turn_in(t_ns, speed, None if conditions.has_two_antennas else antenna)
        if conditions.fix is not None:
            measured_ns, fix, place = conditions.fix
            world.find_origin(fix)
            # The fix is as old as its latency; the car has gone on since.
            way = speed * (t_ns - measured_ns) * 1e-9 * np.array([math.cos(yaw), math.sin(yaw), 0.0])
            f.shift_antenna_to(world.to_world_or_level(fix), way, place)
        f.restart_history(t_ns)

    def _turn_in(self, t_ns: int, speed: float, antenna: Vector | None) -> None:
        """Begin in a turn: with its yaw rate and, if the steering explains it, its roll and sideslip.

        `antenna`: the place whose course the heading is, in vehicle axes; None where it is the car's own heading.
        """
        f, imu = self._filter, self._sources.imu
        yaw_rate = None if imu is None else imu.lateral.yaw_rate
        if yaw_rate is None or abs(speed * yaw_rate) < _TURNING:
            return
        self._inputs.apply(t_ns * 1e-9)
        if not f.settle_in_turn(yaw_rate):
            f.set_lateral_motion(yaw_rate, LATERAL_SIGMA, ATTITUDE_SIGMA)
            return
        f.set_lateral_motion(yaw_rate, _SETTLED_LATERAL_SIGMA, _SETTLED_ATTITUDE_SIGMA)
        if antenna is not None:
            pose = f.read_state()
            left, ahead = pose[LEFT] + yaw_rate * antenna[0], pose[AHEAD] - yaw_rate * antenna[1]
            f.turn(-math.atan(left / ahead))
