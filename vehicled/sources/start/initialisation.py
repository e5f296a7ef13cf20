"""Initialisation of the filter: at the first fix, along the first course, with the measured speed and yaw rate."""

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
"""m/s, and share of the speed, 1 σ: of an unknown lateral velocity."""
ATTITUDE_SIGMA = 0.03
"""rad, 1 σ: of roll and pitch with it."""
_SETTLED_LATERAL_SIGMA = (0.05, 0.01)
_SETTLED_ATTITUDE_SIGMA = 0.01
"""Both 1 σ if the model settles in a turn with the measured yaw rate."""
_SKIDDING_SIGMA = 0.3
"""rad, 1 σ: of a heading taken from the course while the car does not turn as it is steered."""
_SKIDDING = Process(0.01, (10.0, 20.0, 0.5, 20.0))
"""Noise of unmodelled forces until the model's tyres have built up the forces of the present slip.

If the model starts with another slip than the car's, its lagging tyres build up other forces. From the change
of these forces two samples of the accelerometers would seem to determine the lateral velocity, with the
force's slope at a wrong slip. To prevent this, unmodelled forces are almost white at this time."""
_LINEAR_SLIP, _LONGEST_SKID_NS = 0.02, 1_000_000_000
"""rad: σ of the sideslip below which tyre forces are linear in its error; and the longest wait for that,
ns."""
_OWN_HEADING_SIGMA = 1e-3
"""rad, 1 σ: of the heading if the local frame is defined by the car itself; it is exact except for
rounding."""
_GRAVITY, _SLOPE_SIGMA = 9.81, 0.06
"""m/s²; and rad: largest σ of slopes at the start. The steepest roads rise by twice that."""
_ASKEW = 0.05
"""rad: a smaller slope may as well be a misaligned IMU."""
_TURNING = 0.5
"""m/s²: speed times yaw rate above which a car is in a turn."""
_STEERED_SHARE, _STEERED_LEAST = 0.3, 0.05
"""Share, and rad/s: σ of a yaw rate calculated from the steering. Cars understeer and respond with delay, and
the zero of the steering is not known."""
_ANY_TURN, _MOVING = 3.0, 2.0
"""m/s²: σ of speed times yaw rate if nothing measures the yaw rate, for a car faster than this (m/s)."""
_POSITION_SIGMA = 1.0
"""m, 1 σ: at least, after a restart, of the height, and of the position in addition to the way since the last
good state."""
_YAW_SIGMA = 0.1
"""rad, 1 σ: at least, of the heading after a restart."""
_KNOWN_YAW = 0.35
"""rad: largest σ of a heading with which a velocity over ground shows whether the car skids."""
_FALSE_RATE = 0.3
"""rad/s: difference between the estimated and the measured yaw rate above which the heading is wrong."""
_SKIDDING_SHARE = 0.2
"""Share of the forward speed: with a larger lateral velocity the car skids."""
_TRIED_NS = 120_000_000_000
"""If the filter restarts sooner than this after a start with given parameters, these may be the cause."""


