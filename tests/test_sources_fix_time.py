"""Both hypotheses about the latency of fixes, compared with integrals on a grid, full updates and random draws."""

import math
from dataclasses import dataclass, field

import numpy as np
import pytest

from vehicled.filter.states import Group
from vehicled.messages import ESTIMATE_COLUMNS, ESTIMATE_INDEX
from vehicled.points import ORIGIN
from vehicled.sources.gnss.fix_time import FixTime, Latency, weigh
from vehicled.sources.gnss.model import GNSS

SIGMA, RIGHT, SHARE, FALSIFIED, OF_TYRES = 0.02, 0.001, 0.8, 0.0012, 0.004


def normal(x: np.ndarray, mean: float, sigma: float) -> np.ndarray:
    return np.exp(-0.5 * ((x - mean) / sigma) ** 2) / sigma


def find(shown: float, error: float) -> Latency:
    """The latency that a filter finds by the Gaussian prior and measurements with that error."""
    variance = 1.0 / (1.0 / error**2 + 1.0 / SIGMA**2)
    return Latency(shown * variance / error**2, variance)


@pytest.mark.parametrize("doubt", [0.0, 0.003])
@pytest.mark.parametrize("error", [0.0005, 0.002, 0.008])
@pytest.mark.parametrize("shown", [0.0, 0.001, -0.004, 0.012, -0.03])
@pytest.mark.parametrize("earliest", [-math.inf, 0.0, -0.006, 0.002])
def test_mean_and_variance_are_those_of_the_mixture(shown, error, doubt, earliest):
    """If the latency is wrong, the estimate is the filter's, and the further errors add to its variance.

    Latencies before `earliest` are impossible: their share of the prior counts as right.
    """
    tau = np.arange(-0.2 + 5e-6, 0.2, 1e-5)  # midpoints, so that `earliest` lies between two of them
    possible = tau >= earliest
    likely = normal(tau, shown, math.hypot(error, doubt, FALSIFIED))
    prior = (1.0 - SHARE) * normal(tau, 0.0, SIGMA)
    share_right = SHARE + (1.0 - SHARE) * (prior * ~possible).sum() / prior.sum()
    right, wrong = share_right * normal(tau, 0.0, RIGHT) * likely, prior * likely
    found = find(shown, error)
    of_found = normal(tau, found.mean, math.sqrt(found.variance))
    cut = of_found * possible
    wrong *= cut.sum() / of_found.sum()
    of_wrong, spread_wrong = max(earliest, 0.0), 0.0
    if cut.sum() > 0.0:
        of_wrong = cut @ tau / cut.sum()
        spread_wrong = cut @ (tau - of_wrong) ** 2 / cut.sum()
        spread_wrong /= found.variance * (1.0 / math.hypot(error, doubt, FALSIFIED) ** 2 + 1.0 / SIGMA**2)
    share = right.sum() / (right.sum() + wrong.sum())
    of_right = right @ tau / right.sum()
    spread_right = right @ (tau - of_right) ** 2 / right.sum()
    mean = share * of_right + (1.0 - share) * of_wrong
    variance = share * (spread_right + (of_right - mean) ** 2)
    variance += (1.0 - share) * (spread_wrong + (of_wrong - mean) ** 2)

    weighed = weigh(found, SIGMA, doubt, earliest)

    assert weighed.mean == pytest.approx(mean, abs=1e-7)
    assert weighed.variance == pytest.approx(variance, rel=1e-3)


def test_the_mixture_is_consistent_if_four_of_five_latencies_are_right():
    """Latencies are drawn from the assumed prior, and found with additional errors of the model."""
    rng = np.random.default_rng(5)
    count, error = 20_000, 0.0017
    right = rng.random(count) < SHARE
    latencies = rng.normal(0.0, np.where(right, RIGHT, SIGMA))
    shown = latencies + rng.normal(0.0, math.hypot(error, FALSIFIED), count)
    found = [find(x, error) for x in shown]
    weighed = [weigh(one, SIGMA, 0.0) for one in found]
    squares = (np.array([w.mean for w in weighed]) - latencies) ** 2

    variances = np.array([w.variance for w in weighed])
    assert np.mean(squares[right]) < np.mean(variances[right])
    assert np.mean(squares / variances) == pytest.approx(1.0, abs=0.1)
    before = (np.array([one.mean for one in found]) - latencies) ** 2
    assert squares.mean() < 0.7 * before.mean()


