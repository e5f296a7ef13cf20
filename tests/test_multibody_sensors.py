"""Sensors on mechanisms: readings against plane geometry, Jacobians against finite differences."""

import mechanism_rig as rig
import numpy as np
import pytest

from vehicled.errors import UsageError
from vehicled.multibody.batch import MechanismBatch
from vehicled.multibody.compiled import CompiledMechanism
from vehicled.multibody.description import load_description
from vehicled.multibody.mechanism import Mechanism
from vehicled.multibody.sensors import Accelerometer, Encoder, Gyroscope, Position, SensorSet

ALL = (
    Encoder("theta", 0.02),
    Gyroscope(("P", "Q"), 1e-3),
    Position("Q", 0.01),
    Accelerometer("P", ("P", "Q"), 0.1),
)


def instrumented(name, sensors):
    instruments = SensorSet(sensors)
    return Mechanism(CompiledMechanism(load_description(name), (instruments,))), instruments


def test_readings_are_those_of_plane_geometry():
    m, sensors = instrumented("four_bar", ALL)
    rig.advance(m, 5e-3, 0.5)
    angle, rate, x, y, along = sensors.calc_readings(m)
    p, v, a = (f() for f in (m.calc_point_positions, m.calc_point_velocities, m.calc_point_accelerations))
    axis = (p["Q"] - p["P"]) / 8.0
    assert angle == pytest.approx(m.q[m.index("theta")])
    assert rate == pytest.approx(np.cross(axis, v["Q"] - v["P"])[2] / 8.0)
    assert [x, y] == pytest.approx(p["Q"][:2])
    assert along == pytest.approx((a["P"] + [0.0, rig.G, 0.0]) @ axis)
    assert sensors.sigma == pytest.approx([0.02, 1e-3, 0.01, 0.01, 0.1])


def test_an_accelerometer_at_rest_reads_the_reaction_to_gravity():
    m, sensors = instrumented("pendulum", [Accelerometer("P", ("A", "P"), 0.1)])
    m.set_independent_state(np.array([-np.pi / 2]), np.zeros(1))
    assert sensors.calc_readings(m) == pytest.approx([-rig.G])


def test_jacobians_are_the_derivatives_of_the_readings():
    m, sensors = instrumented("four_bar", ALL)
    rng = np.random.default_rng(1)
    rig.advance(m, 5e-3, 0.3)
    rig.disturb(m, rng)
    for array, jacobian in zip((m.q, m.qd, m.qdd), sensors.calc_jacobians(m), strict=True):
        for k, here in enumerate(array.copy()):
            ends = []
            for there in (here + 1e-5, here - 1e-5):
                array[k] = there
                ends.append(sensors.calc_readings(m))
            array[k] = here
            assert jacobian[:, k] == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-7)


@pytest.mark.parametrize(
    ("name", "sensor", "says"),
    [
        ("four_bar", Encoder("phi", 1.0), "encoder: expected one of P.x, .* got 'phi'"),
        ("four_bar", Gyroscope(("P", "S"), 1.0), "gyroscope: expected one of the points .* got 'S'"),
        ("suspension_corner", Gyroscope(("tie_inner", "tie_outer"), 1.0), "gyroscope: expected a planar"),
        ("four_bar", Position("S", 1.0), "position: expected one of the points"),
        ("four_bar", Accelerometer("P", ("P", "S"), 1.0), "accelerometer: expected one of the points"),
    ],
)
def test_sensors_that_do_not_fit_the_mechanism_are_refused(name, sensor, says):
    with pytest.raises(UsageError, match=says):
        instrumented(name, [sensor])


@pytest.mark.parametrize("sigma", [0.0, -0.01, np.nan, np.inf, "0.1"])
@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda sigma: Encoder("theta", sigma), "encoder of theta"),
        (lambda sigma: Gyroscope(("P", "Q"), sigma), "gyroscope on P–Q"),
        (lambda sigma: Position("Q", sigma), "position of Q"),
        (lambda sigma: Accelerometer("P", ("P", "Q"), sigma), "accelerometer at P along P–Q"),
    ],
)
def test_a_standard_deviation_must_be_above_zero(make, name, sigma):
    with pytest.raises(UsageError, match=f"^{name}: sigma: expected a number above 0, got {sigma!r}$"):
        SensorSet([make(sigma)])


