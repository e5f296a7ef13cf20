"""The errors of a running car: how they spread from step to step, and what each sensor sees of them, compiled.

Sanjurjo's 20 states (errors of r1, ψ, v1z, v2z, θ1…θ4 and of their rates), and beside them the slow errors of
the sensors and of the model: biases of gyroscopes and accelerometers (IMU axes), wander of the GNSS position
(world axes), scale of the car's own speed, error of the model's acceleration (IMU axes), drive force over mass
where nothing measures it, and optionally travel and rate of the four suspensions.

Rates are counted as a correction carries them along: ahead and to the left of the car, normal to the ground,
and about the car's own axes; a wheel's rate is its slip's, beside what rolling follows from the car's speed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial

from vehicled.filter.covariance import ErrorKernels
from vehicled.filter.settings import Kind
from vehicled.messages import WHEELS
from vehicled.multibody.ali3p import add_forward_euler
from vehicled.symbolic.graph import Atom
from vehicled.symbolic.program import Program
from vehicled.vehicle.chart import CHART
from vehicled.vehicle.outputs import Parts
from vehicled.vehicle.sensor_models import POSE, add_sensor_kernels

CHART_PAIRS = len(CHART)
PAIRS = CHART_PAIRS + len(WHEELS)

# Places in x.
RATES = slice(PAIRS, PAIRS + CHART_PAIRS)
"""Of the chart."""
YAW, V1Z, V2Z = (CHART.index(n) for n in ("yaw", "v1z", "v2z"))
AHEAD, LEFT, YAW_RATE = PAIRS, PAIRS + 1, PAIRS + YAW
WHEEL_ANGLE = CHART_PAIRS
WHEEL_RATE = PAIRS + CHART_PAIRS
GYRO_BIAS = 2 * PAIRS
ACCELEROMETER_BIAS = GYRO_BIAS + 3
WANDER = ACCELEROMETER_BIAS + 3
SPEED_SCALE = WANDER + 3
ACCELERATION_ERROR = SPEED_SCALE + 1
DRIVE = ACCELERATION_ERROR + 3
SUSPENSION = DRIVE + 1
"""Optional: travel of the four wheels, and its rates, from here on."""

PLANT = (
    *("x", "y", "z", "yaw", "v1z", "v2z", *(f"wheel.{w}" for w in WHEELS)),
    *("ahead", "left", "up", "yaw rate", "v1z rate", "v2z rate", *(f"wheel.{w} rate" for w in WHEELS)),
    *("left per speed", "slip time"),
)
"""Elements of the array `plant`: spectral densities of white noise on errors and on their rates, per second; root
of what that of the lateral velocity gains with speed; time (s) that a wheel's slip differs from the model's."""
SLOW = ("time", "sigma.x", "sigma.y", "sigma.z")
"""Elements of the arrays `wander` and `acceleration_error`: Gauss–Markov processes."""
OBSERVATIONS = (
    *("gnss.position", "gnss.speed", "gnss.course", "imu.gyro", "imu.accel", "vehicle.speed"),
    *(f"wheel.{w}.{quantity}" for quantity in ("angle", "speed") for w in WHEELS),
)
"""What can be judged: kernels of these names after `see.`; beside them `see.slope` and `see.bank` of the road."""
SUSPENSION_PROCESS = ("time", "sigma", "rate sigma")


def size(suspension: bool) -> int:
    """Number of states."""
    return SUSPENSION + 2 * len(WHEELS) * suspension


class _Builder:
    def __init__(self, program: Program, parts: Parts, suspension: bool, kind: Kind):
        self.exact, self.forces = kind in ("errorEKF_EJ", "errorEKF_FE"), kind == "errorEKF_FE"
        self.program, self.parts, self.g = program, parts, program.graph
        self.n = size(suspension)
        self.suspension = suspension
        self.models = add_sensor_kernels(program, parts)
        self.kernels = ErrorKernels(program, self.n)
        self.extra = program.array("extra", self.n - GYRO_BIAS)
        self.now = program.array("now", len(POSE))
        wheels = program.array("now_wheels", 2, 1)
        self.plant = dict(zip(PLANT, program.array("plant", len(PLANT)), strict=True))
        self.rolling = program.array("rolling", 2 * len(WHEELS))
        self.pose = self.models.pose
        self.past_wheels = program.array("past_wheels", 2 * len(WHEELS))
        self.since = program.array("since", 2 * PAIRS)
        (self.age,) = program.array("age", 1)
        self._now(wheels)
        self._spread()
        self._sights()
        self._absorb()
        self._sigmas()
        if self.forces:
            self._push()
        if kind == "DEKF":
            add_forward_euler(parts.step)
        if kind == "UKF":
            self.kernels.weigh()
        program.sequence("propagate", "look", *["observe_tyres"] * self.exact, "spread")
        program.sequence("apply", "absorb", "correct", "look")
        program.sequence("tell", "report", "sigmas")

    def _now(self, wheels: list[Atom]) -> None:
        """Kernel `look`: the present pose and the wheels' angles and rates into `now`, its yaw without jumps."""
        g, found = self.g, list(self.models.now)
        turned = found[YAW] - self.now[YAW]
        found[YAW] = self.now[YAW] + g.atan2(g.sin(turned), g.cos(turned))
        stores = [*zip(self.now, found, strict=True)]
        stores += zip(wheels, (self.parts.wheel_angle, self.parts.wheel_rate), strict=True)
        self.program.kernel("look", stores)

    def _spread(self) -> None:
        g, program, n = self.g, self.program, self.n
        (h,) = program.array("h", 1)
        drift = program.array("extra_drift", n - GYRO_BIAS)
        wander = program.array("wander", len(SLOW))
        acceleration = program.array("acceleration_error", len(SLOW))
        pose, plant = self.now, self.plant
        cos, sin = g.cos(pose[YAW]), g.sin(pose[YAW])
        ahead, left = pose[6], pose[7]
        rows: list[dict[int, Atom]] = [{i: g.one} for i in range(n)]
        for i in range(2, PAIRS):
            rows[i][PAIRS + i] = h
        # Velocity errors ahead and to the left, a turned heading, and a slope that the car drives up.
        rows[0] |= {AHEAD: h * cos, LEFT: -(h * sin), YAW: -(h * (sin * ahead + cos * left))}
        rows[1] |= {AHEAD: h * sin, LEFT: h * cos, YAW: h * (cos * ahead - sin * left)}
        rows[2][V1Z] = h * ahead
        rows[AHEAD][DRIVE] = h
        if self.exact:
            self._answer(rows, h)
        slip = g.exp(-(h / plant["slip time"]))
        for k in range(len(WHEELS)):
            rows[WHEEL_ANGLE + k] |= {AHEAD: h * self.rolling[2 * k], YAW_RATE: h * self.rolling[2 * k + 1]}
            rows[WHEEL_RATE + k][WHEEL_RATE + k] = slip
        densities = [plant[name] for name in PLANT[: 2 * PAIRS]]
        densities[LEFT] = self._lateral_density(ahead)
        noise = [h * q for q in densities] + [h * q for q in drift]
        processes = [(WANDER, 3, wander), (ACCELERATION_ERROR, 3, acceleration)]
        if self.suspension:
            time, sigma, rate_sigma = program.array("suspension_process", len(SUSPENSION_PROCESS))
            w = len(WHEELS)
            processes.append((SUSPENSION, 2 * w, [time, *[sigma] * w, *[rate_sigma] * w]))
            for k in range(w):
                rows[SUSPENSION + k][SUSPENSION + w + k] = h
        for begin, count, (time, *sigmas) in processes:
            decay = g.exp(-(h / time))
            lost = 1.0 - decay * decay
            for k in range(count):
                rows[begin + k][begin + k] = decay
                noise[begin + k] = noise[begin + k] + lost * sigmas[k] * sigmas[k]
        kept = [(e, e * rows[GYRO_BIAS + k][GYRO_BIAS + k]) for k, e in enumerate(self.extra)]
        self.kernels.spread(rows, noise, kept)

    def _answer(self, rows: list[dict[int, Atom]], h: Atom) -> None:
        """Into rows: how the tyres answer errors of speed and yaw rate, and, where it acts on the car, what the model
        lacks in acceleration. Implicit in lateral velocity and yaw rate, which the tyres damp in milliseconds."""
        d = self.models.tyre_damping
        ahead, left, r = self.now[6], self.now[7], self.now[9]
        by_ahead, by_left, by_turning = (
            (d[0], d[3] - r, d[6]),
            (d[1] + r, d[4], d[7]),
            (d[2] + left, d[5] - ahead, d[8]),
        )
        a, b = 1.0 - h * by_left[1], -(h * by_turning[1])
        c, e = -(h * by_left[2]), 1.0 - h * by_turning[2]
        determinant = a * e - b * c
        inverse = ((e / determinant, -(b / determinant)), (-(c / determinant), a / determinant))
        rows[AHEAD] |= {AHEAD: 1.0 + h * by_ahead[0], LEFT: h * by_left[0], YAW_RATE: h * by_turning[0]}
        for place, (by_lateral, by_yaw) in zip((LEFT, YAW_RATE), inverse, strict=True):
            rows[place] |= {
                LEFT: by_lateral,
                YAW_RATE: by_yaw,
                AHEAD: h * (by_lateral * by_ahead[1] + by_yaw * by_ahead[2]),
            }
            if self.forces:
                lacks = {
                    ACCELERATION_ERROR + k: h * by_lateral * x.y for k, x in enumerate(self.models.rotation)
                }
                rows[place] |= lacks
        if self.forces:
            rows[AHEAD] |= {ACCELERATION_ERROR + k: h * x.x for k, x in enumerate(self.models.rotation)}

    def _lateral_density(self, ahead: Atom) -> Atom:
        root = self.g.sqrt(self.plant["left"]) + self.plant["left per speed"] * self.g.abs(ahead)
        return root * root

    # -- observations ---------------------------------------------------------------------------------

    def _sights(self) -> None:
        g, models = self.g, self.models
        readings, jacobians = models.readings, models.jacobians

        def bias(begin: int) -> list[Atom]:
            return self.extra[begin - GYRO_BIAS : begin - GYRO_BIAS + 3]

        ones = [{WANDER + k: g.one} for k in range(3)]
        self._chassis("see.gnss.position", "gnss_position", ones, bias(WANDER))
        self._chassis("see.gnss.speed", "gnss_speed")
        self._chassis("see.gnss.course", "gnss_course", angle=True)
        ones = [{GYRO_BIAS + k: g.one} for k in range(3)]
        self._chassis("see.imu.gyro", "imu_gyro", ones, bias(GYRO_BIAS))
        self._accelerometer(bias(ACCELEROMETER_BIAS), bias(ACCELERATION_ERROR))

        # The car's own speed has a scale of its own.
        true, (row, late) = readings["body_velocity"][0], self._back(jacobians["body_velocity"][0])
        true = true + self._corrected(jacobians["body_velocity"][0])
        row[SPEED_SCALE] = true
        scale = 1.0 + self.extra[SPEED_SCALE - GYRO_BIAS]
        self.kernels.observe("see.vehicle.speed", [true * scale], [row], noise=[late])
        for k, w in enumerate(WHEELS):
            self._wheel(k, w)

        # What is known of roads: slope and bank are small.
        normal, cos, sin = self.parts.ground, g.cos(self.now[YAW]), g.sin(self.now[YAW])
        along, across = normal[0] * cos + normal[1] * sin, normal[1] * cos - normal[0] * sin
        self.kernels.observe("see.slope", [-along], [{V1Z: g.one}])
        self.kernels.observe("see.bank", [-across], [{V2Z: g.one}])

    def _chassis(
        self,
        name: str,
        sensor: str,
        more: Sequence[dict[int, Atom]] | None = None,
        error: Sequence[Atom] | None = None,
        angle: bool = False,
    ) -> None:
        """A sensor on the chassis at the time of `pose`; `more` columns, and a slow `error` of its own."""
        predicted, rows, noise = [], [], []
        jacobian = self.models.jacobians[sensor]
        for k, reading in enumerate(self.models.readings[sensor]):
            row, late = self._back(jacobian[k])
            rows.append(row | more[k] if more else row)
            noise.append(late)
            value = reading + self._corrected(jacobian[k])
            predicted.append(value + error[k] if error else value)
        self.kernels.observe(name, predicted, rows, noise=noise, angle=angle)

    def _corrected(self, jacobian: Sequence[Atom]) -> Atom:
        """What corrections made since then change of a reading."""
        total = self.g.zero
        for k in range(CHART_PAIRS):
            total = total + jacobian[k] * self.since[k] + jacobian[CHART_PAIRS + k] * self.since[PAIRS + k]
        return total

    def _back(self, jacobian: Sequence[Atom]) -> tuple[dict[int, Atom], Atom]:
        """A row by errors of then as one by errors of now, z(then) = z(now) − drift·age; and the variance that white
        noise on the rates since then adds to it."""
        g, pose, age = self.g, self.pose, self.age
        ahead, left = pose[6], pose[7]
        cos, sin = g.cos(pose[YAW]), g.sin(pose[YAW])
        x, y = jacobian[0], jacobian[1]
        # Columns of the drift: by heading and slope, and by the rates.
        by_position = [g.zero] * CHART_PAIRS
        by_position[YAW] = y * (cos * ahead - sin * left) - x * (sin * ahead + cos * left)
        by_position[V1Z] = jacobian[2] * ahead
        by_rate = [cos * x + sin * y, cos * y - sin * x, *jacobian[2:CHART_PAIRS]]
        row: dict[int, Atom] = {}
        late = g.zero
        third = age * age * age * (1.0 / 3.0)
        for k in range(CHART_PAIRS):
            row[k] = jacobian[k] - age * by_position[k]
            row[PAIRS + k] = jacobian[CHART_PAIRS + k] - age * by_rate[k]
            name = PLANT[PAIRS + k]
            density = self._lateral_density(ahead) if name == "left" else self.plant[name]
            late = late + by_rate[k] * by_rate[k] * (density * third)
        return {k: a for k, a in row.items() if a is not g.zero}, late

    def _accelerometer(self, bias: Sequence[Atom], unexplained: Sequence[Atom]) -> None:
        """Beside attitude and rotation, what the tyres make of sideslip and yaw rate, the drive force of speed,
        and the springs of travel. `gravity_removed` = 1 for devices that subtract gravity: so does the model,
        with its own attitude, and what is left does not depend on that to first order."""
        g, program, models = self.g, self.program, self.models
        (removed,) = program.array("gravity_removed", 1)
        heave = program.array("heave", 2 * len(WHEELS)) if self.suspension else []
        arm, damping = models.imu, models.tyre_damping
        jacobian = models.jacobians["imu_accelerometer"]
        predicted, rows, noise = [], [], []
        # What acts on the car as a force is in the reading already, but for its vertical part, which does not.
        upward = g.zero
        for e, r in zip(unexplained, models.rotation, strict=True):
            upward = upward + r.z * e
        for k, (reading, r) in enumerate(
            zip(models.readings["imu_accelerometer"], models.rotation, strict=True)
        ):
            row, late = self._back(jacobian[k])
            for place in (V1Z, V2Z):
                row[place] = (1.0 - removed) * row[place]
            for i, place in enumerate((AHEAD, LEFT, YAW_RATE)):
                ax, ay, alpha = damping[i], damping[3 + i], damping[6 + i]
                pushed = r.x * (ax - alpha * arm.y) + r.y * (ay + alpha * arm.x)
                row[place] = row[place] + pushed if place in row else pushed
            row |= {ACCELEROMETER_BIAS + k: g.one, ACCELERATION_ERROR + k: g.one, DRIVE: r.x}
            row |= {SUSPENSION + i: r.z * force for i, force in enumerate(heave)}
            rows.append(row)
            noise.append(late)
            value = reading + self._corrected(jacobian[k]) + bias[k]
            value = value + (r.z * upward if self.forces else unexplained[k])
            predicted.append(value - removed * r.dot(models.up) * self.gravity)
        self.kernels.observe("see.tyres", predicted, rows, noise=noise)
        # Where errors spread with the tyres' answer, it is known already.
        program.sequence("see.imu.accel", *["observe_tyres"] * (not self.exact), "see.tyres")

    @property
    def gravity(self) -> Atom:
        """Its magnitude, m/s²."""
        return self.parts.gravity.norm()

    def _wheel(self, k: int, w: str) -> None:
        """Angle and rate of a wheel relative to its knuckle."""
        g, w4 = self.g, len(WHEELS)
        by_speed, by_turning = self.rolling[2 * k], self.rolling[2 * k + 1]
        rate = {WHEEL_RATE + k: g.one, AHEAD: by_speed, YAW_RATE: by_turning}
        angle = {place: -(self.age * value) for place, value in rate.items()} | {WHEEL_ANGLE + k: g.one}
        turned = self.past_wheels[k] + self.since[WHEEL_ANGLE + k]
        slip, ahead, yaw_rate = self.since[WHEEL_RATE + k], self.since[AHEAD], self.since[YAW_RATE]
        turning = self.past_wheels[w4 + k] + slip + by_speed * ahead + by_turning * yaw_rate
        self.kernels.observe(f"see.wheel.{w}.angle", [turned], [angle])
        self.kernels.observe(f"see.wheel.{w}.speed", [turning], [rate])

    # -- correction and output ----------------------------------------------------------------------------

    def _absorb(self) -> None:
        """Kernel `absorb`: x into `correction` and `corner_correction` for the car's kernel `correct`, into `extra`,
        and into `moved` = (Δz, how fast z drifts by it, Δż) for the history; x ← 0."""
        g, program, x, pose = self.g, self.program, self.kernels.x, self.now
        correction, (carry,) = program.arrays["correction"], program.arrays["carry"]
        corners = program.lanes("corner_correction")
        moved = program.array("moved", 3 * PAIRS)
        rates = [
            x[WHEEL_RATE + k] + self.rolling[2 * k] * x[AHEAD] + self.rolling[2 * k + 1] * x[YAW_RATE]
            for k in range(len(WHEELS))
        ]
        cos, sin = g.cos(pose[YAW]), g.sin(pose[YAW])
        ahead, left = pose[6], pose[7]
        drift = [*x[RATES], *rates]
        drift[0] = cos * x[AHEAD] - sin * x[LEFT] - (sin * ahead + cos * left) * x[YAW]
        drift[1] = sin * x[AHEAD] + cos * x[LEFT] + (cos * ahead - sin * left) * x[YAW]
        drift[2] = drift[2] + ahead * x[V1Z]
        changes = [*x[:CHART_PAIRS], *x[RATES]]
        stores = [*zip(correction, changes, strict=True), (carry, g.one)]
        stores += zip(corners[0], x[WHEEL_ANGLE:PAIRS], strict=True)
        stores += zip(corners[1], rates, strict=True)
        stores += [(e, e + d) for e, d in zip(self.extra, x[GYRO_BIAS:], strict=True)]
        stores += zip(moved, [*x[:PAIRS], *drift, *x[PAIRS:GYRO_BIAS]], strict=True)
        stores += [(s, g.zero) for s in x[:SUSPENSION]]
        program.kernel("absorb", stores)

    def _push(self) -> None:
        """Kernel `lean`: what the model lacks in acceleration as the force `push` on the car."""
        g, program = self.g, self.program
        (mass,) = program.array("mass", 1)
        lacks = self.extra[ACCELERATION_ERROR - GYRO_BIAS : ACCELERATION_ERROR - GYRO_BIAS + 3]
        ahead, left = g.zero, g.zero
        for e, r in zip(lacks, self.models.rotation, strict=True):
            ahead, left = ahead + r.x * e, left + r.y * e
        program.kernel("lean", zip(program.arrays["push"], (mass * ahead, mass * left), strict=True))

    def _sigmas(self) -> None:
        """Kernel `sigmas`: standard deviations of x, y, z, yaw, of vx and vy (vehicle axes) and of sideslip, of
        `pose`, which must be the present one."""
        g = self.g
        rows: list[dict[int, Atom]] = [{k: g.one} for k in range(4)]
        for row in self.models.jacobians["body_velocity"]:
            states = (*range(CHART_PAIRS), *range(PAIRS, PAIRS + CHART_PAIRS))
            rows.append({k: a for k, a in zip(states, row, strict=True) if a is not g.zero})
        sigmas = [g.sqrt(g.max(self.kernels.variance_of(row), 0.0)) for row in rows]
        # At standstill sideslip is anything; a minimum also takes care of 0/0.
        sigmas[-1] = g.min(sigmas[-1], 3.141592653589793)
        self.program.kernel("sigmas", zip(self.program.array("sigmas", len(sigmas)), sigmas, strict=True))


@lru_cache
def extension(suspension: bool, kind: Kind) -> Callable[[Program, Parts], object]:
    """For `Car`: the errors with or without those of the suspensions, of that kind of filter."""
    return partial(_Builder, suspension=suspension, kind=kind)
