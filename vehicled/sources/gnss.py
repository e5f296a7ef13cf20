"""The GNSS receiver: fixes, speed and course over ground; and through them, where in the world the car is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, ClassVar

from vehicled.filter.boundary import Observation, Update
from vehicled.filter.covariance import MISSING
from vehicled.filter.states import ATTITUDE, POSITION, UNKNOWN_YAW, ErrorStates, Process
from vehicled.messages import Measurement
from vehicled.sources.fix_jumps import FixJumps, PlacedFix
from vehicled.sources.gate import Gate
from vehicled.sources.limits import FASTEST
from vehicled.sources.source import Context, Source, SourceSettings
from vehicled.sources.world import Fix
from vehicled.units import Metres, MetresPerSecond, MetresVector, NonNegative, Positive, Radians, Seconds

if TYPE_CHECKING:
    from vehicled.filter.error_model import ErrorModel, SensorError
    from vehicled.symbolic.graph import Atom

_SIDESLIP = 0.01
"""rad: difference of heading and course that the model may leave when the car is first turned."""
_LEAST_SPEED = 0.3
"""m/s: next to standstill the speed of a noisy velocity is no longer Gaussian."""
_LEAST_ACCURACY = 2e-3
"""m: no receiver is better, whatever it reports."""
_HEIGHT_RATIO = 2.0
"""By how much farther heights wander than horizontal positions: all satellites are above."""
_LEAST_WHITE = 0.25
"""Least share of the variance of heights that is white, whatever the receiver says of horizontal positions."""
_ANOTHER_KIND = 0.2
"""Relative difference of the size of the slow error from which on it belongs to another kind of fix."""

WANDER = ErrorStates["Gnss | None"](
    "gnss_wander",
    ("x", "y", "z"),
    "m",
    "slow part of the error of a fix, world axes",
    initial=lambda gnss, i: 0.0,
    # It belongs to the kind of fix, and begins with the first.
    process=lambda gnss: None,
)
ANTENNA = ErrorStates["Gnss | None"](
    "antenna",
    ("x", "y", "z"),
    "m",
    "place of the antenna beside the one that is given, vehicle axes",
    # Tape measures and signs err by much, and nothing but latency of the IMU looks like it.
    contradiction=7.0,
    is_known=lambda gnss: gnss is not None and gnss.antenna_sigma == 0.0,
    initial=lambda gnss, i: 0.0 if gnss is None else gnss.antenna_sigma**2,
)
GNSS_LATENCY = ErrorStates["Gnss | None"](
    "gnss_latency",
    ("",),
    "s",
    "by how much fixes are older than their time",
    contradiction=10.0,
    is_known=lambda gnss: gnss is not None and gnss.latency_sigma == 0.0,
    initial=lambda gnss, i: 0.0 if gnss is None else gnss.latency_sigma**2,
)


def add_gnss(model: ErrorModel) -> None:
    """Observations `gnss.position`, `gnss.speed` and `gnss.course`, of the antenna."""
    for name, angle in (("position", False), ("speed", False), ("course", True)):
        model.observe_chassis(f"gnss.{name}", f"gnss_{name}", _make_error(model, f"gnss_{name}"), angle)


_SMALL_CHANGE = {"gnss_position": 1.0, "gnss_speed": 0.3, "gnss_course": 0.05}
"""m/s, m/s², rad/s: slower changes say nothing of a latency."""


def _make_error(model: ErrorModel, sensor: str) -> SensorError:
    """What the antenna's place and latency, and the slow error of a fix, add to the readings of a sensor."""
    g, s, models = model.g, model.states, model.models
    place = model.program.arrays["mounting"][: len(ANTENNA.elements)]
    offset, wander = model.estimates(ANTENNA), model.estimates(WANDER)

    def error(k: int, _: Sequence[Atom]) -> tuple[Atom, dict[int, Atom]]:
        reading = models.readings[sensor][k]
        by_place = [g.derivative(reading, p) for p in place]
        row = s.entries(ANTENNA, dict(enumerate(by_place)))
        change = model.calc_change(models.jacobians[sensor][k])
        row |= s.entries(GNSS_LATENCY, {0: -model.discount(change, _SMALL_CHANGE[sensor])})
        # Without it a negative latency would change its rows, but not what is predicted, and grow without end.
        more = model.lead * change
        for by, o in zip(by_place, offset, strict=True):
            more = more + by * o
        if sensor == "gnss_position":
            row |= s.entries(WANDER, {k: g.one})
            more = more + wander[k]
        return more, row

    return error


@dataclass(frozen=True, kw_only=True)
class FixNoise:
    """Position noise of one kind of fix, where the receiver does not report its accuracy."""

    horizontal: Annotated[Metres, Positive]
    vertical: Annotated[Metres, Positive]
    wander: Annotated[Metres, NonNegative] = 0.0
    """The part of the noise that wanders slowly (Gauss–Markov), per axis; the rest is white."""
    wander_time: Annotated[Seconds, Positive] = 120.0
    velocity: Annotated[MetresPerSecond, Positive] = 0.1
    """Per horizontal axis: of the speed, and, divided by it, of the course."""

    def check(self) -> Iterable[tuple[str, str]]:
        """Yield (key, what is wrong) where the slow part of the noise is not smaller than the whole."""
        if self.wander >= self.horizontal:
            yield "wander", "the part that wanders must be smaller than the whole horizontal noise"


