"""What an IMU measures of the car, and the slow errors of that: states and observations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from vehicled.filter.considered import Considered
from vehicled.filter.factors import calc_share
from vehicled.filter.states import (
    ANGULAR_RATE,
    ATTITUDE,
    COURSES,
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
from vehicled.vehicle.arrays import AHEAD, ROOT_OUTPUTS, YAW_RATE

if TYPE_CHECKING:
    from vehicled.filter.error_model import ErrorModel
    from vehicled.symbolic.graph import Atom


class ImuErrorSettings(Protocol):
    """What the section of an IMU in the configuration says of its slow errors."""

    @property
    def gyroscopes(self) -> Gyroscopes | None:
        """None where they are not used."""

    @property
    def accelerometers(self) -> Accelerometers | None:
        """Likewise."""

    @property
    def rotation_sigma(self) -> float:
        """How well its axes are known, rad, 1 σ."""


def _gyroscopes(imu: ImuErrorSettings | None) -> Gyroscopes | None:
    return None if imu is None else imu.gyroscopes


def _accelerometers(imu: ImuErrorSettings | None) -> Accelerometers | None:
    return None if imu is None else imu.accelerometers


_MOST_SCALE = 0.1
"""No accelerometer errs by more, and no body rolls by that share of gravity beside the model's."""
_TURN_ON = 0.5
"""Data sheets of MEMS give 0.1 to 0.3 °/s and 3 to 5 mg from one start to the next: half of the default biases."""
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
    """What component k of a vector reads beside it, as the axes of the sensor are turned by small angles; its row."""
    angles = model.estimates(ALIGNMENT)
    i, j = (k + 1) % 3, (k + 2) % 3
    # −ε × v
    row = model.states.entries(ALIGNMENT, {j: values[i], i: -values[j]})
    return angles[j] * values[i] - angles[i] * values[j], row


_SMALL_RATE, _SWAYING = 0.1, 0.03
"""rad/s: of turning; and of the body's roll and pitch rate together, up to which a car does not sway."""
_STANDING = 1.0
"""m/s: up to that speed a car stands, and from twice that on it drives."""
_LEVEL_ROAD = 0.02
"""rad/s, root of a mean square: a car that rolls and pitches faster than that for seconds does so with the road."""
TURNING_CAR = "imu.turning_car"
"""Array (1,): 1 while gyroscopes turn the car directly (standing_heading.py), so that their observation must not
correct the heading as well; else 0."""
ROLLING = "imu.rolling"
"""Array (3,): means of the roll and pitch rate that are measured, rad/s, and of their square."""
MEAN_FORCES = "imu.mean_forces"
"""Array (9,): means of the specific forces that are measured, m/s², in the IMU's axes without its rotation; then two
that lag, of which they are made."""
_SMALL_TORSION = 0.025
"""rad/s: slope times yaw rate up to which, and less than at twice that, a road counts as the plane of the model."""


