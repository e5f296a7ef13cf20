"""The error-state Kalman filter of any model, against textbook matrices and by statistics."""

import math

import numpy as np
import pytest
from scipy.stats import chi2

from vehicled.filter.error_state import (
    ErrorStateKalmanFilter,
    LinearObservation,
    Transition,
    calc_corrected,
    calc_update,
)

H = 0.05


class Oscillator:
    """Two coupled masses, advanced exactly; both positions are measured."""

    F = np.array([[1.0, 0, H, 0], [0, 1, 0, H], [-0.4, 0.1, 0.97, 0], [0.2, -0.3, 0, 0.95]])
    Q = np.diag([1e-6, 1e-6, 4e-4, 1e-4])
    C = np.eye(2, 4)
    R = np.diag([1e-3, 4e-3])

    def __init__(self, start, gate=math.inf):
        self.state, self.gate = np.array(start, dtype=float), gate

    def simulate(self, h):
        self.state = self.F @ self.state

    def calc_transition(self, h):
        return Transition(self.F, self.Q)

    def observe(self, reading):
        return LinearObservation(reading - self.C @ self.state, self.C, self.R, self.gate)

    def apply(self, correction):
        self.state = self.state + correction


class Pendulum:
    """A pendulum with errors of angle and rate; the state (sin, cos, rate) has one number more than the errors. An
    inclinometer reads the angle within half a turn."""

    Q = np.diag([1e-8, 2e-3])
    R = np.array([[2e-2]])

    def __init__(self, angle, rate):
        self.angle, self.rate = angle, rate

    @property
    def state(self):
        return np.array([math.sin(self.angle), math.cos(self.angle), self.rate])

    def simulate(self, h):
        self.rate -= h * 9.81 * math.sin(self.angle)
        self.angle += h * self.rate

    def calc_transition(self, h):
        stiffness = 9.81 * math.cos(self.angle)
        return Transition(np.array([[1.0 - h * h * stiffness, h], [-h * stiffness, 1.0]]), self.Q)

    def observe(self, reading):
        innovation = np.array([math.remainder(reading - self.angle, 2.0 * math.pi)])
        return LinearObservation(innovation, np.array([[1.0, 0.0]]), self.R)

    def apply(self, correction):
        self.angle += correction[0]
        self.rate += correction[1]


def random_covariance(rng, n):
    root = rng.normal(size=(n, n))
    return root @ root.T + 0.1 * np.eye(n)


def test_prediction_and_update_are_the_textbook_filter():
    rng = np.random.default_rng(1)
    p, x = random_covariance(rng, 4), rng.normal(size=4)
    model = Oscillator(x)
    f = ErrorStateKalmanFilter(model, p)
    for _ in range(20):
        x, p = model.F @ x, model.F @ p @ model.F.T + model.Q
        transition = f.predict(H)
        assert np.array_equal(transition.matrix, model.F)
        assert f.covariance == pytest.approx(p, rel=1e-12, abs=1e-12)
        reading = rng.normal(size=2)
        s = model.C @ p @ model.C.T + model.R
        gain, innovation = p @ model.C.T @ np.linalg.inv(s), reading - model.C @ x
        x, p = x + gain @ innovation, p - gain @ s @ gain.T
        update = f.update(reading)
        assert update.accepted
        assert update.reason is None
        assert update.innovation == pytest.approx(innovation, rel=1e-9, abs=1e-12)
        assert update.covariance == pytest.approx(s, rel=1e-9)
        assert update.gain == pytest.approx(gain, rel=1e-9, abs=1e-12)
        assert update.nis == pytest.approx(innovation @ np.linalg.solve(s, innovation), rel=1e-9)
        assert f.state == pytest.approx(x, rel=1e-9, abs=1e-12)
        assert f.covariance == pytest.approx(p, rel=1e-8, abs=1e-10)
    assert f.repairs == 0
    f.initialise(np.eye(4))
    assert np.array_equal(f.covariance, np.eye(4))


def test_simultaneous_readings_give_the_same_as_one_after_the_other():
    rng = np.random.default_rng(2)
    p, noise = random_covariance(rng, 4), rng.uniform(0.1, 1.0, 3)
    h, value = rng.normal(size=(3, 4)), rng.normal(size=3)
    together = calc_update(p, LinearObservation(value, h, np.diag(noise)))
    expected = calc_corrected(p, together, np.diag(noise))
    x = np.zeros(4)
    for k in range(3):
        r = noise[k : k + 1, None]
        update = calc_update(p, LinearObservation(value[k : k + 1] - h[k : k + 1] @ x, h[k : k + 1], r))
        x, p = x + update.gain @ update.innovation, calc_corrected(p, update, r)
    assert x == pytest.approx(together.gain @ together.innovation, rel=1e-9, abs=1e-12)
    assert p == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("reading", "reason"), [([50.0, 0.0], "gate"), ([np.nan, 0.0], "not finite")])
