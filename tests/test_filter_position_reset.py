"""Reset of the position at a fix: it takes over the slow errors of fixes and their uncertainty."""

import numpy as np
import pytest
from filter_rig import STEP_NS, H, new_filter, observation, place

from vehicled.filter.covariance import MISSING
from vehicled.filter.states import POSITION, VELOCITY, Process
from vehicled.filter.vehicle_filter import VehicleFilter
from vehicled.messages import ESTIMATE_COLUMNS
from vehicled.sources.gnss.model import GNSS

NEVER = 1.0, 1.0
"""Limits that reject every observation."""
WHITE, WANDER = 0.4, 0.5
"""White and slow error of a fix, m, 1 σ."""


def drive(kind="errorEKF") -> VehicleFilter:
    """A filter after 0.4 s at 20 m/s, with fixes until 0.32 s by which it has estimated the slow error."""
    f = new_filter(kind)
    place(f, np.array([0.0, 0.0, f.car.design_height]), 0.3, 20.0)
    f.restart_process(GNSS.wander, Process(120.0, (WANDER, WANDER, WANDER)))
    for axis in ("x", "y"):
        f.set_variance(POSITION, axis, 0.1**2)
        f.set_variance(VELOCITY, {"x": "ahead", "y": "left"}[axis], 0.3**2)
    for k in range(1, 101):
        f.predict(k * STEP_NS, H)
        if k % 10 == 0 and k <= 80:
            x, y, z = f.read_state()[:3]
            f.update(fix(k, [x + 1.0, y - 0.5, z]), (1e6, 1e6))
        f.apply_corrections()
    return f


def fix(step, value, white=WHITE):
    return observation("gnss.position", step * STEP_NS, value, [white**2, white**2, MISSING])


def places(f):
    return [f.states.index(POSITION, axis) for axis in ("x", "y")]


@pytest.mark.parametrize("kind", ["errorEKF", pytest.param("UKF", marks=pytest.mark.slow)])
@pytest.mark.parametrize("white", [WHITE, 0.01])
@pytest.mark.parametrize("age", [0, 15])
def test_a_reset_position_is_as_uncertain_as_the_fix_with_all_its_errors(kind, white, age):
    f = drive(kind)
    wander = f.slow.get(GNSS.wander)
    assert np.abs(wander).max() > 0.3
    away = fix(100 - age, [150.0, -80.0, 0.0], white)
    update = f.update(away, NEVER)
    rows, before = f.errors.rows[:2].copy(), f.covariance
    moved = f.read_state()[:2] + update.innovation[:2]
    f.reset_position(away, update, update.rejected)
    f.apply_corrections()
    # The car is at the fix less its estimated slow error, which does not change.
    assert f.read_state()[:2] == pytest.approx(moved, abs=1e-2)
    assert f.slow.get(GNSS.wander) == pytest.approx(wander, abs=1e-3)
    again = f.evaluate(away)
    assert again is not None
    assert f.errors.innovation[:2] == pytest.approx([0.0, 0.0], abs=1e-2)
    # x = z − (other errors of the fix) − noise
    after = f.covariance
    if age == 0:
        rows[:, places(f)] = 0.0
        others = rows @ before
        expected = others @ rows.T + white**2 * np.eye(2)
        assert after[np.ix_(places(f), places(f))] == pytest.approx(expected, rel=1e-2)
        same = [i for i in range(len(f.states)) if i not in places(f)]
        assert after[np.ix_(places(f), same)] == pytest.approx(-others[:, same], rel=2e-2, abs=2e-4)
    # With a late fix σ is about the same.
    sigma = np.sqrt(after.diagonal()[places(f)])
    least, most = (0.41, 0.5) if white == WHITE else (0.12, 0.2)
    assert ((sigma > least) & (sigma < most)).all()
    assert np.linalg.eigvalsh(after).min() > -1e-9


def test_the_covariance_is_definite_after_a_reset():
    f = drive()
    covariance, z = f.covariance, f.states.index(POSITION, "z")
    covariance[z, z] = -1e-4
    f.errors.matrix = covariance
    away = fix(100, [150.0, -80.0, 0.0])
    update = f.update(away, NEVER)
    f.reset_position(away, update, update.rejected)
    assert np.linalg.eigvalsh(f.covariance).min() > -1e-9
    assert f.repairs == 1


def drive_beside_heights(beside: float) -> VehicleFilter:
    """As `drive`, then with late fixes of right positions, but heights off by `beside`, m; the last one resets it."""
    f = drive()
    f.set_variance(POSITION, "z", 0.05**2)
    for k in range(101, 181):
        f.predict(k * STEP_NS, H)
        if k % 5 == 0:
            x, y, z = f.read_state()[:3]
            late = observation("gnss.position", (k - 30) * STEP_NS, [x, y, z + beside], [0.02**2] * 3)
            assert f.evaluate(late) is not None
            late.value[:2] = [v - e for v, e in zip(late.value[:2], f.errors.innovation[:2], strict=True)]
            update = f.update(late, (9.0, 100.0))
        f.apply_corrections()
    assert (update.reason, list(update.rejected)) == ("partly", [False, False, True])
    f.reset_position(late, update, update.rejected)
    return f


def test_a_height_can_be_reset_alone_after_late_fixes_have_corrected_positions():
    f = drive_beside_heights(-9.0)
    assert f.repairs == 0
    # The covariance stays definite with further late observations.
    for k in (150, 151):
        for kind, value in (("gnss.speed", 20.0), ("gnss.course", np.pi / 2 - 0.3)):
            f.update(observation(kind, k * STEP_NS, [value], [0.05**2]), (9.0, 100.0))
        scale = np.sqrt(f.covariance.diagonal().clip(1e-30))
        assert np.linalg.eigvalsh(f.covariance / np.outer(scale, scale)).min() > -1e-9


@pytest.mark.parametrize("point", [(0.0, 0.0, 0.0), (1.2, 0.1, 0.4)])
def test_no_sigma_is_zero_if_the_covariance_is_not_definite(point):
    f = drive()
    f.set_output_point(point)
    sigmas = [k for k, column in enumerate(ESTIMATE_COLUMNS) if column.startswith("sigma.")]
    covariance, (x, _) = f.covariance, places(f)
    covariance[x, x] = -1e-4
    f.errors.matrix = covariance
    assert (f.output()[sigmas] > 1e-3).all()
    assert f.repairs == 1
    # Earlier measurements do not belong to the repaired covariance.
    assert f.evaluate(fix(70, [0.0, 0.0, 0.0])) is None
