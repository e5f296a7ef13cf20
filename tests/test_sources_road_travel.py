"""Suspension travel that a road adds, by accelerations of the body: statics, energy, known roads, noise, gaps."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest
from kernel_rig import KernelRig
from vehicle_rig import G, Rig, vehicle

from vehicled.messages import ESTIMATE_COLUMNS, WHEELS
from vehicled.sources.imu.rate_differences import LONG_AGO, RateDifferences
from vehicled.sources.imu.road_preview import calc_preview
from vehicled.sources.imu.road_travel import ROAD_PLACES, RoadTravel, calc_road_arrays
from vehicled.symbolic.graph import Graph
from vehicled.symbolic.program import Program
from vehicled.vehicle.arrays import ROAD, ROAD_RATE
from vehicled.vehicle.ride import calc_road_forces, calc_travel_modes

H = 0.01
"""s between samples."""
QUIET = 1e-12, 1e-16
"""Variances of sensors without noise."""
NAME = "prototype"


class Travel(KernelRig):
    """Takes measurements of an IMU in addition to the motion of the model."""

    def __init__(self) -> None:
        program = Program(Graph())
        g, past, road = program.graph, RateDifferences(program, "past"), RoadTravel(program, "road")
        (t,) = program.array("t", 1)
        variance, *rates = program.array("rates", 5)
        differences, stores = past.take(t, (g.zero, g.zero), rates[:2], rates[2:], g.one)
        program.kernel("rates", [*stores, *road.take_rates(t, differences, variance)])
        heave, left, variance, speed = program.array("forces", 4)
        program.kernel("forces", road.take(t, heave, left, variance, speed, g.one))
        program.kernel("calc", zip(program.array("added", len(ROAD_PLACES)), road.calc(t), strict=True))
        super().__init__(program)
        for array, values in calc_road_arrays(vehicle(NAME), "road").items():
            self[array][:] = values
        self.reset()

    def reset(self) -> None:
        for array in ("road.turning", "road.state", "road.kept", "past.past"):
            self[array][:] = 0.0
        for array in ("road.times", "past.times"):
            self[array][:] = LONG_AGO

    def take_rates(
        self, t: float, rates: tuple[float, float], modelled: tuple[float, float], variance: float
    ) -> None:
        self["t"][:], self["rates"][:] = t, (variance, *rates, *modelled)
        self.run("rates")

    def take(self, t: float, heave: float, left: float, variance: float, speed: float = 0.0) -> None:
        """With a speed of zero, rear wheels do not follow the road of the front wheels."""
        self["t"][:], self["forces"][:] = t, (heave, left, variance, speed)
        self.run("forces")

    def calc(self, t: float) -> np.ndarray:
        self["t"][:] = t
        self.run("calc")
        return self["added"].copy()


def made() -> Travel:
    return Travel()


def calc(travel: Travel, t: float) -> np.ndarray:
    return travel.calc(t)


def read(found: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Deflections, rates and forces of the struts."""
    return found[:4], found[4:8], found[8:]


def run(travel: Travel, accelerations: np.ndarray, noise: tuple[float, float] = QUIET) -> np.ndarray:
    """(samples, 12) added travel one sample later, by upward, lateral, roll and pitch acceleration (samples, 4)."""
    rates = np.zeros(2)
    found = []
    for n, (heave, left, *turning) in enumerate(accelerations):
        rates += H * np.array(turning)
        travel.take_rates(n * H, tuple(rates.tolist()), (0.0, 0.0), noise[1])
        travel.take(n * H, heave, left, noise[0])
        found.append(calc(travel, (n + 1) * H))
    return np.array(found)


def test_the_added_travel_belongs_to_the_columns_of_the_suspensions():
    names = [ESTIMATE_COLUMNS[i] for i in ROAD_PLACES]
    assert names == [f"suspension.{w}.{what}" for what in ("deflection", "rate", "force") for w in WHEELS]