@pytest.mark.parametrize("points", ["a", "PQ", ("P",), ("P", "P"), ("P", "Q", "R"), ("P", 1), None])
def test_the_line_of_a_sensor_needs_two_different_points(points):
    for who, make in (
        ("gyroscope", lambda: Gyroscope(points, 1.0)),
        ("accelerometer", lambda: Accelerometer("P", points, 1.0)),
    ):
        with pytest.raises(UsageError, match=f"^{who}: expected the names of two points, such as .*, got "):
            make()


def test_sensors_need_a_mechanism_that_was_compiled_with_them():
    sensors, mechanism = SensorSet([Encoder("theta", 0.01)]), Mechanism.load("four_bar")
    for calc in (sensors.calc_readings, sensors.calc_jacobians):
        with pytest.raises(
            UsageError, match=r"^readings: expected a mechanism that was compiled with these sensors"
        ):
            calc(mechanism)


@pytest.mark.parametrize(
    ("readings", "says"),
    [
        ([1.0], r"^readings: expected 3 \(encoder of theta, position of Q, component 1, .* 2\), got 1$"),
        (1.0, r"^readings: expected 3 .*, got an array of shape \(\)$"),
        ([[1.0, 2.0, 3.0]], r"^readings: expected 3 .*, got an array of shape \(1, 3\)$"),
        ("many", "^readings: expected 3 .*, got 'many'$"),
        ([1.0, 2.0, np.nan], "^position of Q, component 2: expected a finite reading, got nan$"),
        ([-np.inf, 2.0, 3.0], "^encoder of theta: expected a finite reading, got -inf$"),
    ],
)
def test_readings_that_cannot_be_used_are_named(readings, says):
    _, sensors = instrumented("four_bar", [Encoder("theta", 0.01), Position("Q", 0.01)])
    with pytest.raises(UsageError, match=says):
        sensors.check(readings)
    assert sensors.check([1.0, 2.0, 3.0]).tolist() == [1.0, 2.0, 3.0]
    assert sensors.check(None) is None


def test_a_set_without_sensors_is_refused():
    with pytest.raises(UsageError, match="at least one"):
        SensorSet([])


@pytest.mark.parametrize("name", ["four_bar", "five_bar", "slider_crank", "suspension_corner"])
def test_instances_of_a_batch_have_the_same_state_as_each_alone(name):
    """Also with driven coordinates; inputs and applied forces are those of the mechanism."""
    m, sensors = instrumented(name, [Position(load_points(name), 0.01)])
    rng = np.random.default_rng(2)
    if "rack" in m.description.inputs:
        m.inputs[:] = 0.002, 0.05, 0.3
    m.applied[:] = rng.normal(size=len(m.q))
    count = 2 * len(m.independent) + 1
    z = m.z + 0.03 * rng.normal(size=(count, len(m.independent)))
    zd = rng.normal(size=z.shape)
    batch = MechanismBatch(m, count)
    batch.advance_time(0.01)
    assert batch.set_independent_state(z, zd)
    readings = sensors.calc_readings(batch)
    m.t += 0.01
    for k in range(count):
        assert m.set_independent_state(z[k], zd[k]).converged
        for what in ("q", "qd", "qdd"):
            assert batch.view(what)[:, k] == pytest.approx(m.view(what), rel=1e-7, abs=1e-7)
        assert batch.zdd[k] == pytest.approx(m.zdd, rel=1e-7)
        assert readings[:, k] == pytest.approx(sensors.calc_readings(m), abs=1e-9)


def load_points(name):
    return next(iter(load_description(name).points))


def test_instances_that_cannot_be_assembled_are_reported():
    m, _ = instrumented("slider_crank", [Encoder("theta", 0.01)])
    m.set_independent(np.array([m.index("stroke")]))
    assert not MechanismBatch(m, 2).set_independent_state(np.array([[0.3], [0.2]]), np.zeros((2, 1)))
