"""Forward Euler integration of the car, and its accelerations."""

import numpy as np
import pytest
from vehicle_rig import ramp, vehicle

from vehicled.multibody.ali3p import add_forward_euler
from vehicled.symbolic.program import KernelHandle, Program
from vehicled.vehicle.car import Car
from vehicled.vehicle.extension import Extension
from vehicled.vehicle.outputs import Parts


def add_euler(program: Program, parts: Parts) -> KernelHandle:
    return add_forward_euler(parts.step)


EULER = Extension(add_euler, KernelHandle)


@pytest.fixture(scope="module")
def car() -> Car:
    return Car(vehicle("prototype"), (EULER,))


def drive(car: Car, h: float, euler: bool, seconds: float = 1.5) -> np.ndarray:
    """Outputs of the car at the end of a drive into a bend, then with brakes."""
    rack = ramp(0.01, 0.5)
    car.rest()
    change = np.zeros(12)
    change[6] = 15.0
    wheels = np.zeros((2, 4))
    wheels[1] = 15.0 / car.rolling_radius
    car.correct(change, wheels, carry=True)
    for k in range(round(seconds / h)):
        t = (k + 1) * h
        for inputs in (car.inputs, car.corner_inputs[:3, 0], car.corner_inputs[:3, 1]):
            inputs[:] = rack(t)
        car.corner_inputs[4] = 10e5 if t > 1.0 else 0.0
        if euler:
            car.step_euler(h, car.result(EULER))
        else:
            assert car.step(h) > 0
    car.report()
    car.call(car.kernels.energy)
    return np.concatenate([car.outputs, car.corner_outputs.ravel()])


def test_forward_euler_converges_to_the_trapezoidal_rule_to_first_order(car):
    exact = drive(car, 1e-3, euler=False)
    errors = [np.abs(drive(car, h, euler=True) - exact)[:16] for h in (4e-3, 2e-3, 1e-3)]
    sizes = [np.linalg.norm(e) for e in errors]
    assert sizes[0] < 0.04
    assert sizes[0] == pytest.approx(2.0 * sizes[1], rel=0.2)
    assert sizes[1] == pytest.approx(2.0 * sizes[2], rel=0.2)


def test_constraints_hold_on_all_three_levels(car):
    drive(car, 4e-3, euler=True)
    for name in ("phi", "branch.phi"):
        assert np.abs(car.view(name)).max() < 1e-6
    # The next step of ALI3-P keeps constraints and accelerations.
    before = car.view("qdd").copy()
    car.step(1e-5)
    assert car.constraint_violation() < 1e-9
    assert car.view("qdd") == pytest.approx(before, abs=0.3)
