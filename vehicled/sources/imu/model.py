"""Measurement model of an IMU: states of its slow errors, and observations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from vehicled.filter.considered import Considered
from vehicled.filter.factors import calc_share
from vehicled.filter.slides import SIDEWAYS
from vehicled.filter.states import (
    ANGULAR_RATE,
    ATTITUDE,
    COURSES,
    CROSSFALL,
    DRIVE_FORCE,
    SUSPENSION,
    TYRE_FORCE,
    UNMODELLED,
    VELOCITY,
    ErrorStates,
    Group,
    make_constant,
)
from vehicled.messages import WHEELS
from vehicled.sources.gnss.late_fixes import calc_fast, consider_latencies
from vehicled.sources.imu.settings import Accelerometers, Gyroscopes
from vehicled.vehicle.arrays import AHEAD, LEFT, ROOT_OUTPUTS, YAW_RATE

if TYPE_CHECKING:
    from vehicled.filter.error_model import ErrorModel
    from vehicled.symbolic.graph import Atom


class ImuErrorSettings(Protocol):
    """Slow errors of an IMU as given in its section of the configuration."""

    @property
    def gyroscopes(self) -> Gyroscopes | None:
        """None if they are not used."""

    @property
    def accelerometers(self) -> Accelerometers | None:
        """None if they are not used."""

    @property
    def rotation_sigma(self) -> float:
        """How well the directions of its axes are known, rad, 1 σ."""


def _gyroscopes(imu: ImuErrorSettings | None) -> Gyroscopes | None:
    return None if imu is None else imu.gyroscopes


def _accelerometers(imu: ImuErrorSettings | None) -> Accelerometers | None:
    return None if imu is None else imu.accelerometers


_MOST_SCALE = 0.1
"""No accelerometer has a larger relative error, and no body rolls by a larger share of gravity in addition to
the model's roll."""
_TURN_ON = 0.5
"""Share of the default biases: data sheets of MEMS give 0.1 to 0.3 °/s and 3 to 5 mg from one start to the
next, half of these biases."""
GYRO_BIAS = ErrorStates["ImuErrorSettings | None"](
    "gyro_bias",
    ("x", "y", "z"),
    "rad/s",
    "bias of the gyroscopes, IMU axes",
    initial=lambda imu, i: 0.0 if (g := _gyroscopes(imu)) is None else g.bias**2,
    density=lambda imu: 0.0 if (g := _gyroscopes(imu)) is None else g.bias_drift**2,
    turn_on=_TURN_ON,
)
ACCELEROMETER_BIAS = ErrorStates["ImuErrorSettings | None"](
    "accelerometer_bias",
    ("x", "y", "z"),
    "m/s²",
    "bias of the accelerometers, IMU axes",
    initial=lambda imu, i: 0.0 if (a := _accelerometers(imu)) is None else a.bias**2,
    density=lambda imu: 0.0 if (a := _accelerometers(imu)) is None else a.bias_drift**2,
    turn_on=_TURN_ON,
)
GYRO_SCALE: ErrorStates[ImuErrorSettings | None] = make_constant(
    "gyro_scale",
    ("",),
    "–",
    "relative error of the gyroscopes",
    needs=(*COURSES, "gnss.position", "gnss2.position"),
    sigma=lambda imu: None if (g := _gyroscopes(imu)) is None else g.scale,
)
ACCELEROMETER_SCALE: ErrorStates[ImuErrorSettings | None] = make_constant(
    "accelerometer_scale",
    ("",),
    "–",
    "relative error of accelerations across the car: of the sensor, and as the body rolls with them",
    needs=("imu.accel",),
    limit=_MOST_SCALE,
    sigma=lambda imu: None if (a := _accelerometers(imu)) is None else a.scale,
)
ALIGNMENT: ErrorStates[ImuErrorSettings | None] = make_constant(
    "imu_alignment",
    ("x", "y", "z"),
    "rad",
    "rotation of the IMU against its place, about its own axes",
    needs=("imu.accel",),
    contradiction=10.0,
    sigma=lambda imu: None if imu is None else imu.rotation_sigma,
)


def misalign(model: ErrorModel, values: Sequence[Atom], k: int) -> tuple[Atom, dict[int, Atom]]:
    """Addition to component k of a vector when the sensor's axes are turned by small angles; and its row."""
    angles = model.estimates(ALIGNMENT)
    i, j = (k + 1) % 3, (k + 2) % 3
    # −ε × v
    row = model.states.entries(ALIGNMENT, {j: values[i], i: -values[j]})
    return angles[j] * values[i] - angles[i] * values[j], row