def test_wrong_latencies_of_any_size_stay_as_found():
    for mean, error, doubt in ((3.0, 1e-5, 0.0), (-0.1, 1e-3, 0.002)):
        weighed = weigh(Latency(mean, error**2), SIGMA, doubt)
        assert weighed.mean == pytest.approx(mean)
        assert math.sqrt(weighed.variance) == pytest.approx(math.hypot(error, doubt, FALSIFIED), rel=0.01)


@pytest.mark.parametrize(("found", "sigma"), [(-0.01, 0.008), (-0.02, 0.0066), (-0.022, 0.0035)])
def test_latencies_that_would_put_fixes_into_the_future_are_taken_as_zero(found, sigma):
    mean, variance = weigh(Latency(found, sigma**2), SIGMA, 0.0, 0.0)
    assert abs(mean) < 0.002
    assert math.sqrt(variance) < 0.0015
    # With a configured latency of 80 ms, such a change is possible and stays as found.
    mean, variance = weigh(Latency(-0.02, 1e-6), SIGMA, 0.0, -0.08)
    assert mean == pytest.approx(-0.02)
    assert math.sqrt(variance) == pytest.approx(math.hypot(0.001, FALSIFIED), rel=0.01)


@dataclass
class Table:
    """Indices of the error states x, y, latency, heading and velocities."""

    places: dict = field(
        default_factory=lambda: {"x": 0, "y": 1, "latency": 2, "yaw": 3, "ahead": 4, "left": 5}
    )

    def __contains__(self, group: Group) -> bool:
        return True

    def index(self, group: Group, element: str = "") -> int:
        return self.places[element or "latency"]


class Filter:
    def __init__(self, covariance: np.ndarray, latency: float) -> None:
        self.states, self._covariance, self._latency = Table(), covariance, np.array([latency])
        self.slow = self

    def view(self, group: Group) -> np.ndarray:
        return self._latency

    def get_covariance(self, i: int, j: int) -> float:
        return float(self._covariance[i, j])


READ = "x", "y", "yaw", "vx", "vy"
SPEED = 18.0


def make_estimate(covariance: np.ndarray) -> tuple[np.ndarray, float]:
    values = np.zeros(len(ESTIMATE_COLUMNS))
    x, y, _, yaw, ahead, left = np.sqrt(np.diag(covariance))
    values[[ESTIMATE_INDEX[name] for name in READ]] = 10.0, -4.0, 0.5, SPEED, 0.0
    values[[ESTIMATE_INDEX[f"sigma.{name}"] for name in READ]] = x, y, yaw, ahead, left
    values[ESTIMATE_INDEX["sigma.sideslip"]] = left / SPEED
    return values, covariance[0, 1] / (x * y)


def read(values: np.ndarray, prefix: str = "") -> np.ndarray:
    return values[[ESTIMATE_INDEX[f"{prefix}{name}"] for name in READ]]


