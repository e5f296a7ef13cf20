"""The compiled car: corrections keep every constraint, and machine code agrees with its Python text."""

import numpy as np
import pytest
from vehicle_rig import Rig, motions, ramp, vehicle

from vehicled.symbolic import python
from vehicled.vehicle import model


def moving(name: str = "prototype") -> Rig:
    """A car in a corner under brakes, so that nothing is zero."""
    rig = Rig(vehicle(name)).roll(18.0)
    rig.drive(
        1.2, rack=ramp(0.01 if name != "reference_vehicle" else -0.01), brake=lambda t: 15e5 * (t > 0.8)
    )
    return rig


def chart(rig: Rig) -> tuple[np.ndarray, np.ndarray]:
    """(x y z ψ v1z v2z) and its rates, straight from the coordinates; ψ̇ from the turning of v1."""
    q, qd = (rig.car.view(n)[:12].reshape(4, 3) for n in ("q", "qd"))
    v1, d1 = q[1], qd[1]
    yaw_rate = (v1[0] * d1[1] - v1[1] * d1[0]) / (v1[0] ** 2 + v1[1] ** 2)
    return (
        np.array([*q[0], np.arctan2(v1[1], v1[0]), v1[2], q[2][2]]),
        np.array([*qd[0], yaw_rate, d1[2], qd[2][2]]),
    )


def rigidity(rig: Rig) -> tuple[float, float]:
    """Largest deviation of bodies from rigid ones, in attitude and in angular rate."""
    attitude = turning = 0.0
    for b in motions(rig):
        attitude = max(attitude, np.abs(b.rotation @ b.rotation.T - np.eye(3)).max())
        spin = b.rotation_rate @ b.rotation.T
        turning = max(turning, np.abs(spin + spin.T).max())
    return attitude, turning


def violations(rig: Rig) -> tuple[float, float]:
    """Largest |Φ|, and the largest change of q̇ when it is projected onto Φ̇ = 0."""
    car, saved = rig.car, rig.car.workspace.copy()
    car.call(car.kernels.step.factor)
    before = car.view("qd").copy(), car.view("branch.qd").copy()
    car.call(car.kernels.step.project_velocity)
    change = max(np.abs(car.view(n) - b).max() for n, b in zip(("qd", "branch.qd"), before, strict=True))
    car.call(car.kernels.step.recover)
    phi = car.constraint_violation()
    car.workspace[:] = saved
    return phi, float(change)


@pytest.mark.parametrize("seed", range(4))
def test_correction_is_exact_in_the_chart_and_keeps_every_constraint(seed):
    rig = moving()
    rng = np.random.default_rng(seed)
    before, rates = chart(rig)
    rigid = rigidity(rig)
    wheels = rig.car.corner_output("wheel.angle").copy(), rig.car.corner_output("wheel.speed").copy()
    travel, travel_rate = (rig.car.corner_output(f"suspension.{n}").copy() for n in ("deflection", "rate"))
    change = rng.normal(size=12) * np.array([2, 2, 0.1, 0.5, 0.05, 0.05, 3, 2, 0.5, 0.4, 0.1, 0.1])
    wheel_change = rng.normal(size=(2, 4)) * 3.0
    rig.car.correct(change, wheel_change)
    after, after_rates = chart(rig)
    difference = after - before
    difference[3] = (difference[3] + np.pi) % (2 * np.pi) - np.pi
    assert difference == pytest.approx(change[:6], abs=1e-12)
    assert after_rates - rates == pytest.approx(change[6:], abs=1e-11)
    rig.car.report()
    assert rig.car.corner_output("wheel.angle") - wheels[0] == pytest.approx(wheel_change[0], abs=1e-12)
    assert rig.car.corner_output("wheel.speed") - wheels[1] == pytest.approx(wheel_change[1], abs=1e-12)
    assert rig.car.corner_output("suspension.deflection") == pytest.approx(travel, abs=1e-12)
    assert rig.car.corner_output("suspension.rate") == pytest.approx(travel_rate, abs=1e-11)
    # As rigid as the integrator left it.
    attitude, turning = rigidity(rig)
    assert attitude < 3 * rigid[0] + 1e-13
    assert turning < 3 * rigid[1] + 1e-11
    phi, projected = violations(rig)
    assert phi < 1e-11
    assert projected < 1e-9