@dataclass(frozen=True, kw_only=True)
class Gnss(SourceSettings):
    """Settings of the GNSS receiver: its antenna in vehicle axes (m), noise by kind of fix, use of its course."""

    LIMITS: ClassVar[Mapping[str, float]] = {
        "gnss.lat": 90.0,
        "gnss.lon": 360.0,
        "gnss.alt": 1e5,
        "gnss.quality": 100.0,
        "gnss.h_acc": 1e5,
        "gnss.v_acc": 1e5,
        "gnss.speed": FASTEST,
        "gnss.course": 7.0,
    }
    STATES = (WANDER, ANTENNA, GNSS_LATENCY)
    OBSERVATIONS = (add_gnss,)
    SPEED_PRECEDENCE = 1

    antenna: MetresVector = (0.0, 0.0, 0.0)
    antenna_sigma: Annotated[Metres, NonNegative] = 0.003
    """How well its place is known, 1 σ."""
    latency_sigma: Annotated[Seconds, NonNegative] = 0.01
    """How well the time of a fix is known, 1 σ."""
    rtk_fixed: FixNoise = FixNoise(horizontal=0.02, vertical=0.03, velocity=0.02)
    rtk_float: FixNoise = FixNoise(horizontal=0.3, vertical=0.5, wander=0.2, wander_time=60.0, velocity=0.05)
    dgnss: FixNoise = FixNoise(horizontal=0.7, vertical=1.4, wander=0.35)
    single: FixNoise = FixNoise(horizontal=1.0, vertical=2.0, wander=0.5)
    trust_reported_accuracy: bool = True
    """Take the receiver's own 1-σ accuracy instead of the horizontal and vertical noise above."""
    sideslip_error: Annotated[Radians, NonNegative] = 0.001
    """What the course may be off beside the receiver's own noise: the model's sideslip is slowly wrong in corners."""
    least_speed: Annotated[MetresPerSecond, Positive] = 2.0
    """Below this the course over ground is not used."""
    gate: Gate = field(default_factory=lambda: Gate(policy="reset"))

    def make_source(self, context: Context) -> GnssSource:
        """The source that uses this section."""
        return GnssSource(self, context)


