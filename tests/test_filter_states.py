"""The table of error states: names, units, places in the vector, variances and noise."""

import dataclasses

import numpy as np
import pytest
from filter_rig import H, index, make_moving, new_filter, propagate, set_slow_state, slow_states

from vehicled.configuration import load_configuration
from vehicled.estimator import Estimator
from vehicled.filter.boundary import InitialPose, Observation
from vehicled.filter.definite import is_definite
from vehicled.filter.settings import DriveForce, Filter, Suspension, Unknowns, Unmodelled
from vehicled.filter.state_table import StateTable, StateVector, make_table
from vehicled.filter.states import (
    ATTITUDE,
    COORDINATES,
    DRIVE_FORCE,
    POSITION,
    RATES,
    ROLLING_RADIUS,
    STEERING_OFFSET,
    SUSPENSION,
    TYRE_ERROR,
    TYRE_FORCE,
    UNMODELLED,
    VELOCITY,
    WHEEL_SLIP,
    InitialConditions,
    Process,
    calc_unknown_drive,
)
from vehicled.filter.vehicle_filter import VehicleFilter
from vehicled.messages import WHEELS, SlowState
from vehicled.sources.gnss.model import GNSS
from vehicled.sources.imu.imu import Imu
from vehicled.sources.imu.model import (
    ACCELEROMETER_BIAS,
    ACCELEROMETER_SCALE,
    ALIGNMENT,
    GYRO_BIAS,
    GYRO_SCALE,
)
from vehicled.sources.imu.settings import Gyroscopes
from vehicled.sources.sensors import Sensors, find_kinds

INITIAL = InitialConditions(speed=10.0, position_known=True, yaw_variance=0.04)
NO_SENSORS = Sensors(imu=None, gnss=None, wheel_angles=None, wheel_speeds=None, vehicle_speed=None)
UNITS = {"m", "rad", "s", "m/s", "rad/s", "m/s²", "–", "m/s², yaw rad/s²"}


def table(sensors: Sensors | None = None, **settings) -> StateTable:
    setup = (sensors or Sensors()).make_setup()
    return make_table(Filter(**settings), setup.states)


