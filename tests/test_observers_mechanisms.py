"""Observers on mechanisms: plant noise, corrections, Jacobians, repairs and failures."""

import time

import mechanism_rig as rig
import numpy as np
import pytest

from vehicled.errors import RunError, UsageError
from vehicled.multibody import problems
from vehicled.multibody.compiled import CompiledMechanism
from vehicled.multibody.description import load_description
from vehicled.multibody.mechanism import Mechanism
from vehicled.multibody.sensors import Accelerometer, Encoder, Gyroscope, Position, SensorSet
from vehicled.studies.benchmarks import observers as bench
from vehicled.studies.benchmarks.observer_cases import ObserverRun
from vehicled.studies.benchmarks.observer_conclusions import CONSISTENT
from vehicled.studies.observers import factory
from vehicled.studies.observers.continuous import ContinuousEKF
from vehicled.studies.observers.dependent import PerfectMeasurementEKF, SmoothlyConstrainedKF
from vehicled.studies.observers.error_state import ErrorStateObserver
from vehicled.studies.observers.linearised import calc_sensitivity
from vehicled.studies.observers.linkage_errors import EulerLinkageErrors, ExactLinkageErrors, LinkageErrors
from vehicled.studies.observers.noise import calc_free_slope, discretise, make_units
from vehicled.studies.observers.unscented import UnscentedKF

pytestmark = pytest.mark.slow

H = 5e-3
KINDS = (
    LinkageErrors,
    ExactLinkageErrors,
    EulerLinkageErrors,
    UnscentedKF,
    ContinuousEKF,
    PerfectMeasurementEKF,
    SmoothlyConstrainedKF,
)
ENCODERS = (Encoder("theta1", 0.01), Encoder("theta2", 0.01))


def observer(kind, name="five_bar", sensors=ENCODERS, **options):
    instruments = SensorSet(sensors)
    m = Mechanism(CompiledMechanism(load_description(name), (instruments,)))
    f = len(m.independent)
    noise = discretise(calc_free_slope(f), 0.1 * make_units(2 * f, range(f, 2 * f)).sum(axis=0), H)
    if issubclass(kind, LinkageErrors):
        return ErrorStateObserver(kind(m, instruments, noise, **options), H, 1e-2 * np.eye(2 * f))
    return kind(m, instruments, H, 1e-2 * np.eye(2 * f), noise, **options)


def test_sensitivity_is_the_derivative_along_the_constraints():
    """With respect to z and ż, dependent coordinates and rates included, and to z̈."""
    sensors = (
        Gyroscope(("P", "Q"), 1e-3),
        Position("Q", 0.01),
        Accelerometer("Q", ("Q", "R"), 0.1),
        Encoder("theta2", 0.01),
    )
    o = observer(LinkageErrors, sensors=sensors)
    m, instruments = rig.advance(o.mechanism, H, 0.2), o.model.sensors
    state = [m.z, m.zd, m.zdd]

    def read(z, zd, zdd):
        assert problems.solve_position(m, z).converged
        problems.solve_velocity(m, zd)
        problems.solve_acceleration(m, zdd)
        return instruments.calc_readings(m)

    read(*state)
    jacobians = calc_sensitivity(m, instruments)
    for which, jacobian in enumerate(jacobians):
        for k in range(2):
            ends = []
            for sign in (1, -1):
                there = [x.copy() for x in state]
                there[which][k] += sign * 1e-5
                ends.append(read(*there))
            assert jacobian[:, k] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_precise_reading_moves_the_estimate_to_it(kind):
    """The filter follows precise encoders, and the constraints stay satisfied."""
    sensors = (Encoder("theta1", 1e-6), Encoder("theta2", 1e-6))
    o = observer(kind, sensors=sensors)
    assert o.step(None) is None
    target = o.z + np.array([0.02, -0.03])
    update = o.step(target)
    assert o.z == pytest.approx(target, abs=1e-5)
    assert update.innovation == pytest.approx([0.02, -0.03], abs=0.01)
    nis = update.innovation @ np.linalg.inv(update.covariance) @ update.innovation
    assert update.nis == pytest.approx(nis)
    size = len(o.covariance) // 2
    angles = np.diag(o.covariance)[:2] if size == 2 else np.diag(o.covariance)[o.chosen[:2]]
    assert angles == pytest.approx([1e-12, 1e-12], rel=0.1)
    assert np.array_equal(o.covariance, o.covariance.T)
    o.step(target)
    assert np.abs(o.mechanism.calc_constraints()).max() < 1e-4


@pytest.mark.parametrize("kind", KINDS)
def test_a_filter_without_readings_follows_the_simulation(kind):
    o = observer(kind)
    alone = rig.advance(Mechanism.load("five_bar"), H, 0.2)
    for _ in range(40):
        o.step(None)
    # The trapezoidal rule on z alone, forward Euler, and the mean over wide sigma points deviate a little.
    strays = {EulerLinkageErrors: 0.1, UnscentedKF: 0.1, LinkageErrors: 1e-9, ExactLinkageErrors: 1e-9}
    assert o.z == pytest.approx(alone.z, abs=strays.get(kind, 1e-3))
    assert o.mechanism.t == pytest.approx(0.2)


