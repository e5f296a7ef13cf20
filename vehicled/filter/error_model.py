"""Error states of a car in its compiled program: kernels for propagation, observations, correction and output."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from vehicled.filter.considered import Considered, add_considered
from vehicled.filter.covariance import CovarianceKernels
from vehicled.filter.error_dynamics import (
    ErrorDynamics,
    calc_free_share,
    calc_slipping,
    calc_slips_by_drive,
    combine,
    count_pairs,
    share_drive,
)
from vehicled.filter.factors import calc_share
from vehicled.filter.history_kernels import add_history
from vehicled.filter.late_kernels import add_late
from vehicled.filter.plant_noise import ErrorNoise
from vehicled.filter.settings import WITH_TYRES
from vehicled.filter.state_table import StateVector
from vehicled.filter.states import (
    ACCELERATING,
    ANGULAR_RATE,
    ATTITUDE,
    COORDINATES,
    DRIVE_FORCE,
    POSITION,
    ROLLING_RADIUS,
    SUSPENSION,
    TYRE_ERROR,
    TYRE_FORCE,
    UNMODELLED,
    VELOCITY,
    WHEEL_ANGLE,
    WHEEL_SLIP,
    Group,
)
from vehicled.filter.steering_error import calc_angle, calc_rods
from vehicled.filter.structure import CHART_PAIRS, PROCESS, ChassisReading, FilterKernels, Structure
from vehicled.messages import WHEELS
from vehicled.multibody.ali3p import add_forward_euler
from vehicled.symbolic.graph import Atom
from vehicled.symbolic.loop import Call, Routine
from vehicled.symbolic.program import KernelHandle, Program, RoutineHandle
from vehicled.vehicle.arrays import ADJUSTMENTS, AHEAD, COMPONENTS, POSE, YAW
from vehicled.vehicle.outputs import Parts
from vehicled.vehicle.sensor_models import add_sensor_models

SensorError = Callable[[int, Sequence[Atom]], tuple[Atom, dict[int, Atom]]]
"""Maps component and true readings to the sensor's error in that component, and its row by slow states."""
_LEAST_VARIANCE = 1e-18
"""m²: so that a correlation is finite."""
_STANDING = 1.0
"""m/s: up to this speed a car stands, and from twice that on it drives."""


