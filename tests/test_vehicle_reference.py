"""The published reference vehicle: four independent engines agree on its path."""

import numpy as np
import pytest
from vehicle_rig import Rig, sine, vehicle

from vehicled.studies.benchmarks.published import DURATION, STEP, calc_deviation, published
from vehicled.studies.benchmarks.reference import OurVehicle, reference_vehicle


@pytest.fixture(scope="module")
def path_at_4_ms():
    return path(STEP)


def path(h: float) -> np.ndarray:
    """(n, 3) places of the chassis' centre of mass over the published drive, every h."""
    ours = OurVehicle(reference_vehicle(), h)
    places, violation = [ours.place], 0.0
    for k in range(round(DURATION / h)):
        ours.steer(k * h)
        ours.step()
        places.append(ours.place)
        violation = max(violation, ours.car.constraint_violation())
    assert ours.converged
    assert violation < 1e-8
    return np.array(places)


def test_the_path_follows_the_published_one_within_5_cm_over_10_s(path_at_4_ms):
    # Straight lines between our samples deviate by 0.1 mm at most.
    assert len(published()) == 200
    assert published()[-1, 0] > 9.9
    assert calc_deviation(path_at_4_ms) < 0.05


def test_the_path_ends_where_those_of_the_engines_end(path_at_4_ms):
    assert path_at_4_ms[-1, :2] == pytest.approx((192.68, -32.69), abs=0.02)
    assert path_at_4_ms[-1, 2] == pytest.approx(0.485, abs=1e-3)


def test_steps_of_1_ms_and_4_ms_agree(path_at_4_ms):
    fine = path(STEP / 4)[::4]
    assert np.abs(fine - path_at_4_ms).max() < 5e-3


def test_a_demanding_drive_of_the_prototype_does_not_depend_on_the_step():
    """Slalom at 25 m/s with braking into it: 7 m/s², combined slip, stops and both damper branches."""

    def drive(h: float):
        rig = Rig(vehicle("prototype")).roll(25.0)
        # Inputs are smooth, as the steps would sample ramps differently.
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