EVERY = {
    "default": table(),
    "no sensors": table(NO_SENSORS),
    "gyroscopes alone": table(Sensors(imu=Imu(accelerometers=None))),
    "suspensions": table(suspension=Suspension()),
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


def test_optional_states_come_last_and_only_if_configured():
    plain, with_suspension = (StateVector(t.groups) for t in (EVERY["default"], EVERY["suspensions"]))
    assert with_suspension.names[: len(plain)] == plain.names
    assert with_suspension.names[len(plain) :] == tuple(n for g in SUSPENSION for n in g.names)
    assert not any(g in plain for g in SUSPENSION)


def test_sensors_that_are_left_out_keep_their_states_without_variance():
    """The state vector stays the same, so that sensors can be added or removed without new code."""
    none, some = EVERY["no sensors"], EVERY["default"]
    assert [g.name for g in none.groups] == [g.name for g in some.groups]
    states, initial = StateVector(none.groups), none.initial(INITIAL)
    of_sensors = [g for kind in find_kinds().values() for g in kind.STATES if g in states]
    assert {GYRO_BIAS, ACCELEROMETER_BIAS, ALIGNMENT, GNSS.wander, GNSS.antenna} <= set(of_sensors)
    for group in of_sensors:
        assert not initial[states[group]].any()
        assert not none.densities()[states[group]].any()
    assert EVERY["default"].initial(INITIAL)[states[GYRO_BIAS]] == pytest.approx(Gyroscopes().bias ** 2)


def test_initial_variances_depend_on_the_initial_conditions():
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
    f = new_filter(sensors=Sensors(), kind="errorEKF_FE")
    assert f.states.names == StateVector(table().groups).names
    at_rest = InitialConditions(speed=0.0, position_known=False, yaw_variance=1e-6)
    f.open_states(lambda kind: True)
    assert f.variances == pytest.approx(table().initial(at_rest))
    radii, correlated = f.states[ROLLING_RADIUS], f.covariance - np.diag(f.variances)
    assert correlated[radii, radii] == pytest.approx(0.88 * 0.02**2 * (1.0 - np.eye(4)))
    correlated[radii, radii] = 0.0
    assert not correlated.any()
    assert f.car.view("density") == pytest.approx(table().densities())
    for group, process in table().processes():
        if group is DRIVE_FORCE:
            process = calc_unknown_drive(f.settings)
        process = process or Process(1.0, 0.0)
        time, *sigmas = f.get_process(group)
        assert (time, *sigmas) == (process.time, *np.broadcast_to(process.sigma, len(group.elements)))


def calc_surprise(f: VehicleFilter, errors: np.ndarray) -> float:
    """Normalised square of errors of the four radii, over four: 1 if they are as expected."""
    radii = f.states[ROLLING_RADIUS]
    return float(errors @ np.linalg.solve(f.covariance[radii, radii], errors)) / 4


def test_a_common_error_of_all_wheel_radii_is_likelier_than_one_of_a_single_wheel():
    """A wrong tyre size in a configuration concerns all wheels; single tyres differ little from the others."""
    f = new_filter("errorEKF_FE")
    all_of_them, one = np.full(4, 0.02), np.array([0.02, 0.0, 0.0, 0.0])
    assert calc_surprise(f, all_of_them) < 0.3
    assert calc_surprise(f, one) > 1.5
    f.slow.set_parameters({f"rolling_radius.{w}": SlowState(0.01, 0.004, "–") for w in WHEELS}, 0.0)
    radii = f.states[ROLLING_RADIUS]
    assert f.variances[radii] == pytest.approx(0.004**2)
    assert calc_surprise(f, 0.2 * all_of_them) < 0.3
    assert calc_surprise(f, 0.2 * one) > 1.5
    f.slow.forget((ROLLING_RADIUS,))
    assert f.variances[radii] == pytest.approx(0.02**2)
    assert calc_surprise(f, all_of_them) < 0.3


@pytest.mark.parametrize(("speed", "learns"), [(0.0, False), (2.0, False), (10.0, True)])
def test_tyre_errors_affect_forces_only_where_tyres_slip(speed, learns):
    """At low speed tyres stick: any misfit would then be attributed to their errors."""
    f = new_filter("errorEKF_FE")
    initial = dataclasses.replace(INITIAL, speed=speed)
    f.initialise(0, InitialPose(np.array([0.0, 0.0, f.car.design_height]), 0.0, speed), initial)
    f.set_lateral_motion(0.05 * speed, (0.1, 0.01), 0.1)
    f.predict(4_000_000, 0.004)
    rows, columns = f.states.places(TYRE_FORCE), f.states.places(TYRE_ERROR)
    assert f.calc_transition()[np.ix_(rows, columns)].any() == learns


NEEDING = [g for g in table().groups if g.needs]


def test_states_that_need_another_sensor_wait_for_it():
    """They have neither variance nor process noise, and then those of the table."""
    f = make_moving()
    assert set(NEEDING) == {GYRO_SCALE, ACCELEROMETER_SCALE, ALIGNMENT, TYRE_ERROR}
    closed = [i for g in NEEDING for i in f.states.places(g)]
    assert not f.covariance[closed].any()
    for k in range(1, 6):
        f.predict(4_000_000 * k, H)
    assert not f.covariance[closed].any()
    f.open_states(lambda kind: kind == "gnss.course")
    of_course = [g for g in NEEDING if "gnss.course" in g.needs]
    initial = table().initial(INITIAL)
    for group in NEEDING:
        expected = initial[f.states[group]] if group in of_course else 0.0
        assert f.variances[f.states[group]] == pytest.approx(expected)
    assert f.get_process(TYRE_ERROR)[1:] == pytest.approx(
        [Unknowns().cornering_stiffness] * 2 + [Unknowns().friction]
    )
    # Open states stay open, and are not initialised again.
    f.set_variance(GYRO_SCALE, "", 1e-8)
    f.open_states(lambda kind: True)
    assert f.variances[f.states[GYRO_SCALE]] == 1e-8
    assert f.variances[f.states[ALIGNMENT]] == pytest.approx(initial[f.states[ALIGNMENT]])


def test_waiting_states_stay_closed_when_settings_change_or_others_are_inflated():
    f = make_moving()
    closed = [i for g in NEEDING for i in f.states.places(g)]
    f.configure(f.settings, Sensors().make_setup())
    observation = Observation("imu.gyro", 0, [0.5, -0.4, 0.9], [1e-5] * 3)
    f.inflate(observation, f.update(observation, (0.0, 0.0)))
    f.predict(4_000_000, H)
    assert not f.covariance[closed].any()


def test_states_of_a_restored_filter_wait_again():
    f = make_moving()
    saved = f.save()
    f.open_states(lambda kind: True)
    f.restore(saved)
    f.open_states(lambda kind: True)
    for group in NEEDING:
        assert f.variances[f.states[group]] == pytest.approx(table().initial(INITIAL)[f.states[group]])


def test_changed_noise_of_the_unknown_drive_force_takes_effect_at_once():
    f = make_moving()
    f.configure(dataclasses.replace(f.settings, drive_force=DriveForce(noise=3.0)), Sensors().make_setup())
    assert f.get_process(DRIVE_FORCE)[1] == pytest.approx(3.0)  # √(τ/2) = 1 √s
    f.set_drive_known(True)
    assert f.get_process(DRIVE_FORCE)[1] == 0.0
    f.configure(f.settings, Sensors().make_setup())
    assert f.get_process(DRIVE_FORCE)[1] == 0.0


def test_the_unknown_drive_force_is_zero_while_torques_are_measured():
    f = make_moving()
    set_slow_state(f, index(f, DRIVE_FORCE), 1.5)
    f.set_drive_known(True)
    assert f.slow.get(DRIVE_FORCE) == [0.0]
    set_slow_state(f, index(f, DRIVE_FORCE), 1.5)
    f.set_drive_known(False)
    assert f.slow.get(DRIVE_FORCE) == [1.5]


def test_measured_torques_end_the_correlations_of_the_unknown_drive_force():
    """The variance that the speed has by the unknown force stays, but later speeds do not correct that force."""
    f = make_moving()
    i, ahead = index(f, DRIVE_FORCE), index(f, VELOCITY, "ahead")
    for k in range(1, 51):
        f.predict(round(k * H * 1e9), H)
    before = f.variances
    assert f.covariance[i, ahead] > 0.5 * np.sqrt(before[i] * before[ahead])
    f.set_drive_known(True)
    assert np.delete(f.covariance[i], i) == pytest.approx(0.0)
    assert f.variances[ahead] == before[ahead]


def test_late_observations_keep_the_covariance_definite_after_a_reset_of_parameters():
    """In a bend accelerometers correlate alignment and bias. After the reset, samples arrive 20 ms late."""
    f = new_filter("errorEKF_FE")
    f.place(InitialPose(np.array([0.0, 0.0, f.car.design_height]), 0.0, 15.0))
    f.restart_history(0)
    f.open_states(lambda kind: True)

    def step(k: int, age: int) -> None:
        f.car.inputs[0] = f.car.corner_inputs[0, :2] = 0.006 * min(k / 50, 1.0)
        t = round(k * H * 1e9)
        f.predict(t, H)
        at = f.evaluate(Observation("imu.accel", t - age, [0.0] * 3, [0.0025] * 3))
        assert at is not None
        read = -f.errors.innovation[:3]
        f.update(Observation("imu.accel", t - age, read.tolist(), [0.0025] * 3), (100.0, 100.0))
        f.apply_corrections()

    for k in range(1, 500):
        step(k, 0)
    f.slow.forget((ALIGNMENT, STEERING_OFFSET, TYRE_ERROR))
    for k in range(500, 520):
        step(k, 20_000_000)
        uncertain = f.variances != 0.0
        assert is_definite(f.covariance[np.ix_(uncertain, uncertain)])


def test_the_noise_of_an_unmeasured_steering_angle_is_as_given():
    f, grown = make_moving(), []
    i = index(f, STEERING_OFFSET)
    for known, noise in ((False, 0.03), (False, 0.1), (True, 0.0)):
        f.set_steering_known(known, noise)
        before = f.variances[i]
        f.predict(round((len(grown) + 1) * H * 1e9), H)
        grown.append(f.variances[i] - before)
    assert grown[:2] == pytest.approx([0.03**2 * H, 0.1**2 * H], rel=0.02)
    assert grown[2] < 1e-3 * grown[0]


def test_a_late_fix_from_before_the_steering_is_measured_again_leaves_the_covariance_definite():
    """Meanwhile the car has moved by the unknown steering angle, on which the fix depends."""
    f = make_moving()
    f.set_steering_known(False, 0.3)
    steps = 500
    for step in range(1, steps):
        f.predict(round(step * H * 1e9), H)
    f.set_steering_known(True, 0.0)
    f.predict(round(steps * H * 1e9), H)
    at = round((steps - 5) * H * 1e9)
    fix = Observation("gnss.position", at, f.pose[:3].tolist(), [0.02**2] * 3)
    assert f.update(fix, (np.inf, np.inf)).reason == "fused"
    known = np.flatnonzero(f.variances)
    scale = np.sqrt(f.variances[known])
    correlation = f.covariance[np.ix_(known, known)] / np.outer(scale, scale)
    assert np.linalg.eigvalsh(correlation).min() > 0.0


def test_states_that_are_no_parameters_and_certain_parameters_are_never_doubted():
    known = table(unknowns=Unknowns(steering_offset=0.0))
    assert STEERING_OFFSET not in known.groups
    f = new_filter("errorEKF_FE")
    slow = np.full(len(slow_states(f)), 10.0)
    slow[np.array(f.states.parameters) - len(f.states)] = 0.0
    slow_states(f)[:] = slow
    before = f.variances
    f.widen_parameters({}, 0.1)
    assert np.array_equal(f.variances, before)


def test_estimates_of_tyres_and_latencies_stay_within_their_limits():
    f = make_moving()
    places = f.states.places(TYRE_ERROR)
    for size, expected in ((5.0, 0.6), (-5.0, -0.6), (0.2, -0.4)):
        f.errors.x[places] = size
        f.apply_corrections()
        assert f.slow.get(TYRE_ERROR) == pytest.approx([expected] * 3)
    assert TYRE_ERROR.limit == 0.6
    for group, limit in ((GNSS.latency, 0.3), (GNSS.velocity_latency, 0.2), (STEERING_OFFSET, 0.75)):
        f.errors.x[index(f, group)] = 2.0
        f.apply_corrections()
        assert f.slow.get(group) == pytest.approx([limit])
    f.errors.x[f.states.places(GYRO_BIAS)] = 5.0  # without a limit
    f.apply_corrections()
    assert f.slow.get(GYRO_BIAS) == pytest.approx([5.0] * 3)


def test_a_decaying_state_settles_at_its_stationary_variance():
    """From above and from below. Half of a step's noise is added before the step and decays with the state, so that
    the variance is less by its share h/τ."""
    f = new_filter()
    f.car.view("h")[0] = H
    process = Process(0.2, (0.3, 0.2, 0.1, 0.4))
    f.restart_process(UNMODELLED, process)
    for start in (0.0, 4.0):
        for i in f.states.places(UNMODELLED):
            f.errors.set_variance(i, start)
        for _ in range(round(20 * process.time / H)):
            propagate(f)
        expected = np.square(process.sigma) * (1.0 - H / process.time)
        assert f.variances[f.states[UNMODELLED]] == pytest.approx(expected, rel=1e-3)


def test_biases_are_published_by_the_name_of_their_group():
    status = Estimator(load_configuration("prototype")).status()
    for group in (GYRO_BIAS, ACCELEROMETER_BIAS):
        assert status[group.name] == [0.0] * len(group.elements)


def test_noise_of_the_model_adapts_to_estimated_accelerations():
    """σ² tends to x² + P within tens of seconds, for lateral force and yaw moment only, and within bounds."""
    f = make_moving()
    places, process = f.states.places(UNMODELLED), f.get_process(UNMODELLED)[1:]
    given = process.copy()
    for size, share in ((1.5, 1.5), (100.0, 10.0), (0.0, 0.3)):
        for i, sigma in zip(places, given, strict=True):
            f.errors.set_variance(i, 0.0)
            f.slow.view(UNMODELLED)[i - places.start] = size * sigma
        for _ in range(1000):
            f.adapt_noise(0.1)
        assert process[[1, 3]] == pytest.approx(share * given[[1, 3]], rel=1e-3)
        assert process[[0, 2]] == pytest.approx(given[[0, 2]])
    f.configure(Filter(kind="errorEKF_FE", unmodelled=Unmodelled(adaptive=False)), Sensors().make_setup())
    f.adapt_noise(0.1)
    assert process == pytest.approx(given)
