"""Plant noise: its discretisation along the slope, and its adaptation to innovations, by statistics."""

from functools import cache

import numpy as np
import pytest
from likelihood_rig import check_score
from scipy.integrate import solve_ivp
from scipy.stats import chi2

from vehicled.filter.error_state import LinearObservation, calc_update
from vehicled.multibody import problems
from vehicled.multibody.compiled import CompiledMechanism
from vehicled.multibody.description import load_description
from vehicled.multibody.formulations import Ali3p
from vehicled.multibody.mechanism import Mechanism
from vehicled.multibody.sensors import Encoder, Gyroscope, SensorSet
from vehicled.studies.benchmarks import observers as bench
from vehicled.studies.benchmarks.observer_cases import ObserverRun
from vehicled.studies.observers.continuous import ContinuousEKF
from vehicled.studies.observers.dependent import PerfectMeasurementEKF, SmoothlyConstrainedKF
from vehicled.studies.observers.error_state import ErrorStateObserver
from vehicled.studies.observers.likelihood import AdaptedNoise, LikelihoodWindow
from vehicled.studies.observers.linkage_errors import ExactLinkageErrors, LinkageErrors
from vehicled.studies.observers.noise import WhiteNoise, calc_free_slope, discretise, make_units
from vehicled.studies.observers.unscented import UnscentedKF

H = 5e-3
SLOPE = np.array([[0.0, 0, 1, 0], [0, 0, 0, 1], [-60, 25, -2, 0.5], [30, -90, 0.5, -3]])
"""System matrix of two masses on springs and dampers."""
UNITS = make_units(4, (2, 3))


def test_noise_of_free_masses_is_known_in_closed_form():
    h = 0.05
    block = np.array([[h**3 / 3, h**2 / 2], [h**2 / 2, h]])
    found = discretise(calc_free_slope(2), UNITS.sum(axis=0), h)
    assert found == pytest.approx(np.kron(block, np.eye(2)), rel=1e-12, abs=1e-18)


def test_noise_along_a_slope_is_the_growth_of_the_covariance():
    """Ṗ = A P + P Aᵀ + U from zero, by a numerical integrator."""
    h, density = 0.1, 0.7 * UNITS[0] + 0.1 * UNITS[1]

    def grow(_, flat):
        p = flat.reshape(4, 4)
        return (SLOPE @ p + p @ SLOPE.T + density).ravel()

    grown = solve_ivp(grow, (0, h), np.zeros(16), rtol=1e-11, atol=1e-15).y[:, -1].reshape(4, 4)
    assert discretise(SLOPE, density, h) == pytest.approx(grown, rel=1e-8)
    assert WhiteNoise(UNITS, np.array([0.7, 0.1])).calc_step(SLOPE, h) == pytest.approx(grown, rel=1e-8)
    known = WhiteNoise(UNITS[:1], np.array([0.7]), 0.1 * UNITS[1])
    assert known.calc_step(SLOPE, h) == pytest.approx(grown, rel=1e-8)


def test_noise_is_that_of_randomly_driven_masses():
    rng = np.random.default_rng(1)
    h, parts, count = 0.1, 100, 20_000
    x = np.zeros((4, count))
    for _ in range(parts):
        kicks = np.zeros_like(x)
        kicks[2:] = rng.normal(size=(2, count)) * np.sqrt(h / parts)
        # The midpoint rule, so that the length of a part hardly matters.
        x = x + h / parts * SLOPE @ (x + 0.5 * kicks) + kicks
    expected = discretise(SLOPE, UNITS.sum(axis=0), h)
    root = np.linalg.cholesky(expected)
    whitened = np.linalg.solve(root, x)
    # Each direction's sum of squares is chi-squared.
    low, high = chi2.ppf([1e-5, 1 - 1e-5], count) / count
    for variance in np.mean(whitened**2, axis=1):
        assert low * 0.99 < variance < high * 1.01
    assert np.abs(np.corrcoef(whitened) - np.eye(4)).max() < 4.5 / np.sqrt(count) + 0.005


# -- likelihood ------------------------------------------------------------------------------------------------


