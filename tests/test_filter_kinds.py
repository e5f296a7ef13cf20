"""Other kinds of the filter on the vehicle: tyre response in the transition, estimated forces, and sigma points."""

import dataclasses
from functools import lru_cache, partial

import filter_rig
import numpy as np
import pytest
from estimator_rig import Run, bends, rms, steps, with_known_time
from filter_rig import (
    STEP_NS,
    H,
    index,
    kernels,
    observation,
    observe_tyres,
    place,
    propagate,
    set_slow_state,
    turn_left,
    without_noise,
)

from vehicled.configuration import Configuration
from vehicled.filter.settings import Kind, Unmodelled
from vehicled.filter.states import (
    ANGULAR_RATE,
    ATTITUDE,
    DRIVE_FORCE,
    POSITION,
    TYRE_FORCE,
    UNMODELLED,
    VELOCITY,
)
from vehicled.filter.vehicle_filter import VehicleFilter
from vehicled.sources.imu.model import GYRO_BIAS
from vehicled.sources.sensors import Sensors
from vehicled.sources.speeds.vehicle_speed import VehicleSpeed
from vehicled.symbolic.program import KernelHandle
from vehicled.vehicle.arrays import ADJUSTMENTS, BRAKE_PRESSURE, POSE, V1Z

SECONDS = 6.5
T = 100 * STEP_NS
TYRES = ((TYRE_FORCE, "front"), (TYRE_FORCE, "rear"))
SPEEDS = ((VELOCITY, "ahead"), (VELOCITY, "left"), (ANGULAR_RATE, "yaw"))
AHEAD, LEFT, TURNING = (POSE.index(n) for n in ("ahead", "left", "wz"))


SENSORS = Sensors(wheel_speeds=None, vehicle_speed=VehicleSpeed(latency_sigma=0.0))
"""Sensors with the same states as the prototype's, so that code compiled for its drives is used here as well."""
new_filter = partial(filter_rig.new_filter, sensors=SENSORS)


def lasting(sigma: float = 0.0) -> Unmodelled:
    """Unmodelled accelerations that do not decay."""
    return Unmodelled(longitudinal=sigma, lateral=sigma, vertical=sigma, yaw=sigma, time=1e9)


def driving(kind: Kind) -> VehicleFilter:
    """A filter at 15 m/s in a left-hand bend, one step before T. Unmodelled accelerations keep their variance."""
    f = new_filter(kind, unmodelled=lasting())
    place(f, np.zeros(3), 0.3, 15.0)
    turn_left(f, 99)
    return f


def of_kind(kind: Kind) -> Configuration:
    given = with_known_time()
    return dataclasses.replace(given, filter=dataclasses.replace(given.filter, kind=kind))


@lru_cache
def follow(kind: Kind, gnss: str) -> Run:
    """A run on the drive `bends`."""
    return Run(of_kind(kind), steps(bends(SECONDS).measurements(1, gnss=gnss)))


def planar(f: VehicleFilter) -> list[int]:
    """Indices of the errors of position, heading and planar velocities."""
    return [
        index(f, POSITION, "x"),
        index(f, POSITION, "y"),
        index(f, ATTITUDE, "yaw"),
        *(index(f, *s) for s in SPEEDS),
    ]


