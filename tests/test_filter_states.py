"""The table of error states: names, units, places in the vector, variances and noise."""

import dataclasses

import numpy as np
import pytest
from filter_rig import H, new_filter, propagate

from vehicled.configuration import load_configuration
from vehicled.estimator import Estimator
from vehicled.filter.settings import DriveForce, Filter, Suspension
from vehicled.filter.states import (
    ATTITUDE,
    COORDINATES,
    DRIVE_FORCE,
    MODEL_ERROR,
    POSITION,
    RATES,
    SUSPENSION,
    VELOCITY,
    WHEEL_SLIP,
    InitialConditions,
    Process,
    StateTable,
    StateVector,
    make_table,
)
from vehicled.sources.gnss import WANDER
from vehicled.sources.imu import ACCELEROMETER_BIAS, GYRO_BIAS, Gyroscopes, Imu
from vehicled.sources.sensors import Sensors
from vehicled.sources.vehicle_speed import SPEED_SCALE

INITIAL = InitialConditions(speed=10.0, position_known=True, yaw_variance=0.04)
NO_SENSORS = Sensors(imu=None, gnss=None, wheel_angles=None, wheel_speeds=None, vehicle_speed=None)
UNITS = {"m", "rad", "m/s", "rad/s", "m/s²", "–"}


def table(sensors: Sensors | None = None, **settings) -> StateTable:
    setup = (sensors or Sensors()).make_setup()
    return make_table(Filter(**settings), setup.states, setup.model_error)


EVERY = {
    "default": table(),
    "no sensors": table(NO_SENSORS),
    "gyroscopes alone": table(Sensors(imu=Imu(accelerometers=None))),
    "suspensions": table(suspension=Suspension()),
    "unknown drive force": table(drive_force=DriveForce()),
}


@pytest.fixture(params=EVERY, ids=str)
def any_table(request) -> StateTable:
    return EVERY[request.param]


def test_names_are_unique_and_every_group_is_described(any_table):
    states = StateVector(any_table.groups)
    assert len(set(states.names)) == len(states.names) == len(states)
    assert len({g.name for g in any_table.groups}) == len(any_table.groups)
    for group in any_table.groups:
        assert group.unit in UNITS
        assert group.meaning
        assert group.meaning.strip() == group.meaning
        assert group.elements


def test_places_cover_the_vector_in_the_order_of_the_names(any_table):
    states = StateVector(any_table.groups)
    covered = []
    for group in any_table.groups:
        assert group in states
        assert states[group] == slice(states.places(group).start, states.places(group).stop)
        for element, name, i in zip(group.elements, group.names, states.places(group), strict=True):
            assert states.index(group, element) == i
            assert states.names[i] == name
            covered.append(i)
    assert covered == list(range(len(states)))


def test_variances_and_noise_are_finite_and_not_negative(any_table):
    n = len(StateVector(any_table.groups))
    for values in (any_table.initial(INITIAL), any_table.densities()):
        assert values.shape == (n,)
        assert np.isfinite(values).all()
        assert (values >= 0.0).all()
    for group, process in any_table.processes():
        if process is not None:
            assert process.time > 0.0
            assert np.shape(process.sigma) in ((), (len(group.elements),))
            assert np.min(process.sigma) >= 0.0


def test_rates_follow_their_coordinates_element_by_element():
    states = StateVector(table().groups)
    pairs = states[RATES[0]].start
    for coordinate, rate in zip(COORDINATES, RATES, strict=True):
        assert len(coordinate.elements) == len(rate.elements)
        assert states[rate].start - states[coordinate].start == pairs
        assert rate.unit == f"{coordinate.unit}/s"


def test_optional_states_come_last_and_only_where_asked_for():
    plain, with_suspension = (StateVector(t.groups) for t in (EVERY["default"], EVERY["suspensions"]))
    assert with_suspension.names[: len(plain)] == plain.names
    assert with_suspension.names[len(plain) :] == tuple(n for g in SUSPENSION for n in g.names)
    assert not any(g in plain for g in SUSPENSION)


def test_sensors_that_are_left_out_keep_their_states_without_variance():
    """The structure stays, so that sensors may come and go without other code."""
    none, some = EVERY["no sensors"], EVERY["default"]
    assert [g.name for g in none.groups] == [g.name for g in some.groups]
    states, initial = StateVector(none.groups), none.initial(INITIAL)
    for group in (GYRO_BIAS, ACCELEROMETER_BIAS, WANDER, SPEED_SCALE, MODEL_ERROR, DRIVE_FORCE):
        assert not initial[states[group]].any()
        assert not none.densities()[states[group]].any()
    assert EVERY["default"].initial(INITIAL)[states[GYRO_BIAS]] == pytest.approx(Gyroscopes().bias ** 2)


def test_the_start_says_how_large_the_first_errors_are():
    t = table()
    states = StateVector(t.groups)
    known, unknown = (t.initial(dataclasses.replace(INITIAL, position_known=k)) for k in (True, False))
    assert known[states[POSITION]] == pytest.approx(Filter().start.position_sigma ** 2)
    assert (unknown[states[POSITION]] < known[states[POSITION]]).all()
    assert known[states.index(ATTITUDE, "yaw")] == INITIAL.yaw_variance
    slow, fast = (t.initial(dataclasses.replace(INITIAL, speed=v)) for v in (0.0, 30.0))
    for i in (states.index(VELOCITY, "left"), *states.places(WHEEL_SLIP)):
        assert slow[i] < fast[i]


def test_a_filter_is_initialised_with_the_table():
    f = new_filter()
    assert f.states.names == StateVector(table().groups).names
    at_rest = InitialConditions(speed=0.0, position_known=False, yaw_variance=1e-6)
    assert f.covariance == pytest.approx(np.diag(table().initial(at_rest)))
    assert f.car.view("density") == pytest.approx(table().densities())
    for group, process in table().processes():
        process = process or Process(1.0, 0.0)
        time, *sigmas = f.get_process(group)
        assert (time, *sigmas) == (process.time, *np.broadcast_to(process.sigma, len(group.elements)))


def test_a_fading_state_settles_at_its_stationary_variance():
    """From above and from below. Half of a step's noise is added before it, where it fades with the state: what is
    lacking is h/τ of the variance."""
    f = new_filter()
    f.car.view("h")[0] = H
    process = Process(0.2, (0.3, 0.2, 0.1))
    f.restart_process(MODEL_ERROR, process)
    for start in (0.0, 4.0):
        for i in f.states.places(MODEL_ERROR):
            f.errors.set_variance(i, start)
        for _ in range(round(20 * process.time / H)):
            propagate(f)
        expected = np.square(process.sigma) * (1.0 - H / process.time)
        assert f.variances[f.states[MODEL_ERROR]] == pytest.approx(expected, rel=1e-3)


def test_biases_are_published_by_the_name_of_their_group():
    status = Estimator(load_configuration("prototype")).status()
    for group in (GYRO_BIAS, ACCELEROMETER_BIAS):
        assert status[group.name] == [0.0] * len(group.elements)