class Linear:
    """A textbook Kalman filter of the two masses, with readings of both positions."""

    H = np.eye(2, 4)
    STEP = 0.02

    def __init__(self, noise):
        self.noise, self.x, self.p = noise, np.zeros(4), 0.1 * np.eye(4)
        self.r = np.diag([1e-4, 4e-4])
        self.f = np.eye(4) + self.STEP * SLOPE + 0.5 * self.STEP**2 * SLOPE @ SLOPE
        self.nis: list[float] = []
        self.log_likelihood = 0.0

    def step(self, reading) -> None:
        self.x = self.f @ self.x
        self.p = self.f @ self.p @ self.f.T + self.noise.calc_step(SLOPE, self.STEP)
        self.noise.predict(self.f)
        update = calc_update(self.p, LinearObservation(reading - self.H @ self.x, self.H, self.r))
        self.nis.append(update.nis)
        self.log_likelihood -= 0.5 * (update.nis + np.linalg.slogdet(update.covariance)[1])
        self.noise.update(update)
        self.x = self.x + update.gain @ update.innovation
        self.p = self.p - update.gain @ self.H @ self.p


def drive(densities: list[np.ndarray], seed: int, start=(0.0, 0.0, 0.0, 0.0)) -> np.ndarray:
    """(steps, 2) readings of masses driven by noise of the densities (2,) of each step."""
    rng = np.random.default_rng(seed)
    filter = Linear(WhiteNoise(UNITS, np.ones(2)))
    x, roots, readings = np.array(start), {}, []
    for density in densities:
        key = tuple(density)
        if key not in roots:
            roots[key] = np.linalg.cholesky(discretise(SLOPE, np.tensordot(density, UNITS, 1), filter.STEP))
        x = filter.f @ x + roots[key] @ rng.normal(size=4)
        readings.append(filter.H @ x + np.sqrt(np.diag(filter.r)) * rng.normal(size=2))
    return np.array(readings)


def test_score_is_the_derivative_of_the_likelihood(monkeypatch):
    """With respect to the logarithm of each density."""
    monkeypatch.setattr(LikelihoodWindow, "improve", lambda self: None)
    readings = drive([np.array([0.5, 2.0])] * 60, 0, start=[0.3, 0, 0, 1])
    logs = np.log([0.2, 3.0])

    def run(at):
        filter = Linear(AdaptedNoise(UNITS, np.exp(at)))
        for reading in readings:
            filter.step(reading)
        return filter

    check_score(run, logs)


def test_score_is_zero_in_the_mean_where_the_density_is_right():
    """Over many runs, within the bound from the Fisher information."""
    true = np.array([0.5, 2.0])
    scores, informations = [], []
    for seed in range(30):
        noise = AdaptedNoise(UNITS, true)
        noise.window.improve = lambda: None
        filter = Linear(noise)
        rng = np.random.default_rng(1000 + seed)
        start = rng.normal(size=4) * np.sqrt(0.1)
        for reading in drive([true] * 100, seed, start):
            filter.step(reading)
        score, information = noise.window.calc_score()
        scores.append(score)
        informations.append(information)
    expected = np.mean(informations, axis=0)
    total = np.sum(scores, axis=0)
    assert total @ np.linalg.solve(expected, total) / 30 < chi2.ppf(1 - 1e-5, 2)
    # And the information is the variance of the scores.
    variance = np.mean([s @ np.linalg.solve(expected, s) for s in scores])
    assert 0.5 < variance / 2 < 2.0


@pytest.mark.parametrize("first", [0.02, 30.0])
def test_densities_are_found_from_wrong_ones(first):
    true = np.array([0.5, 2.0])
    filter = Linear(AdaptedNoise(UNITS, first * true))
    for reading in drive([true] * 1500, 4):
        filter.step(reading)
    _, information = filter.noise.window.calc_score()
    sigma = np.sqrt(np.diag(np.linalg.inv(information)))
    assert (sigma < 0.3).all()
    assert (np.abs(np.log(filter.noise.densities / true)) < 4.0 * sigma).all()
    late = filter.nis[500:]
    low, high = chi2.ppf([1e-4, 1 - 1e-4], 2 * len(late)) / len(late)
    assert low * 0.97 < np.mean(late) < high * 1.03


def test_the_window_forgets_earlier_noise():
    """The noise decreases, and the initial state is far from the filter's."""
    loud, quiet = np.array([5.0, 20.0]), np.array([0.05, 0.2])
    readings = drive([loud] * 300 + [quiet] * 600, 7, start=[5.0, 0, -3.0, 0])
    filter = Linear(AdaptedNoise(UNITS, loud, window=500))
    for reading in readings:
        filter.step(reading)
    assert np.abs(np.log(filter.noise.densities / quiet)).max() < 1.2


def test_readings_without_information_change_nothing():
    """The readings are too coarse for the plant noise to matter."""
    noise = AdaptedNoise(UNITS, np.array([0.5, 2.0]))
    filter = Linear(noise)
    filter.r = 1e6 * np.eye(2)
    rng = np.random.default_rng(0)
    for _ in range(200):
        filter.step(1e3 * rng.normal(size=2))
    assert noise.densities == pytest.approx([0.5, 2.0], rel=1e-3)