@pytest.mark.parametrize("kind", ["errorEKF_EJ", "errorEKF_FE"])
def test_velocity_errors_propagate_by_the_equations_of_motion(kind):
    """For a car in the plane: v̇x = ax + vy r, v̇y = ay − vx r. The tyres' parts of ax, ay, α follow the slip. The
    integration is implicit in vy, r and the tyres."""
    f = driving(kind)
    without_noise(f)
    f.get_process(DRIVE_FORCE)[1:] = 0.0
    f.car.view("h")[0] = H
    moving = [index(f, *s) for s in (*SPEEDS, *TYRES)]
    lacking = [index(f, UNMODELLED, element) for element in ("ahead", "left", "yaw")]
    # Share of a lateral force that tyres do not hold.
    share = f.pose[AHEAD] ** 2 / (f.pose[AHEAD] ** 2 + 3.0**2)
    ahead, left, r = f.pose[AHEAD], f.pose[LEFT], f.pose[TURNING]
    steady, relaxation, acceleration = observe_tyres(f)
    a = np.zeros((5, 5))
    a[:3, :3] = [[0, r, left], [-r, 0, -ahead], [0, 0, 0]]
    a[:3, 3:] = acceleration
    a[3:] = relaxation[:, None] * np.column_stack([steady[:, :3], -np.eye(2)])
    assert (relaxation > 10.0).all()
    block = np.linalg.inv(np.eye(4) - H * a[1:, 1:])
    for n, place_of in enumerate((*moving, *lacking)):
        f.errors.matrix = np.zeros((len(f.states),) * 2)
        f.errors.set_variance(place_of, 1.0)
        propagate(f)
        p = f.covariance
        if n < len(moving):
            error = np.eye(5)[n]
            expected = error + H * a @ error
            expected[1:] = block @ (error[1:] + H * a[1:, 0] * error[0])
            assert p[np.ix_(moving, moving)] == pytest.approx(np.outer(expected, expected), abs=1e-12)
        else:
            expected = np.eye(5)[n - len(moving)] * H * (1.0, share, share)[n - len(moving)]
            expected[1:] = block @ expected[1:]
            if kind == "errorEKF_EJ":
                expected[:] = 0.0
            assert p[moving, place_of] / np.sqrt(p[place_of, place_of]) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("speed", [4.0, 10.0, 25.0])
@pytest.mark.parametrize("of", [(VELOCITY, "left"), (ANGULAR_RATE, "yaw"), (UNMODELLED, "yaw")])
def test_errors_propagate_as_the_difference_of_two_simulations(speed, of):
    """Compared over 0.2 s after a small change, as tyres take centimetres to decimetres to follow."""
    f = new_filter("errorEKF_FE", unmodelled=lasting())
    place(f, np.zeros(3), 0.0, speed)
    turn_left(f, 100, rack=0.004)
    moving = [index(f, *s) for s in SPEEDS[1:]]
    saved, place_of, size = f.save(), index(f, *of), 1e-3
    transition, expected, paths = np.eye(len(f.states)), [], []
    for change in (0.0, size):
        f.restore(saved)
        f.errors.x[:] = 0.0
        f.errors.x[place_of] = change
        f.apply_corrections()
        path = []
        for k in range(101, 151):
            f.predict(k * STEP_NS, H)
            if change == 0.0:
                transition = f.calc_transition() @ transition
                expected.append(transition[moving, place_of])
            path.append([f.pose[LEFT], f.pose[TURNING]])
        paths.append(path)
    found = (np.array(paths[1]) - paths[0]) / size
    # The roll of the body causes the rest.
    error = found - np.array(expected)
    assert (
        np.sqrt(np.mean(error**2, axis=0)).max() < 0.45 * np.sqrt(np.mean(np.square(expected), axis=0)).max()
    )


def test_a_correction_of_a_tyre_force_changes_it_at_once():
    f = driving("errorEKF_FE")
    f.predict(T, H)
    saved, forces = f.save(), []
    for change in (0.0, 0.1):
        f.restore(saved)
        f.errors.x[:] = 0.0
        f.errors.x[index(f, *TYRES[0])] = change
        f.apply_corrections()
        f.predict(T + STEP_NS, H)
        f.output()
        forces.append(f.car.corner_output("tyre.fy").copy())
    change = forces[1] - forces[0]
    # The state is the force at the end of the step to come. The tyre alone would lose a share of it in that step.
    # The tolerance is half of that, as the car gives way.
    lost = 1.0 - np.exp(-observe_tyres(f)[1][0] * H)
    assert change[:2].sum() == pytest.approx(0.1 * f.car.vehicle.mass, rel=0.5 * lost)
    assert np.abs(change[2:]).max() < 0.02 * change[:2].sum()


