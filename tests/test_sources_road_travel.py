"""Travel that a road adds, by the accelerations of the body: statics, energy, known roads, noise, silence."""

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
    """Takes what an IMU measures beside the model."""

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
        """Standing cars have driven over nothing before."""
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
    """(samples, 12) what is added a sample later, by upward, lateral, roll and pitch acceleration (samples, 4)."""
    rates = np.zeros(2)
    found = []
    for n, (heave, left, *turning) in enumerate(accelerations):
        rates += H * np.array(turning)
        travel.take_rates(n * H, tuple(rates.tolist()), (0.0, 0.0), noise[1])
        travel.take(n * H, heave, left, noise[0])
        found.append(calc(travel, (n + 1) * H))
    return np.array(found)


def test_it_is_added_to_the_columns_of_the_suspensions():
    names = [ESTIMATE_COLUMNS[i] for i in ROAD_PLACES]
    assert names == [f"suspension.{w}.{what}" for what in ("deflection", "rate", "force") for w in WHEELS]


@pytest.mark.parametrize("k", [0, 1, 2, 3])
def test_springs_carry_a_lasting_acceleration(k):
    """Statics: stiffness times travel is the force at each wheel, and the rate is gone."""
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


def test_the_work_of_the_forces_is_in_springs_and_dampers():
    """A kick: force times rate, integrated, is the springs' energy and what the dampers have taken."""
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
"""Which wheels a road raises when it raises the front left one."""


SPEED = 15.0


@lru_cache
def drive(name: str, hertz: float, later: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What is found without a speed and with it, and what is true, (samples, 12), of a car on a road that does so.

    From the accelerations of two compiled cars, one of them on an even road. The rear wheels are on what the front
    ones have been on `later`, s.
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
    """To 20 % for what is not of first order, and what 10 ms are, after which samples come and are differenced."""
    found, _, true = drive(name, hertz)
    for part in (slice(0, 4), slice(4, 8), slice(8, 12)):
        error, size = found[:, part] - true[:, part], np.std(true[:, part])
        assert np.std(error) < (0.2 + 2.0 * np.pi * hertz * H) * size
    assert np.std(true[:, :4]) > 2e-4


@pytest.mark.parametrize("hertz", [1.5, 3.0])
def test_a_road_that_twists_the_standing_car_is_not_followed(hertz):
    """What is known of it is only what different axles make of it."""
    found, _, true = drive("twist", hertz)
    assert np.std(found[:, :4]) < 0.25 * np.std(true[:, :4])
    assert np.std(true[:, :4]) > 1e-3


BASE = float(calc_preview(vehicle(NAME))[0])


@pytest.mark.parametrize("lengths", [0.15, 0.25, 0.7])
def test_rear_wheels_drive_over_what_front_wheels_have_driven_over(lengths):
    """By wheelbases per wave, between rolling alike and against each other: more than half of the error goes."""
    before, after, true = drive("roll", lengths * SPEED / BASE, BASE / SPEED)
    for part in (slice(0, 4), slice(8, 12)):
        assert np.std(after[:, part] - true[:, part]) < 0.45 * np.std(before[:, part] - true[:, part])


def test_a_wave_of_two_wheelbases_does_not_roll_the_body():
    """Front and rear then roll against each other: nothing tells of that, and nothing becomes worse."""
    before, after, true = drive("roll", 0.5 * SPEED / BASE, BASE / SPEED)
    assert np.std(after[:, :4] - true[:, :4]) < 1.02 * np.std(before[:, :4] - true[:, :4])


def drive_over(travel: Travel, begin: int, end: int, speed: float) -> np.ndarray:
    """(samples, 4) deflections, of samples of a road that rolls the body, from one number up to another."""
    found = []
    for n in range(begin, end):
        travel.take_rates(n * H, (0.1 * np.sin(0.09 * n), 0.0), (0.0, 0.0), QUIET[1])
        travel.take(n * H, 0.0, 0.0, QUIET[0], speed)
        found.append(calc(travel, n * H)[:4])
    return np.array(found)


@pytest.mark.parametrize(("pause", "speed"), [(30, SPEED), (0, -SPEED)])
def test_heights_from_before_a_pause_or_a_reverse_are_forgotten(pause, speed):
    """Until the front wheels have led by a wheelbase again, both axles are taken to roll alike."""
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


def test_what_the_model_does_itself_is_not_added():
    """A body that rolls as the model's does."""
    travel = made()
    for n in range(500):
        t, w = n * H, 2.0
        travel.take_rates(t, (0.2 * np.sin(w * t), 0.0), (0.2 * w * np.cos(w * t), 0.0), QUIET[1])
        travel.take(t, 0.0, 0.0, QUIET[0])
    assert np.abs(calc(travel, 5.0)[:4]).max() < 1e-5


def test_noise_alone_adds_next_to_nothing():
    """Of noise as large as it is taken to be, less than a fifth of its own forces is left."""
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


def test_a_kerb_is_no_noise_from_its_first_sample_on():
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


def test_it_fades_when_samples_end():
    travel = made()
    run(travel, np.full((100, 4), (2.0, 1.0, 3.0, 1.0)))
    before = np.abs(calc(travel, 1.0)[:4]).max()
    assert before > 0.005
    assert np.abs(calc(travel, 3.0)[:4]).max() < 1e-3 * before
    assert np.abs(calc(travel, 3.0)[8:]).max() < 1e-3 * np.abs(calc(travel, 1.0)[8:]).max()


def test_gyroscopes_that_fall_silent_leave_heave_alone():
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
