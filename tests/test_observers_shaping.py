"""The shaping filter of errorEKF_SFE: derivatives with respect to its memory, and estimates of the memory."""

from functools import cache

import numpy as np
import pytest
from likelihood_rig import check_score
from scipy.linalg import expm

from vehicled.filter.error_state import LinearObservation, calc_update
from vehicled.multibody import problems
from vehicled.multibody.compiled import CompiledMechanism
from vehicled.multibody.description import load_description
from vehicled.multibody.formulations import Ali3p
from vehicled.multibody.mechanism import Mechanism
from vehicled.multibody.sensors import Accelerometer, Encoder, SensorSet
from vehicled.studies.observers.factory import make_observer
from vehicled.studies.observers.likelihood import LikelihoodWindow
from vehicled.studies.observers.linkage_errors import ShapedForceLinkageErrors
from vehicled.studies.observers.noise import discretise, make_units
from vehicled.studies.observers.shaping import ShapedForceObserver, ShapedNoise

UNITS = make_units(4, (2, 3))


def calc_slope(memory: float) -> np.ndarray:
    """System matrix: mass on a spring and a damper, error of the force on it, coloured part of that error's rate."""
    slope = np.diag([1.0, 1.0, 1.0], k=1)
    slope[1, :2], slope[3, 3] = (-40.0, -1.0), -1.0 / memory
    return slope


class Linear:
    """A textbook Kalman filter of that mass, with readings of position and force."""

    H = np.eye(4)[[0, 2]]
    STEP = 0.02

    def __init__(self, noise: ShapedNoise) -> None:
        self.noise, self.x, self.p = noise, np.array([0.1, 0.0, 1.0, 0.5]), np.diag([0.1, 0.1, 1.0, 4.0])
        self.r = np.diag([1e-6, 1e-2])
        self.log_likelihood = 0.0

    def step(self, reading: np.ndarray) -> None:
        slope = calc_slope(self.noise.memory)
        self.noise.begin_step(self.p, self.x[3:])
        f = expm(self.STEP * slope)
        self.x = f @ self.x
        self.p = f @ self.p @ f.T + self.noise.calc_step(slope, self.STEP)
        self.noise.predict(f)
        update = calc_update(self.p, LinearObservation(reading - self.H @ self.x, self.H, self.r))
        self.log_likelihood -= 0.5 * (update.nis + np.linalg.slogdet(update.covariance)[1])
        self.x = self.x + update.gain @ update.innovation
        self.p = self.p - update.gain @ self.H @ self.p
        self.noise.update(update)


def drive(memory: float, white: float, coloured: float, steps: int) -> np.ndarray:
    """(steps, 2) readings of a mass that is driven by noise of the given memory."""
    rng = np.random.default_rng(8)
    slope, h = calc_slope(memory), Linear.STEP
    density = white * UNITS[0] + coloured / memory**2 * UNITS[1]
    transition, root = expm(h * slope), np.linalg.cholesky(discretise(slope, density, h))
    x, readings = np.zeros(4), []
    for _ in range(steps):
        x = transition @ x + root @ rng.normal(size=4)
        readings.append(Linear.H @ x + [1e-3, 0.1] * rng.normal(size=2))
    return np.array(readings)


def test_score_is_the_derivative_of_the_likelihood(monkeypatch):
    """With respect to the logarithm of each parameter, the memory included."""
    monkeypatch.setattr(LikelihoodWindow, "improve", lambda self: None)
    readings = drive(0.5, 0.1, 4.0, 60)
    logs = np.log([0.2, 3.0, 0.3])

    def run(at):
        white, coloured, memory = np.exp(at)
        filter = Linear(ShapedNoise(np.array([white]), np.array([coloured]), memory))
        for reading in readings:
            filter.step(reading)
        return filter

    check_score(run, logs)


