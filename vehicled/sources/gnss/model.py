"""Measurement models of GNSS receivers: states of their slow errors, and observations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Protocol

from vehicled.filter.considered import Considered
from vehicled.filter.factors import calc_share
from vehicled.filter.states import ErrorStates, Group, make_constant
from vehicled.sources.gnss.fixes import Baseline
from vehicled.sources.gnss.late_fixes import calc_fast, consider_latencies
from vehicled.sources.imu.model import GYRO_BIAS, misalign
from vehicled.sources.speeds.late_speeds import calc_share_of_change, calc_unknown, make_latency
from vehicled.vehicle.arrays import AHEAD, YAW
from vehicled.vehicle.arrays import ANTENNA as ANTENNA_MOUNTING

if TYPE_CHECKING:
    from vehicled.filter.error_model import ErrorModel, SensorError
    from vehicled.symbolic.graph import Atom
    from vehicled.symbolic.vector import Vector


_FARTHEST = 2.0
"""m: largest distance of an antenna from its configured place. It is in the same car, at most measured from
another point of it."""
_LATEST_VELOCITY, LATEST_HEADING = 0.2, 0.4
"""s: no receiver errs by more; headings may be of two epochs before. If a fix's latency and this one together reached
the length of the filter's history, all later measurements would be too old, for ever."""


@dataclass(frozen=True)
class ReceiverErrors:
    """The slow errors of one receiver, and the names under which it measures."""

    name: str
    """Prefix of its channels, and of its kinds of observation."""
    wander: Group
    antenna: Group
    latency: Group
    velocity_latency: Group
    baseline: Group
    heading_latency: Group

    @property
    def groups(self) -> tuple[Group, ...]:
        """Its slow errors, in the order of the states."""
        of_fixes = self.wander, self.antenna, self.latency, self.velocity_latency
        return *of_fixes, self.baseline, self.heading_latency

    @property
    def baseline_array(self) -> str:
        """Array (1,) of the program: angle of the baseline from ahead, rad counter-clockwise."""
        return f"{self.name}.baseline"

    @property
    def steady_array(self) -> str:
        """Array (2,) of the program: forward and upward speed, m/s, without the noise of their estimates."""
        return f"{self.name}.steady_speeds"

    @property
    def antenna_array(self) -> str:
        """Array (3,) of the program: place of the antenna, m in vehicle axes; `gnss` has it in `mounting`."""
        return f"{self.name}.antenna"


class ReceiverErrorSettings(Protocol):
    """Uncertainty of a receiver's slow errors by its section of the configuration, 1 σ."""

    @property
    def antenna_sigma(self) -> float:
        """m per axis."""

    @property
    def latency_sigma(self) -> float:
        """s."""

    @property
    def heading(self) -> Baseline | None:
        """Contains the σ of the angle; None without a second antenna."""


_LATE_LIKE_AHEAD = 10.0
"""m/s: displacement of the antenna that a wrong time of the IMU's samples looks like, per second: the usual speed."""