class Initialisation:
    """Starts a filter, and restarts it."""

    def __init__(self, filter: EstimatedFilter, inputs: Inputs, sources: Sources, world: WorldFrame) -> None:
        self._filter, self._inputs, self._sources, self._world = filter, inputs, sources, world
        self._skids: bool | None = None
        """Whether the car does not turn as it is steered; None until that has been found."""
        self._begun_ns = 0
        """Time of the last start."""
        self._tried: tuple[SetParameters, int] | None = None
        """Given parameters that it has started with, and the time of the first such start."""
        self._refused: SetParameters | None = None

    def reset(self) -> None:
        """Forget what has been measured."""
        self._skids = None

    def is_ready(self, t_ns: int, conditions: StartConditions) -> bool:
        """Whether the heading is known: while the car skids, a course over ground does not show it."""
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
        """Restart at the estimated pose, or at that of the last save.

        `given`: parameters of an earlier drive; `found`: parameters that are kept; `saved_every`: s between
        saves.
        """
        f, world = self._filter, self._world
        pose, aligned, variances = f.read_state().copy(), world.aligned, f.variances
        yaw_rate, _ = self.find_yaw_rate(t_ns, float(pose[AHEAD]))
        motion = self._find_motion(t_ns, pose, yaw_rate)
        conditions.forget_place()
        if motion is not None:
            conditions.set_direction(motion.ahead)
        skids = motion is not None and abs(motion.left) > _SKIDDING_SHARE * abs(motion.ahead)
        refused = self._refused
        self.begin(t_ns, conditions, settings, given, motion if skids else None)
        if self._refused is not refused:
            found = {}  # what this drive has found began with what is now left out
        world.aligned = aligned
        self._sources.reset()
        f.slow.set_parameters(found, age=0.0)
        self._sources.set_parameters(found, age=0.0)
        f.set_lateral_motion(yaw_rate, LATERAL_SIGMA, ATTITUDE_SIGMA)
        f.turn(pose[YAW] - f.read_state()[YAW])
        f.shift(pose[PLACE] - f.read_state()[PLACE])
        for group, element, least in (
            # The saved position may be as old as the time between saves; the car has moved on since.
            *((POSITION, axis, _POSITION_SIGMA + abs(pose[AHEAD]) * saved_every) for axis in ("x", "y")),
            (POSITION, "z", _POSITION_SIGMA),
            (ATTITUDE, "yaw", _YAW_SIGMA),
        ):
            f.set_variance(group, element, max(float(variances[f.states.index(group, element)]), least**2))
        f.restart_history(t_ns)

    def _find_motion(self, t_ns: int, pose: np.ndarray, yaw_rate: float) -> Alignment | None:
        """Motion of the car by a receiver and the estimated heading; None if these do not show it."""
        f = self._filter
        sigma = math.sqrt(f.get_variance(ATTITUDE, "yaw"))
        # If the estimate turns at another rate than the car, its heading is wrong too.
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
        """Start at t_ns with what is known. `given`: parameters of an earlier drive; `skid`: motion in a skid."""
        f, world = self._filter, self._world
        speed, heading = conditions.speed or 0.0, conditions.yaw
        yaw, yaw_sigma = settings.yaw, settings.yaw_sigma
        has_fix = conditions.fix is not None
        alignment = conditions.find_alignment() if self._skids else skid
        # Without a receiver there is nothing to align with: the heading at the start defines the local frame.
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
            self._sources.set_parameters(given.parameters, given.age)
        if alignment is not None:
            self._skid(t_ns, alignment)
        else:
            self._turn_in(t_ns, speed, conditions)
            if conditions.speed_sigma > settings.speed_sigma:
                f.set_variance(VELOCITY, "ahead", conditions.speed_sigma**2)
        if conditions.forces is not None:
            # Open the states that accelerometers correct now, so that slope, biases and the IMU's alignment
            # share the first innovations. A state that is opened later takes the rest alone, even if that is
            # only the load of the slope building up in the model's tyres.
            f.open_states("imu.accel".__eq__)
        self._widen_slopes(conditions)
        if conditions.fix is not None:
            self._place_at_fix(t_ns, *conditions.fix)
        f.restart_history(t_ns)
        self._skids, self._begun_ns = None, t_ns

    def _place_at_fix(self, t_ns: int, measured_ns: int, fix: Fix, antenna: Vector) -> None:
        """Move the car to a fix of the time measured_ns. `antenna`: its place, m in vehicle axes."""
        f, world = self._filter, self._world
        world.find_origin(fix)
        # The fix is as old as its latency; the car has gone on since.
        pose = f.read_state()
        way = f.pose[[AHEAD, LEFT]] * (t_ns - measured_ns) * 1e-9
        cos, sin = math.cos(pose[YAW]), math.sin(pose[YAW])
        further = np.array([way[0] * cos - way[1] * sin, way[0] * sin + way[1] * cos, 0.0])
        f.shift_antenna_to(world.to_world_or_level(fix), further, antenna)

    def _is_trusted(self, t_ns: int, given: SetParameters) -> bool:
        """Whether to start with given parameters. Not if the filter restarted soon after a start with them."""
        if given is self._refused or not given.parameters:
            return False
        if self._tried is None or self._tried[0] is not given:
            self._tried = given, t_ns
        elif 0 < t_ns - self._tried[1] < _TRIED_NS:
            self._refused = given
            _log.warning("a restart soon after a start with parameters from before: they are left out")
            return False
        return True

    def settle(self, t_ns: int) -> None:
        """End the start's noise of unmodelled forces. Call ten times a second, first 0.1 s after `begin`.

        By then the tyres have the forces of their slips.
        """
        f, given = self._filter, calc_unmodelled(self._filter.settings)
        if f.get_process(UNMODELLED)[0] == given.time:
            return
        slip = math.sqrt(f.get_variance(VELOCITY, "left")) / max(abs(f.pose.item(AHEAD)), _MOVING)
        if slip < _LINEAR_SLIP or t_ns - self._begun_ns > _LONGEST_SKID_NS:
            f.set_process(UNMODELLED, given)

    def find_yaw_rate(self, t_ns: int, speed: float) -> tuple[float, float]:
        """Yaw rate, measured or else by steering, and its σ in addition to that of `initialise`, rad/s."""
        measured, steering = self._sources.yaw_rate, self._inputs.steering
        if measured is not None:
            return measured, self._sources.yaw_rate_sigma
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
        """Write the present inputs into the car; an unknown steering angle follows from the measured yaw rate."""
        self._inputs.steering.check(t_ns * 1e-9, speed, self._sources.yaw_rate)
        self._inputs.apply(t_ns * 1e-9)

    def _widen_slopes(self, conditions: StartConditions) -> None:
        """Widen the slopes' σ by the measured accelerations that no turn explains: they may be gravity on a slope.

        The part that a misaligned IMU may explain is left out.
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
        """Start in a skid, with the tyre forces that belong to it."""
        f, yaw_rate = self._filter, self._sources.yaw_rate or 0.0
        self._apply_inputs(t_ns, alignment.ahead)
        hold_motion(f, alignment.left, yaw_rate)
        sigma = alignment.sigma * math.hypot(alignment.ahead, alignment.left)
        f.set_lateral_motion(yaw_rate, (sigma, 0.0), ATTITUDE_SIGMA)
        f.restart_process(UNMODELLED, _SKIDDING)

    def _turn_in(self, t_ns: int, speed: float, conditions: StartConditions) -> None:
        """Start in a turn, with its yaw rate and, if the steering explains the turn, its roll and sideslip."""
        f = self._filter
        yaw_rate, sigma = self.find_yaw_rate(t_ns, speed)
        # If nothing measures the yaw rate, the car may be in a turn.
        if abs(speed * (yaw_rate or sigma)) < _TURNING:
            return
        # A measured heading is the car's own; otherwise the heading is the direction in which an antenna
        # moves.
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