# -- on mechanisms ---------------------------------------------------------------------------------------------

TRUE_DENSITY = 0.4
KINDS = (
    LinkageErrors,
    ExactLinkageErrors,
    ContinuousEKF,
    PerfectMeasurementEKF,
    SmoothlyConstrainedKF,
    UnscentedKF,
)


@cache
def compile_four_bar():
    instruments = SensorSet([Encoder("theta", 0.01), Gyroscope(("A", "P"), 0.02)])
    return instruments, CompiledMechanism(load_description("four_bar"), (instruments,))


@cache
def shake_four_bar(steps: int) -> tuple[np.ndarray, np.ndarray]:
    """(steps, 2) z, ż of a four-bar with white accelerations of a known density, and its readings."""
    instruments, compiled = compile_four_bar()
    m, stepper, rng = Mechanism(compiled), Ali3p(), np.random.default_rng(12)
    states, readings = [], []
    for _ in range(steps):
        # A random acceleration that is constant during the step.
        r, _ = problems.calc_velocity_map(m)
        kick = rng.normal() * np.sqrt(TRUE_DENSITY / H)
        m.applied[m.independent] = r.T @ m.mass @ r @ [kick]
        stepper.step(m, H).require("four-bar")
        states.append([m.z[0], m.zd[0]])
        readings.append(instruments.calc_readings(m) + instruments.sigma * rng.normal(size=2))
    return np.array(states), np.array(readings)


@pytest.mark.parametrize("kind", KINDS)
def test_an_observer_finds_the_noise_of_its_plant_and_is_consistent(kind):
    """The model lacks only white accelerations, whose density the filter assumes fifty times too large at first."""
    steps = 600
    states, readings = shake_four_bar(steps)
    instruments, compiled = compile_four_bar()
    noise = AdaptedNoise(make_units(2, [1]), np.array([50 * TRUE_DENSITY]))
    m, start = Mechanism(compiled), 1e-4 * np.eye(2)
    if issubclass(kind, LinkageErrors):
        o = ErrorStateObserver(kind(m, instruments, noise), H, start)
    else:
        o = kind(m, instruments, H, start, noise)
    nis, nees, errors = [], [], []
    for state, reading in zip(states, readings, strict=True):
        nis.append(o.step(reading).nis)
        error = np.array([o.z[0], o.zd[0]]) - state
        first = [0, 1] if len(o.covariance) == 2 else o.chosen
        nees.append(error @ np.linalg.solve(o.covariance[np.ix_(first, first)], error))
        errors.append(error)
    assert o.repairs == 0
    # Filters with free masses take the slope of the plant for noise as well.
    assert np.log(noise.densities[0] / TRUE_DENSITY) == pytest.approx(0.0, abs=0.45)
    late = nis[300:]
    low, high = chi2.ppf([1e-4, 1 - 1e-4], 2 * len(late)) / len(late)
    assert low < np.mean(late) < high
    # Errors are correlated over about 30 steps, so that 300 of them count as 10 independent ones.
    low, high = chi2.ppf([0.005, 0.995], 2 * 10) / 10
    assert low < np.mean(nees[300:]) < high


@pytest.mark.parametrize(
    ("mechanism", "sensors", "name"),
    [
        ("four_bar", "encoders", "errorEKF"),
        pytest.param("four_bar", "crank_gyros", "SCKF", marks=pytest.mark.slow),
        pytest.param("five_bar", "coupler_gyros", "errorEKF_AFE", marks=pytest.mark.slow),
        pytest.param("five_bar", "encoders", "DEKF", marks=pytest.mark.slow),
        pytest.param("five_bar", "crank_gyros", "DIEKFpm", marks=pytest.mark.slow),
        pytest.param("five_bar", "coupler_gyros", "UKF-TR", marks=pytest.mark.slow),
    ],
)
def test_on_linkages_innovations_agree_with_their_covariance(mechanism, sensors, name):
    """The NIS of published filters is wrong by factors of up to 100,000."""
    row = bench.run_case(ObserverRun(mechanism, sensors, 20, "L2", name, 5))
    expected = 1.0 if mechanism == "four_bar" else 2.0
    assert 0.7 < row["nis"] / expected < 1.4


@pytest.mark.slow
@pytest.mark.parametrize("name", ["DEKF", "UKF-FE"])
def test_filters_with_forward_euler_follow_the_five_bar(name):
    """Before, they followed a wrong motion."""
    row = bench.run_case(ObserverRun("five_bar", "coupler_gyros", 200, "L2", name, 1))
    assert row["position_relative"] < 0.1
    assert row["velocity_relative"] < 0.1