def test_the_estimate_changes_as_by_an_update_of_the_latency():
    """The latency's marginal is replaced; the distribution of the other states given the latency stays the same.

    Yaw follows by the share that noise has in the variance, the velocity to the left by the probability that the
    change is due to tyres or noise.
    """
    by_latency, error = np.array([18.0, 9.0, 1.0, -0.4, 2.0, 3.0]), 0.0019
    rest = np.diag([1e-4, 3e-4, 0.0, 1e-5, 1e-4, 2e-4])
    covariance = np.outer(by_latency, by_latency) * error**2 + rest
    values, correlation = make_estimate(covariance)
    before = read(values)

    fix_time = FixTime(Filter(covariance, 0.003), GNSS.latency, 0.0, SIGMA)
    fix_time.look(0.0, lambda: True)
    new = fix_time.correct(values, correlation, ORIGIN)

    weighed = weigh(Latency(0.003, error**2), SIGMA, 0.0)
    assert weighed.mean < 0.0015
    change = weighed.mean - 0.003
    of_tyres = SHARE * normal(change, 0.0, math.hypot(error, OF_TYRES))
    of_samples = (1.0 - SHARE) * normal(change, 0.0, math.hypot(error, SIGMA))
    share = of_tyres / (of_tyres + of_samples)
    followed = by_latency * np.array([1.0, 1.0, 1.0, error**2 / (error**2 + OF_TYRES**2), 1.0, share])
    expected = covariance - np.outer(followed, followed) * (error**2 - weighed.variance)
    others = [0, 1, 3, 4, 5]
    assert read(values) - before == pytest.approx(followed[others] * change)
    assert read(values, "sigma.") ** 2 == pytest.approx(np.diag(expected)[others])
    sigma_x, sigma_y = read(values, "sigma.")[:2]
    assert new == pytest.approx(expected[0, 1] / (sigma_x * sigma_y))
    vx, vy = read(values)[3:]
    assert values[ESTIMATE_INDEX["sideslip"]] == pytest.approx(math.atan2(vy, vx), rel=1e-3)
    assert values[ESTIMATE_INDEX["sigma.sideslip"]] * SPEED == pytest.approx(math.sqrt(expected[5, 5]))


@pytest.mark.parametrize(("latency", "is_late"), [(-0.003, False), (-0.02, True)])
def test_sideslip_stays_that_of_the_filter_if_the_whole_estimate_is_late(latency, is_late):
    """Fixes would be from the future: by 3 ms, as errors of tyres cause, and by 20 ms, as late IMU samples cause."""
    by_latency, error = np.array([0.0, 0.0, 1.0, -0.4, 2.0, 9.0]), 0.002
    covariance = np.outer(by_latency, by_latency) * error**2 + np.diag([1e-4, 1e-4, 0.0, 1e-5, 1e-4, 1e-4])
    values, correlation = make_estimate(covariance)

    fix_time = FixTime(Filter(covariance, latency), GNSS.latency, 0.0, SIGMA)
    fix_time.look(0.0, lambda: False)
    fix_time.correct(values, correlation, ORIGIN)

    sideslip, whole = values[ESTIMATE_INDEX["sideslip"]], -9.0 * latency / SPEED
    assert abs(sideslip) < 0.02 * whole if is_late else sideslip > 0.7 * whole
    assert values[ESTIMATE_INDEX["vx"]] - SPEED == pytest.approx(-2.0 * latency, rel=0.2)


def test_sigma_of_a_point_keeps_the_part_due_to_the_heading():
    """The latency's marginal is replaced, for the position of a point 1.5 m to the left."""
    by_latency, error, arm = np.array([18.0, 9.0, 1.0, 0.0, 0.0, 0.0]), 0.0012, (0.0, 1.5, 0.0)
    covariance = np.outer(by_latency, by_latency) * error**2 + np.diag([1e-6, 1e-6, 0.0, 1e-4, 1e-4, 1e-4])
    to_point = np.eye(2, 6)
    to_point[:, 3] = -1.5 * math.cos(0.5), -1.5 * math.sin(0.5)  # by the yaw of `make_estimate`
    values, _ = make_estimate(covariance)
    before = to_point @ covariance @ to_point.T
    sigma = np.sqrt(np.diag(before))
    values[[ESTIMATE_INDEX["sigma.x"], ESTIMATE_INDEX["sigma.y"]]] = sigma

    fix_time = FixTime(Filter(covariance, 0.0002), GNSS.latency, 0.0, SIGMA)
    fix_time.look(0.0, lambda: True)
    new = fix_time.correct(values, before[0, 1] / np.prod(sigma), arm)

    less = error**2 - weigh(Latency(0.0002, error**2), SIGMA, 0.0).variance
    after = to_point @ (covariance - np.outer(by_latency, by_latency) * less) @ to_point.T
    found = read(values, "sigma.")[:2]
    assert found**2 == pytest.approx(np.diag(after))
    assert new == pytest.approx(after[0, 1] / np.prod(found))


