"""Conservation of energy, momentum and angular momentum, which also checks the gyroscopic terms."""

import numpy as np
import pytest
from vehicle_rig import LOSSLESS, G, Rig, momenta, motions, vehicle


def in_flight(name: str = "prototype", spin: float = 30.0, **parameters: float) -> Rig:
    """A car that tumbles high over the ground, with active springs and spinning wheels."""
    rig = Rig(vehicle(name)).set(**{"stop__stiffness": 0.0, "spring__preload": 600.0} | parameters)
    rig.car.ground[3] = -1e3
    rig.set({"aero.drag_area": 0.0, "aero.front_lift_area": 0.0, "aero.rear_lift_area": 0.0})
    change, wheels = np.zeros(12), np.zeros((2, 4))
    change[6:] = (20.0, -2.0, 1.0, 0.7, 0.4, 0.5)
    wheels[1] = spin * np.array([1.0, 0.8, 1.2, -0.5])
    rig.car.correct(change, wheels)
    # Accelerations are still those of a car on the ground; after a few steps they are those of flight.
    for _ in range(4):
        rig.car.step(5e-4)
    return rig


def drift(rig: Rig, duration: float, h: float) -> float:
    """Largest relative change of the energy that is exchanged."""
    energies = [rig.energy()]
    for _ in range(round(duration / h)):
        assert rig.car.step(h) > 0
        energies.append(rig.energy())
    e = np.array(energies)
    return np.abs(e.sum(axis=1) - e[0].sum()).max() / np.ptp(e[:, 2])


def test_energy_agrees_with_body_by_body_sums():
    rig = in_flight()
    rig.drive(0.2)
    bodies = motions(rig)
    kinetic, gravitational, _ = rig.energy()
    assert len(bodies) == 18
    assert kinetic == pytest.approx(sum(b.kinetic_energy for b in bodies), rel=1e-12)
    assert gravitational == pytest.approx(sum(b.mass * G * b.place[2] for b in bodies), rel=1e-12)
    assert kinetic > 2e5


def test_bodies_stay_rigid():
    rig = in_flight()
    rig.drive(0.5)
    for body in motions(rig):
        assert np.abs(body.rotation @ body.rotation.T - np.eye(3)).max() < 1e-9, body.name
        turning = body.rotation_rate @ body.rotation.T
        assert np.abs(turning + turning.T).max() < 1e-8, body.name


def test_energy_is_conserved_in_flight_and_the_drift_falls_with_the_square_of_the_step():
    steps = (4e-3, 2e-3, 1e-3)
    coarse, middle, fine = (drift(in_flight(damper__bump=0.0, damper__rebound=0.0), 1.0, h) for h in steps)
    assert coarse < 5e-4
    assert middle < coarse / 3
    assert fine < middle / 3


def test_energy_is_conserved_on_undamped_springs_and_tyres():
    def bouncing(h: float) -> float:
        rig = Rig(vehicle("reference_vehicle")).set(**LOSSLESS)
        change = np.zeros(12)
        change[[2, 4, 5]] = 0.005, 0.004, 0.006
        rig.car.correct(change)
        for _ in range(4):
            rig.car.step(1e-4)
        return drift(rig, 1.0, h)

    coarse, middle, fine = (bouncing(h) for h in (4e-3, 2e-3, 1e-3))
    assert coarse < 5e-3
    assert max(middle, fine) < min(2e-4, coarse)


def test_dampers_only_dissipate_energy():
    rig = in_flight()
    before = rig.energy().sum()
    for _ in range(200):
        rig.car.step(2e-3)
        after = rig.energy().sum()
        assert after < before + 0.05
        before = after


def test_momentum_in_flight_changes_by_gravity_alone():
    rig = in_flight()
    before, _ = momenta(rig)
    rig.drive(1.0)
    after, _ = momenta(rig)
    mass = vehicle("prototype").mass
    assert after - before == pytest.approx((0.0, 0.0, -mass * G), abs=mass * 1e-4)


@pytest.mark.parametrize("inputs", ["free", "driven and braked"])
def test_angular_momentum_in_flight_is_conserved_spin_included(inputs):
    """Springs, dampers, gyroscopic torques, brakes and the drive's reaction are all internal to the car."""
    rig = in_flight(spin=60.0)
    torque = brake = None
    if inputs != "free":
        torque, brake = (lambda t: 400.0 if t < 0.3 else 0.0), (lambda t: 20e5 if t > 0.3 else 0.0)
    _, before = momenta(rig)
    log = rig.drive(0.5, 4e-3, torque=torque, brake=brake)
    _, after = momenta(rig)
    wheels = vehicle("prototype").front.wheel.axial_inertia * 60.0
    assert np.linalg.norm(before) > 10 * wheels
    assert np.abs(after - before).max() < 2e-4 * np.linalg.norm(before)
    if inputs != "free":
        assert np.abs(np.diff(log["wheel.speed"], axis=0)).max() > 0.3


def test_drive_torque_spins_the_wheel_and_pitches_the_car_back():
    rig = in_flight("prototype", 0.0, damper__bump=0.0, damper__rebound=0.0, tyre__rolling_resistance=0.0)
    rig.car.rest()
    spin = rig.drive(0.02, 1e-3, torque=lambda t: 100.0)["wheel.speed"][-1]
    inertia = vehicle("prototype").rear.wheel.axial_inertia
    # Relative to the knuckle, which turns the other way, the speed is a little more than τ t / I.
    assert spin[2:] == pytest.approx(100.0 * 0.02 / inertia, rel=0.05)
    assert rig.car.output("wy") < -1e-3


def test_gyroscopic_torque_makes_a_flying_car_nutate_at_the_closed_form_frequency():
    """A gyrostat with spin momentum H along y nutates in roll and yaw with H/√(Ixx Izz)."""
    rig = Rig(vehicle("reference_vehicle"))
    stiff = {"spring__stiffness": 1e8, "spring__preload": 0.0, "stop__stiffness": 0.0, "damper__bump": 1e5}
    rig.set(**stiff, damper__rebound=1e5)
    rig.car.ground[3] = -1e3
    rig.car.restart()
    change, wheels = np.zeros(12), np.zeros((2, 4))
    wheels[1], change[9] = 2000.0, 0.02
    rig.car.correct(change, wheels)
    bodies = motions(rig)
    center = sum(b.mass * b.place for b in bodies) / sum(b.mass for b in bodies)
    arms = [b.place - center for b in bodies]
    wheel = vehicle("reference_vehicle").front.wheel
    xx = sum(b.mass * (r[1] ** 2 + r[2] ** 2) + b.inertia[0, 0] for b, r in zip(bodies, arms, strict=True))
    zz = sum(b.mass * (r[0] ** 2 + r[1] ** 2) + b.inertia[2, 2] for b, r in zip(bodies, arms, strict=True))
    expected = (
        4 * wheel.axial_inertia * 2000.0 / np.sqrt((t := 4 * wheel.transverse_inertia) + xx) / np.sqrt(zz + t)
    )
    log = rig.drive(6.0, 4e-3)
    crossings = log.t[1:][np.diff(np.sign(log["wz"])) != 0]
    period = 2 * np.diff(crossings).mean()
    assert len(crossings) > 4
    assert 2 * np.pi / period == pytest.approx(expected, rel=0.01)