@pytest.mark.parametrize("k", [0, 1, 2, 3])
def test_springs_carry_a_lasting_acceleration(k):
    """Statics: stiffness times travel is the force at each wheel, and the rate is zero."""
    accelerations = np.zeros((300, 4))
    accelerations[:, k] = 1.5
    deflection, rate, force = read(run(made(), accelerations)[-1])
    car = vehicle(NAME)
    front, front_more, rear, rear_more = calc_road_forces(car)[:, k] * 1.5
    expected = np.array([front + front_more, front - front_more, rear + rear_more, rear - rear_more])
    for side, axle in ((slice(0, 2), car.front), (slice(2, 4), car.rear)):
        mode = calc_travel_modes(axle)[1 if k in (1, 2) else 0]
        assert mode.stiffness * deflection[side] == pytest.approx(expected[side], rel=1e-3)
        assert force[side] == pytest.approx(mode.strut_stiffness * deflection[side], rel=1e-3)
    assert np.abs(rate).max() < 1e-3 * np.abs(deflection).max()


def test_the_work_of_the_forces_is_the_energy_of_springs_and_dampers():
    """After a step of the force, its work is the energy in the springs plus the losses of the dampers."""
    travel = made()
    travel.take(0.0, 1.5, 0.0, QUIET[0])
    car = vehicle(NAME)
    force = calc_road_forces(car)[[0, 0, 2, 2], 0] * 1.5
    t = np.linspace(0.0, 0.04, 4001)
    found = np.array([calc(travel, x) for x in t])
    deflection, rate = found[:, :4], found[:, 4:8]
    assert np.gradient(deflection, t, axis=0)[1:-1] == pytest.approx(rate[1:-1], rel=1e-4)
    modes = [calc_travel_modes(car.axle(w))[0] for w in WHEELS]
    k, c = (np.array([getattr(m, what) for m in modes]) for what in ("stiffness", "damping"))
    work = np.trapezoid(force * rate, t, axis=0)
    kept = 0.5 * k * deflection[-1] ** 2 + np.trapezoid(c * rate**2, t, axis=0)
    assert kept == pytest.approx(work, rel=1e-6)
    assert (work > 0.0).all()


ROADS = {
    "heave": [1.0, 1.0, 1.0, 1.0],
    "roll": [1.0, -1.0, 1.0, -1.0],
    "pitch": [1.0, 1.0, -1.0, -1.0],
    "twist": [1.0, -1.0, -1.0, 1.0],
}
"""Height of the road at each wheel, over that at the front left one."""


SPEED = 15.0


