"""Sensor models compared with textbook formulas, and their Jacobians with finite differences."""

import numpy as np
import pytest
from filter_rig import read_tyres
from vehicle_rig import Rig, ramp, vehicle

from vehicled.vehicle.arrays import CHART, CHART_SIZE, COMPONENTS, MOUNTING, POSE
from vehicled.vehicle.car import Car
from vehicled.vehicle.interface import SensorKernels
from vehicled.vehicle.sensor_models import SENSOR_KERNELS

SENSORS = {
    "gnss_position": 3,
    "gnss_speed": 1,
    "gnss_course": 1,
    "imu_gyro": 3,
    "imu_accelerometer": 3,
    "body_velocity": 3,
}
ANGLES = {"gnss_course": [0], "body_velocity": [2]}
G = 9.81


@pytest.fixture(scope="module")
def car() -> Car:
    return Car(vehicle("prototype"), (SENSOR_KERNELS,))


def kernels(car: Car) -> SensorKernels:
    return car.result(SENSOR_KERNELS)


def rotation(roll: float, pitch: float, yaw: float) -> np.ndarray:
    (cr, cp, cy), (sr, sp, sy) = np.cos([roll, pitch, yaw]), np.sin([roll, pitch, yaw])
    rx = np.array([[1, 0, 0], [0, cr, -sr], [0, sr, cr]])
    ry = np.array([[cp, 0, sp], [0, 1, 0], [-sp, 0, cp]])
    rz = np.array([[cy, -sy, 0], [sy, cy, 0], [0, 0, 1]])
    return rz @ ry @ rx


class Pose:
    """A random motion of a chassis, in the conventions of the sensor models."""

    def __init__(self, seed: int):
        rng = np.random.default_rng(seed)
        self.r = rng.normal(size=3) * (100, 100, 2)
        self.angles = rng.uniform(-1, 1, 3) * (0.3, 0.3, np.pi)
        self.v = rng.normal(size=3) * (3, 2, 0.5) + (rng.choice([-12.0, 15.0, 30.0]), 0, 0)
        self.w, self.a, self.alpha = rng.normal(size=3), rng.normal(size=3) * 4, rng.normal(size=3) * 2
        self.antenna, self.imu = rng.normal(size=(2, 3))
        self.mounting = rotation(*rng.uniform(-0.5, 0.5, 3)).T
        """From vehicle axes to the IMU's."""
        self.R = rotation(*self.angles)

    def write(self, car: Car) -> np.ndarray:
        pose, R = car.view("pose"), self.R
        level = self.angles[2]
        along = np.array([np.cos(level), np.sin(level), 0.0])
        across = np.array([-np.sin(level), np.cos(level), 0.0])
        v = R @ self.v
        pose[:6] = *self.r, level, R[2, 0], R[2, 1]
        pose[6:12] = along @ v, across @ v, v[2], self.w[2], -self.w[1], self.w[0]
        pose[12:] = *self.a, *self.alpha
        car.view("mounting")[:] = [*self.antenna, *self.imu, *self.mounting.ravel()]
        return pose

    def expected(self) -> dict[str, np.ndarray]:
        """Readings by textbook formulas."""
        R, w = self.R, self.w
        v_antenna = R @ (self.v + np.cross(w, self.antenna))
        at_imu = self.a + np.cross(self.alpha, self.imu) + np.cross(w, np.cross(w, self.imu))
        return {
            "gnss_position": self.r + R @ self.antenna,
            "gnss_speed": np.array([np.hypot(v_antenna[0], v_antenna[1])]),
            "gnss_course": np.array([np.arctan2(v_antenna[0], v_antenna[1])]),
            "imu_gyro": self.mounting @ w,
            "imu_accelerometer": self.mounting @ (at_imu + R.T @ (0, 0, G)),
            "body_velocity": np.array([self.v[0], self.v[1], np.arctan2(self.v[1], self.v[0])]),
        }


UP = POSE.index("up")
SLOPES = {POSE.index("v1z"): POSE.index("ahead"), POSE.index("v2z"): POSE.index("left")}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("sensor", SENSORS)
def test_predicted_readings_agree_with_textbook_formulas(car, sensor, seed):
    pose = Pose(seed)
    pose.write(car)
    car.call(getattr(kernels(car), sensor))
    assert car.view("predicted")[: SENSORS[sensor]] == pytest.approx(pose.expected()[sensor], abs=1e-9)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("sensor", SENSORS)
def test_jacobian_agrees_with_differences_in_the_pose(car, sensor, seed):
    pose, m = Pose(seed).write(car), SENSORS[sensor]
    start = pose.copy()
    car.call(getattr(kernels(car), sensor))
    jacobian = car.view("sensitivity").reshape(COMPONENTS, CHART_SIZE)[:m].copy()
    differences = np.empty_like(jacobian)
    step = 1e-5
    for j in range(CHART_SIZE):
        seen = []
        for sign in (1, -1):
            pose[:] = start
            pose[j] += sign * step
            if j in SLOPES:
                # On level ground: as the slope changes, the car drives along it.
                pose[UP] += sign * step * start[SLOPES[j]]
            car.call(getattr(kernels(car), sensor))
            seen.append(car.view("predicted")[:m].copy())
        change = seen[0] - seen[1]
        for k in ANGLES.get(sensor, []):
            change[k] = (change[k] + np.pi) % (2 * np.pi) - np.pi
        differences[:, j] = change / (2 * step)
    assert jacobian == pytest.approx(differences, abs=1e-7, rel=1e-7)


