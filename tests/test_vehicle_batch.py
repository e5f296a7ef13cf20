"""Several cars side by side: each moves as it would alone."""

import numpy as np
import pytest
from vehicle_rig import Rig, ramp, vehicle

from vehicled.vehicle.batch import CarBatch
from vehicled.vehicle.car import STATE, Car
from vehicled.vehicle.sensor_models import SENSOR_KERNELS

H = 4e-3
WIDTH = 8
ROUNDING = {"q": 1e-10, "qd": 1e-9, "qdd": 1e-7, "lambda": 1e-2, "states": 1e-9}
"""Tolerances by array: rounding errors of about 1e-14 m, amplified by the penalty (1e10) and 4/h² over 60 steps.
Errors of Newton's iteration, which ends at 1e-9 m, would be larger."""


@pytest.fixture(scope="module", params=["prototype", "reference_vehicle"])
def rig(request):
    """A car in the middle of a bend."""
    rig = Rig(vehicle(request.param)).roll(18.0)
    rig.drive(1.0, rack=ramp(0.008, 0.8))
    return rig


def errors(width: int) -> tuple[np.ndarray, np.ndarray]:
    """Changes of chart and wheels with the spread of an uncertain filter; those of the first car are zero."""
    random = np.random.default_rng(5)
    sigma = np.array([0.5, 0.5, 0.02, 0.1, 0.02, 0.02, 1.0, 1.0, 0.2, 0.2, 0.1, 0.1])
    change = sigma[:, None] * random.standard_normal((12, width))
    wheels = random.normal(0.0, 0.5, (2, 4, width))
    change[:, 0], wheels[..., 0] = 0.0, 0.0
    return change, wheels


def test_forces_and_adjustments_of_a_filter_act_on_all_cars(rig):
    """Force, moment and changed tyres: all cars move as the single one."""
    car, before = rig.car, rig.car.workspace.copy()
    car.view("external_force")[:] = 800.0, -500.0, 300.0, 400.0
    given = np.array([0.0, 0.02, 0.04, 0.06, 0.08, 800.0])
    car.view("adjustments")[:] = given[:, None] * [0.0, 1.0, 1.0, 1.0]
    batch = CarBatch(car, WIDTH)
    for cars in (car, batch):
        for _ in range(20):
            cars.step(H)
    found, expected = state(batch), state(car)
    car.workspace[:] = before
    for name, value in expected.items():
        allowed = ROUNDING[name.removeprefix("branch.")]
        assert found[name] == pytest.approx(np.repeat(value[..., None], WIDTH, -1), rel=0.0, abs=allowed), (
            name
        )


def state(cars) -> dict[str, np.ndarray]:
    return {name: cars.view(name).copy() for name in STATE}


def test_cars_of_a_batch_move_as_a_single_car_does(rig):
    car, before = rig.car, rig.car.workspace.copy()
    batch = CarBatch(car, WIDTH)
    change, wheels = errors(WIDTH)
    batch.correct(change, wheels, carry=True)
    rack = car.inputs[:, None] * np.linspace(0.9, 1.1, WIDTH)
    brake = np.linspace(0.0, 40e5, WIDTH)
    batch.inputs[:], batch.corner_inputs[:3, :2], batch.corner_inputs[4] = rack, rack[:, None], brake
    steps = 60
    taken = [batch.step(H) for _ in range(steps)]
    assert batch.converged.all()
    batch.report()
    found, together, alone = state(batch), np.array(taken), []
    for k in range(WIDTH):
        car.workspace[:] = before
        car.correct(change[:, k], wheels[..., k], carry=True)
        car.inputs[:], car.corner_inputs[:3, :2] = rack[:, k], rack[:, k, None]
        car.corner_inputs[4] = brake[k]
        alone.append([car.step(H) for _ in range(steps)])
        for name, expected in state(car).items():
            allowed = ROUNDING[name.removeprefix("branch.")]
            assert found[name][..., k] == pytest.approx(expected, rel=0.0, abs=allowed), (name, k)
        car.report()
        assert batch.outputs[:, k] == pytest.approx(car.outputs, rel=1e-7, abs=1e-7)
        assert batch.corner_outputs[..., k] == pytest.approx(car.corner_outputs, rel=1e-6, abs=1e-4)
    car.workspace[:] = before
    # Single cars need different numbers of iterations; the batch needs as many as the slowest.
    assert (np.ptp(alone, axis=0) > 0).any()
    assert (together == np.max(alone, axis=0)).all()


def test_equal_cars_stay_equal(rig):
    batch = CarBatch(rig.car, WIDTH)
    for _ in range(50):
        assert batch.step(H) > 0
    for name, value in state(batch).items():
        assert (value == value[..., :1]).all(), name


def test_one_lost_car_does_not_harm_the_others(rig):
    batch, sound = CarBatch(rig.car, WIDTH), CarBatch(rig.car, WIDTH)
    batch.view("qd")[0, 3] = np.nan
    assert batch.step(H) < 0 < sound.step(H)
    others = [k for k in range(WIDTH) if k != 3]
    assert list(batch.converged) == [k != 3 for k in range(WIDTH)]
    for name, value in state(sound).items():
        assert (batch.view(name)[..., others] == value[..., others]).all(), name
    batch.copy_state_from_car()
    assert batch.step(H) > 0
    assert batch.converged.all()


@pytest.mark.slow
def test_sensors_and_suspensions_of_each_car_are_those_of_a_single_car():
    car = Car(vehicle("prototype"), (SENSOR_KERNELS,))
    change, wheels = errors(WIDTH)
    change[6] += 15.0
    batch = CarBatch(car, WIDTH, (SENSOR_KERNELS,))
    batch.correct(change, wheels)
    travel, rate = 0.01 * np.random.default_rng(6).standard_normal((2, 4, WIDTH))
    motion = car.calc_travel_motion()
    batch.correct_suspension(travel, rate, motion)
    batch.step(H)
    before = car.workspace.copy()
    sensors = batch.result(SENSOR_KERNELS)
    for kernel in (sensors.observe_pose, sensors.imu_accelerometer):
        batch.call(kernel)
    for k in range(WIDTH):
        car.workspace[:] = before
        car.correct(change[:, k], wheels[..., k])
        car.correct_suspension(travel[:, k], rate[:, k], motion)
        car.step(H)
        for kernel in (sensors.observe_pose, sensors.imu_accelerometer):
            car.call(kernel)
        for name in ("pose", "predicted", "sensitivity"):
            assert batch.view(name)[..., k] == pytest.approx(car.view(name), rel=1e-7, abs=1e-7), name


@pytest.mark.parametrize("width", [0, 1, 3, 6, 12, -8])
def test_a_width_that_fills_no_vectors_is_refused(width):
    with pytest.raises(ValueError, match=f"{width} cars side by side: expected 2, 4 or a multiple of 8"):
        CarBatch(Car(vehicle("reference_vehicle")), width)
