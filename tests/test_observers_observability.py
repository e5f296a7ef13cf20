"""Observability: closed forms, finite differences of simulated readings, and sensors without information."""

from dataclasses import dataclass, fields

import mechanism_rig as rig
import numpy as np
import pytest

from vehicled.errors import UsageError
from vehicled.multibody.compiled import CompiledMechanism
from vehicled.multibody.description import load_description
from vehicled.multibody.mechanism import Mechanism
from vehicled.multibody.sensors import Accelerometer, Encoder, Gyroscope, SensorSet
from vehicled.studies.observers.factory import KINDS, make_observer
from vehicled.studies.observers.observability import calc_observability, find_hidden

H = 5e-3
BAR = """
space: planar
{gravity}
ground: {{points: {{A: 0 0 m}}}}
points: {{P: 1 0 m}}
angles: {{theta: {{between: [x, [A, P]], start: -60 deg}}}}
bodies: {{bar: {{kind: bar, points: [A, P], length: 1 m, mass: 1 kg}}}}
independent: [theta]
"""


@dataclass(frozen=True)
class Sum:
    """A user's own sensor: a combination of coordinates, possibly of none of them."""

    shares: dict[str, float]
    sigma: float = 0.1

    def read(self, model):
        total = model.graph.constant(0.5)
        for c in model.system.coordinates:
            if c.name in self.shares:
                total = total + self.shares[c.name] * c.q
        return [total]


def bar(*sensors, gravity=False) -> tuple[Mechanism, SensorSet]:
    instruments = SensorSet(sensors)
    text = BAR.format(gravity="gravity: 0 -9.81 m/s²" if gravity else "")
    return Mechanism(CompiledMechanism(rig.describe(text), (instruments,))), instruments


def five_bar(*sensors) -> tuple[Mechanism, SensorSet]:
    instruments = SensorSet(sensors)
    return Mechanism(CompiledMechanism(load_description("five_bar"), (instruments,))), instruments


def test_observability_of_a_free_bar_with_an_encoder_is_the_closed_form():
    """Angle and rate of a bar without forces: the readings at 2, 4, … of 20 steps are theta + t rate."""
    m, sensors = bar(Encoder("theta", 0.02))
    found = calc_observability(m, sensors, H, 0.1**2 * np.eye(2), 20, every=2)
    t = H * np.arange(2, 21, 2)
    _, expected, directions = np.linalg.svd(np.column_stack([np.ones(10), t]) * 0.1 / 0.02)
    assert found.values == pytest.approx(expected, rel=1e-9)
    assert found.names == ("theta", "rate of theta")
    assert expected[1] < 1.0 < expected[0]
    assert found.rank == 1
    # Least observable is the rate, together with the angle that leaves the mean reading unchanged.
    angle, rate = directions[1]
    assert angle / rate == pytest.approx(-t.mean(), rel=0.05)
    assert found.unobservable == [f"−{-angle / rate:.2g} theta + rate of theta"]


def test_a_state_that_readings_do_not_improve_counts_as_unobservable():
    m, sensors = bar(Encoder("theta", 0.02))
    ranks = [calc_observability(m, sensors, H, s**2 * np.eye(2), 20).rank for s in (1e-4, 0.1, 10.0)]
    assert ranks == [0, 1, 2]


def test_a_gyroscope_determines_an_angle_only_if_gravity_depends_on_it():
    gyroscope, p = Gyroscope(("A", "P"), 1e-3), 0.1**2 * np.eye(2)
    free = calc_observability(*bar(gyroscope), H, p, 100)
    assert free.rank == 1
    assert free.unobservable == ["theta"]
    assert not free.complete
    assert free.values[1] < 1e-9 * free.values[0]
    swinging = calc_observability(*bar(gyroscope, gravity=True), H, p, 100)
    assert swinging.complete
    assert swinging.unobservable == []
    blind = calc_observability(*bar(gyroscope, gravity=True), H, p, 100, free_masses=True)
    assert blind.unobservable == ["theta"]