def test_exact_transition_is_that_of_the_simulation():
    """Its columns against single steps from displaced states; the transition of free masses is far less accurate."""
    o = observer(ExactLinkageErrors)
    m = rig.advance(o.mechanism, H, 0.3)
    z, zd = m.z, m.zd
    transition, _ = o.model.linearise(H)
    free, _ = LinkageErrors.linearise(o.model, H)
    state = m.get_state()
    for k in range(4):
        ends = []
        for sign in (1e-5, -1e-5):
            m.set_state(state)
            away = np.concatenate([z, zd])
            away[k] += sign
            m.set_independent_state(away[:2], away[2:])
            rig.advance(m, H, H)
            ends.append(np.concatenate([m.z, m.zd]))
        column = (ends[0] - ends[1]) / 2e-5
        assert np.abs(transition[:, k] - column).max() < 0.2 * np.abs(free[:, k] - column).max()


@pytest.mark.parametrize("kind", KINDS)
def test_a_lost_definiteness_is_repaired_and_counted(kind):
    o = observer(kind)
    first = o.chosen[0] if len(o.covariance) > 4 else 0
    o.covariance[first, first] = -1.0
    o.step(None)
    assert o.repairs == 1
    chosen = o.chosen if len(o.covariance) > 4 else range(4)
    assert np.linalg.eigvalsh(o.covariance[np.ix_(chosen, chosen)]).min() > 0.0
    o.step(o.z)
    assert o.repairs == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_filter_that_fails_reports_the_time(kind):
    o = observer(kind)
    o.step(None)
    o.mechanism.qd[:] = np.nan
    with pytest.raises(RunError, match=r"^observer at t = 0\.0(05|1) s: "):
        o.step(np.zeros(2))


def test_an_unscented_filter_refuses_unknown_integrators():
    with pytest.raises(UsageError, match="integrator: expected trapezoidal or forward_euler, got 'heun'"):
        observer(UnscentedKF, integrator="heun")


def test_the_benchmark_goes_on_after_a_filter_has_failed(monkeypatch):
    class Breaks(LinkageErrors):
        def simulate(self, h):
            if self.mechanism.t > 1.0:
                raise self.fail("out of order")
            super().simulate(h)

    monkeypatch.setitem(factory.KINDS, "DEKF", factory.Kind(factory.of_errors(Breaks)))
    row = bench.run_case(ObserverRun("four_bar", "encoders", 50, "L1", "DEKF", 3))
    assert row["failed_at"] == pytest.approx(1.01, abs=0.006)
    assert row["position_rmse"] is None
    assert row["nis"] is None
    assert row["reason"].endswith("out of order")
    assert len(row["last_readings"]) == 1


@pytest.mark.parametrize("kind", [PerfectMeasurementEKF, SmoothlyConstrainedKF])
def test_uncertainty_is_limited_to_motions_that_the_constraints_permit(kind):
    o = observer(kind)
    m = o.mechanism
    rng = np.random.default_rng(5)
    for _ in range(20):
        o.step(m.z + 0.02 * rng.normal(size=2))
        jacobian, n = m.calc_jacobian(), len(m.q)
        assert np.abs(m.calc_constraints()).max() < 1e-7
        assert np.abs(jacobian @ m.qd).max() < 1e-6
    p = o.covariance
    across = jacobian @ p[:n, :n] @ jacobian.T
    assert np.abs(across).max() < 1e-2 * np.abs(p[:n, :n]).max()
    assert np.linalg.eigvalsh(p).min() > -1e-9 * np.linalg.eigvalsh(p).max()


@pytest.mark.parametrize("name", ["CEKF", "DIEKFpm", "SCKF"])
@pytest.mark.parametrize(
    ("mechanism", "sensors", "rate"),
    [
        ("four_bar", "crank_gyros", 10),
        ("five_bar", "encoders", 200),
        ("five_bar", "crank_gyros", 200),
        ("five_bar", "coupler_gyros", 10),
    ],
)
def test_filters_work_where_their_published_forms_broke_down(name, mechanism, sensors, rate):
    row = bench.run_case(ObserverRun(mechanism, sensors, rate, "L2", name, 10))
    assert row["failed_at"] is None
    assert row["repairs"] == 0
    assert row["position_relative"] < 0.05
    assert row["velocity_relative"] < 0.1
    # The model starts with an error of 11°, of which less than a quarter is left in the second half.
    assert row["position_rmse_second_half"] < 0.25 * np.pi / 16
    # Within the factor that counts as consistent in the benchmark.
    assert 1 / CONSISTENT < row["nis"] / row["readings"] < CONSISTENT


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reading", [1e3, -1e6, 1e300])
def test_an_encoder_many_turns_away_is_refused_by_name(kind, reading):
    """The reading is refused before the step; the observer continues with the next readings."""
    o = observer(kind)
    good = o.mechanism.q[[o.mechanism.index(name) for name in ("theta1", "theta2")]]
    t = o.mechanism.t
    with pytest.raises(UsageError, match="encoder of theta2: expected a reading within 100 rad"):
        o.step(np.array([good[0], reading]))
    assert o.mechanism.t == t
    o.step(good)


def test_a_position_a_million_radians_away_is_refused_quickly():
    """Before, it took minutes, and more for larger angles."""
    m = rig.shipped("five_bar")
    q, begun = m.q.copy(), time.perf_counter()
    assert not problems.solve_position(m, m.z + 1e6).converged
    assert time.perf_counter() - begun < 1.0
    assert np.array_equal(m.q, q)