def test_sigma_is_reduced_by_the_same_share_until_the_next_look():
    """Until the next look, 20 ms later, other sensors make the estimate more certain."""
    by_latency, error = np.array([18.0, 9.0, 1.0, 0.0, 0.0, 0.0]), 0.005
    covariance = np.outer(by_latency, by_latency) * error**2 + np.diag([1e-4, 1e-4, 0.0, 1e-5, 1e-4, 1e-4])
    fix_time = FixTime(Filter(covariance, 0.0002), GNSS.latency, 0.0, SIGMA)
    fix_time.look(0.0, lambda: True)
    shares = []
    for factor in (1.0, 0.1):
        values, correlation = make_estimate(covariance * factor**2)
        before = read(values, "sigma.")
        fix_time.correct(values, correlation, ORIGIN)
        shares.append(read(values, "sigma.") / before)
    assert shares[1] == pytest.approx(shares[0])
    assert 0.0 < shares[0][0] < 0.9


def test_sideslip_of_a_car_that_goes_backwards_is_wrapped():
    by_latency = np.array([0.0, 0.0, 1.0, 0.0, 0.0, 3.0])
    covariance = np.outer(by_latency, by_latency) * 0.0019**2 + np.diag([1e-4, 1e-4, 0.0, 1e-5, 1e-4, 1e-4])
    values, correlation = make_estimate(covariance)
    vx, vy = ESTIMATE_INDEX["vx"], ESTIMATE_INDEX["vy"]
    values[[vx, vy, ESTIMATE_INDEX["sideslip"]]] = -5.0, 0.001, math.atan2(0.001, -5.0)

    fix_time = FixTime(Filter(covariance, 0.003), GNSS.latency, 0.0, SIGMA)
    fix_time.look(0.0, lambda: True)
    fix_time.correct(values, correlation, ORIGIN)

    assert values[vy] < 0.0
    assert values[ESTIMATE_INDEX["sideslip"]] == pytest.approx(math.atan2(values[vy], -5.0))


def test_a_car_that_stands_has_the_sideslip_of_the_filter():
    by_latency = np.array([0.0, 0.0, 1.0, 0.0, 2.0, 3.0])
    covariance = np.outer(by_latency, by_latency) * 0.0019**2 + np.diag([1e-4, 1e-4, 0.0, 1e-5, 1e-4, 1e-4])
    values, correlation = make_estimate(covariance)
    values[[ESTIMATE_INDEX[name] for name in ("vx", "sideslip", "sigma.sideslip")]] = 0.01, 0.3, 1.0

    fix_time = FixTime(Filter(covariance, 0.003), GNSS.latency, 0.0, SIGMA)
    fix_time.look(0.0, lambda: True)
    fix_time.correct(values, correlation, ORIGIN)

    assert values[ESTIMATE_INDEX["sideslip"]] == 0.3
    assert values[ESTIMATE_INDEX["sigma.sideslip"]] == 1.0


@pytest.mark.parametrize("variance", [0.0, SIGMA**2])
def test_estimates_without_information_on_the_latency_do_not_change(variance):
    """The latency is known exactly, or still has the variance of its prior."""
    covariance = np.diag([1e-4, 1e-4, variance, 1e-6, 1e-4, 1e-4])
    values, correlation = make_estimate(covariance)
    before = values.copy()

    fix_time = FixTime(Filter(covariance, 0.0), GNSS.latency, 0.0, SIGMA)
    fix_time.look(0.0, lambda: True)
    new = fix_time.correct(values, correlation, ORIGIN)

    assert new == correlation
    assert np.array_equal(values, before)