def test_singular_values_are_those_of_readings_from_displaced_starts():
    """Finite differences of whole simulations, without linearisation."""
    instruments = (Gyroscope(("P", "Q"), 1e-3), Accelerometer("Q", ("Q", "R"), 0.2), Encoder("theta2", 0.02))
    m, sensors = five_bar(*instruments)
    start, steps, every, h = m.get_state(), 200, 20, 1e-3
    z, zd = m.z, m.zd

    def read(displacement):
        m.set_state(start)
        assert m.set_independent_state(z + displacement[:2], zd + displacement[2:]).converged
        readings = []
        for _ in range(steps // every):
            rig.advance(m, h, every * h, "matrix_r")
            readings.append(sensors.calc_readings(m) / sensors.sigma)
        return np.concatenate(readings)

    sigma = np.array([0.05, 0.08, 0.3, 0.2])
    eps = 1e-5
    columns = [(read(eps * e) - read(-eps * e)) / (2 * eps) for e in np.eye(4)]
    expected = np.linalg.svd(np.column_stack(columns) * sigma, compute_uv=False)
    m.set_state(start)
    found = calc_observability(m, sensors, h, np.diag(sigma**2), steps, every)
    assert found.values == pytest.approx(expected, rel=0.005)
    assert m.t == pytest.approx(steps * h)


def test_a_sensor_without_information_has_rank_zero():
    found = calc_observability(*five_bar(Sum({})), H, 0.01 * np.eye(4), 20)
    assert found.rank == 0
    assert not found.values.any()
    assert found.unobservable == ["theta1", "theta2", "rate of theta1", "rate of theta2"]


def test_an_unobservable_combination_is_named():
    """A single reading of θ1 + θ2 depends neither on their difference nor on the rates."""
    found = calc_observability(*five_bar(Sum({"theta1": 1.0, "theta2": 1.0}, 0.01)), H, np.eye(4), 1)
    assert found.rank == 1
    hidden = set(found.unobservable)
    assert hidden & {"theta1 − theta2", "−theta1 + theta2"}
    assert {"rate of theta1", "rate of theta2"} < hidden


def test_states_on_which_no_reading_depends_are_found_whatever_the_noise():
    """Neither the initial uncertainty matters nor that one sensor has much more noise than another."""
    assert find_hidden(*bar(Encoder("theta", 1e3)), H) == []
    assert find_hidden(*five_bar(Encoder("theta1", 1e-9), Encoder("theta2", 1.0)), H) == []
    gyroscope = Gyroscope(("A", "P"), 1e-3)
    assert find_hidden(*bar(gyroscope), H) == ["theta"]
    assert find_hidden(*bar(gyroscope, gravity=True), H) == []
    assert find_hidden(*bar(gyroscope, gravity=True), H, free_masses=True) == ["theta"]
    assert find_hidden(*five_bar(Sum({})), H) == ["theta1", "theta2", "rate of theta1", "rate of theta2"]


def test_states_that_a_motion_would_show_are_not_hidden_at_rest():
    """At rest and without gravity, gyroscopes on couplers do not show the angles; in motion they do."""
    m, sensors = five_bar(Gyroscope(("P", "Q"), 1e-3), Gyroscope(("Q", "R"), 1e-3))
    m.set_parameters({"gravity.y": 0.0})
    m.set_independent_state(m.z, m.zd).require("rest")
    at_rest = calc_observability(m, sensors, H, np.eye(4), 20)
    assert at_rest.values[2] < 1e-9 * at_rest.values[0]
    before = m.get_state()
    assert find_hidden(m, sensors, H) == []
    after = m.get_state()
    for field in fields(before):
        assert np.array_equal(getattr(before, field.name), getattr(after, field.name)), field.name


@pytest.mark.parametrize("kind", KINDS)
def test_an_observer_that_cannot_determine_its_state_is_refused(kind):
    """A gyroscope does not show the angle of a free bar."""
    m, sensors = bar(Gyroscope(("A", "P"), 1e-3))
    settings = {"start_sigma": 0.1, "density": 0.1, "euler_density": 4e-5}
    says = f"^{kind}: gyroscope on A–P cannot determine theta: expected further sensors, or allow_unobservable=True$"
    with pytest.raises(UsageError, match=says):
        make_observer(kind, m, sensors, H, **settings)
    observer = make_observer(kind, m, sensors, H, **settings, allow_unobservable=True)
    observer.step(np.zeros(1))


@pytest.mark.parametrize("kind", ["errorEKF", "DEKF"])
def test_kinds_without_forces_are_refused_if_a_state_is_observable_only_by_forces(kind):
    m, sensors = bar(Gyroscope(("A", "P"), 1e-3), gravity=True)
    says = f"^{kind}: .* cannot determine theta: expected a kind that knows .* such as errorEKF_EJ, or allow_"
    with pytest.raises(UsageError, match=says):
        make_observer(kind, m, sensors, H, start_sigma=0.1, density=0.1, euler_density=4e-5)
    make_observer("errorEKF_EJ", m, sensors, H, start_sigma=0.1, density=0.1)


def test_an_observer_of_a_fully_driven_mechanism_is_refused():
    sensors = SensorSet([Encoder("theta", 1e-3)])
    description = rig.describe(BAR.format(gravity="").replace("independent: [theta]", "drives: {theta: t}"))
    m = Mechanism(CompiledMechanism(description, (sensors,)))
    with pytest.raises(UsageError, match=r"^no degree of freedom: expected"):
        make_observer("errorEKF", m, sensors, H, start_sigma=0.1, density=0.1)
