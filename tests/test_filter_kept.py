"""What a drive begins with of an earlier one: what all drives have in common does not count again in each."""

import pytest
from estimator_rig import Run, cruise, prototype, steps
from filter_rig import new_filter

from vehicled.estimator import Estimator
from vehicled.filter.kept import calc_kept
from vehicled.filter.states import TYRE_ERROR
from vehicled.messages import SlowState
from vehicled.sources.gnss.model import GNSS
from vehicled.sources.imu.model import GYRO_BIAS

_PRIOR, _SHOWN, _SCATTER, _SHARED = 0.003, -0.03, 0.02, 0.015
_HOURS = 8 * 3600.0


def _drive(value: float, variance: float, shown: float = _SHOWN) -> tuple[float, float]:
    """The antenna's place after a drive that shows it at `shown` ± 0.02 m, m and m²."""
    after = 1.0 / (1.0 / variance + 1.0 / _SCATTER**2)
    return after * (value / variance + shown / _SCATTER**2), after


def _drive_often(shared: float, drives: int = 60) -> float:
    value, variance, worst = 0.0, _PRIOR**2, 0.0
    for _ in range(drives):
        value, variance = _drive(value, variance)
        worst = max(worst, abs(value) / variance**0.5)
        found = SlowState(value, variance**0.5, "m")
        value, variance, _ = calc_kept(GNSS.antenna, found, _HOURS, _PRIOR**2, True, True, shared)
    return worst


def test_an_error_that_all_drives_share_does_not_move_the_antenna_on_and_on() -> None:
    """Each drive shows it 3 cm behind its place, as the IMU's time is wrong: at 1.5 σ, but each time."""
    assert _drive_often(0.0) > 3.5
    assert _drive_often(_SHARED) < 1.0


def test_an_antenna_that_is_elsewhere_is_kept_there_however_often_the_daemon_starts() -> None:
    found = SlowState(0.4, 0.003, "m")
    for _ in range(20):
        value, variance, _ = calc_kept(GNSS.antenna, found, 60.0, _PRIOR**2, True, True, _SHARED)
        found = SlowState(value, variance**0.5, "m")
    assert found.value == pytest.approx(0.4, abs=0.01)
    assert found.sigma == pytest.approx(_SHARED, rel=0.2)


def test_small_values_do_not_widen_the_prior_however_often_they_are_kept() -> None:
    """Kept values of 1 to 2 σ₀ widened it a little in each drive: σ of the antenna grew from 2.4 to 4.8 mm."""
    found = SlowState(0.006, 0.0024, "m")
    assert calc_kept(GNSS.antenna, found, 0.0, _PRIOR**2, True, True).prior == _PRIOR
    far = SlowState(0.4, 0.003, "m")
    assert calc_kept(GNSS.antenna, far, 0.0, _PRIOR**2, True, True).prior == pytest.approx(0.4, rel=0.01)


@pytest.mark.parametrize(("switched_on", "value", "sigma"), [(False, -0.14, 0.34), (True, 0.0, 0.01)])
def test_a_bias_that_has_become_uncertain_is_not_certain_after_a_restart(
    switched_on: bool, value: float, sigma: float
) -> None:
    """A wrong gyroscope had left −0.14 ± 0.34 rad/s; the filter restarted with −0.14 ± 0.01 rad/s."""
    found = SlowState(-0.14, 0.34, "rad/s")
    kept = calc_kept(GYRO_BIAS, found, 0.0, 0.01**2, False, switched_on)
    assert kept.value == pytest.approx(value)
    assert kept.variance**0.5 == pytest.approx(sigma)


@pytest.mark.parametrize(("of_time", "sigma"), [(None, 0.002), (0.0015, 0.015), (0.0001, 0.002)])
def test_a_drive_knows_the_antenna_ahead_as_well_as_the_time_of_the_imu(
    of_time: float | None, sigma: float
) -> None:
    given = {f"antenna.{a}": {"value": 0.2, "sigma": 0.002, "unit": "m"} for a in "xy"}
    if of_time is not None:
        given["imu_latency"] = {"value": 0.009, "sigma": of_time, "unit": "s"}
    estimator = Estimator(prototype())
    estimator.command("set_parameters", {"parameters": given, "age": 0.0})
    Run(prototype(), steps(cruise().measurements()[:40]), estimator=estimator)
    start = estimator.parameters()
    assert start["antenna.x"].sigma == pytest.approx(sigma, rel=0.1)
    assert start["antenna.y"].sigma == pytest.approx(0.002, rel=0.1)


def test_friction_is_that_of_a_road_and_no_drive_begins_with_that_of_another() -> None:
    f = new_filter()
    given = {
        "tyre_error.friction": SlowState(0.1, 0.01, "–"),
        "tyre_error.stiffness.front": SlowState(0.1, 0.01, "–"),
    }
    unknown = f.get_variance(TYRE_ERROR, "friction")
    f.slow.set_parameters(given, _HOURS, switched_on=True)
    assert f.slow.get(TYRE_ERROR) == pytest.approx([0.1, 0.0, 0.0], abs=0.002)
    assert f.get_variance(TYRE_ERROR, "friction") == unknown
    f.slow.set_parameters(given, 0.0)  # after a restart in the same drive
    assert f.slow.get(TYRE_ERROR) == pytest.approx([0.1, 0.0, 0.1])