def _make_receiver(name: str, antenna: str) -> ReceiverErrors:
    """Define the slow errors of a receiver. `antenna`: name of the states of the antenna's place."""
    wander: ErrorStates[ReceiverErrorSettings | None] = ErrorStates(
        f"{name}_wander",
        ("x", "y", "z"),
        "m",
        "slow part of the error of a fix, world axes",
        initial=lambda gnss, i: 0.0,
        # It belongs to the kind of fix, and starts with the first fix.
        process=lambda gnss: None,
    )
    place: ErrorStates[ReceiverErrorSettings | None] = make_constant(
        antenna,
        ("x", "y", "z"),
        "m",
        "place of the antenna beside the one that is given, vehicle axes",
        # Tape measures and signs can be wrong by much, and only a latency of the IMU has the same effect.
        contradiction=7.0,
        limit=_FARTHEST,
        # Its height is observable by roll and pitch only, and these are not known well enough on roads that
        # are not level.
        undoubted=("z",),
        sigma=lambda gnss: None if gnss is None else gnss.antenna_sigma,
        by_imu_time=_LATE_LIKE_AHEAD,
    )
    latency: ErrorStates[ReceiverErrorSettings | None] = make_latency(
        f"{name}_latency",
        "by how much fixes are older than their time",
        lambda gnss: None if gnss is None else gnss.latency_sigma,
        carries_place=True,
    )
    velocity_latency: ErrorStates[ReceiverErrorSettings | None] = make_constant(
        f"{name}_velocity_latency",
        ("",),
        "s",
        "by how much velocities are older than the fix that they come with",
        # Some receivers smooth velocities over tenths of a second.
        contradiction=10.0,
        limit=_LATEST_VELOCITY,
        is_latency=True,
        sigma=lambda gnss: None if gnss is None else _SMOOTHING * gnss.latency_sigma,
    )
    baseline: ErrorStates[ReceiverErrorSettings | None] = make_constant(
        f"{name}_baseline",
        ("",),
        "rad",
        "angle of the baseline of two antennas beside the one that is given, to the left",
        contradiction=7.0,
        # Without a second antenna there is nothing to estimate.
        sigma=lambda gnss: 0.0 if gnss is None or gnss.heading is None else gnss.heading.angle_sigma,
    )
    heading_latency: ErrorStates[ReceiverErrorSettings | None] = make_constant(
        f"{name}_heading_latency",
        ("",),
        "s",
        "by how much headings are older than the fix that they come with",
        # Some receivers give that of an epoch before. Otherwise the fixes would be taken to be as old.
        contradiction=10.0,
        limit=LATEST_HEADING,
        is_latency=True,
        sigma=lambda gnss: 0.0 if gnss is None or gnss.heading is None else gnss.latency_sigma,
    )
    return ReceiverErrors(name, wander, place, latency, velocity_latency, baseline, heading_latency)


GNSS, GNSS2 = _make_receiver("gnss", "antenna"), _make_receiver("gnss2", "gnss2_antenna")

_OF_VELOCITY = "speed", "velocity", "course"
"""Kinds of observation that receivers smooth more than positions, by tens of milliseconds."""
_DIRECTIONS = "velocity", "course"
_SMOOTHING = 0.5
"""σ of their additional latency, as a share of the σ of the latency of fixes."""
_FAST_TURN = 0.1
"""rad/s: from this rate of the course to twice it, the course corrects a latency less and less."""
_UNKNOWN = 0.4
"""(m/s²)²: variance of the acceleration above which speeds correct latencies less. Speeds over ground have no
slip."""
_SMALL_CHANGE = {"speed": 0.2, "velocity": 0.2, "course": 0.05, "heading": 0.05}
"""m/s², rad/s: slower changes do not determine a latency; changes twice as fast do so fully.

A gentle change of speed has to count, as far as it exceeds the noise of the model's acceleration (0.1 m/s²):
otherwise the effect of a latency would be taken for speed, and over seconds for distance, which fixes turn
into another latency, wrong by many times its σ."""


def add_gnss(model: ErrorModel) -> None:
    """Add observations `gnss.position`, `speed`, `course`, `velocity` of the antenna, `heading` of the baseline."""
    _ReceiverModel(model, GNSS, model.program.arrays["mounting"][ANTENNA_MOUNTING]).observe("gnss")


def add_gnss2(model: ErrorModel) -> None:
    """Add the same observations of the second receiver."""
    _ReceiverModel(model, GNSS2, model.program.array(GNSS2.antenna_array, 3)).observe()