class ErrorModel:
    """Adds the kernels of one structure to a car's program.

    Sources build their measurement models on its public attributes and `observe…` methods, between its construction
    and `finish`.
    """

    def __init__(self, program: Program, parts: Parts, structure: Structure) -> None:
        kind = self._kind = structure.kind
        self.exact, self.forces = kind in WITH_TYRES, kind == "errorEKF_FE"
        self.program, self.parts, self.g = program, parts, program.graph
        assert parts.kernels is not None
        self._car_kernels = parts.kernels
        self.states = states = StateVector(structure.groups)
        self.pairs = count_pairs(states)
        self.models = add_sensor_models(program, parts)
        self._covariance = CovarianceKernels(program, len(states), COMPONENTS)
        self.errors = self._covariance.x  # adding to them makes a correction
        self.slow = states.count_of_car
        """Index of the first slow state: these have their own estimates (`extra`), not in the simulation."""
        self._extra = program.array("extra", len(states) - self.slow)
        self.now = program.array("now", len(POSE))
        self._now_wheels = program.array("now_wheels", 2, 1)
        self._accelerating = [i for group in ACCELERATING for i in states.places(group)]
        self.rolling = program.array("rolling", 2 * len(WHEELS))
        self.noise = ErrorNoise(program, states, self.rolling, self.forces)
        self._processes = {
            g.name: program.array(f"{PROCESS}{g.name}", 1 + len(g.elements)) for g in states.fading
        }
        self._mass, self._yaw_inertia = self.models.inertia
        (self._h,), (self.rod_per_angle,) = program.array("h", 1), program.array("rod_per_angle", 1)
        self.pose = self.models.pose
        self.shaking, (self.road_lift,) = program.array("shaking", 2), program.array("road_lift", 1)
        """Roll and pitch acceleration missing in the model, rad/s²; upward acceleration by a curved road, m/s²."""
        (self.swaying,) = program.array("swaying", 1)
        """Mean square of the model's roll and pitch rate within the last second, (rad/s)²."""
        self.measured_rates = program.array("measured_rates", 4)
        """1, or 0 if they are not measured; and the angular velocity by the gyroscopes at the time of `pose`, IMU
        axes, rad/s, from which their estimated bias still has to be subtracted."""
        self.past_wheels = program.array("past_wheels", 2 * len(WHEELS))
        self.since = program.array("since", 2 * self.pairs + len(self._accelerating))
        (self.age,), (self.lead,) = program.array("age", 1), program.array("lead", 1)
        """Time by which an observation is later than the last step, s: positive with a negative latency."""
        (self.latency,), (self.unsteered,) = program.array("latency", 1), program.array("unsteered", 1)
        """Estimated latency that is subtracted from an observation's time, s; 1 without steering, else 0."""
        poses = self.pose, self.past_wheels
        self._history = add_history(program, poses, self.since, self.pairs, self.age)
        tyres = self.models.tyres if self.exact else None
        (drive,) = self.estimates(DRIVE_FORCE)
        self._slips, self._grip = (share_drive(program, drive, what) for what in ("slip", "force"))
        self._growths = program.array("slip_growths", 1, 1)
        by_drive = calc_slips_by_drive(self.g, drive, self._slips, program.lanes("slip_growths")[0])
        turned = self.rolling, by_drive
        steering = self.unsteered, calc_angle(self)
        self._dynamics = ErrorDynamics(self.g, states, *turned, tyres, self.forces, *steering)
        self._drift_now, self._drift_then = map(self._dynamics.calc_drift, (self.now, self.pose))
        self._observations: dict[str, KernelHandle] = {}
        self._gated_updates: dict[str, KernelHandle] = {}
        self._take_back: dict[str, KernelHandle] = {}
        self._readings: dict[str, ChassisReading] = {}
        self.inclined: list[tuple[Atom, Atom]] = []  # outputs, and their values as changed by sensors
        self._read_state = self._add_read_state()
        self._propagate = self._add_propagation(unscented=kind == "UKF")

    def finish(self) -> FilterKernels:
        """Add the kernels that depend on all observations; returns all kernels."""
        is_unscented = self._kind == "UKF"
        apply = self._add_correction()
        output, sigmas = self._add_output()
        adjust = self._add_adjustment()
        return FilterKernels(
            read_state=self._read_state,
            whole_step=self._add_whole_step(adjust, self._propagate),
            history=self._history,
            propagate=self._propagate,
            apply=apply,
            late=add_late(self.program, self._covariance, self._places),
            sum_up=self._covariance.add_sum("now"),
            output=output,
            sigmas=sigmas,
            adjust=adjust,
            drift=self._add_drift() if is_unscented else None,
            densities=self._add_densities() if is_unscented else None,
            euler=add_forward_euler(self.parts.step) if self._kind == "DEKF" else None,
            updates=self._covariance.updates,
            evaluations=self._covariance.add_evaluations() if is_unscented else (),
            observations=self._observations,
            gated_updates=self._gated_updates,
            take_back=self._take_back,
            readings=self._readings,
            sensors=self.models.kernels,
        )

    # -- states --------------------------------------------------------------------------------------------

    def estimates(self, group: Group) -> list[Atom]:
        """Present estimates of a group of slow states; zero if it is left out."""
        if group not in self.states:
            return [self.g.zero] * len(group.elements)
        place = self.states[group]
        return self._extra[place.start - self.slow : place.stop - self.slow]

    def _add_read_state(self) -> KernelHandle:
        """Kernel `read_state`.

        Writes the present pose, with continuous yaw, and the wheels' angles and rates into `now`.
        """
        g, found = self.g, list(self.models.now)
        turned = found[YAW] - self.now[YAW]
        found[YAW] = self.now[YAW] + g.atan2(g.sin(turned), g.cos(turned))
        stores = [*zip(self.now, found, strict=True)]
        rate = self.parts.wheel_rate * self.parts.wheel_scale
        stores += zip(self._now_wheels, (self.parts.wheel_angle, rate), strict=True)
        stores += zip(self._growths, (self.parts.slip_growth,), strict=True)
        return self.program.kernel("read_state", stores)

    # -- propagation ---------------------------------------------------------------------------------------

    def _add_propagation(self, unscented: bool) -> KernelHandle:
        """Sequence `propagate`, which leaves F of the last step in `transition`.

        For sigma points, which propagate by themselves, kernel `linear` instead: it writes F and the noise of
        Gauss–Markov states to `transition` (n, n) and `fading_noise` (n,).
        """
        g, n, h = self.g, len(self.states), self._h
        decays: dict[int, Atom] = {}
        lost: list[Atom] = [g.zero] * n
        for group in self.states.fading:
            time, *sigmas = self._processes[group.name]
            decay = g.exp(-(h / time))
            for i, sigma in zip(self.states.places(group), sigmas, strict=True):
                decays[i] = decay
                lost[i] = (1.0 - decay * decay) * sigma * sigma
        transition = self._dynamics.calc_transition(self.now, h, decays)
        kept = [(e, e * decays.get(self.slow + k, g.one)) for k, e in enumerate(self._extra)]
        tyres = self.models.kernels.observe_tyres
        if unscented:
            self._places = [(i, j) for i in range(n) for j in range(n)]
            array = self.program.array("transition", n * n)
            stores = [
                (place, transition[i].get(j, g.zero))
                for place, (i, j) in zip(array, self._places, strict=True)
            ]
            stores += zip(self.program.array("fading_noise", n), lost, strict=True)
            linear = self.program.kernel("linear", [*stores, *kept])
            return self.program.sequence("propagate", self._read_state, tyres, linear)
        noise = self.noise.calc_covariance(h, self.now)
        for i, more in enumerate(lost):
            noise[i, i] = noise[i, i] + more
        covariance, self._places = self._covariance.propagate(transition, noise, kept)
        return self.program.sequence("propagate", self._read_state, tyres, covariance)

    def _add_whole_step(self, adjust: KernelHandle, propagate: KernelHandle) -> RoutineHandle:
        """Routine `whole_step`: a step of the car, with the kernels before and after it."""
        step = self.parts.step.routine
        whole = Routine("whole_step", step.arguments, (Call(adjust), *step.body, Call(propagate)))
        self.program.routines.append(whole)
        return whole.handle

    # -- observations --------------------------------------------------------------------------------------

    def observe(
        self,
        name: str,
        predicted: Sequence[Atom],
        rows: Sequence[dict[int, Atom]],
        *,
        noise: Sequence[Atom] | None = None,
        angle: bool = False,
        sensor: str | None = None,
        considered: Considered | None = None,
    ) -> None:
        """Add an observation: predicted reading, Jacobian by present errors, and noise added to its own.

        `angle`: the innovation is taken within half a turn; `sensor`: sensor model of the chassis for sigma points,
        if it predicts the reading except for slow errors; `considered`: states that the observation does not correct.
        """
        if sensor is not None:
            self._readings[name] = ChassisReading(sensor, angle)
        program, m = self.program, len(rows)
        kernel = self._covariance.observe(f"observe.{name}", predicted, rows, noise=noise, angle=angle)
        gate = self._covariance.gates[m - 1]
        if considered is not None and considered.shares:
            added = add_considered(program, self._covariance, name, m, kernel, considered)
            kernel, gate, self._take_back[name] = added.evaluate, added.gate, added.take_back
        self._observations[name] = kernel
        self._gated_updates[name] = program.sequence(f"update.{name}", kernel, gate)

    def observe_chassis(
        self, name: str, sensor: str, error: SensorError | None = None, angle: bool = False
    ) -> None:
        """Add an observation by one of the chassis' sensor models (a key of `models.readings`) at the time of `pose`.

        `error`: error of a component due to the sensor's own slow errors.
        """
        self.observe_readings(name, self.models.readings[sensor], error, angle, sensor)

    def observe_readings(
        self,
        name: str,
        readings: Sequence[Atom],
        error: SensorError | None = None,
        angle: bool = False,
        sensor: str | None = None,
        considered: Considered | None = None,
    ) -> None:
        """Add an observation of expressions of the chassis' motion at the time of `pose`; see `observe_chassis`."""
        predicted, rows, noise = [], [], []
        jacobians = [self.models.differentiate(reading) for reading in readings]
        values = [a + self.calc_corrected(by) for a, by in zip(readings, jacobians, strict=True)]
        for k, jacobian in enumerate(jacobians):
            row, late = self.to_present(jacobian)
            value = values[k]
            if error is not None:
                more, by_error = error(k, values)
                value = value + more
                row |= by_error
            predicted.append(value)
            rows.append(row)
            noise.append(late)
        self.observe(name, predicted, rows, noise=noise, angle=angle, sensor=sensor, considered=considered)

    def calc_change(self, jacobian: Sequence[Atom]) -> Atom:
        """Rate of change of a reading, per second, at `pose`: from its row (12,) by chart and rates."""
        total = self.g.zero
        for by, rate in zip(jacobian, self.models.motion, strict=True):
            total = total + by * rate
        return total

    def calc_corrected(self, jacobian: Sequence[Atom]) -> Atom:
        """Change of a reading by corrections made since the time of `pose`."""
        total = self.g.zero
        for k in range(CHART_PAIRS):
            total = (
                total + jacobian[k] * self.since[k] + jacobian[CHART_PAIRS + k] * self.since[self.pairs + k]
            )
        return total

    def calc_free_share(self, ahead: Atom) -> Atom:
        """Share of a lateral force that accelerates the car, at a speed ahead, m/s."""
        return calc_free_share(self.g, ahead)

    def calc_slipping(self, ahead: Atom) -> Atom:
        """1; 0 at a forward speed, m/s, at which tyres stick."""
        return calc_slipping(self.g, ahead)

    def calc_variance(self, places: Sequence[int]) -> Atom:
        """Variance of the sum of some states."""
        p = self._covariance.p
        return sum((p[i, j] for i in places for j in places), self.g.zero)

    def discount(self, value: Atom, small: float) -> Atom:
        """Reduce a sensitivity while it is small, when it is mostly noise, with which innovations correlate."""
        square = value * value
        return value * (square / (square + small * small))

    def get_later(self, group: Group) -> list[Atom]:
        """Change of a group of ACCELERATING by corrections that `pose` does not have; zero if left out."""
        if group not in self.states:
            return [self.g.zero] * len(group.elements)
        begin = self._accelerating.index(self.states[group].start)
        part = slice(begin, begin + len(group.elements))
        since, lacking = self.since[2 * self.pairs :], self.program.arrays["lacking"]
        return [a + b for a, b in zip(since[part], lacking[part], strict=True)]

    def to_present(self, jacobian: Sequence[Atom]) -> tuple[dict[int, Atom], Atom]:
        """Convert a row by past errors, (12,) chart and rates, to present errors: z(then) = z(now) − age · drift.

        Also returns the variance that white noise on the rates since then adds.
        """
        g, age = self.g, self.age
        # Only the chart drifts into these readings: those of wheels have rows of their own (`_wheel_drift`).
        drift = combine(jacobian[:CHART_PAIRS], self._drift_then, g.zero)
        row: dict[int, Atom] = {}
        late = g.zero
        third = age * age * age * (1.0 / 3.0)
        for k in range(CHART_PAIRS):
            by_rate = drift.get(self.pairs + k, g.zero)
            row[k] = jacobian[k] - age * drift.get(k, g.zero)
            row[self.pairs + k] = jacobian[CHART_PAIRS + k] - age * by_rate
            late = late + by_rate * by_rate * (self.noise.calc_density(self.pairs + k, self.pose) * third)
        return {k: a for k, a in row.items() if a is not g.zero}, late

    def wheel_angle(self, k: int) -> tuple[Atom, dict[int, Atom]]:
        """Angle of a wheel relative to its knuckle at the time of `pose`, and its row."""
        row = {place: -(self.age * value) for place, value in self._wheel_drift(k).items()}
        place = self.states[WHEEL_ANGLE].start + k
        return self.past_wheels[k] + self.since[place], row | {place: self.g.one}

    def wheel_rate(self, k: int) -> tuple[Atom, dict[int, Atom]]:
        """Rate of that angle, and its row."""
        row = self._wheel_drift(k)
        turning = self.past_wheels[len(WHEELS) + k]
        for place, value in row.items():
            if place < self.slow:
                turning = turning + value * self.since[place]
        return turning, row

    def _wheel_drift(self, k: int) -> dict[int, Atom]:
        drift = self._drift_then[self.states[WHEEL_ANGLE].start + k]
        slip = self.states[WHEEL_SLIP].start + k
        return {slip: drift[slip], **drift}

    # -- correction and output -----------------------------------------------------------------------------

    def _add_correction(self) -> KernelHandle:
        """Add kernel `take_errors`, and the sequence `apply`, which corrects the car with it.

        x is written to `correction` and `corner_correction` for the car's kernel `correct`, to `extra`, and to
        `moved` = (Δz, the drift of z by it, Δż, ΔACCELERATING) for the history; x ← 0.
        """
        g, program, x, s = self.g, self.program, self._covariance.x, self.states
        correction, (carry,) = program.arrays["correction"], program.arrays["carry"]
        corners = program.lanes("corner_correction")
        moved = program.arrays["moved"]
        drift = [_sum_products(row, x) for row in self._drift_now]
        chart = s[COORDINATES[0]].start, CHART_PAIRS
        rates = slice(self.pairs, self.pairs + CHART_PAIRS)
        changes = [*x[chart[0] : chart[1]], *x[rates]]
        stores = [*zip(correction, changes, strict=True), (carry, g.one)]
        stores += zip(corners[0], x[s[WHEEL_ANGLE]], strict=True)
        # The simulated wheels have radii and slips of their own: they would undo other corrections. At low speed they
        # act like springs, which measurements excite that are late by half a period.
        rolling = [s.index(VELOCITY, "ahead"), s.index(ANGULAR_RATE, "yaw")]
        own = [{j: row[j] for j in rolling} for row in self._drift_now[s[WHEEL_ANGLE]]]
        stores += zip(corners[1], [_sum_products(row, x) for row in own], strict=True)
        limits = [group.limit for group in s.groups for _ in group.elements][self.slow :]
        for e, d, limit in zip(self._extra, x[self.slow :], limits, strict=True):
            stores.append((e, e + d if limit is None else g.clamp(e + d, -limit, limit)))
        rates_of_all, more = x[self.pairs : 2 * self.pairs], [x[i] for i in self._accelerating]
        stores += zip(moved, [*x[: self.pairs], *drift, *rates_of_all, *more], strict=True)
        if TYRE_FORCE in s:
            axles = zip(self.models.tyres.deflection, s.places(TYRE_FORCE), strict=True)
            front, rear = (by * x[i] for by, i in axles)
            stores += self.parts.deflect_tyres(front + rear)
        kept = [i for group in SUSPENSION if group in s for i in s.places(group)]
        stores += [(x[i], g.zero) for i in range(len(s)) if i not in kept]
        take = program.kernel("take_errors", stores)
        history = self._history.sum_corrections
        return program.sequence("apply", take, self._car_kernels.correct, self._read_state, history)

    def _add_output(self) -> tuple[KernelHandle, KernelHandle]:
        """Add sequence `output`, which includes the car's own outputs, and kernel `sigmas`.

        `sigmas` gives the standard deviations SIGMAS at `pose`, which must be the present one, and the correlation of
        x and y. Both are NaN if the covariance is not positive definite.
        """
        g, s = self.g, self.states
        rows: list[dict[int, Atom]] = [{k: g.one} for k in (*s.places(POSITION), s.index(ATTITUDE, "yaw"))]
        for row in self.models.jacobians["body_velocity"]:
            places = (*range(CHART_PAIRS), *range(self.pairs, self.pairs + CHART_PAIRS))
            rows.append({k: a for k, a in zip(places, row, strict=True) if a is not g.zero})
        sigmas = [g.sqrt(self._covariance.variance_of(row)) for row in rows]
        # At standstill sideslip is undefined; the minimum also takes care of 0/0.
        sigmas[-1] = g.min(sigmas[-1], math.pi)
        array = self.program.array("sigmas", len(sigmas))
        x, y, _ = s.places(POSITION)
        (correlation,) = self.program.array("correlation", 1)
        sum_of_both = self._covariance.variance_of({x: g.one, y: g.one})
        product = 0.5 * (sum_of_both - sigmas[0] * sigmas[0] - sigmas[1] * sigmas[1])
        ratio = product / g.max(sigmas[0] * sigmas[1], _LEAST_VARIANCE)
        stores = [*zip(array, sigmas, strict=True), (correlation, ratio)]
        deviations = self.program.kernel("sigmas", stores)
        incline = self.program.kernel("incline", self.inclined)
        return self.program.sequence("output", self._car_kernels.report, incline, deviations), deviations

    def _add_adjustment(self) -> KernelHandle:
        """Add kernel `adjust`: effects of the slow states on the car.

        An unmeasured drive force acts on the chassis: torque on the wheels would accelerate the car only after the
        response of wheels and tyres, later than the accelerometer from which the force is estimated. The car pitches
        as by a force on the road: `drive_height`, m, is the height of its origin over the road. Slip and grip follow
        the force. Also adjusted are the rotation of the wheels and, if tyres respond in the error model, the angle of
        the front wheels and the tyres' stiffness and friction.
        """
        g, program = self.g, self.program
        (height,), (drive,) = program.array("drive_height", 1), self.estimates(DRIVE_FORCE)
        ahead, left, moment = drive, g.zero, g.zero
        if self.forces:
            share = calc_free_share(g, self.now[AHEAD])
            by_x, by_y, _, by_yaw = self.estimates(UNMODELLED)
            ahead, left, moment = ahead + by_x, share * by_y, share * by_yaw
        # At rest, slope and biases determine that force, so it must not pitch the car.
        pitching = -(self._mass * drive * height * calc_share(g, self.now[AHEAD], _STANDING))
        force = self._mass * ahead, self._mass * left, self._yaw_inertia * moment, pitching
        stores = [*zip(program.arrays["external_force"], force, strict=True)]
        adjustments = dict(zip(ADJUSTMENTS, program.lanes("adjustments"), strict=True))
        stores += zip(adjustments["wheel"], self.estimates(ROLLING_RADIUS), strict=True)
        for row, shares in ("slip", self._slips), ("along", self._grip):
            stores += zip(adjustments[row], [drive * share for share in shares], strict=True)
        if self.exact:
            by_front, by_rear, friction = self.estimates(TYRE_ERROR)
            stores += zip(adjustments["rod"], calc_rods(self), strict=True)
            stores += zip(adjustments["stiffness"], (by_front, by_front, by_rear, by_rear), strict=True)
            stores += [(place, friction) for place in adjustments["friction"]]
        return program.kernel("adjust", stores)

    def _add_drift(self) -> KernelHandle:
        """Add kernel `drift`: `drift` (6, 12), drift of the chart by errors of chart and rates at `pose`, by rows.

        And `rise` (2,), the slopes of the ground there, along the heading and to the left.
        """
        places = [*range(CHART_PAIRS), *range(self.pairs, self.pairs + CHART_PAIRS)]
        values = [self._drift_then[i].get(j, self.g.zero) for i in range(CHART_PAIRS) for j in places]
        stores = [*zip(self.program.array("drift", len(values)), values, strict=True)]
        stores += zip(self.program.array("rise", 2), self.models.rise, strict=True)
        return self.program.kernel("drift", stores)

    def _add_densities(self) -> KernelHandle:
        """Add kernel `densities`: `densities` (n,) of the plant noise, per second, at the present pose.

        Noise of Gauss–Markov slow errors is not included, but that of the suspensions is, as points move them.
        """
        values = [self.noise.calc_density(i, self.now) for i in range(len(self.states))]
        for group in (g for g in SUSPENSION if g in self.states):
            time, *sigmas = self._processes[group.name]
            for i, sigma in zip(self.states.places(group), sigmas, strict=True):
                values[i] = 2.0 / time * (sigma * sigma)
        array = self.program.array("densities", len(values))
        return self.program.kernel("densities", zip(array, values, strict=True))


def _sum_products(row: dict[int, Atom], x: Sequence[Atom]) -> Atom:
    first, *rest = (value * x[j] for j, value in row.items())
    for term in rest:
        first = first + term
    return first
