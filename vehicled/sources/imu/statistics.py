"""Statistics of an IMU's samples and innovations in addition to the filter's states, in compiled code.

Kernels, in the order of a sample:

- `imu.sample`: noise of the samples, the car's motion by them, and its short-time means,
- `imu.rates`, after the update with the gyroscopes: shaking, which is part of the accelerometers' noise from
then on; the noise of the yaw acceleration; and turning of the heading in addition to the model,
- `imu.forces`, after the update with the accelerometers: roughness of the road, and its effect on the
suspensions,
- `imu.travel`, at any time: the effect of roughness on the travel of the suspensions.

`imu.begin`, `imu.between` and `imu.end` are these kernels together with the transfer of the sample to the
updates between them, and of the results back: links of a chain, in which a sample within all limits is
processed in one call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vehicled.filter.boundary import ObservedFilter, UpdateLink
from vehicled.filter.covariance import MISSING
from vehicled.filter.factors import calc_dot
from vehicled.filter.states import ANGULAR_RATE, ATTITUDE, UNMODELLED, VELOCITY, Group
from vehicled.sources.imu.innovation_excess import ExcessDensity, ExcessVariance
from vehicled.sources.imu.lateral import OLD
from vehicled.sources.imu.model import (
    ACCELEROMETER_BIAS,
    ACCELEROMETER_SCALE,
    GYRO_BIAS,
    MEAN_FORCES,
    ROLLING,
    misalign,
)
from vehicled.sources.imu.noise_floor import NoiseFloor
from vehicled.sources.imu.oversampling import Oversampling
from vehicled.sources.imu.rate_differences import LONG_AGO, RateDifferences
from vehicled.sources.imu.road_travel import NOTHING, RoadTravel, calc_road_arrays
from vehicled.sources.imu.shaking import Shaking
from vehicled.symbolic.plain_numbers import PlainNumbers
from vehicled.symbolic.program import KernelHandle
from vehicled.vehicle.arrays import (
    AHEAD,
    ALPHA_X,
    ALPHA_Y,
    CORNER_OUTPUTS,
    V1Z,
    V1Z_RATE,
    V2Z,
    V2Z_RATE,
    YAW_RATE,
)

if TYPE_CHECKING:
    from vehicled.filter.error_model import ErrorModel
    from vehicled.sources.imu.noise_floor import Stores
    from vehicled.symbolic.graph import Atom
    from vehicled.vehicle.car import Car
    from vehicled.vehicle.parameters import Vehicle

_AXES = 3
SAMPLE_DONE, RATES_DONE, ALL_DONE = 1, 3, 5
"""Number of links of the chain that have been run."""
_ROAD = "imu.road"
_MEAN, _LONGEST_GAP = 0.02, 0.05
"""Time over which motion is averaged, s, short compared with any manoeuvre; and longest gap between averaged
samples, s."""
_SWAYING_TIME = 1.0
"""s"""
_FORCES_TIME = 0.15
"""Time over which forces are averaged, s: some periods of a vibration, short compared with a bend."""
_ROLLING_TIME, _HILLS_TIME = 2.0, 5.0
"""Times over which roll and pitch rates, and the squares of their means, are averaged, s."""
_UNKNOWN_ROAD = 0.03
"""rad/s: assumed turning by the road before any rates have been measured."""
_GIVEN = {"imu.given": 1 + 2 * _AXES, "imu.measured": 2 * _AXES}
_INNOVATION = {"imu.innovation": 1 + 2 * _AXES}
_RESULTS = {"imu.results": 4 * _AXES + 2}
_FOUND, _NOISE = {"imu.found": 2 * _AXES + 13}, {"imu.noise": 2 * _AXES}
_FREE = {"imu.free": 2 * _AXES}
"""Arrays that are written and read, with their sizes."""
_ZERO = (
    *(f"imu.{kind}.{what}" for kind in ("gyro", "accel") for what in ("floor", "interval")),
    *(f"imu.{what}" for what in ("shaking", "excess", "turning", "past", "summed")),
    *("shaking", "swaying", ROLLING, MEAN_FORCES),
    *(f"{_ROAD}.{what}" for what in ("turning", "state", "kept")),
)
_TIMES = "imu.times", f"{_ROAD}.times", "imu.measured_at", "imu.gyro.interval.at", "imu.accel.interval.at"
"""Arrays of what has been found: initially zero, and long ago for times."""


def add_imu_statistics(model: ErrorModel) -> None:
    """Add the kernels; called after the observations of the IMU have been added."""
    _Builder(model)


class _Builder:
    def __init__(self, model: ErrorModel) -> None:
        self.model, self.g, program = model, model.g, model.program
        self.axes, self.gravity = model.models.rotation, model.parts.gravity.norm()
        given = program.array("imu.given", 1 + 2 * _AXES)
        self.t, self.values, self.measured = given[0], given[1:], program.array("imu.measured", 2 * _AXES)
        self.offsets = program.array("imu.offsets", 2 * _AXES)
        self.of_model = program.array("imu.model_variances", 2 * _AXES)
        (self.takes_given,) = program.array("imu.takes_given", 1)
        found = program.array("imu.found", 2 * _AXES + 13)
        self.value, self.of_gyro, self.of_accel = found[: 2 * _AXES], *found[2 * _AXES : 2 * _AXES + 2]
        self.motion, self.means = found[2 * _AXES + 2 : -5], found[-5:]
        self.summed = program.array("imu.summed", 7)
        self.forces = program.arrays[MEAN_FORCES]
        self.free = program.array("imu.free", 2 * _AXES)
        self.noise, self.alone = program.array("imu.noise", 2 * _AXES), program.array("imu.alone", _AXES)
        """Variances of a sample, and those of accelerometers without shaking of the car."""
        whole, *innovation = program.array("imu.innovation", 1 + 2 * _AXES)
        self.is_whole, self.innovation, self.expected = whole, innovation[:_AXES], innovation[_AXES:]
        (self.least_turning,) = program.array("imu.least_turning", 1)
        (self.measured_at,) = program.array("imu.measured_at", 1)
        self.floors = [NoiseFloor(program, f"imu.{kind}", _AXES) for kind in ("gyro", "accel")]
        self.oversampling = [Oversampling(program, f"imu.{kind}.interval") for kind in ("gyro", "accel")]
        self.past = RateDifferences(program, "imu")
        self.shaking = Shaking(program, "imu.shaking")
        self.excess = ExcessVariance(program, "imu.excess")
        self.turning = ExcessDensity(program, "imu.turning")
        self.road = RoadTravel(program, _ROAD)
        (self.now,) = program.array("imu.now", 1)
        self.added = program.array("imu.added", len(NOTHING))
        sample = program.kernel("imu.sample", self._take_sample())
        self.yaw_density = model.noise.densities[model.states.index(ANGULAR_RATE, "yaw")]
        more = self.least_turning + self.turning.density
        program.kernel("imu.configure", [(self.yaw_density, more)])
        rates = program.kernel("imu.rates", self._take_rates())
        forces = program.kernel("imu.forces", self._take_forces())
        self.limits, self.results = (
            program.array("imu.limits", 2),
            program.array("imu.results", 4 * _AXES + 2),
        )
        program.sequence("imu.begin", sample, self._give(0))
        program.sequence("imu.between", self._keep(0), rates, self._give(1))
        program.sequence("imu.end", self._keep(1), forces)
        added = self.road.calc(self.now)
        columns = dict(zip(CORNER_OUTPUTS, program.lanes("corner_outputs"), strict=True))
        outputs = [c for what in ("deflection", "rate", "force") for c in columns[f"suspension.{what}"]]
        stores = [(o, o + a) for o, a in zip(outputs, added, strict=True)]
        program.kernel("imu.travel", [*stores, *zip(self.added, added, strict=True)])

    def _give(self, kind: int) -> KernelHandle:
        """Kernel that writes what an observation reads: 0: gyroscopes, 1: accelerometers."""
        program, of = self.model.program, slice(kind * _AXES, (kind + 1) * _AXES)
        arrays = program.arrays
        stores = [*zip(arrays["value"], self.value[of], strict=True), (arrays["limit"][0], self.limits[kind])]
        stores += zip(arrays["noise"], self.noise[of], strict=True)
        return program.kernel(f"imu.give.{kind}", stores)

    def _keep(self, kind: int) -> KernelHandle:
        """Kernel that stores the results of that update, if nothing was rejected."""
        program, size = self.model.program, 2 * _AXES + 1
        found = [a for name in ("innovation", "variance", "nis") for a in program.arrays[name]]
        stores = [*zip(self.results[kind * size : (kind + 1) * size], found, strict=True)]
        stores += zip((*self.innovation, *self.expected), found[:-1], strict=True)
        return program.kernel(f"imu.keep.{kind}", [*stores, (self.is_whole, self.g.one)])

    def _take_sample(self) -> Stores:
        g, stores, value, noise = self.g, [], [], []
        largest = []
        for kind, (floor, oversampling) in enumerate(zip(self.floors, self.oversampling, strict=True)):
            of = slice(kind * _AXES, (kind + 1) * _AXES)
            measured = self.measured[of]
            values = [
                there * (v - o)
                for there, v, o in zip(measured, self.values[of], self.offsets[of], strict=True)
            ]
            shown, more = floor.take(values, measured)
            stores += more
            factor, more = oversampling.take(self.t, measured)
            factor = g.where_less(0.5, self.takes_given, 1.0, factor)
            variances = [
                g.where_less(0.5, self.takes_given, least, v)
                for least, v in zip(floor.least, shown, strict=True)
            ]
            largest.append(g.max(g.max(variances[0], variances[1]), variances[2]))
            value += values
            noise += [factor * (v + m) for v, m in zip(variances, self.of_model[of], strict=True)]
            stores += more
        acceleration, variance, more = self.shaking.expire(self.t)
        stores += [*more, *zip(self.model.shaking, acceleration, strict=True)]
        noise = [g.where_less(0.5, there, n, MISSING) for there, n in zip(self.measured, noise, strict=True)]
        stores += zip(self.alone, noise[_AXES:], strict=True)
        noise[_AXES:] = self._add_shaking(noise[_AXES:], variance)
        motion = self._find_motion(value)
        stores += zip(self.value, value, strict=True)
        stores += zip((self.of_gyro, self.of_accel), largest, strict=True)
        stores += zip(self.motion, motion, strict=True)
        stores += self._average(motion)
        stores += self._average_forces(value[_AXES:])
        stores += zip(self.free, self._free_of_errors(value), strict=True)
        stores += zip(self.noise, noise, strict=True)
        return stores

    def _add_shaking(self, noise: Sequence[Atom], shaking: Sequence[Atom]) -> list[Atom]:
        """Variances of the accelerometers, including shaking and road at the place of the IMU."""
        roll, pitch = shaking
        x, y, z = self.model.models.imu
        ahead, left = z * z * pitch, z * z * roll
        up = y * y * roll + x * x * pitch + self.excess.variance
        return [
            n + r.x * r.x * ahead + r.y * r.y * left + r.z * r.z * up
            for n, r in zip(noise, self.axes, strict=True)
        ]

    def _find_motion(self, value: Sequence[Atom]) -> list[Atom]:
        """Yaw rate, lateral and forward force, vehicle axes, without biases; then the subtracted biases."""
        model, g = self.model, self.g
        motion, subtracted = [], []
        for kind, group, direction in (
            (0, GYRO_BIAS, "z"),
            (1, ACCELEROMETER_BIAS, "y"),
            (1, ACCELEROMETER_BIAS, "x"),
        ):
            of = slice(kind * _AXES, (kind + 1) * _AXES)
            total, less = g.zero, g.zero
            for r, v, b, there in zip(
                self.axes, value[of], model.estimates(group), self.measured[of], strict=True
            ):
                share = getattr(r, direction)
                total, less = total + share * v, less + share * b * there
            motion.append(total - less)
            subtracted.append(less)
        return motion + subtracted

    def _free_of_errors(self, value: Sequence[Atom]) -> list[Atom]:
        """Angular rates and specific forces in vehicle axes, without the estimated biases and misalignment."""
        free = []
        for kind, group in enumerate((GYRO_BIAS, ACCELEROMETER_BIAS)):
            aligned = self._align(value[kind * _AXES : (kind + 1) * _AXES], group)
            free += [self._turn(aligned, direction) for direction in "xyz"]
        return free

    def _align(self, measured: Sequence[Atom], bias: Group) -> list[Atom]:
        """A vector in the configured axes of the IMU, without the estimated biases and rotation."""
        unbiased = [v - b for v, b in zip(measured, self.model.estimates(bias), strict=True)]
        return [v - misalign(self.model, unbiased, k)[0] for k, v in enumerate(unbiased)]

    def _average(self, motion: Sequence[Atom]) -> Stores:
        """Means of yaw rate, forward and lateral acceleration, without gravity, including biases."""
        g, now, t = self.g, self.model.now, self.t
        yaw_rate, left, ahead, *biases = motion
        (removed,) = self.model.program.arrays["gravity_removed"]
        gravity = (1.0 - removed) * self.gravity
        there = self.measured[_AXES - 1] * self.measured[_AXES] * self.measured[_AXES + 1]
        values = (
            t,
            yaw_rate + biases[0],
            ahead + biases[2] - gravity * now[V1Z],
            left + biases[1] - gravity * now[V2Z],
        )
        count, begun, last, *sums = self.summed
        gap = t - last
        # 1 if the sample follows the previous one, so that the mean continues.
        goes_on = g.where_less(0.0, gap, g.where_less(gap, _LONGEST_GAP, g.min(count, 1.0), 0.0), 0.0)
        number = goes_on * count + 1.0
        begins = g.where_less(0.5, goes_on, begun, t)
        totals = [g.where_less(0.5, goes_on, s, 0.0) + v for s, v in zip(sums, values, strict=True)]
        is_over = g.where_less(t - begins, _MEAN, 0.0, there)
        stores: Stores = [(count, number * (1.0 - is_over)), (begun, begins), (last, t)]
        stores += zip(sums, totals, strict=True)
        stores = [(old, g.where_less(0.5, there, new, old)) for old, new in stores]
        return [*stores, *zip(self.means, [is_over, *(s / number for s in totals)], strict=True)]

    def _average_forces(self, forces: Sequence[Atom]) -> Stores:
        """Exponential means of the specific forces, and the means of these.

        Rotations that have been found are removed, so that gravity does not count as a force across a rolled IMU.
        """
        g, last = self.g, self.summed[2]
        share = g.min(g.max((self.t - last) * (1.0 / _FORCES_TIME), 0.0), 1.0)
        once, twice = self.forces[:_AXES], self.forces[_AXES:]
        aligned, stores = self._align(forces, ACCELEROMETER_BIAS), []
        for k, (force, there) in enumerate(zip(aligned, self.measured[_AXES:], strict=True)):
            first = once[k] + there * share * (force - once[k])
            second = twice[k] + there * share * (first - twice[k])
            stores += [(once[k], first), (twice[k], second)]
        return stores

    def _turn(self, components: Sequence[Atom], direction: str) -> Atom:
        """Component, in a direction of the vehicle, of a vector measured in the IMU's axes."""
        shares = [getattr(r, direction) for r in self.axes]
        return calc_dot(self.g, shares, components)

    def _take_rates(self) -> Stores:
        g, model, t = self.g, self.model, self.t
        now, innovation = model.now, self.innovation
        complete = self.measured[0] * self.measured[1] * self.measured[2]
        taken = complete * self.is_whole
        by_roll, by_pitch = self._turn(innovation, "x"), self._turn(innovation, "y")
        rates = [self._turn(self.value[:_AXES], direction) for direction in "xy"]
        differences, stores = self.past.take(
            t, (by_roll, by_pitch), rates, (now[ALPHA_X], now[ALPHA_Y]), taken
        )
        acceleration, variance, more = self.shaking.take(t, differences, self.of_gyro)
        stores += [*more, *zip(model.shaking, acceleration, strict=True)]
        stores += self.road.take_rates(t, differences, self.of_gyro)
        stores += zip(self.noise[_AXES:], self._add_shaking(self.alone, variance), strict=True)
        interval = t - self.measured_at
        follows = g.where_less(0.0, interval, g.where_less(interval, OLD, 1.0, 0.0), 0.0)
        return [
            *stores,
            *self._take_turning(interval, follows),
            *self._take_swaying(interval, follows),
            *self._take_rolling(interval, follows),
            *self._turn_heading(by_pitch, taken * follows),
        ]

    def _take_turning(self, interval: Atom, follows: Atom) -> Stores:
        """Noise of the yaw acceleration, from the component of the innovations about the vertical axis."""
        g = self.g
        shares = [r.z * there for r, there in zip(self.axes, self.measured, strict=False)]
        innovation, expected, of_noise = g.zero, g.zero, g.zero
        for share, nu, s, n in zip(shares, self.innovation, self.expected, self.noise, strict=False):
            innovation = innovation + share * nu
            expected, of_noise = expected + share * share * s, of_noise + share * share * n
        # Without the vertical axis, the others measure almost nothing of it.
        sees = g.where_less(0.5, sum((s * s for s in shares), g.zero), follows, 0.0)
        density, stores = self.turning.take(
            innovation, expected, of_noise, interval, self.least_turning, sees
        )
        return [
            *stores,
            (self.measured_at, self.t),
            (self.yaw_density, self.least_turning + density),
        ]

    def _take_swaying(self, interval: Atom, follows: Atom) -> Stores:
        """The mean square of the model's roll and pitch rate, which contains no error of the IMU."""
        now, found = self.model.now, self.model.swaying
        square = now[V1Z_RATE] * now[V1Z_RATE] + now[V2Z_RATE] * now[V2Z_RATE]
        return [(found, found + follows * interval / _SWAYING_TIME * (square - found))]

    def _take_rolling(self, interval: Atom, follows: Atom) -> Stores:
        """Means of the measured roll and pitch rate, without estimated biases; and their mean square."""
        g, step = self.g, follows * interval
        rates = [x - b for x, b in zip(self.value[:_AXES], self.model.estimates(GYRO_BIAS), strict=True)]
        *means, square = self.model.program.arrays[ROLLING]
        share = g.min(step * (1.0 / _ROLLING_TIME), 1.0)
        now = [m + share * (self._turn(rates, axis) - m) for m, axis in zip(means, "xy", strict=True)]
        found = square + g.min(step * (1.0 / _HILLS_TIME), 1.0) * (now[0] * now[0] + now[1] * now[1] - square)
        return [*zip(means, now, strict=True), (square, found)]

    def _turn_heading(self, by_pitch: Atom, taken: Atom) -> Stores:
        """Turn the heading, but not the motion over ground, by the excess of the measured pitch rate.

        ψ̇ = (ω_y sin φ + ω_z cos φ)/cos θ. The model's ω_y results from its own springs: in turns of other
        cars it makes ψ̇ wrong by 0.4 %, which courses would take for a scale of the gyroscopes.
        """
        model, now, states = self.model, self.model.now, self.model.states
        (scale,) = model.estimates(ACCELEROMETER_SCALE)
        # Roll of the model, and additional roll by the scale of the accelerometers.
        roll = now[V2Z] + scale * now[AHEAD] * now[YAW_RATE] / self.gravity
        angle = taken * by_pitch * roll * (self.t - self.measured_at)
        yaw, left = model.errors[states.index(ATTITUDE, "yaw")], model.errors[states.index(VELOCITY, "left")]
        return [(yaw, yaw + angle), (left, left - angle * now[AHEAD])]

    def _take_forces(self) -> Stores:
        heave = self._turn(self.innovation, "z")
        expected = calc_dot(self.g, [r.z * r.z for r in self.axes], self.expected)
        # Unmodelled vertical acceleration that the filter has found is lacking in the model's travel as well.
        up = self.model.estimates(UNMODELLED)[UNMODELLED.elements.index("up")]
        left = self._turn(self.innovation, "y")
        return [
            *self.excess.take(heave, expected),
            *self.road.take(self.t, heave + up, left, self.of_accel, self.model.now[AHEAD], self.is_whole),
        ]


