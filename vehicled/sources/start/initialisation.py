"""How the filter begins: at the first fix, along the first course, at the speed and yaw rate that are measured."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping

import numpy as np

from vehicled.filter.boundary import EstimatedFilter, InitialPose
from vehicled.filter.settings import Start
from vehicled.filter.settling import hold_motion, settle_in_turn
from vehicled.filter.states import (
    ANGULAR_RATE,
    ATTITUDE,
    POSITION,
    UNKNOWN_YAW,
    UNMODELLED,
    VELOCITY,
    InitialConditions,
    Process,
    calc_unmodelled,
)
from vehicled.messages import SlowState
from vehicled.requests import SetParameters
from vehicled.sources.imu.model import ALIGNMENT
from vehicled.sources.inputs.inputs import Inputs
from vehicled.sources.sensors import Sources
from vehicled.sources.start.acceleration_heading import Alignment
from vehicled.sources.start.start import StartConditions
from vehicled.sources.world import Fix, WorldFrame
from vehicled.units import Vector
from vehicled.vehicle.arrays import AHEAD, LEFT, PLACE, YAW, YAW_RATE

_log = logging.getLogger(__name__)

LATERAL_SIGMA = (0.5, 0.05)
"""m/s, and that per speed: of a lateral velocity of which nothing is known."""
ATTITUDE_SIGMA = 0.03
"""rad: of roll and pitch then."""
_SETTLED_LATERAL_SIGMA = (0.05, 0.01)
_SETTLED_ATTITUDE_SIGMA = 0.01
"""The same where the simulated car turns as the real one does."""
_SKIDDING_SIGMA = 0.3
"""rad: of a heading by the course of a car that does not turn as it is steered."""
_SKIDDING = Process(0.01, (10.0, 20.0, 0.5, 20.0))
"""Of what tyres do beside the model until they have the forces of the present slip.

From another slip than the car's, lagging tyres of the model come to other forces than the car's: two samples of the
accelerometers would find the lateral velocity by that change, along the slope of a wrong slip. So what they lack is
new at any time.
"""
_LINEAR_SLIP, _LONGEST_SKID_NS = 0.02, 1_000_000_000
"""rad: σ of the sideslip from which on tyre forces are linear in its error; and until when that is awaited, ns."""
_OWN_HEADING_SIGMA = 1e-3
"""rad: of the heading where the local frame is the car's own; it is exact but for rounding."""
_GRAVITY, _SLOPE_SIGMA = 9.81, 0.06
"""m/s², and rad: at most, of slopes that a start may be on. The steepest roads rise by twice that."""
_ASKEW = 0.05
"""rad: what is less may as well be an IMU that is mounted askew."""
_TURNING = 0.5
"""m/s²: speed times yaw rate, beyond which a car is in a turn."""
_STEERED_SHARE, _STEERED_LEAST = 0.3, 0.05
"""Share, and rad/s: σ of a yaw rate by the steering. Cars understeer, and follow it late; its zero is not known."""
_ANY_TURN, _MOVING = 3.0, 2.0
"""m/s²: σ of speed times yaw rate of a car that moves, faster than so many m/s, where nothing measures that."""
_POSITION_SIGMA = 1.0
"""m: at least, after a restart, of height and position beside the way since the last good state."""
_YAW_SIGMA = 0.1
"""rad: at least, of the heading after a restart."""
_KNOWN_YAW = 0.35
"""rad: σ of a heading beside which a velocity over ground shows whether the car skids."""
_FALSE_RATE = 0.3
"""rad/s, by which the estimate turns otherwise than the gyroscope measures."""
_SKIDDING_SHARE = 0.2
"""Of the speed ahead: a car whose lateral velocity is more skids."""
_TRIED_NS = 120_000_000_000
"""A filter that begins anew sooner after a start with given parameters may have failed by them."""