_SMALL_RATE, _SWAYING = 0.1, 0.03
"""rad/s: angular rates below which they are mostly noise; and the combined roll and pitch rate up to which a
body counts as not swaying."""
_STANDING = 1.0
"""m/s: up to this speed a car counts as standing, and from twice this on as driving."""
_LEVEL_ROAD = 0.02
"""rad/s, root mean square: a car that rolls and pitches faster for seconds does so with the road."""
TURNING_CAR = "imu.turning_car"
"""Array (1,): 1 while gyroscopes turn the heading directly (standing_heading.py), so that their observation
must not correct the heading as well; else 0."""
ROLLING = "imu.rolling"
"""Array (3,): means of the measured roll and pitch rate, rad/s, and mean square of these, rad²/s²."""
MEAN_FORCES = "imu.mean_forces"
"""Array (6,): exponential means of the measured specific forces, m/s², in the IMU's configured axes, and the
means of these."""
_SMALL_TORSION = 0.025
"""rad/s: slope times yaw rate. Below it a road counts as the plane of the model; less and less up to twice
it."""


def _find_considered(model: ErrorModel, groups: Sequence[Group]) -> Considered:
    """States that an IMU does not correct: other sensors' latencies and, in a turn on a slope, its own errors.

    An IMU alone shows nothing of the time of a receiver. It would correct that time through the sideslip,
    with which courses in bends correlate it: lasting errors of the tyres shifted it by 0.04 s in four minutes
    of motorway.

    On a plane, the climb that the car comes from becomes a bank in a turn; where the road climbs on in the
    turn, as in hairpins and on ramps, it stays a climb. The resulting difference of the rates lasts
    throughout the turn, and is that of an IMU which is turned by the angle of the climb.
    """
    g, normal = model.g, model.parts.ground
    slope = g.sqrt(normal[0] * normal[0] + normal[1] * normal[1])
    share = calc_share(g, slope * model.models.pose[YAW_RATE], _SMALL_TORSION)
    states, one = model.states, model.g.one
    latencies = [i for group in states.groups if group.is_latency for i in states.places(group)]
    velocity = [*model.models.chassis.v_origin_world]
    late = consider_latencies(model, one, calc_fast(model), velocity, latencies)
    own = {i: share for group in groups for i in states.places(group)}
    return replace(late, shares=own | dict(late.shares))


def add_gyroscopes(model: ErrorModel) -> None:
    """Add observation `imu.gyro`, (3,) rad/s in the sensor's axes."""
    bias, (scale,) = model.estimates(GYRO_BIAS), model.estimates(GYRO_SCALE)
    measured = model.program.arrays["value"]
    s, rotation = model.states, model.models.rotation
    # Real bodies sway otherwise than the model with its springs and tyres, in correlation with the yaw rate:
    # in lane changes at 8 m/s² the result was a scale of −0.02 and an alignment of 0.05 rad.
    # At walking pace sticking tyres and the geometry of the steering make the model's yaw rate wrong by a per
    # cent.
    (fall,), turning = model.estimates(CROSSFALL), model.models.pose[YAW_RATE]
    slipping = model.calc_slipping(model.models.pose[AHEAD])
    steady = slipping * (1.0 - calc_share(model.g, model.swaying, _SWAYING**2))

    def error(k: int, values: Sequence[Atom]) -> tuple[Atom, dict[int, Atom]]:
        # The other axes are taken as measured: the model's rates of roll and pitch are those of another
        # suspension.
        turned, _ = misalign(model, measured, k)
        # Small rates are mostly the filter's own corrections, which are correlated with the next innovations.
        counted = [model.discount(v, _SMALL_RATE) for v in values]
        _, by_alignment = misalign(model, [model.discount(v, _SMALL_RATE) for v in measured], k)
        # Through the yaw rate, an alignment shows in roll and pitch rate; through roll and pitch rate, in the
        # yaw rate, which depends on tyres.
        level = steady * (1.0 - rotation[k].z * rotation[k].z)
        row = {place: level * by for place, by in by_alignment.items()}
        # Where the road falls to the same side in all directions, a car that turns rotates about the vertical.
        row |= s.entries(CROSSFALL, {0: level * rotation[k].y * model.discount(turning, _SMALL_RATE)})
        turned = turned + rotation[k].y * turning * fall
        row |= s.entries(GYRO_BIAS, {k: model.g.one}) | s.entries(GYRO_SCALE, {0: counted[k]})
        return bias[k] + scale * values[k] + turned, row

    considered = _find_considered(model, (ALIGNMENT, GYRO_BIAS))
    shares = dict(considered.shares)
    (shares[s.index(ATTITUDE, "yaw")],) = model.program.array(TURNING_CAR, 1)
    *_, square = model.program.array(ROLLING, 3)
    for i, axis in zip(s.places(GYRO_BIAS), rotation, strict=True):
        # Hills pitch a moving car for seconds, which would be taken for a bias.
        hilly = slipping * (1.0 - axis.z * axis.z) * square / (square + _LEVEL_ROAD**2)
        shares[i] = model.g.max(shares[i], hilly)
    # What the scale adds to the heading counts also where the scale is not corrected, as in spins.
    shares |= s.entries(GYRO_SCALE, {0: 1.0 - steady})
    readings = model.models.readings["imu_gyro"]
    model.observe_readings(
        "imu.gyro", readings, error, sensor="imu_gyro", considered=replace(considered, shares=shares)
    )


