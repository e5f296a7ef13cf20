"""Observers on mechanisms: plant noise, corrections, Jacobians, repairs and failures."""

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
from vehicled.studies.observers.continuous import ContinuousEKF
from vehicled.studies.observers.dependent import PerfectMeasurementEKF, SmoothlyConstrainedKF
from vehicled.studies.observers.discrete import DiscreteEKF
from vehicled.studies.observers.error_state import ErrorEKF, ExactErrorEKF
from vehicled.studies.observers.noise import calc_free_slope, discretise, make_units
from vehicled.studies.observers.unscented import UnscentedKF

H = 5e-3
KINDS = (
    ErrorEKF,
    ExactErrorEKF,
    DiscreteEKF,
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
    return kind(m, instruments, H, 1e-2 * np.eye(2 * f), noise, **options)


def test_sensitivity_is_the_derivative_along_the_constraints():
    """By z and ż, with all that follows from them, and by z̈."""
    sensors = (
        Gyroscope(("P", "Q"), 1e-3),
        Position("Q", 0.01),
        Accelerometer("Q", ("Q", "R"), 0.1),
        Encoder("theta2", 0.01),
    )
    o = observer(DiscreteEKF, sensors=sensors)
    m = rig.advance(o.mechanism, H, 0.2)
    state = [m.z, m.zd, m.zdd]

    def read(z, zd, zdd):
        assert problems.solve_position(m, z).converged
        problems.solve_velocity(m, zd)
        problems.solve_acceleration(m, zdd)
        return o.sensors.calc_readings(m)

    read(*state)
    jacobians = o.calc_sensitivity()
    for which, jacobian in enumerate(jacobians):
        for k in range(2):
            ends = []
            for sign in (1, -1):
                there = [x.copy() for x in state]
                there[which][k] += sign * 1e-5
                ends.append(read(*there))
            assert jacobian[:, k] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_sure_reading_moves_the_estimate_to_it(kind):
    """Encoders so good that the filter follows them; the mechanism stays in one piece."""
    sensors = (Encoder("theta1", 1e-6), Encoder("theta2", 1e-6))
    o = observer(kind, sensors=sensors)
    assert o.step(None) is None
    target = o.z + np.array([0.02, -0.03])
    innovation = o.step(target)
    assert o.z == pytest.approx(target, abs=1e-5)
    assert innovation.value == pytest.approx([0.02, -0.03], abs=0.01)
    assert innovation.nis == pytest.approx(
        innovation.value @ np.linalg.inv(innovation.covariance) @ innovation.value
    )
    size = len(o.covariance) // 2
    angles = np.diag(o.covariance)[:2] if size == 2 else np.diag(o.covariance)[o.independent]
    assert angles == pytest.approx([1e-12, 1e-12], rel=0.1)
    assert np.array_equal(o.covariance, o.covariance.T)
    o.step(target)
    assert np.abs(o.mechanism.calc_constraints()).max() < 1e-4


@pytest.mark.parametrize("kind", KINDS)
def test_a_filter_without_readings_is_the_simulation(kind):
    o = observer(kind)
    alone = rig.advance(Mechanism.load("five_bar"), H, 0.2)
    for _ in range(40):
        o.step(None)
    # The trapezoidal rule on z alone, forward Euler, and the mean over wide sigma points stray a little.
    strays = {DiscreteEKF: 0.1, UnscentedKF: 0.1, ErrorEKF: 1e-9, ExactErrorEKF: 1e-9}
    assert o.z == pytest.approx(alone.z, abs=strays.get(kind, 1e-3))
    assert o.mechanism.t == pytest.approx(0.2)


def test_exact_transition_is_that_of_the_simulation():
    """Its columns against runs of one step from displaced states, which free masses are far from."""
    o = observer(ExactErrorEKF)
    m = rig.advance(o.mechanism, H, 0.3)
    z, zd = m.z, m.zd
    transition, _ = o.calc_transition()
    free, _ = ErrorEKF.calc_transition(o)
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
    first = o.independent[0] if len(o.covariance) > 4 else 0
    o.covariance[first, first] = -1.0
    o.step(None)
    assert o.repairs == 1
    chosen = o._chosen if len(o.covariance) > 4 else range(4)
    assert np.linalg.eigvalsh(o.covariance[np.ix_(chosen, chosen)]).min() > 0.0
    o.step(o.z)
    assert o.repairs == 1


def test_a_repair_keeps_what_was_definite():
    o = observer(ErrorEKF)
    p = np.diag([1e-4, 4.0, 1e-8, -1e-3])
    repaired = o.repair(p)
    assert np.diag(repaired)[:3] == pytest.approx(np.diag(p)[:3], rel=1e-9)
    assert 0.0 < repaired[3, 3] < 1e-9
    sound = np.diag([1e-12, 1.0, 1e6, 1.0]) + 1e-13
    assert np.array_equal(o.repair(sound), sound)
    assert o.repairs == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_filter_that_cannot_go_on_says_when(kind):
    o = observer(kind)
    o.step(None)
    with pytest.raises(RunError, match=rf"{kind.__name__} at t = 0.01 s: "):
        o.step(np.array([np.nan, 0.0]))


def test_an_unscented_filter_takes_two_rules():
    with pytest.raises(UsageError, match="integrator: expected trapezoidal or forward_euler, got 'heun'"):
        observer(UnscentedKF, integrator="heun")


def test_the_benchmark_goes_on_after_a_filter_has_failed(monkeypatch):
    class Breaks(ErrorEKF):
        def step(self, readings):
            if self.mechanism.t > 1.0:
                raise self.fail("out of order")
            return super().step(readings)

    monkeypatch.setitem(bench.FILTERS, "DEKF", bench._error_state(Breaks))
    row = bench.run_case(bench.Run("four_bar", "encoders", 50, "L1", "DEKF", 3))
    assert row["failed_at"] == pytest.approx(1.01, abs=0.006)
    assert row["position_rmse"] is None and row["nis"] is None
    assert row["reason"].endswith("out of order") and len(row["last_readings"]) == 1


@pytest.mark.parametrize("kind", [PerfectMeasurementEKF, SmoothlyConstrainedKF])
def test_uncertainty_lives_where_the_constraints_let_the_mechanism_move(kind):
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
    ("mechanism", "sensors", "rate", "published"),
    [
        ("four_bar", "crank_gyros", 10, {"DIEKFpm": 0.181, "SCKF": 0.160}),
        ("five_bar", "encoders", 200, {"CEKF": 0.075, "DIEKFpm": 0.0072, "SCKF": 0.00905}),
        ("five_bar", "crank_gyros", 200, {"DIEKFpm": 0.0537}),
        ("five_bar", "coupler_gyros", 10, {"DIEKFpm": 0.0499}),
    ],
)
def test_filters_hold_where_their_published_forms_broke_down(name, mechanism, sensors, rate, published):
    row = bench.run_case(bench.Run(mechanism, sensors, rate, "L2", name, 10))
    assert row["failed_at"] is None
    assert row["position_rmse"] < min(published.get(name, 1.0), 0.1)
    # Of published forms with noise on every dependent coordinate: 1e-5 to 0.04.
    expected = 1.0 if mechanism == "four_bar" else 2.0
    assert 0.03 * expected < row["nis"] < 2.0 * expected