def test_sigma_points_propagate_errors_by_the_equations_of_motion():
    """Each point is a whole car, without process noise; its tyres take some centimetres to respond."""
    found = {}
    for kind in ("UKF", "errorEKF_EJ"):
        f = driving(kind)
        without_noise(f)
        variances = np.full(len(f.states), 1e-10)
        variances[planar(f)] = 1e-6
        f.errors.matrix = np.diag(variances)
        f.predict(T, H)
        found[kind] = f
    f = found["UKF"]
    p, expected = (f.covariance for f in found.values())
    placed = planar(f)[:3]
    assert p[np.ix_(placed, placed)] == pytest.approx(expected[np.ix_(placed, placed)], rel=1e-3, abs=1e-10)
    ahead, left, turning = planar(f)[3:]
    for i in (left, turning):
        assert p[i, i] < 1e-6
        assert p[i, i] == pytest.approx(expected[i, i], rel=1e-3)
    # The velocity rotates relative to a car that turns.
    assert p[ahead, left] == pytest.approx(0.0, abs=0.2 * H * f.pose[TURNING] * 1e-6)
    # The mean of such close points is the car itself.
    assert np.abs(f.errors.x).max() < 1e-5


def test_sigma_points_give_the_same_rows_as_the_derivatives():
    f = driving("UKF")
    f.errors.matrix = np.eye(len(f.states)) * 1e-6
    f.predict(T, H)
    t = T - STEP_NS + 1_500_000
    sizes = {"gnss.position": 3, "gnss.speed": 1, "gnss.course": 1, "imu.gyro": 3, "vehicle.speed": 1}
    columns = [*planar(f), index(f, GYRO_BIAS, "x"), index(f, GYRO_BIAS, "z")]
    for kind, m in sizes.items():
        of_zero = observation(kind, t, [0.0] * m, [1.0] * m)
        assert VehicleFilter.evaluate(f, of_zero) is not None
        expected, innovation = f.errors.rows[:m].copy(), f.errors.innovation[:m].copy()
        assert f.evaluate(of_zero) is not None
        assert f.errors.rows[:m, columns] == pytest.approx(expected[:, columns], abs=2e-3)
        assert f.errors.innovation[:m] == pytest.approx(innovation, abs=1e-4)
    # A state whose variance was set from outside is linearised: the points were drawn for a smaller variance.
    f.set_variance(POSITION, "x", 25.0)
    f.evaluate(observation("gnss.position", t, [0.0] * 3, [1.0] * 3))
    assert f.errors.rows[0, index(f, POSITION, "x")] == 1.0


def test_rows_by_sigma_points_do_not_depend_on_other_uncertain_states():
    """An unknown drive force causes most of the variance of the speed; a speed still has a row of 1."""
    f = driving("UKF")
    f.errors.matrix = np.eye(len(f.states)) * 1e-6
    f.set_variance(DRIVE_FORCE, "", 30.0**2)
    f.predict(T, H)
    assert f.variances[index(f, VELOCITY, "ahead")] > 1e-3
    assert f.evaluate(observation("gnss.speed", T, [15.0], [1.0])) is not None
    assert f.errors.rows[0, index(f, VELOCITY, "ahead")] == pytest.approx(1.0, abs=0.01)


def test_curvature_shifts_the_mean_and_increases_the_variance():
    """A speed over ground with an uncertain lateral velocity: its mean is that of the norm over the points."""
    f = driving("UKF")
    without_noise(f)
    f.errors.matrix = np.eye(len(f.states)) * 1e-8
    f.set_variance(VELOCITY, "left", 3.0**2)
    f.predict(T, H)
    of_zero = observation("gnss.speed", T, [0.0], [1e-6])
    f.evaluate(of_zero)
    widened, predicted = f.errors.variance[0], -f.errors.innovation[0]
    VehicleFilter.evaluate(f, of_zero)
    # |v| = √(v² + u²) ≈ v + u²/2v: more by σ²/2v, and with a variance of σ⁴/2v² beside the linear part.
    v, sigma = f.pose[AHEAD], np.sqrt(f.variances[index(f, VELOCITY, "left")])
    assert predicted + f.errors.innovation[0] == pytest.approx(sigma**2 / (2 * v), rel=0.1)
    assert widened - f.errors.variance[0] == pytest.approx(sigma**4 / (2 * v * v), rel=0.2)