def _find_considered(model: ErrorModel, groups: Sequence[Group]) -> Considered:
    """What an IMU does not correct: latencies of other sensors and, in a turn on a slope, slow states of its own.

    Of the time of a receiver it knows nothing by itself. It would correct that through the sideslip, with which
    courses in bends correlate it: lasting errors of the tyres drew it away by 0.04 s in four minutes of motorway.

    On a plane, the climb that the car comes from becomes a bank; where the road climbs on in the turn, as in hairpins
    and on ramps, it stays a climb. What the rates differ by lasts throughout the turn, and is that of an IMU which is
    turned by as much as the road climbs.
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
    """Observation `imu.gyro`."""
    bias, (scale,) = model.estimates(GYRO_BIAS), model.estimates(GYRO_SCALE)
    measured = model.program.arrays["value"]
    s, rotation = model.states, model.models.rotation
    # Bodies sway otherwise than the model's springs and tyres have them, and that goes with the yaw rate: in lane
    # changes at 8 m/s² it was found as a scale of −0.02 and an alignment of 0.05 rad.
    # At walking pace tyres that stick and the geometry of the steering make the model's yaw rate wrong by a per cent.
    slipping = model.calc_slipping(model.models.pose[AHEAD])
    steady = slipping * (1.0 - calc_share(model.g, model.swaying, _SWAYING**2))

    def error(k: int, values: Sequence[Atom]) -> tuple[Atom, dict[int, Atom]]:
        # Other axes as measured: the model's rates of roll and pitch are those of another suspension.
        turned, _ = misalign(model, measured, k)
        # Small rates are mostly the filter's own corrections, which are correlated with the next innovations.
        counted = [model.discount(v, _SMALL_RATE) for v in values]
        _, by_alignment = misalign(model, [model.discount(v, _SMALL_RATE) for v in measured], k)
        # By yaw rate an alignment shows in roll and pitch rate; by these in the yaw rate, which is that of tyres.
        level = steady * (1.0 - rotation[k].z * rotation[k].z)
        row = {place: level * by for place, by in by_alignment.items()}
        row |= s.entries(GYRO_BIAS, {k: model.g.one}) | s.entries(GYRO_SCALE, {0: steady * counted[k]})
        return bias[k] + scale * values[k] + turned, row

    considered = _find_considered(model, (ALIGNMENT, GYRO_BIAS))
    shares = dict(considered.shares)
    (shares[s.index(ATTITUDE, "yaw")],) = model.program.array(TURNING_CAR, 1)
    *_, square = model.program.array(ROLLING, 3)
    for i, axis in zip(s.places(GYRO_BIAS), rotation, strict=True):
        # Hills pitch a car that moves for seconds, which would be found as a bias.
        hilly = slipping * (1.0 - axis.z * axis.z) * square / (square + _LEVEL_ROAD**2)
        shares[i] = model.g.max(shares[i], hilly)
    readings = model.models.readings["imu_gyro"]
    model.observe_readings(
        "imu.gyro", readings, error, sensor="imu_gyro", considered=replace(considered, shares=shares)
    )


_SMALL_ACCELERATION = 0.3
"""m/s²: what is less is mostly noise."""


def add_accelerometers(model: ErrorModel) -> None:
    """Observation `imu.accel`, (3,) m/s² in the sensor's axes.

    Beside attitude and rotation it depends on what the tyres make of sideslip and yaw rate, the drive force of speed,
    and the springs of travel.

    `gravity_removed` = 1 for devices that subtract gravity: so does the model, with its own attitude, and what is
    left does not depend on that to first order.
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
        self._means = program.array(MEAN_FORCES, 9)[:3]
        # What a device that subtracts gravity leaves is turned with its axes, and nothing else.
        self._values = [
            reading + model.calc_corrected(jacobian) - self._removed * r.dot(models.up) * self._gravity
            for reading, jacobian, r in zip(
                models.readings["imu_accelerometer"], self._jacobians, models.rotation, strict=True
            )
        ]
        # Speed times yaw rate: a bank, an IMU that is rolled, or tyres that take a load, are no turn.
        self._turning = models.pose[AHEAD] * models.pose[YAW_RATE]
        self._counted = model.discount(self._turning, _SMALL_ACCELERATION)

    def observe(self) -> None:
        """Add the observation, and by how much more the body rolls where its scale shows that."""
        model, axes = self._model, range(len(self._values))
        if ACCELEROMETER_SCALE in model.states:
            # Most of the scale is gravity, as the body rolls by more or less than the model's.
            output = dict(zip(ROOT_OUTPUTS, model.program.arrays["outputs"], strict=True))
            (scale,) = model.estimates(ACCELEROMETER_SCALE)
            more = (1.0 - self._removed) * scale * output["ay"] * (1.0 / self._gravity)
            model.inclined.append((output["roll"], output["roll"] + more))
        rows, noise = zip(*map(self._find_row, axes), strict=True)
        model.observe(
            "imu.accel",
            [self._predict(k) for k in axes],
            rows,
            noise=noise,
            sensor="imu_accelerometer",
            considered=_find_considered(model, (ALIGNMENT, ACCELEROMETER_BIAS, ACCELEROMETER_SCALE)),
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
        """By which error states axis k reads more, and the noise of its time, as `ErrorModel.to_present` has it."""
        model, s, tyres = self._model, self._model.states, self._model.models.tyres
        r, by_yaw, (front, rear) = model.models.rotation[k], self._calc_by_yaw(k), self._calc_by_tyres(k)
        row, late = model.to_present(self._jacobians[k])
        for slope in ("v1z", "v2z"):
            place = s.index(ATTITUDE, slope)
            row[place] = (1.0 - self._removed) * row[place]
        row |= s.entries(TYRE_FORCE, {0: front, 1: rear})
        if TYRE_FORCE not in s:  # tyres are taken to have followed errors already
            for i, cause in enumerate((*s.places(VELOCITY)[:2], s.index(ANGULAR_RATE, "yaw"))):
                by_cause = front * tyres.steady[0][i] + rear * tyres.steady[1][i]
                row[cause] = row.get(cause, model.g.zero) + by_cause
        row |= s.entries(ACCELEROMETER_BIAS, {k: model.g.one})
        row |= s.entries(ACCELEROMETER_SCALE, {0: r.y * self._counted})
        row |= s.entries(UNMODELLED, {0: r.x, 1: self._share * r.y, 2: r.z, 3: self._share * by_yaw})
        row[s.index(DRIVE_FORCE)] = r.x
        if self._heave:
            row |= {s[SUSPENSION[0]].start + i: r.z * force for i, force in enumerate(self._heave)}
        # Roads that curve lift a car for seconds, in bends as well. An alignment that was corrected by accelerations
        # upwards went astray by 0.05 rad on hilly roads.
        level = 1.0 - r.z * r.z
        _, by_alignment = misalign(model, self._find_shown(), k)
        return row | {place: level * by for place, by in by_alignment.items()}, late

    def _find_shown(self) -> list[Atom]:
        """The forces by which a rotation of the IMU is found: gravity, and means of the horizontal ones.

        An engine shakes all axes of the IMU at once, and the estimated forces follow that a little. So forces of the
        moment correlate with the next innovations, and an IMU was found turned by 0.3 rad. Means do not, but a
        standing car has no horizontal forces: there what is left of the vibration would count.
        """
        drives = calc_share(self._model.g, self._model.now[AHEAD], _STANDING)
        return [
            r.z * r.z * now + (1.0 - r.z * r.z) * drives * mean
            for now, mean, r in zip(self._values, self._means, self._model.models.rotation, strict=True)
        ]

    def _predict(self, k: int) -> Atom:
        """What axis k reads, by all that is estimated."""
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
        if model.forces:  # what acts on the car as a force is in the reading already, as it was then
            ahead, left, _, yaw = model.get_later(UNMODELLED)
        later_drive = model.get_later(DRIVE_FORCE)[0]
        value = value + r.x * (ahead + later_drive) + self._share * (r.y * left + by_yaw * yaw)
        (front, rear), (later_front, later_rear) = self._calc_by_tyres(k), model.get_later(TYRE_FORCE)
        return value + front * later_front + rear * later_rear