class Initialisation:
    """Begins a filter, and begins it anew."""

    def __init__(self, filter: EstimatedFilter, inputs: Inputs, sources: Sources, world: WorldFrame) -> None:
        self._filter, self._inputs, self._sources, self._world = filter, inputs, sources, world
        self._skids: bool | None = None
        """Whether the car turns otherwise than it is steered; None until that has been found."""
        self._begun_ns = 0
        """When it began last."""
        self._tried: tuple[SetParameters, int] | None = None
        """Given parameters that it has begun with, and when first."""
        self._refused: SetParameters | None = None

    def reset(self) -> None:
        """Nothing has been measured yet."""
        self._skids = None

    def is_ready(self, t_ns: int, conditions: StartConditions) -> bool:
        """Whether the heading is known: while a car skids, a course over ground is none."""
        speed = conditions.speed or 0.0
        yaw_rate = self._find_turn(speed)
        if yaw_rate is None or conditions.yaw is None or conditions.course_antenna is None:
            return True
        if self._skids is None:
            f = self._filter
            pose = InitialPose(np.array([0.0, 0.0, f.car.design_height]), 0.0, speed)
            f.initialise(t_ns, pose, InitialConditions(speed, False, UNKNOWN_YAW))
            self._apply_inputs(t_ns, speed)
            self._skids = not settle_in_turn(f, yaw_rate)
        return not self._skids or conditions.find_alignment() is not None

    def begin_in_place(
        self,
        t_ns: int,
        conditions: StartConditions,
        settings: Start,
        given: SetParameters,
        found: Mapping[str, SlowState],
        saved_every: float,
    ) -> None:
        """Begin anew where the car is by the estimate, or was by that of the last save.

        `found`: parameters that are kept; `saved_every`: s between saves.
        """
        f, world = self._filter, self._world
        pose, aligned, variances = f.read_state().copy(), world.aligned, f.variances
        yaw_rate, _ = self.find_yaw_rate(t_ns, float(pose[AHEAD]))
        motion = self._find_motion(t_ns, pose, yaw_rate)
        conditions.forget_place()
        if motion is not None:
            conditions.set_direction(motion.ahead)
        skids = motion is not None and abs(motion.left) > _SKIDDING_SHARE * abs(motion.ahead)
        self.begin(t_ns, conditions, settings, given, motion if skids else None)
        world.aligned = aligned
        self._sources.reset()
        f.slow.set_parameters(found, age=0.0)
        self._sources.set_parameters(found)
        f.set_lateral_motion(yaw_rate, LATERAL_SIGMA, ATTITUDE_SIGMA)
        f.turn(pose[YAW] - f.read_state()[YAW])
        f.shift(pose[PLACE] - f.read_state()[PLACE])
        for group, element, least in (
            # The saved position may be as old as the time between saves, in which the car has gone on.
            *((POSITION, axis, _POSITION_SIGMA + abs(pose[AHEAD]) * saved_every) for axis in ("x", "y")),
            (POSITION, "z", _POSITION_SIGMA),
            (ATTITUDE, "yaw", _YAW_SIGMA),
        ):
            f.set_variance(group, element, max(float(variances[f.states.index(group, element)]), least**2))
        f.restart_history(t_ns)

    def _find_motion(self, t_ns: int, pose: np.ndarray, yaw_rate: float) -> Alignment | None:
        """How the car moves by a receiver and the estimated heading; None where these do not show it."""
        f = self._filter
        sigma = math.sqrt(f.get_variance(ATTITUDE, "yaw"))
        # An estimate that turns otherwise than the car has a heading that is as wrong.
        is_false = abs(float(pose[YAW_RATE]) - yaw_rate) > _FALSE_RATE
        if not self._world.aligned or sigma > _KNOWN_YAW or is_false:
            return None
        return self._sources.find_motion(t_ns * 1e-9, float(pose[YAW]), sigma, yaw_rate)

    def begin(
        self,
        t_ns: int,
        conditions: StartConditions,
        settings: Start,
        given: SetParameters,
        skid: Alignment | None = None,
    ) -> None:
        """Begin at t_ns with what is known. `given`: parameters of an earlier drive; `skid`: of a car in one."""
        f, world = self._filter, self._world
        speed, heading = conditions.speed or 0.0, conditions.yaw
        yaw, yaw_sigma = settings.yaw, settings.yaw_sigma
        has_fix = conditions.fix is not None
        alignment = conditions.find_alignment() if self._skids else skid
        # Without a receiver there is nothing to align with: the local frame is the car's own.
        world.aligned = heading is not None or not has_fix
        if alignment is not None:
            yaw, yaw_sigma, speed = alignment.yaw, alignment.sigma, alignment.ahead
        elif heading is not None:
            yaw, yaw_sigma = heading
        if not has_fix:
            yaw_sigma = min(yaw_sigma, _OWN_HEADING_SIGMA)
        initial = InitialConditions(speed, has_fix, yaw_sigma**2 if world.aligned else UNKNOWN_YAW)
        f.initialise(t_ns, InitialPose(np.array([0.0, 0.0, f.car.design_height]), yaw, speed), initial)
        if self._is_trusted(t_ns, given):
            f.slow.set_parameters(given.parameters, given.age, switched_on=True)
            self._sources.set_parameters(given.parameters)
        if alignment is not None:
            self._skid(t_ns, alignment)
        else:
            self._turn_in(t_ns, speed, conditions)
        if conditions.forces is not None:
            # Slope, biases and the IMU's alignment share what is measured first. What a state is opened for later is
            # left to it alone, be it only the tyres of the simulated car taking the load of the slope.
            f.open_states("imu.accel".__eq__)
        self._widen_slopes(conditions)
        if conditions.fix is not None:
            self._place_at_fix(t_ns, *conditions.fix)
        f.restart_history(t_ns)
        self._skids, self._begun_ns = None, t_ns

    def _place_at_fix(self, t_ns: int, measured_ns: int, fix: Fix, antenna: Vector) -> None:
        """Move the car to a fix of that time, whose antenna is there in the car, m in vehicle axes."""
        f, world = self._filter, self._world
        world.find_origin(fix)
        # The fix is as old as its latency; the car has gone on since.
        pose = f.read_state()
        way = f.pose[[AHEAD, LEFT]] * (t_ns - measured_ns) * 1e-9
        cos, sin = math.cos(pose[YAW]), math.sin(pose[YAW])
        further = np.array([way[0] * cos - way[1] * sin, way[0] * sin + way[1] * cos, 0.0])
        f.shift_antenna_to(world.to_world_or_level(fix), further, antenna)

    def _is_trusted(self, t_ns: int, given: SetParameters) -> bool:
        """Whether to begin with given parameters: no more, once the filter has begun anew soon after it had them."""
        if given is self._refused or not given.parameters:
            return False
        if self._tried is None or self._tried[0] is not given:
            self._tried = given, t_ns
        elif 0 < t_ns - self._tried[1] < _TRIED_NS:
            self._refused = given
            _log.warning(
                "a restart soon after a start with parameters of an earlier drive: they are left out"
            )
            return False
        return True

    def settle(self, t_ns: int) -> None:
        """Tyres have the forces of their slips 0.1 s after `begin`; to be called from then on, ten times a second."""
        f, given = self._filter, calc_unmodelled(self._filter.settings)
        if f.get_process(UNMODELLED)[0] == given.time:
            return
        slip = math.sqrt(f.get_variance(VELOCITY, "left")) / max(abs(f.pose.item(AHEAD)), _MOVING)
        if slip < _LINEAR_SLIP or t_ns - self._begun_ns > _LONGEST_SKID_NS:
            f.set_process(UNMODELLED, given)

    def find_yaw_rate(self, t_ns: int, speed: float) -> tuple[float, float]:
        """The yaw rate by gyroscopes, or else by the steering, and σ beside that of `initialise`, rad/s."""
        measured, steering = self._sources.yaw_rate, self._inputs.steering
        if measured is not None:
            return measured, 0.0
        steering.check(t_ns * 1e-9, speed, measured)
        steered = steering.health.calc_yaw_rate(speed)
        if steered is not None:
            return steered, _STEERED_SHARE * abs(steered) + _STEERED_LEAST
        return 0.0, _ANY_TURN / abs(speed) if abs(speed) > _MOVING else 0.0

    def _find_turn(self, speed: float) -> float | None:
        """The measured yaw rate, rad/s, if the car is in a turn."""
        yaw_rate = self._sources.yaw_rate
        return None if yaw_rate is None or abs(speed * yaw_rate) < _TURNING else yaw_rate

    def _apply_inputs(self, t_ns: int, speed: float) -> None:
        """Write inputs as measured now into the car; an unknown steering follows from how the car turns."""
        self._inputs.steering.check(t_ns * 1e-9, speed, self._sources.yaw_rate)
        self._inputs.apply(t_ns * 1e-9)

    def _widen_slopes(self, conditions: StartConditions) -> None:
        """What accelerometers measure that is no turn may be gravity, on a slope or a bank.

        As far as an IMU that is mounted askew may explain it, it is no slope.
        """
        f, imu = self._filter, self._sources.imu
        if conditions.forces is None or imu is None or not imu.measures_gravity:
            return
        askew = max((f.get_variance(ALIGNMENT, axis) for axis in "xyz" if ALIGNMENT in f.states), default=0.0)
        for element, force in zip(("v1z", "v2z"), conditions.forces, strict=True):
            sigma = min(math.sqrt(max((force / _GRAVITY) ** 2 - askew, 0.0)), _SLOPE_SIGMA)
            if f.get_variance(ATTITUDE, element) < sigma**2:
                f.set_variance(ATTITUDE, element, sigma**2)
            if conditions.speed is not None and abs(conditions.speed) < _MOVING:
                beyond = math.sqrt(max((force / _GRAVITY) ** 2 - _ASKEW**2, 0.0))
                f.expect_slopes(min(beyond, _SLOPE_SIGMA))

    def _skid(self, t_ns: int, alignment: Alignment) -> None:
        """Begin in a skid, whose tyres are as loaded as that makes them."""
        f, yaw_rate = self._filter, self._sources.yaw_rate or 0.0
        self._apply_inputs(t_ns, alignment.ahead)
        hold_motion(f, alignment.left, yaw_rate)
        sigma = alignment.sigma * math.hypot(alignment.ahead, alignment.left)
        f.set_lateral_motion(yaw_rate, (sigma, 0.0), ATTITUDE_SIGMA)
        f.restart_process(UNMODELLED, _SKIDDING)

    def _turn_in(self, t_ns: int, speed: float, conditions: StartConditions) -> None:
        """Begin in a turn: with its yaw rate and, if the steering explains it, its roll and sideslip."""
        f = self._filter
        yaw_rate, sigma = self.find_yaw_rate(t_ns, speed)
        # Where nothing measures how the car turns, it may be in a turn.
        if abs(speed * (yaw_rate or sigma)) < _TURNING:
            return
        # While that is known it is the car's own heading, else that of an antenna's motion.
        antenna = conditions.course_antenna if conditions.fix is not None else None
        self._apply_inputs(t_ns, speed)
        is_settled = settle_in_turn(f, yaw_rate)
        if is_settled and sigma == 0.0:
            f.set_lateral_motion(yaw_rate, _SETTLED_LATERAL_SIGMA, _SETTLED_ATTITUDE_SIGMA)
        elif is_settled:
            f.set_lateral_motion(float(f.pose[YAW_RATE]), LATERAL_SIGMA, ATTITUDE_SIGMA)
        else:
            f.set_lateral_motion(yaw_rate, LATERAL_SIGMA, ATTITUDE_SIGMA)
        if sigma > 0.0:
            f.set_variance(ANGULAR_RATE, "yaw", sigma**2)
        if self._world.aligned and conditions.yaw is not None:
            f.turn(yaw_rate * (t_ns - conditions.yaw_ns) * 1e-9)
        if antenna is None:
            return
        if not is_settled and self._world.aligned:
            f.set_variance(ATTITUDE, "yaw", _SKIDDING_SIGMA**2)
        elif is_settled:
            pose = f.read_state()
            left, ahead = pose[LEFT] + yaw_rate * antenna[0], pose[AHEAD] - yaw_rate * antenna[1]
            f.turn(-math.atan(left / ahead))