@pytest.mark.parametrize(
    ("kind", "gnss"),
    [
        ("DEKF", "conventional"),
        ("UKF", "rtk"),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in (("DEKF", "rtk"), ("UKF", "conventional"))),
    ],
)
def test_dekf_and_ukf_follow_the_drive(kind, gnss):
    truth, run = bends(SECONDS), follow(kind, gnss)
    assert run.summary.errors == 0
    keep = run.t <= 3.0 * 1e9
    assert np.degrees(rms(run.error(truth, "sideslip")[keep])) < 0.3
    assert np.degrees(rms(run.error(truth, "yaw")[keep])) < (0.3 if gnss == "rtk" else 1.0)
    assert rms(np.hypot(run.error(truth, "x"), run.error(truth, "y"))[keep]) < (
        0.02 if gnss == "rtk" else 2.0
    )


def test_the_ukf_includes_the_response_of_tyre_forces():
    """The plant's tyres are softer than the model's: without their response, errors of sideslip are 0.2 degrees."""
    truth = bends(SECONDS)
    run = follow("UKF", "rtk")
    error = run.error(truth, "sideslip")
    assert np.degrees(rms(error)) < 0.12
    assert rms(error / run["sigma.sideslip"]) < np.sqrt(3.0)


def test_unmodelled_accelerations_act_on_the_simulated_car():
    speeds = []
    for lack in (0.0, 0.5):
        f = new_filter("errorEKF_FE", unmodelled=lasting(0.2))
        place(f, np.zeros(3), 0.0, 15.0)
        set_slow_state(f, index(f, UNMODELLED, "ahead"), lack)
        for k in range(1, 126):
            f.predict(k * STEP_NS, H)
        speeds.append(f.pose[AHEAD])
    # Rotating wheels act as additional mass: about 4 % of the prototype's.
    assert speeds[1] - speeds[0] == pytest.approx(0.5 * 0.5 * 0.96, rel=0.03)


@pytest.mark.parametrize("kind", ["errorEKF", "errorEKF_EJ", "DEKF", "UKF"])
def test_unmodelled_accelerations_do_not_act_on_the_car_in_other_kinds(kind):
    poses = []
    for lack in (0.0, 0.5):
        f = new_filter(kind, unmodelled=lasting(0.2))
        place(f, np.zeros(3), 0.0, 15.0)
        for element in UNMODELLED.elements:
            set_slow_state(f, index(f, UNMODELLED, element), lack)
        for k in range(1, 26):
            f.predict(k * STEP_NS, H)
        poses.append(f.pose.copy())
    assert poses[1] == pytest.approx(poses[0], abs=1e-9)


@pytest.mark.parametrize("kind", ["errorEKF", "errorEKF_FE", "UKF"])
def test_unknown_drive_force_acts_in_all_kinds(kind):
    """Over half a second, compared with a car without such a force."""
    speeds = []
    for force in (0.0, 1.0):
        f = new_filter(kind)
        place(f, np.zeros(3), 0.0, 15.0)
        for k in range(1, 126):
            set_slow_state(f, index(f, DRIVE_FORCE), force)
            f.predict(k * STEP_NS, H)
            f.errors.x[:] = 0.0
        speeds.append(f.pose[AHEAD])
    assert speeds[1] - speeds[0] == pytest.approx(0.5 * 0.96, rel=0.03)


@pytest.mark.parametrize("force", [2.0, -4.0])
def test_an_unknown_drive_force_acts_at_the_driven_or_at_the_braked_wheels(force):
    """It drives the rear wheels and brakes all wheels, with the same force at both wheels of an axle."""
    f = new_filter("errorEKF_FE")
    place(f, np.zeros(3), 0.0, 15.0)
    set_slow_state(f, index(f, DRIVE_FORCE), force)
    f.predict(STEP_NS, H)
    along = f.car.view("adjustments")[ADJUSTMENTS.index("along")]
    assert along.sum() == pytest.approx(f.car.vehicle.mass * force, rel=1e-6)
    assert along[0] == pytest.approx(along[1])
    assert along[2] == pytest.approx(along[3])
    assert (along[:2] == 0.0).all() if force > 0.0 else (along[:2] < along[2:]).all()


