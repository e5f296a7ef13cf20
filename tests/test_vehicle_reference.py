"""The published reference vehicle: four independent engines agree on its path."""

from pathlib import Path

import numpy as np
import pytest
from vehicle_rig import Rig, sine, vehicle

PUBLISHED = np.genfromtxt(
    Path(__file__).parent / "data" / "reference_vehicle_trajectory.csv", delimiter=",", names=True
)
"""Chassis centre of mass and attitude of the finest published run."""


@pytest.fixture(scope="module")
def path_at_4_ms():
    return path(4e-3)


def path(h: float) -> np.ndarray:
    """(n, 4): time and place of the chassis' centre of mass over the published drive."""
    v = vehicle("reference_vehicle")
    rig = Rig(v)
    car = rig.car
    car.restart()
    change, wheels = np.zeros(12), np.zeros((2, 4))
    change[0] = v.center_of_mass()[0]
    change[6], wheels[1] = 20.0, 20.0 / 0.30
    car.correct(change, wheels)
    arm = np.array(v.chassis.center_of_mass) - v.center_of_mass()
    rows, violation, converged = [], 0.0, True
    rack = sine(0.004, 0.25)
    for k in range(round(10.0 / h)):
        rows.append([k * h, *center(car, arm)])
        car.inputs[:] = rack((k + 1) * h)
        car.corner_inputs[:3, :2] = car.inputs[:, None]
        converged &= car.step(h) > 0
        violation = max(violation, car.constraint_violation())
    rows.append([10.0, *center(car, arm)])
    assert converged
    assert violation < 1e-8
    return np.array(rows)


def center(car, arm: np.ndarray) -> np.ndarray:
    q = car.view("q")[:12].reshape(4, 3)
    return q[0] + arm @ q[1:]


def test_follows_the_published_path_within_5_cm_over_10_s(path_at_4_ms):
    place = np.column_stack([np.interp(PUBLISHED["t"], path_at_4_ms[:, 0], c) for c in path_at_4_ms.T[1:]])
    published = np.column_stack([PUBLISHED[a] for a in "xyz"])
    # The issue asks for 0.10 m; the straight lines between our samples bend off by 0.1 mm at most.
    assert np.linalg.norm(place - published, axis=1).max() < 0.05


def test_ends_where_the_engines_end(path_at_4_ms):
    assert path_at_4_ms[-1, 1:3] == pytest.approx((192.68, -32.69), abs=0.02)
    assert path_at_4_ms[-1, 3] == pytest.approx(0.485, abs=1e-3)


def test_steps_of_1_ms_and_4_ms_agree(path_at_4_ms):
    fine = path(1e-3)[::4]
    assert np.abs(fine - path_at_4_ms).max() < 5e-3


def test_a_demanding_drive_of_the_prototype_does_not_depend_on_the_step():
    """Slalom at 25 m/s with braking into it: 7 m/s², combined slip, stops and both damper branches."""

    def drive(h: float):
        rig = Rig(vehicle("prototype")).roll(25.0)
        # Smooth inputs, or the comparison is one of sampled ramps.
        log = rig.drive(
            4.0, h, rack=sine(0.012, 0.6), brake=lambda t: 25e5 * np.sin(np.pi * min(t / 1.5, 1.0)) ** 2
        )
        assert (log.iterations > 0).all()
        assert log.violation < 1e-8
        return log

    coarse, fine = drive(4e-3), drive(1e-3)
    place = [np.column_stack([log[a] for a in ("x", "y", "z")]) for log in (coarse, fine)]
    assert np.abs(coarse["ay"]).max() > 6.0
    assert np.abs(place[0] - place[1][3::4]).max() < 0.02
    assert np.abs(coarse["yaw"] - fine["yaw"][3::4]).max() < np.radians(0.1)