def test_names_of_pose_and_mounting_fit_their_arrays(car):
    assert POSE[: len(CHART)] == CHART
    assert car.view("pose").shape == (len(POSE),)
    assert car.view("mounting").shape == (len(MOUNTING),)


@pytest.fixture(scope="module")
def cornering() -> Rig:
    """A car with the sensor kernels that turns left under brakes on a slope."""
    rig = Rig(vehicle("prototype"))
    rig.car = Car(rig.vehicle, (SENSOR_KERNELS,))
    rig.car.rest()
    rig.slope(0.04, 0.7).roll(15.0)
    rig.drive(1.0, rack=ramp(0.008), brake=lambda t: 5e5)
    return rig


def test_the_observed_pose_is_that_of_the_report(cornering):
    car = cornering.car
    car.call(kernels(car).observe_pose)
    car.report()
    pose = dict(zip(POSE, car.view("pose").copy(), strict=True))
    R = rotation(car.output("roll"), car.output("pitch"), car.output("yaw"))
    v = R @ [car.output("vx"), car.output("vy"), car.output("vz")]
    yaw = car.output("yaw")
    assert pose["yaw"] == pytest.approx(yaw)
    assert (pose["v1z"], pose["v2z"]) == pytest.approx((R[2, 0], R[2, 1]))
    assert pose["ahead"] == pytest.approx(np.cos(yaw) * v[0] + np.sin(yaw) * v[1])
    assert pose["left"] == pytest.approx(np.cos(yaw) * v[1] - np.sin(yaw) * v[0])
    assert pose["up"] == pytest.approx(v[2])
    assert (pose["wx"], -pose["-wy"], pose["wz"]) == pytest.approx(
        (car.output("wx"), car.output("wy"), car.output("wz"))
    )
    assert (pose["ax"], pose["ay"], pose["az"]) == pytest.approx(
        (car.output("ax"), car.output("ay"), car.output("az"))
    )


def test_observed_accelerations_are_the_change_of_the_velocities(cornering):
    """Over 40 ms of smooth cornering, which averages the solver's ripple away."""
    car = cornering.car
    saved = car.workspace.copy()
    seen = []
    for _ in range(41):
        car.call(kernels(car).observe_pose)
        car.report()
        R = rotation(car.output("roll"), car.output("pitch"), car.output("yaw"))
        pose = car.view("pose")
        velocity = R @ [car.output("vx"), car.output("vy"), car.output("vz")]
        w = np.array([pose[11], -pose[10], pose[9]])
        seen.append(np.concatenate([velocity, w, R @ pose[12:15], pose[15:18]]))
        car.step(1e-3)
    car.workspace[:] = saved
    values = np.array(seen)
    rate = (values[-1, :6] - values[0, :6]) / 0.04
    mean = (values[1:, 6:] + values[:-1, 6:]).mean(0) / 2
    assert mean[:3] == pytest.approx(rate[:3], abs=0.02)
    assert mean[3:] == pytest.approx(rate[3:], abs=0.02)


def test_tyres_damp_lateral_motion_as_in_the_single_track_model():
    """m ∂ÿ/∂v = −ΣC/v, m ∂ÿ/∂r = I ∂α/∂v = −ΣCa/v, I ∂α/∂r = −ΣCa²/v.

    Toe, camber and the small longitudinal slip of rolling change a tyre's slope a little.
    """
    rig = Rig(vehicle("prototype"))
    rig.car = car = Car(rig.vehicle, (SENSOR_KERNELS,))
    car.rest()
    rig.roll(20.0).drive(0.5)
    car.call(kernels(car).observe_pose)
    car.call(kernels(car).observe_tyres)
    steady, _, acceleration = read_tyres(car)
    damping = acceleration @ steady[:, :3]
    v = car.view("pose")[6]
    stiffness = []
    for w, load in zip(("fl", "fr", "rl", "rr"), car.corner_output("tyre.fz"), strict=True):
        tyre = rig.vehicle.axle(w).tyre
        one, two = tyre.lateral.df0
        ratio = load / tyre.nominal_load
        stiffness.append(ratio * (2 * one - two / 2 - (one - two / 2) * ratio))
    places = car.get_corner_parameter("wheel.centre.x")
    total, first, second = (float(np.sum(np.array(stiffness) * places**k)) for k in range(3))
    assert damping[0] == pytest.approx(np.zeros(3), abs=0.02)
    mass = rig.vehicle.mass
    assert damping[1, 1] == pytest.approx(-total / (mass * v), rel=0.05)
    assert damping[1, 2] == pytest.approx(-first / (mass * v), abs=0.06 * total * 1.3 / (mass * v))
    inertia = -second / v / damping[2, 2]
    # Wheels and suspensions add to the chassis' own inertia.
    chassis = rig.vehicle.chassis.inertia[2]
    assert chassis < inertia < 2 * chassis
    assert damping[2, 1] * inertia == pytest.approx(damping[1, 2] * mass, rel=0.15)