class GnssSource(Source[Gnss]):
    """Position, speed and course of one receiver."""

    def __init__(self, settings: Gnss, context: Context) -> None:
        self._world, self._counters, self._timing = context.world, context.counters, context.timing
        self._jumps = FixJumps()
        super().__init__(settings, context)
        self._latency = self.filter.view_slow_states(GNSS_LATENCY)

    def reset(self) -> None:
        """The filter begins anew."""
        self._jumps.reset()

    def register(self) -> None:
        """Register position, which may reset the filter's position, and speed and course, which may not."""
        s = self.settings
        self._timing.antenna = complex(*s.antenna[:2])
        register = self.updates.register
        register("gnss.position", s.gate, self._reset_position, ("gnss.lat", "gnss.lon"), ("position",))
        register("gnss.speed", s.gate, serves=("vx",))
        register("gnss.course", s.gate, serves=("yaw",))
        self._kinds = {1: s.single, 2: s.dgnss, 4: s.rtk_fixed, 5: s.rtk_float}

    # -- before the filter runs ------------------------------------------------------------------------

    def find_fix(self, v: Mapping[str, float]) -> Fix | None:
        """The fix in a measurement, if it has a position that is worth something."""
        if "gnss.lat" not in v or "gnss.lon" not in v or v.get("gnss.quality", 1.0) < 1.0:
            return None
        return v["gnss.lat"], v["gnss.lon"], v.get("gnss.alt", math.nan)

    def measure_speed(self, m: Measurement) -> float | None:
        """Speed over ground, m/s, if the measurement has it."""
        return m.values.get("gnss.speed")

    # -- while it runs ---------------------------------------------------------------------------------

    def observe(self, m: Measurement) -> None:
        """Find or align the world where that is still to be done, then update with position, speed and course."""
        s, v, updates = self.settings, m.values, self.updates
        fix = self.find_fix(v)
        if fix is None and ("gnss.lat" in v or v.get("gnss.quality", 1.0) < 1.0):
            updates.reject(m, "gnss.position", [], "no fix")
        moving = v.get("gnss.speed", 0.0) > s.least_speed
        if fix is not None and not self._world.known:
            self._join_world(fix)
        if "gnss.course" in v and moving and not self._world.aligned:
            self._align(m, fix)
        if fix is not None:
            self._observe_position(m, fix)
        velocity = self._kind(v).velocity
        if "gnss.speed" in v:
            if v["gnss.speed"] < _LEAST_SPEED:
                updates.reject(m, "gnss.speed", [v["gnss.speed"]], "not moving")
            else:
                updates.update(m, "gnss.speed", [v["gnss.speed"]], [velocity**2], latency=self._late)
        updates.health["gnss.course"].is_expected = moving
        if "gnss.course" in v:
            if not moving:  # nor without a speed beside it, which its noise depends on
                updates.reject(m, "gnss.course", [v["gnss.course"]], "not moving")
            else:
                noise = (velocity / v["gnss.speed"]) ** 2 + s.sideslip_error**2
                updates.update(m, "gnss.course", [v["gnss.course"]], [noise], latency=self._late)

    @property
    def _late(self) -> float:
        """By how much fixes are older than `latency` says, as far as the filter has found, s."""
        return float(self._latency[0])

    def _kind(self, v: Mapping[str, float]) -> FixNoise:
        return self._kinds.get(int(v.get("gnss.quality", 1.0)), self._kinds[1])

    def _observe_position(self, m: Measurement, fix: Fix) -> None:
        s, v = self.settings, m.values
        kind = self._kind(v)
        horizontal, vertical, wander = kind.horizontal, kind.vertical, kind.wander
        if s.trust_reported_accuracy and "gnss.h_acc" in v:
            reported = max(v["gnss.h_acc"], _LEAST_ACCURACY)
            horizontal, wander = reported, wander * reported / horizontal
        if s.trust_reported_accuracy and "gnss.v_acc" in v:
            vertical = max(v["gnss.v_acc"], _LEAST_ACCURACY)
        self._set_wander(wander, kind.wander_time)
        place, level = self._world.to_world(fix).tolist(), horizontal**2 - wander**2
        if self._world.aligned:
            self._timing.take_fix(m.t * 1e-9, complex(*place[:2]), horizontal, self._late)
        if math.isnan(fix[2]):
            noise = [level, level, MISSING]
            self.updates.update(m, "gnss.position", place, noise, (0, 1), latency=self._late)
        else:
            rises = _HEIGHT_RATIO * wander
            upright = max(vertical**2 - rises**2, _LEAST_WHITE * vertical**2)
            noise = [level, level, upright]
            self.updates.update(m, "gnss.position", place, noise, latency=self._late)
        self._note_distance(horizontal, v.get("gnss.speed", FASTEST), v.get("gnss.course"))

    def _note_distance(self, sigma: float, speed: float, course: float | None) -> None:
        """Of the fix that has just been observed from the estimate."""
        record, most = self.updates.records[-1], self.settings.gate.reject_beyond**2
        if record.innovation and record.reason != "reset":
            (east, north), (x, y) = record.innovation[:2], record.value[:2]
            accepted = all(i * i <= most * s for i, s in zip((east, north), record.variance, strict=False))
            self._jumps.take(record.t, PlacedFix((x, y), (east, north), sigma, speed, course), accepted)

    def _set_wander(self, sigma: float, time: float) -> None:
        """The slow part of a fix's error belongs to its kind; it begins anew when its size changes."""
        present = self.filter.get_process(WANDER).item(1)
        self.filter.set_process_time(WANDER, time)
        if abs(sigma - present) > _ANOTHER_KIND * max(sigma, present):
            self.filter.restart_process(WANDER, Process(time, (sigma, sigma, _HEIGHT_RATIO * sigma)))

    def _join_world(self, fix: Fix) -> None:
        """The first fix of a filter that began without one: from now on its world frame is known."""
        self._world.find_origin(fix)
        self._world.aligned = False
        f = self.filter
        f.apply_corrections()
        f.shift_antenna_to(self._world.to_world_or_level(fix))
        for axis in POSITION.elements:
            f.set_variance(POSITION, axis, f.settings.start.position_sigma**2)
        f.set_variance(ATTITUDE, "yaw", UNKNOWN_YAW)
        f.restart_history(self.updates.step_ns)
        self._counters["position_sets"] += 1

    def _align(self, m: Measurement, fix: Fix | None) -> None:
        """The first course over ground turns a car whose heading was unknown."""
        f, v = self.filter, m.values
        f.apply_corrections()
        t_ns = m.t - round(self._late * 1e9)
        if not f.turn_to_course(Observation("gnss.course", t_ns, [v["gnss.course"]], [1.0])):
            return
        f.set_variance(ATTITUDE, "yaw", (self._kind(v).velocity / v["gnss.speed"]) ** 2 + _SIDESLIP**2)
        if fix is not None:
            f.shift_antenna_to(self._world.to_world_or_level(fix))
            for axis in ("x", "y"):
                f.set_variance(POSITION, axis, f.settings.start.position_sigma**2)
        f.restart_history(self.updates.step_ns)
        self._counters["alignments"] += 1
        self._world.aligned = True

    def _reset_position(self, observation: Observation, update: Update) -> bool:
        """Set the position to the fix, after the gate has rejected fixes persistently."""
        if self._jumps.is_in_doubt(observation.t_ns):
            return False
        self.filter.reset_position(update, observation.variance)
        self._jumps.reset()
        return True