_SMALL_ACCELERATION = 0.3
"""m/s²: a smaller acceleration is mostly noise."""


def add_accelerometers(model: ErrorModel) -> None:
    """Add observation `imu.accel`, (3,) m/s² in the sensor's axes.

    In addition to attitude and rotation it depends on the tyre forces due to sideslip and yaw rate, on the
    drive force due to speed, and on the springs' forces due to travel.

    `gravity_removed` = 1 for devices that subtract gravity: the model then also subtracts it, with its own
    attitude, and the remainder does not depend on the attitude to first order.
    """
    _AccelerometerModel(model).observe()


class _AccelerometerModel:
    def __init__(self, model: ErrorModel) -> None:
        self._model = model
        models, program, s = model.models, model.program, model.states
        (self._removed,) = program.array("gravity_removed", 1)
        has_travel = SUSPENSION[0] in s
        self._heave = program.array("heave", 2 * len(WHEELS)) if has_travel else []
        self._gravity = model.parts.gravity.norm()
        self._share = model.calc_free_share(models.pose[AHEAD])
        self._jacobians = models.jacobians["imu_accelerometer"]
        # An exponential mean lags. Twice that, less the mean of it, does not while forces change steadily.
        lagging = program.array(MEAN_FORCES, 6)
        self._means = [2.0 * once - twice for once, twice in zip(lagging[:3], lagging[3:], strict=True)]
        # With a device that subtracts gravity, only the remainder turns with its axes.
        self._values = [
            reading + model.calc_corrected(jacobian) - self._removed * r.dot(models.up) * self._gravity
            for reading, jacobian, r in zip(
                models.readings["imu_accelerometer"], self._jacobians, models.rotation, strict=True
            )
        ]
        # The lateral acceleration is speed times yaw rate: neither a bank, nor a rolled IMU, nor tyres under
        # load count as a turn.
        self._turning = models.pose[AHEAD] * models.pose[YAW_RATE]
        self._counted = model.discount(self._turning, _SMALL_ACCELERATION)

    def observe(self) -> None:
        """Add the observation, and the additional roll of the body that its scale shows."""
        model, axes = self._model, range(len(self._values))
        if ACCELEROMETER_SCALE in model.states:
            # Most of the scale is due to gravity, as the body rolls by more or less than the model's.
            output = dict(zip(ROOT_OUTPUTS, model.program.arrays["outputs"], strict=True))
            (scale,) = model.estimates(ACCELEROMETER_SCALE)
            more = (1.0 - self._removed) * scale * output["ay"] * (1.0 / self._gravity)
            model.inclined.append((output["roll"], output["roll"] + more))
        rows, noise = zip(*map(self._find_row, axes), strict=True)
        considered = _find_considered(model, (ALIGNMENT, ACCELEROMETER_BIAS, ACCELEROMETER_SCALE))
        # While a car goes sideways, the model's tyre forces may be wrong by as much as they are: as slopes, the
        # differences rolled the car over.
        ahead, left = model.models.pose[AHEAD], model.models.pose[LEFT]
        sideways = left / model.g.sqrt(ahead * ahead + left * left + _STANDING**2)
        share = calc_share(model.g, sideways, SIDEWAYS)
        upright = {model.states.index(ATTITUDE, slope): share for slope in ("v1z", "v2z")}
        model.observe(
            "imu.accel",
            [self._predict(k) for k in axes],
            rows,
            noise=noise,
            sensor="imu_accelerometer",
            considered=replace(considered, shares=upright | dict(considered.shares)),
        )

    def _calc_by_yaw(self, k: int) -> Atom:
        """Reading of axis k per yaw acceleration, m."""
        arm, r = self._model.models.imu, self._model.models.rotation[k]
        return r.y * arm.x - r.x * arm.y

    def _calc_by_tyres(self, k: int) -> tuple[Atom, Atom]:
        """Reading of axis k per force of the front and of the rear tyres."""
        models, by_yaw = self._model.models, self._calc_by_yaw(k)
        r = models.rotation[k]
        front, rear = (
            r.x * ax + r.y * ay + by_yaw * alpha
            for ax, ay, alpha in zip(*models.tyres.acceleration, strict=True)
        )
        return front, rear

    def _find_row(self, k: int) -> tuple[dict[int, Atom], Atom]:
        """Row of axis k by error states, and the noise of its delay, as in `ErrorModel.to_present`."""
        model, s, tyres = self._model, self._model.states, self._model.models.tyres
        r, by_yaw, (front, rear) = model.models.rotation[k], self._calc_by_yaw(k), self._calc_by_tyres(k)
        row, late = model.to_present(self._jacobians[k])
        for slope in ("v1z", "v2z"):
            place = s.index(ATTITUDE, slope)
            row[place] = (1.0 - self._removed) * row[place]
        row |= s.entries(TYRE_FORCE, {0: front, 1: rear})
        if TYRE_FORCE not in s:  # tyre forces are assumed to have followed the errors already
            for i, cause in enumerate((*s.places(VELOCITY)[:2], s.index(ANGULAR_RATE, "yaw"))):
                by_cause = front * tyres.steady[0][i] + rear * tyres.steady[1][i]
                row[cause] = row.get(cause, model.g.zero) + by_cause
        row |= s.entries(ACCELEROMETER_BIAS, {k: model.g.one})
        row |= s.entries(ACCELEROMETER_SCALE, {0: r.y * self._counted})
        row |= s.entries(UNMODELLED, {0: r.x, 1: self._share * r.y, 2: r.z, 3: self._share * by_yaw})
        row[s.index(DRIVE_FORCE)] = r.x
        if self._heave:
            row |= {s[SUSPENSION[0]].start + i: r.z * force for i, force in enumerate(self._heave)}
        # Roads that curve vertically accelerate a car upwards for seconds, in bends as well. An alignment
        # corrected by vertical accelerations became wrong by 0.05 rad on hilly roads.
        level = 1.0 - r.z * r.z
        _, by_alignment = misalign(model, self._find_shown(), k)
        return row | {place: level * by for place, by in by_alignment.items()}, late

    def _find_shown(self) -> list[Atom]:
        """The forces that determine a rotation of the IMU: gravity, and means of the horizontal ones.

        An engine shakes all axes of the IMU at once, and the estimated forces follow that a little. So
        instantaneous forces correlate with the next innovations, and the result was an IMU turned by 0.3 rad.
        Means do not correlate, but a standing car has no horizontal forces: there the rest of the vibration
        would count.
        """
        drives = calc_share(self._model.g, self._model.now[AHEAD], _STANDING)
        return [
            r.z * r.z * now + (1.0 - r.z * r.z) * drives * mean
            for now, mean, r in zip(self._values, self._means, self._model.models.rotation, strict=True)
        ]

    def _predict(self, k: int) -> Atom:
        """Predicted reading of axis k, by all estimated states."""
        model, models = self._model, self._model.models
        arm, r, by_yaw = models.imu, models.rotation[k], self._calc_by_yaw(k)
        roll, pitch = model.shaking
        shaken = type(arm)(pitch * arm.z, -(roll * arm.z), roll * arm.y - pitch * arm.x)
        ahead, left, up, yaw = model.estimates(UNMODELLED)
        turned, _ = misalign(model, self._values, k)
        value = self._values[k] + model.estimates(ACCELEROMETER_BIAS)[k] + turned
        value = value + r.z * (up + model.road_lift) + r.dot(shaken)
        (scale,) = model.estimates(ACCELEROMETER_SCALE)
        value = value + r.y * self._turning * scale
        if model.forces:  # a force on the car is already in the reading, as it was at that time
            ahead, left, _, yaw = model.get_later(UNMODELLED)
        later_drive = model.get_later(DRIVE_FORCE)[0]
        value = value + r.x * (ahead + later_drive) + self._share * (r.y * left + by_yaw * yaw)
        (front, rear), (later_front, later_rear) = self._calc_by_tyres(k), model.get_later(TYRE_FORCE)
        return value + front * later_front + rear * later_rear