class _ReceiverModel:
    """Observations of one receiver, including the effects of its slow errors."""

    def __init__(self, model: ErrorModel, receiver: ReceiverErrors, place: Sequence[Atom]) -> None:
        """`place`: configured place of its antenna."""
        self._model, self._receiver, self._place = model, receiver, place
        self._steady = model.program.array(receiver.steady_array, 2)

    def observe(self, sensor: str | None = None) -> None:
        """Add the observations. `sensor`: prefix of the chassis' sensor models of this antenna, if any."""
        readings = self._predict()
        for kind, h in readings.items():
            has_model = sensor is not None and kind in ("position", "speed", "course")
            self._model.observe_readings(
                f"{self._receiver.name}.{kind}",
                h,
                self._make_error(kind, h, readings["velocity"]),
                angle=kind in ("course", "heading"),
                sensor=f"{sensor}_{kind}" if has_model else None,
                considered=self._find_considered(kind, readings),
            )

    def _consider_by_place(self, velocity: Sequence[Atom]) -> Considered:
        """Considered states of a position: at speed, it corrects no latency while the car hardly accelerates."""
        model = self._model
        steady = 1.0 - calc_share_of_change(model)
        share = steady * calc_fast(model)
        return consider_latencies(model, share, share, velocity)

    def _find_considered(self, kind: str, readings: Mapping[str, Sequence[Atom]]) -> Considered | None:
        if kind == "position":
            return self._consider_by_place(
                self._find_steady_changes(readings["position"], readings["velocity"])
            )
        if kind in _OF_VELOCITY:
            return self._consider_by_velocity(kind, readings)
        return None

    def _consider_by_velocity(self, kind: str, readings: Mapping[str, Sequence[Atom]]) -> Considered:
        """States that a speed, velocity or course does not correct.

        Speeds do not correct latencies while the acceleration is unknown (`calc_unknown`). While no steering
        is measured they do, because the positions of a single receiver would find a false latency.

        Directions of motion do not correct latencies in a turn, nor while they hardly change. A latency turns
        the course just as a sideslip error of the model's tyres does, throughout the turn, and oppositely in
        the next turn to the other side. Positions and speeds determine the latency all the same. In a gentle
        bend at speed a latency turns the course by less than the error of courses, but positions would
        determine a wrong latency if they took the course as free of it.
        """
        model, receiver, g = self._model, self._receiver, self._model.g
        shares = [] if kind == "course" else [(1.0 - model.unsteered) * calc_unknown(model, _UNKNOWN)]
        if kind in _DIRECTIONS:
            (turning,) = self._find_changes(readings["course"])
            steady = 1.0 - self._find_share(kind, self._find_changes(readings[kind]))
            shares += calc_share(g, turning, _FAST_TURN), steady
        share = reduce(g.max, shares)
        velocity = self._find_steady_changes(readings["position"], readings["velocity"])
        own = model.states.places(receiver.velocity_latency)
        return consider_latencies(model, share, share * calc_fast(model), velocity, own)

    def _find_changes(self, readings: Sequence[Atom]) -> list[Atom]:
        """Change of readings per second."""
        model = self._model
        return [model.calc_change(model.models.differentiate(reading)) for reading in readings]

    def _find_share(self, kind: str, changes: Sequence[Atom]) -> Atom:
        """Share, 0 to 1, by which changes of readings determine a latency."""
        g = self._model.g
        return calc_share(g, g.sqrt(sum((c * c for c in changes), g.zero)), _SMALL_CHANGE[kind])

    def _find_steady_changes(self, position: Sequence[Atom], velocity: Sequence[Atom]) -> list[Atom]:
        """Change of a position per second, without the noise of the velocity while that is steady."""
        changes = self._find_changes(position)
        noise = self._find_noise(changes, 1.0 - self._find_share("velocity", self._find_changes(velocity)))
        return [change - n for change, n in zip(changes, noise, strict=True)]

    def _find_noise(self, velocity: Sequence[Atom], share: Atom) -> list[Atom]:
        """A share of the difference of the antenna's velocity (world axes) from a steady one."""
        g, pose, (ahead, up) = self._model.g, self._model.pose, self._steady
        along = share * (pose[AHEAD] - ahead)
        return [along * g.cos(pose[YAW]), along * g.sin(pose[YAW]), share * (velocity[2] - up)]

    def _predict(self) -> dict[str, list[Atom]]:
        """Readings by kind; position and velocity in world axes."""
        # Imported here, so that a daemon whose compiled code is on disk does not need it.
        from vehicled.symbolic.vector import Vector
        from vehicled.vehicle.sensor_models import calc_course, calc_speed

        model, g = self._model, self._model.g
        chassis, place = model.models.chassis, Vector.of(self._place)
        velocity = chassis.v_origin_world + chassis.axes.to_world(self._calc_rates().cross(place))
        (angle,) = model.program.array(self._receiver.baseline_array, 1)
        angle = angle + model.estimates(self._receiver.baseline)[0]
        along = chassis.axes.to_world(Vector(g.cos(angle), g.sin(angle), g.zero))
        return {
            "position": list(chassis.locate(place)),
            "speed": [calc_speed(g, velocity)],
            "course": [calc_course(g, velocity)],
            "velocity": list(velocity),
            "heading": [calc_course(g, along)],
        }

    def _calc_rates(self) -> Vector:
        """Angular velocity of the chassis, vehicle axes; roll and pitch rate by the gyroscopes, if measured.

        A road rolls and pitches the car in a way that its model cannot compute, and suspensions differ. An
        antenna on a roof therefore moves by centimetres per second, with the same error for many fixes.
        Biases and alignment of the gyroscopes are the estimated ones; the remaining error, millimetres per
        second, is too small to correct them by.
        """
        model = self._model
        is_measured, *values = model.measured_rates
        w_body = model.models.chassis.w_body
        rates = [
            x - bias - misalign(model, values, k)[0]
            for k, (x, bias) in enumerate(zip(values, model.estimates(GYRO_BIAS), strict=True))
        ]
        measured = model.models.rotation[0] * rates[0]
        for row, rate in zip(model.models.rotation[1:], rates[1:], strict=True):
            measured = measured + row * rate
        more = (measured - w_body) * is_measured
        return type(w_body)(w_body.x + more.x, w_body.y + more.y, w_body.z)

    def _make_error(self, kind: str, readings: Sequence[Atom], velocity: Sequence[Atom]) -> SensorError:
        """Effect of slow errors on readings: of the antenna's place, latency, wander of fixes, and baseline.

        `velocity`: of the antenna.
        """
        model, receiver = self._model, self._receiver
        g, s = model.g, model.states
        offset, wander = model.estimates(receiver.antenna), model.estimates(receiver.wander)
        baseline = model.estimates(receiver.baseline) if receiver.baseline in s else []

        # At a steady speed, place and latency cannot be distinguished. If the row of the latency differed
        # slightly from the change, the filter would distinguish them all the same, and with fixes good to
        # centimetres both would drift by metres.
        changes = self._find_changes(readings)
        if kind in _DIRECTIONS:  # their latencies are considered
            by_latency = changes
        elif kind == "position":
            by_latency = self._find_steady_changes(readings, velocity)
        else:
            share = self._find_share(kind, changes)
            by_latency = [share * change for change in changes]
        latencies = [receiver.latency]
        if kind in _OF_VELOCITY:
            latencies.append(receiver.velocity_latency)
        elif kind == "heading":
            latencies.append(receiver.heading_latency)
        found = sum((model.estimates(group)[0] for group in latencies), g.zero)

        def error(k: int, _: Sequence[Atom]) -> tuple[Atom, dict[int, Atom]]:
            reading, change = readings[k], changes[k]
            row: dict[int, Atom] = {}
            for group in latencies:
                row |= s.entries(group, {0: -by_latency[k]})
            # Without this term a negative latency would change its rows, but not the prediction, and grow
            # without limit; so would a latency found only after the step that a late observation corrects.
            more = (model.lead + model.latency - found) * change
            if kind == "heading":
                by_angle = {n: g.derivative(reading, a) for n, a in enumerate(baseline)}
                return more, row | s.entries(receiver.baseline, by_angle)
            by_place = [g.derivative(reading, p) for p in self._place]
            row |= s.entries(receiver.antenna, dict(enumerate(by_place)))
            for by, o in zip(by_place, offset, strict=True):
                more = more + by * o
            if kind == "position":
                row |= s.entries(receiver.wander, {k: g.one})
                more = more + wander[k]
            return more, row

        return error