@pytest.mark.parametrize("first", [pytest.param(0.2, marks=pytest.mark.slow), 5.0])
def test_a_known_memory_is_found_from_a_wrong_one(first):
    memory, white, coloured = 0.3, 0.05, 4.0
    noise = ShapedNoise(np.array([3 * white]), np.array([coloured / 3]), first * memory, window=1600)
    filter = Linear(noise)
    for reading in drive(memory, white, coloured, 1500):
        filter.step(reading)
    _, information = noise.window.calc_score()
    sigma = np.sqrt(np.diag(np.linalg.inv(information)))
    away = np.abs(noise.window.logs - np.log([white, coloured, memory]))
    assert (away < 3.0 * sigma).all()
    assert away[2] < 0.5


@cache
def compile_four_bar():
    instruments = SensorSet([Encoder("theta", 1e-3), Accelerometer("Q", ("P", "Q"), 0.05)])
    return instruments, CompiledMechanism(load_description("four_bar"), (instruments,))


def shake_four_bar(memory: float, white: float, coloured: float, steps: int, h: float) -> np.ndarray:
    """(steps, 2) readings of a four-bar with a force that its model lacks."""
    instruments, compiled = compile_four_bar()
    true, stepper, rng = Mechanism(compiled), Ali3p(), np.random.default_rng(1)
    shaping = calc_slope(memory)[2:, 2:]
    transition = expm(h * shaping)
    root = np.linalg.cholesky(discretise(shaping, np.diag([white, coloured / memory**2]), h))
    force, readings = np.zeros(2), []
    for _ in range(steps):
        before, force = force, transition @ force + root @ rng.normal(size=2)
        r, _ = problems.calc_velocity_map(true)
        true.applied[true.independent] += r.T @ true.mass @ r @ (force - before)[:1]
        stepper.step(true, h).require("four-bar")
        readings.append(instruments.calc_readings(true) + instruments.sigma * rng.normal(size=2))
    return np.array(readings)


def test_on_a_mechanism_the_score_is_the_derivative_of_the_likelihood(monkeypatch):
    """Less accurately, because the mechanism is not linear."""
    monkeypatch.setattr(LikelihoodWindow, "improve", lambda self: None)
    h, (instruments, compiled) = 5e-3, compile_four_bar()
    readings = shake_four_bar(0.05, 0.02, 2.0, 100, h)

    def run(at):
        white, coloured, memory = np.exp(at)
        noise = ShapedNoise(np.array([white]), np.array([coloured]), memory)
        model = ShapedForceLinkageErrors(Mechanism(compiled), instruments, noise)
        observer = ShapedForceObserver(model, noise, h, np.diag([1e-2, 1e-2, 1e-2, 1.0]))
        updates = [observer.step(reading) for reading in readings]
        observer.log_likelihood = -0.5 * sum(u.nis + np.linalg.slogdet(u.covariance)[1] for u in updates)
        return observer

    check_score(run, np.log([0.005, 0.3, 0.3]), rel=0.03)


def test_on_a_mechanism_the_memory_of_an_unknown_force_is_found():
    """A four-bar with a force that its model lacks. The observer starts with four times the memory of that force."""
    h, memory, white, coloured = 5e-3, 0.05, 0.02, 2.0
    instruments, compiled = compile_four_bar()
    observer = make_observer(
        "errorEKF_SFE", Mechanism(compiled), instruments, h, start_sigma=0.1, density=0.5
    )
    assert isinstance(observer, ShapedForceObserver)
    assert observer.noise.memory == pytest.approx(4.0 * memory)
    readings = shake_four_bar(memory, white, coloured, 600, h)
    nis = [observer.step(reading).nis for reading in readings]
    _, information = observer.noise.window.calc_score()
    sigma = np.sqrt(np.linalg.inv(information)[-1, -1])
    away = abs(np.log(observer.noise.memory / memory))
    assert away < 3.0 * sigma
    assert away < 0.5
    assert 0.8 < np.mean(nis[200:]) / 2 < 1.25