def test_corrected_rates_are_the_motion_of_the_chart():
    """Along q̇, the chart changes as its rates say."""
    rig = moving()
    rig.car.correct(np.array([0, 0, 0, 0.3, 0.02, -0.03, 1.0, 0.5, 0.1, 0.2, 0.15, -0.1]))
    _, rates = chart(rig)
    e, q = 1e-6, rig.car.view("q")
    start = q.copy()
    q[:] = start + e * rig.car.view("qd")
    up, _ = chart(rig)
    q[:] = start - e * rig.car.view("qd")
    down, _ = chart(rig)
    assert (up - down) / (2 * e) == pytest.approx(rates, abs=1e-8)


def test_wheels_keep_their_rate_relative_to_the_knuckle_when_the_car_is_turned():
    rig = moving()
    before = rig.car.corner_output("wheel.speed").copy()
    rig.car.correct(np.array([0, 0, 0, 0, 0, 0, 0, 0, 0, 0.5, 0.2, 0.3]))
    rig.car.report()
    # This is the stored rate. The next step computes it from the spin.
    assert rig.car.corner_output("wheel.speed") == pytest.approx(before, abs=1e-12)
    rig.car.ground[3] = -100.0
    rig.car.corner_inputs[4] = 0.0
    rig.car.step(1e-4)
    rig.car.report()
    assert rig.car.corner_output("wheel.speed") == pytest.approx(before, abs=0.2)


def test_a_correction_of_zero_changes_nothing():
    rig = moving()
    before = rig.car.workspace.copy()
    rig.car.correct(np.zeros(12))
    for name in ("q", "qd", "qdd", "branch.q", "branch.qd", "branch.qdd"):
        was = rig.car.layout.view(before, name)
        assert rig.car.view(name) == pytest.approx(was, rel=1e-12, abs=1e-11)


# -- the model as a program ------------------------------------------------------------------------------


def test_the_car_has_18_bodies_and_14_degrees_of_freedom():
    names = moving().car.compiled.names
    assert len(names.bodies) == 18
    rig = moving()
    # Projected random velocities have as many dimensions as there are degrees of freedom.
    car = rig.car
    car.call(car.kernels.step.factor)
    rng = np.random.default_rng(0)
    samples = []
    for _ in range(40):
        for n in ("qd", "branch.qd"):
            view = car.view(n)
            view[:] = rng.normal(size=view.shape)
        car.inputs[:] = 0.0
        car.corner_inputs[:3] = 0.0
        for _ in range(10):
            car.call(car.kernels.step.project_velocity)
        samples.append(np.concatenate([car.view("qd"), car.view("branch.qd").ravel()]))
    values = np.linalg.svd(np.array(samples), compute_uv=False)
    assert len(samples[0]) == len(names.coordinates)
    assert (values / values[0] > 1e-8).sum() == 14


@pytest.mark.parametrize("name", ["prototype", "reference_vehicle"])
def test_machine_code_agrees_with_python_text_on_every_kernel(name):
    """Both tyre laws, to 1e-12 of the largest number that goes into an array: `recover` differentiates by
    differences over the step, and weighs the constraints with the penalty."""
    rig = moving(name)
    car = rig.car
    program = model.build(rig.vehicle.tyre, rig.vehicle.suspensions).program
    assert program.layout.places == {n: p for n, p in car.layout.places.items() if n in program.layout.places}
    rng = np.random.default_rng(2)
    car.correction[:] = 0.01 * rng.normal(size=12)
    car.corner_correction[:] = 0.1 * rng.normal(size=(2, 4))
    step = car.kernels.step
    projections = (step.project_velocity, step.project_acceleration)
    order = [program.prepare, step.predict, step.factor, step.iterate, step.recover, *projections]
    order += [k for k in program.kernels if k not in order]
    for kernel in order:
        text = python.function(program.kernels[kernel], program.layout)
        theirs = car.workspace.copy()
        with np.errstate(all="ignore"):
            text(theirs)
        car.call(kernel)
        for array in program.layout.places:
            a, b = car.view(array), program.layout.view(theirs, array)
            scale = max(1.0, float(np.abs(b).max(initial=0.0)))
            if kernel == step.recover:
                h, penalty = car.view("integration")
                weight = {"qd": 2 / h, "qdd": 4 / h**2, "lambda": penalty}.get(array.split(".")[-1], 1.0)
                scale = max(scale, weight * float(np.abs(car.view("q")).max()))
            assert np.abs(a - b).max(initial=0.0) < 1e-12 * scale, (kernel, array)