def test_a_rejected_reading_changes_nothing_and_has_its_reason(reading, reason):
    f = ErrorStateKalmanFilter(Oscillator(np.zeros(4), gate=chi2.ppf(0.999, 2)), 0.01 * np.eye(4))
    update = f.update(np.array(reading))
    assert not update.accepted
    assert update.reason == reason
    assert np.array_equal(f.covariance, 0.01 * np.eye(4))
    assert not f.state.any()
    assert f.update(np.array([0.1, 0.1])).accepted


def test_the_gate_is_on_the_normalised_innovation():
    accepted = []
    rng = np.random.default_rng(5)
    model = Oscillator(np.zeros(4), gate=chi2.ppf(0.95, 2))
    observed = 0.01 * model.C @ model.C.T + model.R
    for reading in rng.multivariate_normal(np.zeros(2), observed, 4000):
        f = ErrorStateKalmanFilter(Oscillator(np.zeros(4), model.gate), 0.01 * np.eye(4))
        accepted.append(f.update(reading).accepted)
    assert np.mean(accepted) == pytest.approx(0.95, abs=4 * math.sqrt(0.95 * 0.05 / 4000))


def test_the_filter_is_consistent_if_its_model_is_exact():
    """NIS at each reading and NEES at the end of independent runs are within both bounds of chi-squared."""
    rng = np.random.default_rng(3)
    nis, nees = [], []
    start = np.diag([0.04, 0.04, 0.1, 0.1])
    for _ in range(75):
        x = rng.multivariate_normal(np.zeros(4), start)
        f = ErrorStateKalmanFilter(Oscillator(np.zeros(4)), start)
        for _ in range(40):
            x = Oscillator.F @ x + rng.multivariate_normal(np.zeros(4), Oscillator.Q)
            f.predict(H)
            nis.append(f.update(rng.multivariate_normal(Oscillator.C @ x, Oscillator.R)).nis)
        nees.append((x - f.state) @ np.linalg.solve(f.covariance, x - f.state))
    for values, freedom in ((nis, 2), (nees, 4)):
        low, high = chi2.ppf([1e-4, 1 - 1e-4], freedom * len(values)) / len(values)
        assert low < np.mean(values) < high


@pytest.mark.slow
def test_a_pendulum_that_turns_over_is_followed_consistently():
    """There are fewer errors than numbers in the state, and readings jump by a turn."""
    rng = np.random.default_rng(4)
    nees, covariance = [], np.diag([0.05, 0.05])
    for _ in range(20):
        offset = rng.multivariate_normal(np.zeros(2), covariance)
        truth = Pendulum(3.0 + offset[0], 2.0 + offset[1])
        f = ErrorStateKalmanFilter(Pendulum(3.0, 2.0), covariance)
        for _ in range(400):
            truth.simulate(0.01)
            truth.apply(rng.multivariate_normal(np.zeros(2), Pendulum.Q))
            f.predict(0.01)
            f.update(math.remainder(truth.angle + rng.normal() * math.sqrt(Pendulum.R[0, 0]), 2.0 * math.pi))
        error = np.array(
            [math.remainder(truth.angle - f.model.angle, 2 * math.pi), truth.rate - f.model.rate]
        )
        nees.append(error @ np.linalg.solve(f.covariance, error))
        assert f.state @ [f.state[0], f.state[1], 0.0] == pytest.approx(1.0)
    low, high = chi2.ppf([1e-4, 1 - 1e-4], 2 * len(nees)) / len(nees)
    assert low < np.mean(nees) < high


def test_a_covariance_that_is_not_definite_is_repaired_and_counted():
    f = ErrorStateKalmanFilter(Oscillator(np.zeros(4)), np.diag([1e-4, 4.0, 1e-8, -1e-1]))
    f.predict(H)
    assert f.repairs == 1
    assert np.linalg.eigvalsh(f.covariance).min() > 0.0
    f.update(np.zeros(2))
    assert f.repairs == 1


@pytest.mark.filterwarnings("ignore:invalid value")
def test_a_covariance_that_is_not_finite_is_an_error():
    f = ErrorStateKalmanFilter(Oscillator(np.zeros(4)), np.diag([np.inf, 1.0, 1.0, 1.0]))
    with pytest.raises(FloatingPointError, match="the covariance is not finite"):
        f.predict(H)