class ImuStatistics:
    """Runs the kernels of a filter's car."""

    def __init__(self, f: ObservedFilter) -> None:
        car = f.car
        self._view, self._filter = car.view, f
        self._configure, self._run_sample, self._run_rates, self._run_forces = (
            car.bind(KernelHandle(f"imu.{name}")) for name in ("configure", "sample", "rates", "forces")
        )
        begin, between, end = (KernelHandle(f"imu.{name}") for name in ("begin", "between", "end"))
        self._chain = f.make_chain(
            [begin, UpdateLink("imu.gyro", _AXES), between, UpdateLink("imu.accel", _AXES), end]
        )
        given, innovation, found, free, noise, results = (
            PlainNumbers(car.layout, car.workspace, **counts)
            for counts in (_GIVEN, _INNOVATION, _FOUND, _FREE, _NOISE, _RESULTS)
        )
        self._write_sample, self._write_innovation = given.write, innovation.write
        self.read_found = found.read
        """(19,): the sample less known biases, by axis (6,) of the IMU; largest variances of the noise of
        gyroscopes and of accelerometers; yaw rate (rad/s), lateral and forward specific force (m/s²) in
        vehicle axes; the estimated biases subtracted from these three; 1 if means are complete now; and these
        means: time, yaw rate, forward and lateral acceleration, without gravity, including biases."""
        self.read_free = free.read
        """(6,) of a complete sample: angular rates (rad/s) and specific forces (m/s²) in vehicle axes,
        without known or estimated errors."""
        self.read_noise = noise.read
        """(6,) variances for the updates; those of accelerometers include shaking found from the rates."""
        self.read_results = results.read
        """(14,) results of `run_chain`: innovations (3,) of the gyroscopes, their variances (3,) and NIS; the
        same for the accelerometers."""
        self.reset()

    def configure(
        self,
        least: Sequence[float],
        of_model: Sequence[float],
        offsets: Sequence[float],
        limits: Sequence[float],
        takes_given: bool,
    ) -> None:
        """Take settings by axis, (6,) each, gyroscopes first.

        `least`: variances of a sample; `of_model`: variances of the model's error; `offsets`: known biases.
        `limits`: NIS of gyroscopes and of accelerometers above which components are examined one by one.
        `takes_given`: whether the variances are used as given, even if samples show more.
        """
        self.set_least(least)
        self._view("imu.model_variances")[:], self._view("imu.offsets")[:] = of_model, offsets
        self._view("imu.limits")[:], self._view("imu.takes_given")[:] = limits, takes_given

    def set_least(self, variances: Sequence[float]) -> None:
        """Set the variances of a sample by axis (6,), gyroscopes first, unless samples show more."""
        gyroscopes, accelerometers = self._view("imu.gyro.least"), self._view("imu.accel.least")
        gyroscopes[:], accelerometers[:] = variances[:_AXES], variances[_AXES:]

    def set_least_turning(self, density: float) -> None:
        """Set the least noise of the yaw acceleration, (rad/s²)²/Hz; the filter adds the noise found."""
        self._view("imu.least_turning")[:] = density
        self._configure()

    def reset(self) -> None:
        """Forget all measurements."""
        for names, value in ((_ZERO, 0.0), (_TIMES, LONG_AGO)):
            for name in names:
                self._view(name)[:] = value
        self._view(ROLLING)[2] = _UNKNOWN_ROAD**2

    def take_sample(self, t: float, values: Sequence[float], measured: Sequence[float]) -> None:
        """Take a sample at t (s) by axis, (6,) rad/s and m/s², gyroscopes first; `measured`: 1, or 0 if not."""
        self._write_sample(t, *values, *measured)
        self._run_sample()

    def run_chain(self, t_ns: int, t: float, values: Sequence[float], measured: Sequence[float]) -> int:
        """Process such a sample completely in one call, as far as it is within the limits.

        Returns the progress: below SAMPLE_DONE, nothing is done; from RATES_DONE on, the gyroscopes have
        corrected the filter, and `take_rates` is done.
        """
        self._write_sample(t, *values, *measured)
        return self._filter.run_chain(t_ns, self._chain)

    def take_rates(self, is_whole: bool, innovation: Sequence[float], expected: Sequence[float]) -> None:
        """Take innovations (3,) of the sample's gyroscopes and their variances; `is_whole`: none was rejected."""
        self._write_innovation(is_whole, *innovation, *expected)
        self._run_rates()

    def take_forces(self, is_whole: bool, innovation: Sequence[float], expected: Sequence[float]) -> None:
        """Take the same of the accelerometers."""
        self._write_innovation(is_whole, *innovation, *expected)
        self._run_forces()


class AddedTravel:
    """Addition of an uneven road to the suspensions' outputs of a car."""

    def __init__(self, car: Car, vehicle: Vehicle) -> None:
        for name, values in calc_road_arrays(vehicle, _ROAD).items():
            car.view(name)[:] = values
        self._run = car.bind(KernelHandle("imu.travel"))
        self._write = PlainNumbers(car.layout, car.workspace, **{"imu.now": 1}).write
        self._read = PlainNumbers(car.layout, car.workspace, **{"imu.added": len(NOTHING)}).read

    def add(self, t: float) -> None:
        """Add it, for the time t (s), to the car's outputs in the workspace."""
        self._write(t)
        self._run()

    def calc(self, t: float) -> tuple[float, ...]:
        """(12,) addition at t (s) to the columns of an estimate at ROAD_PLACES."""
        self.add(t)
        return self._read()

    def read(self) -> tuple[float, ...]:
        """(12,) last addition."""
        return self._read()
