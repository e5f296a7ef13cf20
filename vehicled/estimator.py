"""The estimator that daemon and replay share: measurements in, estimates and innovation records out.

It has no I/O and reads no clock: the same measurements in the same order give the same bytes. This module has start,
steps, restarts, commands and output. `sources` turns measurements into updates of the filter; `filter` holds the
filter itself.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
import numpy as np

from vehicled.configuration import Configuration
from vehicled.errors import RunError, UsageError
from vehicled.filter.boundary import EstimatedFilter
from vehicled.filter.kinds import make_filter
from vehicled.filter.settings import Filter
from vehicled.filter.state_table import make_table
from vehicled.filter.states import ATTITUDE, POSITION
from vehicled.filter.vehicle_filter import VehicleFilter
from vehicled.maths.geodesy import WorldOrigin
from vehicled.messages import ESTIMATE_INDEX, Condition, Estimate, Innovation, Measurement, SlowState
from vehicled.reading.number_faults import find_fault
from vehicled.requests import SetParameters, SetPosition
from vehicled.sources.added_doubt import AddedDoubt
from vehicled.sources.checks.screening import Screening
from vehicled.sources.checks.watch import SourceWatch
from vehicled.sources.gnss.true_north import TrueNorth
from vehicled.sources.imu.model import ACCELEROMETER_BIAS, GYRO_BIAS
from vehicled.sources.imu.timing import ImuTiming
from vehicled.sources.inputs.inputs import MISSING, Inputs
from vehicled.sources.inputs.unmeasured_drive import NOTHING_ADDED, Additions
from vehicled.sources.limits import FASTEST, PER_BOUND, find_impossible
from vehicled.sources.output_points import OutputPoints
from vehicled.sources.sensors import Readers, Sensors, Sources
from vehicled.sources.source import Context
from vehicled.sources.start.initialisation import Initialisation
from vehicled.sources.start.restarts import Restarts
from vehicled.sources.start.start import StartConditions
from vehicled.sources.updates import MeasurementUpdates, OnUpdate
from vehicled.sources.world import WorldFrame
from vehicled.vehicle.arrays import AHEAD, LEFT, PLACE, YAW, Z
from vehicled.vehicle.loads import JointLoads

_LONGEST_STEP_NS = 10_000_000
"""A longer time between steps is simulated in several."""
_LONGEST_GAP_NS = 2_000_000_000
"""After a longer time without steps the filter starts anew."""
_ROAD_EVERY_NS = 100_000_000
"""Time between pseudo-observations of the road: level, apart from a small slope."""
_SAVE_NS, _LATEST_SAVE_NS, _FEW = 1_000_000_000, 1_100_000_000, 2
"""Time between copies of a good state: in a step with at most so few measurements, which is short, or else in
any."""
_LONGEST_WAIT_FOR_MOTION = 0.5
"""s: longest wait for all motion sensors; then the filter starts with those that have measured."""
_POSITION, _GEODETIC = (
    slice(ESTIMATE_INDEX[first], ESTIMATE_INDEX[last] + 1) for first, last in (("x", "z"), ("lat", "alt"))
)
_YAW_RATE, _SIGMA_YAW = ESTIMATE_INDEX["wz"], ESTIMATE_INDEX["sigma.yaw"]


@dataclass(frozen=True)
class EstimatorParts:
    """Parts of an estimator, given by the caller instead of made from the configuration."""

    filter: VehicleFilter
    inputs: Inputs
    on_update: OnUpdate
    """Called with the record of each observation while the filter still holds that observation. An estimator with
    these parts gives no estimates, and uses the noise of sensors as configured."""


class Estimator:
    """Runs the filter on a car's measurements.

    Not for several threads at once. Between `step` calls nothing happens.
    """

    def __init__(self, configuration: Configuration, parts: EstimatorParts | None = None) -> None:
        """`parts`: given by callers that need the running filter, such as identification."""
        self._vehicle = configuration.vehicle
        self._filter_settings, self._sensors = configuration.filter, configuration.sensors
        self.filter = self.make_filter() if parts is None else parts.filter
        """The running filter, for inspection."""
        self._filter: EstimatedFilter = self.filter
        if parts is None:
            self._inputs = Inputs(self._filter.car, self._sensors)
        else:
            self._inputs = parts.inputs
        self._has_output = parts is None
        self._point = configuration.point
        self._filter.set_output_point(self._point)
        self._filter.set_bounds(PER_BOUND)
        self._points = OutputPoints(configuration.points, self._point) if configuration.points else None
        self._loads = JointLoads(self.filter.car) if self._has_output and configuration.loads else None
        counted = "steps", "starts", "restarts", "position_sets", "alignments", *MISSING
        self._counters: Counter[str] = Counter(dict.fromkeys(counted, 0))
        self._updates = MeasurementUpdates(self._filter, None if parts is None else parts.on_update)
        self._world = WorldFrame(configuration.world)
        # With suspension travel among the filter's states, those states take what the accelerometers show.
        follows = self._has_output and self.filter.settings.suspension is None
        self._additions = Additions(self.filter, self._vehicle) if follows else None
        shared = self._filter, self._updates, self._world, self._counters, ImuTiming()
        # Identification and tuning search for the noise of the sensors: sources must use it as given.
        context = Context(*shared, given_noise=parts is not None)
        self._sources = Sources(self._sensors, context)
        self._conditions = StartConditions(self._sources)
        self._initialisation = Initialisation(self._filter, self._inputs, self._sources, self._world)
        self._screening = Screening(self._sensors, self._vehicle, self._updates)
        self._watch = SourceWatch(self._updates, self._screening, self._inputs)
        self._restarts = Restarts()
        self.condition = Condition()
        """State of the estimator; the same object until it changes."""
        self._given = SetParameters({}, 0.0)
        self.doubt = AddedDoubt()
        """Uncertainty that has been added to σ of the last estimate."""
        self._reset()

    def make_filter(self) -> VehicleFilter:
        """A new filter of this estimator's configuration, not started. Its code is not compiled again."""
        return make_filter(self._vehicle, self._filter_settings, self._sensors.make_setup())

    def _reset(self) -> None:
        """Return to the state before the start."""
        self._running = False
        self._t_ns: int | None = None
        self._first_ns: int | None = None
        self._world.reset()
        self._north = TrueNorth()
        self._sources.reset()
        self._updates.restart()
        self._inputs.reset()
        self._screening.reset()
        self._conditions.reset()
        self._initialisation.reset()
        self._saved: np.ndarray | None = None
        """Copy of the whole filter in its last good state."""
        self._saved_ns = self._since_road_ns = 0
        self._found: deque[dict[str, SlowState]] = deque(maxlen=2)  # parameters at the last two saves
        self._restarts.reset()

    # -- the loop's interface ----------------------------------------------------------------------

    def step(self, t_ns: int, measurements: list[Measurement]) -> Estimate | None:
        """Advance to `t_ns` with what arrived since the last step; None until the filter has started.

        Steps may come at any interval; time must increase (else RunError). Channels that do not exist and values that
        are not finite are ignored, and named in `condition`.
        """
        updates = self._updates
        updates.begin_step(t_ns)
        before = self._t_ns
        if before is not None and t_ns <= before:
            raise RunError(f"step at {t_ns} ns after one at {before} ns: time went back")
        if self._first_ns is None and measurements:
            self._first_ns = t_ns
        sound, speed, inputs = [], self.speed, self._inputs
        steering = inputs.steering.health.calc_yaw_rate(speed)
        oldest = t_ns - self._filter_settings.memory * 1e9
        for given in measurements:
            m = self._screening.remove(given, speed, steering)
            readers = self._sources.readers[tuple(m.values)]
            m = self._north.turn(m, self._world) if readers.are_receivers else m
            sound.append((m, readers))
            if not inputs.channels.isdisjoint(m.values):
                inputs.take(m.t, m.values)
            # A measurement older than the filter's memory was held up on its way: the start ignores it.
            if m.t > oldest and (readers.speeds or not self._running):
                self._conditions.take(m, readers, self._running)
        paused = self._running and before is not None and t_ns - before > _LONGEST_GAP_NS
        is_due = not self._running and self._restarts.is_due(t_ns)
        if paused or is_due or (self._conditions.is_blind and self._conditions.has_begun_wrong(speed)):
            self._restart(t_ns)
        elif self._screening.has_used_wrong_scale or self._screening.is_reversed or self._world.is_lost:
            self._restart_at_origin(t_ns)
        if not self._running:
            self._t_ns = t_ns
            if not self._restarts.has_failed:
                self._start_if_ready(t_ns)
        else:
            assert before is not None
            self._advance(t_ns, before, sound)
        estimate = self._output(t_ns) if self._running and self._has_output else None
        updates.check_timeouts(t_ns)
        self._update_condition(t_ns)
        self._counters["steps"] += self._running
        return estimate

    def _advance(self, t_ns: int, before: int, measurements: list[tuple[Measurement, Readers]]) -> None:
        """Predict from `before` to `t_ns`, and update. Ends early if the filter fails."""
        self._predict(t_ns)
        if not self._running:
            return
        if t_ns - self._saved_ns >= (_SAVE_NS if len(measurements) <= _FEW else _LATEST_SAVE_NS):
            self._filter.repair()
            self._save(t_ns)
        self._inputs.count_missing(self._counters, self._filter)
        self._screening.widen_biases(self._filter)
        self._sources.observe(measurements)
        if (lost := self._find_loss((t_ns - before) * 1e-9)) is not None:
            self._restart_in_place(t_ns, lost)
            if not self._running:
                return
        self._since_road_ns += t_ns - before
        if self._since_road_ns >= _ROAD_EVERY_NS:
            self._initialisation.settle(t_ns)
            interval, self._since_road_ns = self._since_road_ns * 1e-9, 0
            self._filter.update_road(interval)
            self._filter.limit_rotation(interval)
            self._filter.adapt_noise(interval)
            self._filter.open_states(self._updates.is_active)
            self._filter.widen_parameters(self._sources.explained, interval)
        self._filter.apply_corrections()

    def _update_condition(self, t_ns: int) -> None:
        if self._running:
            self._watch.check(t_ns)
        faults = self._watch.faults if self._running else self._screening.unknown
        aligned = self._world.aligned and not self._conditions.is_blind
        self.condition = self._restarts.describe(self.condition, t_ns, self._running, aligned, faults)

    def innovations(self) -> list[Innovation]:
        """Records of the last step."""
        return self._updates.records

    def status(self) -> dict[str, Any]:
        """Counters, the sources' states, and biases; `state` and `reason` as in `condition`."""
        origin = self._world.origin
        return {
            "state": self.condition.state,
            "reason": self.condition.reason,
            **self._counters,
            **self._screening.removed,
            "units": self._screening.find_wrong_units(),
            "unconverged": self._filter.unconverged,
            "repairs": self._filter.repairs,
            "sensors": {kind: health.status() for kind, health in self._updates.health.items()},
            "origin": None if origin is None else [origin.latitude, origin.longitude, origin.height],
            "inputs": {
                "steering": self._inputs.steering.health.state,
                "drive": "measured" if self._filter.is_drive_known else "estimated",
            },
            "point": list(self._point),
            **{g.name: self._filter.slow.get(g).tolist() for g in (GYRO_BIAS, ACCELEROMETER_BIAS)},
        }

    def parameters(self) -> dict[str, SlowState]:
        """Parameters of car and sensors as estimated, by name; empty before the start."""
        return self._filter.slow.parameters() | self._sources.parameters() if self._running else {}

    @property
    def world(self) -> WorldFrame:
        """World frame of the estimates; callers must not change it."""
        return self._world

    @property
    def speed(self) -> float:
        """Forward speed, m/s; 0 before the start."""
        return self._filter.pose.item(AHEAD) if self._running else 0.0

    def command(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Execute a command: `reset`, `set_position`, `reload_noise` or `set_parameters`.

        `set_parameters` takes the parameters that an earlier drive has found, as `parameters` gave them, and their
        age in s; the next start uses them. `set_position` takes lat and lon, or x and y; optionally alt or z, yaw,
        sigma, yaw_sigma; `reload_noise` takes sensors and filter. Raises UsageError.
        """
        handlers: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "reset": self._command_reset,
            "set_position": self._command_set_position,
            "reload_noise": self._command_reload_noise,
            "set_parameters": self._command_set_parameters,
        }
        if name not in handlers:
            raise UsageError(f"unknown command {name!r}: expected one of {', '.join(handlers)}")
        return handlers[name](arguments)

    def _command_reset(self, _: dict[str, Any]) -> dict[str, Any]:
        self._filter.slow.clear()  # the next start would subtract them from its measurements
        self._counters["restarts"] += 1
        self._sources.make_anew()
        self._reset()
        self.condition = Condition()
        return {}

    def _command_set_position(self, arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            wanted = msgspec.convert(arguments, SetPosition)
        except msgspec.ValidationError as error:
            raise UsageError(f"set_position: {error}") from None
        if not self._running or self._t_ns is None:
            raise UsageError("set_position: the filter has not started yet")
        f, world = self._filter, self._world
        if wanted.yaw is not None:
            f.turn(wanted.yaw - f.read_state()[YAW])
            f.set_variance(ATTITUDE, "yaw", wanted.yaw_sigma**2)
            world.aligned = True
        pose = f.read_state()
        if wanted.lat is not None and wanted.lon is not None:
            if world.origin is None:
                world.origin = WorldOrigin(wanted.lat, wanted.lon, (wanted.alt or 0.0) - pose[Z])
            alt = wanted.alt if wanted.alt is not None else world.origin.height + pose[Z]
            target = world.origin.to_world(wanted.lat, wanted.lon, alt)
            world.known = True
        else:
            target = np.array([wanted.x, wanted.y, pose[Z] if wanted.z is None else wanted.z])
        f.shift(target - pose[PLACE])
        for axis in ("x", "y"):
            f.set_variance(POSITION, axis, wanted.sigma**2)
        f.restart_history(self._t_ns)
        self._sources.look_again()
        self._counters["position_sets"] += 1
        return {}

    def _command_reload_noise(self, arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            sensors = msgspec.convert(arguments["sensors"], Sensors, strict=False)
            settings = msgspec.convert(arguments["filter"], Filter, strict=False)
        except (KeyError, msgspec.ValidationError) as error:
            raise UsageError(f"reload_noise: {error}") from None
        fault = find_fault(sensors, "sensors") or find_fault(settings, "filter")
        if fault is not None:
            raise UsageError(f"reload_noise: {fault}")
        setup = sensors.make_setup()
        changed = set(make_table(settings, setup.states).groups) ^ set(self._filter.states.groups)
        if changed or setup.observations != self._sensors.make_setup().observations:
            names = ", ".join(sorted(group.name for group in changed))
            what = f"the states {names}" if changed else "a kind of sensor"
            raise UsageError(f"reload_noise: adds or removes {what}, which takes a restart")
        before, now = self._sensors.get_given(), sensors.get_given()
        self._sensors, self._filter_settings = sensors, settings
        self._filter.configure(settings, setup)
        # An error that was estimated relative to the old configured value may be part of the new value.
        self._filter.slow.forget([g for g in before if g in now and before[g] != now[g]])
        self._sources.configure(sensors)
        self._screening.configure(sensors)
        self._inputs.reconfigure(sensors)
        return {}

    def _command_set_parameters(self, arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            given = msgspec.convert(arguments, SetParameters)
        except msgspec.ValidationError as error:
            raise UsageError(f"set_parameters: {error}") from None
        self._given = given
        return {"set": len(given.parameters)}

    # -- start -------------------------------------------------------------------------------------

    def _start_if_ready(self, t_ns: int) -> None:
        """Start as soon as position and speed are known, or without position when none will come."""
        if self._first_ns is None:
            return  # nothing has been measured yet
        waited = (t_ns - self._first_ns) * 1e-9
        conditions = self._conditions
        missing = not conditions.is_speed_known or (self._sources.receivers and conditions.fix is None)
        missing = missing or (not conditions.is_motion_complete and waited < _LONGEST_WAIT_FOR_MOTION)
        is_ready = not missing and self._initialisation.is_ready(t_ns, conditions)
        if is_ready or waited >= self._filter_settings.start.wait_for_gnss:
            self._start(t_ns)
            self._save(t_ns)

    def _start(self, t_ns: int) -> None:
        self._initialisation.begin(t_ns, self._conditions, self._filter_settings.start, self._given)
        self._conditions.note_start()
        self._note_start(t_ns)

    def _note_start(self, t_ns: int) -> None:
        self._running = True
        self._screening.begin()
        self._watch.reset(t_ns)
        self._counters["starts"] += 1

    # -- prediction --------------------------------------------------------------------------------

    def _restart(self, t_ns: int) -> None:
        """Start anew from nothing, about the same world origin: users could not notice a new one."""
        self._counters["restarts"] += 1
        origin = self._world.origin
        self._reset()
        self._world.origin, self._first_ns = origin, t_ns

    def _restart_at_origin(self, t_ns: int) -> None:
        """Start anew from nothing; parameters are kept if the heading has only become too uncertain."""
        ahead = -self.speed if self._screening.is_reversed else 0.0
        if self._world.is_lost and not self._world.is_contradicted and self._found:
            self._given = SetParameters(self._found[0], 0.0)
        self._restart(t_ns)
        self._conditions.keep_direction(ahead)
        self._screening.begin_anew()

    def _predict(self, t_ns: int) -> None:
        assert self._t_ns is not None
        begin = self._t_ns
        pieces = max(1, -(-(t_ns - begin) // _LONGEST_STEP_NS))
        for k in range(1, pieces + 1):
            until = begin + (t_ns - begin) * k // pieces
            self._inputs.check(until * 1e-9, self._filter, self._sources)
            self._inputs.apply(until * 1e-9)
            self._filter.predict(until, (until - self._t_ns) * 1e-9)
            self._t_ns = until
        self._guard(t_ns)

    def _guard(self, t_ns: int) -> None:
        """On divergence, restart from the last good state."""
        f = self._filter
        is_sound = f.is_sound
        if not (is_sound and abs(f.pose.item(AHEAD)) + abs(f.pose.item(LEFT)) < FASTEST):
            self._restore_saved()
            self._restart_in_place(t_ns, "its speed was impossible" if is_sound else "it was not finite")

    def _restore_saved(self) -> None:
        assert self._saved is not None
        self._filter.restore(self._saved)
        self._filter.configure(self._filter_settings, self._sensors.make_setup())  # the copy may be older

    def _find_loss(self, dt: float) -> str | None:
        """Why the estimate no longer follows the car; None while it does."""
        if self._updates.is_filter_lost():
            return "most sensors contradict it"
        if self._screening.has_misled:
            return "the IMU is mounted otherwise than configured"
        if self._sources.is_motion_opposite:
            return "a receiver shows that the car goes the other way"
        imu = self._sources.imu
        impossible = imu is not None and imu.denies_motion(dt, self._vehicle.gravity)
        if impossible and not self._screening.is_gyroscope_doubtful:
            return "its lateral motion is impossible beside gyroscope and accelerometer"
        return None

    def _save(self, t_ns: int) -> None:
        self._saved, self._saved_ns = self._filter.save(), t_ns
        self._found.append(self.parameters())
        self._conditions.keep_direction(self._filter.pose.item(AHEAD))

    def _restart_in_place(self, t_ns: int, reason: str) -> None:
        """Begin anew at the last known place, at the speed and yaw rate that are measured now.

        Biases and parameters are kept, unless the IMU is mounted otherwise than configured. Forces are not kept: they
        may have led the filter astray. If restarts do not help, the filter starts from nothing after a while.
        """
        if not self._restarts.request(t_ns, reason):
            self._running = False
            return
        # Parameters of the save before the last one: the later ones may already be falsified by what led the filter
        # astray.
        found = self._found[0]
        if self._screening.has_misled:  # which has falsified them from the start
            found = {}
            self._inputs.forget_contradictions()
        self._counters["restarts"] += 1
        start, between_saves = self._filter_settings.start, _SAVE_NS * 1e-9
        self._initialisation.begin_in_place(t_ns, self._conditions, start, self._given, found, between_saves)
        self._note_start(t_ns)
        self._found.clear()  # a second restart soon after this one begins with the same parameters
        self._save(t_ns)
        self._updates.clear_failures()

    # -- output ------------------------------------------------------------------------------------

    def calc_added(self, t_ns: int) -> tuple[float, ...]:
        """(16,) what road and unmeasured drive have added to the last estimate, in the columns ADDED_PLACES."""
        additions = self._additions
        return NOTHING_ADDED if additions is None else additions.calc(t_ns * 1e-9)

    def correct_pose(self, values: np.ndarray, correlation: float = 0.0) -> float:
        """Move an estimate (len(ESTIMATE_COLUMNS),) of the filter to the place and heading by the time of fixes.

        Returns the correlation of x and y, given that of before.
        """
        self._sources.look_at_time()
        return self._sources.correct_pose(values, correlation, self._point)

    def _output(self, t_ns: int) -> Estimate | None:
        """Estimate to publish; None if its values are impossible, in which case the filter restarts."""
        f, world, additions = self._filter, self._world, self._additions
        values = f.output(None if additions is None else partial(additions.add, t_ns * 1e-9))
        correlation = f.correlation
        if (impossible := None if f.is_within_bounds else find_impossible(values)) is not None:
            if not f.is_sound and self._saved is not None:  # position and variances are unusable
                self._restore_saved()
            self._restart_in_place(t_ns, impossible)
            return None
        self.doubt = self._sources.find_doubt(t_ns, values.item(_YAW_RATE), world.aligned)
        correlation = self._sources.correct_pose(values, correlation, self._point)
        correlation = self.doubt.add_to(values, correlation)
        if not world.aligned:
            values[_SIGMA_YAW] = self._filter_settings.start.yaw_sigma
        origin = world.origin if world.known else None
        values[_GEODETIC] = math.nan if origin is None else origin.to_geodetic(values[_POSITION])
        points = None if self._points is None else self._points.calc(values, f.pose)
        loads = None if self._loads is None else self._loads.calc(additions.forces if additions else 0.0)
        return Estimate(t_ns, values, points, loads, correlation)