def test_an_estimated_force_pitches_the_car_like_the_brakes_that_it_replaces():
    """Brakes with measured pressure are compared with an estimated force of the same deceleration."""

    def brake(pressure: float, force: float) -> tuple[float, float]:
        f = new_filter("errorEKF_FE")
        place(f, np.array([0.0, 0.0, f.car.design_height]), 0.0, 20.0)
        f.set_drive_known(True)
        f.set_drive_known(pressure > 0.0)
        for k in range(1, 251):
            f.car.corner_inputs[BRAKE_PRESSURE] = pressure
            set_slow_state(f, index(f, DRIVE_FORCE), force)
            f.predict(k * STEP_NS, H)
            f.errors.x[:] = 0.0
        return f.pose[AHEAD], f.pose[V1Z]

    coasting, level = brake(0.0, 0.0)
    speed, slope = brake(20e5, 0.0)
    # Rotating wheels act as additional mass: about 4 % of the prototype's.
    found, pitched = brake(0.0, (speed - coasting) / 0.96)
    assert found == pytest.approx(speed, abs=0.1)
    assert slope - level < -0.005
    assert pitched - level == pytest.approx(slope - level, rel=0.15)


def test_measured_torques_that_replace_an_estimated_force_increase_sigma_of_speed():
    """Tyres and wheels take 20 ms to develop the force."""
    f = new_filter("errorEKF_FE")
    place(f, np.zeros(3), 0.0, 20.0)
    set_slow_state(f, index(f, DRIVE_FORCE), -3.0)
    speed = index(f, VELOCITY, "ahead")
    before = f.variances[speed]
    f.set_drive_known(True)
    assert f.variances[speed] - before == pytest.approx(0.06**2)


def test_estimated_forces_improve_sideslip():
    """The plant's tyres are softer and have less grip than the model's, so that the model's forces are wrong."""
    truth = bends(SECONDS)
    errors: dict[str, list[float]] = {}
    for kind in ("errorEKF", "errorEKF_EJ", "errorEKF_FE"):
        run = follow(kind, "rtk")
        assert run.summary.errors == 0
        keep = run.t <= SECONDS * 1e9
        errors[kind] = [np.degrees(rms(run.error(truth, c)[keep])) for c in ("sideslip", "yaw")]
        assert rms(np.hypot(run.error(truth, "x"), run.error(truth, "y"))[keep]) < 0.02
        assert max(errors[kind]) < 0.3
    assert errors["errorEKF_FE"][0] < 0.8 * errors["errorEKF"][0]


@pytest.mark.parametrize("kind", ["errorEKF", "errorEKF_EJ"])
def test_white_noise_in_place_of_estimated_forces_leaves_the_speed_smooth(kind):
    """The speed sensor's samples have 0.03 m/s of noise. Noise as over long times left 0.019 m/s of it."""
    truth, run = bends(SECONDS), follow(kind, "rtk")
    assert rms(run.error(truth, "vx")[run.t <= SECONDS * 1e9]) < 0.015


def test_the_ukf_does_not_raise_if_its_covariance_is_not_finite():
    """The filter is not sound then, and the estimator restarts from its last good state."""
    f = driving("UKF")
    p = f.covariance
    p[0, 5] = p[5, 0] = np.nan
    f.errors.matrix = p
    f.predict(T, H)
    f.evaluate(observation("imu.gyro", T, [0.0] * 3, [1.0] * 3))
    f.apply_corrections()
    assert not f.is_sound


def test_before_the_first_step_the_transition_of_the_ukf_is_the_identity():
    f = new_filter("UKF")
    assert np.array_equal(f.calc_transition(), np.eye(len(f.states)))


def test_kernels_have_the_names_of_the_fields_that_hold_them():
    """The kernels without derivatives are found by these names."""
    f = new_filter()
    for handles in (f.car.kernels, kernels(f).sensors):
        for field in dataclasses.fields(handles):
            handle = getattr(handles, field.name)
            assert not isinstance(handle, KernelHandle) or handle.name == field.name
    assert kernels(f).sigmas.name == "sigmas"