@lru_cache
def drive(name: str, hertz: float, later: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Added travel found without a speed, found with it, and true, (samples, 12), on a road of that shape.

    The accelerations are those of two compiled cars, one of them on an even road. The rear wheels follow the front
    ones `later` s later.
    """
    rigs = [Rig(vehicle(NAME)).roll(SPEED) for _ in range(2)]
    cars = [rig.car for rig in rigs]
    shape, w, h = np.array(ROADS[name]), 2.0 * np.pi * hertz, 1e-3
    lag = np.array([0.0, 0.0, later, later])
    travels, found, true = (made(), made()), [], []
    for n in range(1, 3001):
        t = n * h
        grown = 0.004 * min(t, 1.0)
        cars[1].corner_inputs[ROAD] = grown * np.sin(w * (t - lag)) * shape
        cars[1].corner_inputs[ROAD_RATE] = grown * w * np.cos(w * (t - lag)) * shape
        rows = []
        for car in cars:
            car.step(h)
            car.report()
            rows.append(
                np.concatenate(
                    [car.corner_output(f"suspension.{q}") for q in ("deflection", "rate", "force")]
                )
            )
        if n % 10 == 0:
            (even, rough) = cars
            turning = tuple(rough.output(x) for x in ("wx", "wy"))
            roll = np.sin(rough.output("roll")) - np.sin(even.output("roll"))
            left = rough.output("ay") - even.output("ay") + G * roll
            for travel, speed in zip(travels, (0.0, SPEED), strict=True):
                travel.take_rates(t, turning, (0.0, 0.0), QUIET[1])
                travel.take(t, rough.output("az") - even.output("az"), left, QUIET[0], speed)
            if t > 1.5:
                found.append([calc(travel, t) for travel in travels])
                true.append(rows[1] - rows[0])
    return *np.swapaxes(found, 0, 1), np.array(true)


@pytest.mark.parametrize("name", ["heave", "roll", "pitch"])
@pytest.mark.parametrize("hertz", [0.7, 1.5, 3.0])
def test_a_road_that_moves_the_body_is_followed(name, hertz):
    """Within 20 % for dynamics that are not of first order, plus the delay of one sample of 10 ms."""
    found, _, true = drive(name, hertz)
    for part in (slice(0, 4), slice(4, 8), slice(8, 12)):
        error, size = found[:, part] - true[:, part], np.std(true[:, part])
        assert np.std(error) < (0.2 + 2.0 * np.pi * hertz * H) * size
    assert np.std(true[:, :4]) > 2e-4


@pytest.mark.parametrize("hertz", [1.5, 3.0])
def test_a_road_that_twists_the_car_is_not_followed_without_a_speed(hertz):
    """Twist moves the body only because the axles differ."""
    found, _, true = drive("twist", hertz)
    assert np.std(found[:, :4]) < 0.25 * np.std(true[:, :4])
    assert np.std(true[:, :4]) > 1e-3


BASE = float(calc_preview(vehicle(NAME))[0])


@pytest.mark.parametrize("lengths", [0.15, 0.25, 0.7])
def test_rear_wheels_follow_the_road_that_front_wheels_have_driven_over(lengths):
    """By `lengths`, wheelbases per wave, other than 0.5. More than half of the error disappears."""
    before, after, true = drive("roll", lengths * SPEED / BASE, BASE / SPEED)
    for part in (slice(0, 4), slice(8, 12)):
        assert np.std(after[:, part] - true[:, part]) < 0.45 * np.std(before[:, part] - true[:, part])


def test_a_wave_of_two_wheelbases_makes_the_result_no_worse():
    """Front and rear then roll in opposite directions, which the motion of the body does not show."""
    before, after, true = drive("roll", 0.5 * SPEED / BASE, BASE / SPEED)
    assert np.std(after[:, :4] - true[:, :4]) < 1.02 * np.std(before[:, :4] - true[:, :4])


def drive_over(travel: Travel, begin: int, end: int, speed: float) -> np.ndarray:
    """(samples, 4) deflections on a road that rolls the body, for the samples from `begin` to `end`."""
    found = []
    for n in range(begin, end):
        travel.take_rates(n * H, (0.1 * np.sin(0.09 * n), 0.0), (0.0, 0.0), QUIET[1])
        travel.take(n * H, 0.0, 0.0, QUIET[0], speed)
        found.append(calc(travel, n * H)[:4])
    return np.array(found)


@pytest.mark.parametrize(("pause", "speed"), [(30, SPEED), (0, -SPEED)])
def test_heights_from_before_a_pause_or_a_reverse_are_forgotten(pause, speed):
    """Until the car has driven another wheelbase, both axles are assumed to roll alike."""
    travel, standing = made(), made()
    drive_over(travel, 0, 100, SPEED)
    drive_over(standing, 0, 100, 0.0)
    if speed < 0.0:
        drive_over(travel, 100, 120, speed)
        drive_over(standing, 100, 120, 0.0)
    begin, wheelbase = 120 + pause, int(0.8 * BASE / SPEED / H)
    after, alike = (drive_over(t, begin, begin + 60, v) for t, v in ((travel, SPEED), (standing, 0.0)))
    assert np.abs(after - alike)[2:wheelbase].max() < 0.02 * np.abs(alike).max()
    assert np.abs(after - alike).max() > 0.1 * np.abs(alike).max()


def test_motion_that_the_model_has_itself_is_not_added():
    """The body rolls as that of the model does."""
    travel = made()
    for n in range(500):
        t, w = n * H, 2.0
        travel.take_rates(t, (0.2 * np.sin(w * t), 0.0), (0.2 * w * np.cos(w * t), 0.0), QUIET[1])
        travel.take(t, 0.0, 0.0, QUIET[0])
    assert np.abs(calc(travel, 5.0)[:4]).max() < 1e-5


def test_noise_alone_adds_little():
    """If the noise is as large as assumed, less than a fifth of its effect remains."""
    rng, travel, whole = np.random.default_rng(3), made(), made()
    samples = rng.normal(size=(3000, 4)) * (0.06, 0.06, 0.003, 0.003)
    left, taken = [], []
    for n, (heave, side, *rates) in enumerate(samples):
        for into, of, noise in ((left, travel, (0.06**2, 0.003**2)), (taken, whole, QUIET)):
            of.take_rates(n * H, tuple(rates), (0.0, 0.0), noise[1])
            of.take(n * H, heave, side, noise[0])
            into.append(calc(of, (n + 1) * H))
    for part in (slice(0, 4), slice(4, 8), slice(8, 12)):
        assert np.std(np.array(left)[:, part]) < 0.2 * np.std(np.array(taken)[:, part])


def test_the_first_sample_of_a_kerb_is_not_taken_for_noise():
    """After a long even road."""
    travel = made()
    for n in range(1000):
        travel.take(n * H, 0.06 * (-1.0) ** n, 0.0, 0.06**2)
    even = np.abs(calc(travel, 1000 * H)[8:]).max()
    travel.take(1000 * H, 6.0, 0.0, 0.06**2)
    whole = made()
    whole.take(0.0, 6.0, 0.0, QUIET[0])
    assert calc(travel, 1001 * H)[8:] == pytest.approx(calc(whole, H)[8:], rel=0.1)
    assert even < 0.01 * np.abs(calc(whole, H)[8:]).max()


def test_the_added_travel_decays_when_samples_end():
    travel = made()
    run(travel, np.full((100, 4), (2.0, 1.0, 3.0, 1.0)))
    before = np.abs(calc(travel, 1.0)[:4]).max()
    assert before > 0.005
    assert np.abs(calc(travel, 3.0)[:4]).max() < 1e-3 * before
    assert np.abs(calc(travel, 3.0)[8:]).max() < 1e-3 * np.abs(calc(travel, 1.0)[8:]).max()


def test_travel_by_roll_and_pitch_decays_when_gyroscopes_fall_silent():
    travel = made()
    run(travel, np.full((100, 4), (0.0, 0.0, 3.0, 1.0)))
    for n in range(100, 300):
        travel.take(n * H, 0.0, 0.0, QUIET[0])
    assert np.abs(calc(travel, 3.0)[:4]).max() < 1e-6


def test_samples_that_are_not_newer_are_left_out():
    travel, other = made(), made()
    for of in (travel, other):
        run(of, np.full((50, 4), (2.0, 1.0, 3.0, 1.0)))
    other.take_rates(0.49, (9.0, 9.0), (0.0, 0.0), 1.0)
    other.take_rates(0.2, (9.0, 9.0), (0.0, 0.0), 1.0)
    other.take(0.49, 90.0, 9.0, QUIET[0])
    other.take(0.3, 90.0, 9.0, QUIET[0])
    assert calc(other, 0.5).tobytes() == calc(travel, 0.5).tobytes()


def test_nothing_is_left_after_a_reset():
    travel, fresh = made(), made()
    accelerations = np.random.default_rng(1).normal(size=(50, 4))
    run(travel, accelerations * 3.0, (0.1, 0.001))
    travel.reset()
    assert not calc(travel, 0.5).any()
    assert (
        run(travel, accelerations, (0.1, 0.001)).tobytes()
        == run(fresh, accelerations, (0.1, 0.001)).tobytes()
    )
