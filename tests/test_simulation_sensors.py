"""Simulated sensors: statistics of their errors, and effects of their mounting."""

import dataclasses
import math
from itertools import pairwise
from typing import Any

import numpy as np
import pymap3d
import pytest

from vehicled.errors import SettingsError
from vehicled.messages import CHANNELS, ESTIMATE_COLUMNS, Measurement
from vehicled.points import rotations
from vehicled.reading.settings import loads
from vehicled.simulation.sensor_settings import (
    CONVENTIONAL,
    Errors,
    Sampling,
    SimulatedGnss,
    SimulatedImu,
    SimulatedSensors,
    SimulatedSignal,
    SimulatedSteering,
    SimulatedWheelAngles,
)
from vehicled.simulation.sensors import SensorPlaces, Track, gauss_markov, measure, specific_force

G = 9.81
NONE = SimulatedSensors(
    imu=None, gnss=None, wheel_angles=None, steering=None, brake_pressure=None, wheel_torques=None, speed=None
)
AT_ORIGIN = SensorPlaces()
PERFECT_IMU = SimulatedImu(accelerometer=Errors(), gyro=Errors())


def make_track(duration: float, gravity: float = G, dt: float = 1e-3, **columns: Any) -> Track:
    """A car at rest at the origin, but for the columns given as functions of t or numbers."""
    t = np.arange(round(duration / dt) + 1) * dt
    names = (
        *ESTIMATE_COLUMNS,
        *("steer.rack", "steer.fl", "steer.fr", "brake.pressure", "torque.rl", "torque.rr"),
    )
    values = {name: np.zeros_like(t) for name in names}
    for name, value in columns.items():
        values[name.replace("_", ".")] = value(t) if callable(value) else np.full_like(t, value)
    return Track(t, values, gravity)


def only(
    duration: float, columns: dict[str, Any], mounting: SensorPlaces = AT_ORIGIN, **sensors: Any
) -> list[Measurement]:
    """Measurements of these sensors alone in a drive."""
    track = make_track(duration, **columns)
    return measure(track, dataclasses.replace(NONE, **sensors), mounting, 1)


def channel(measurements: list[Measurement], name: str) -> np.ndarray:
    return np.array([m.values[name] for m in measurements if name in m.values])


def circling(speed: float, radius: float) -> dict[str, Any]:
    """Steady circle to the left about (0, radius), starting eastwards from the origin."""
    w = speed / radius
    return {
        "x": lambda t: radius * np.sin(w * t),
        "y": lambda t: radius * (1 - np.cos(w * t)),
        "yaw": lambda t: np.remainder(w * t + np.pi, 2 * np.pi) - np.pi,
        "vx": speed,
        "wz": w,
    }


# Accelerometers and gyros


def test_an_imu_at_rest_measures_gravity_upwards() -> None:
    found = only(1.0, {}, imu=PERFECT_IMU)
    assert channel(found, "imu.az") == pytest.approx(G)
    for name in ("imu.ax", "imu.ay", "imu.wx", "imu.wy", "imu.wz"):
        assert channel(found, name) == pytest.approx(0.0)


def test_on_a_slope_gravity_has_components_along_the_axes_of_the_car() -> None:
    # Nose up is a negative pitch in ISO 8855: an accelerometer then has a positive reading forwards.
    found = only(0.1, {"pitch": -0.1, "roll": 0.05}, imu=PERFECT_IMU)
    assert channel(found, "imu.ax") == pytest.approx(G * math.sin(0.1))
    assert channel(found, "imu.ay") == pytest.approx(G * math.sin(0.05) * math.cos(0.1))


def test_lateral_acceleration_in_steady_cornering_is_speed_squared_over_radius() -> None:
    found = only(2.0, circling(20.0, 80.0), imu=PERFECT_IMU)
    assert channel(found, "imu.ay") == pytest.approx(20.0**2 / 80)
    assert channel(found, "imu.ax") == pytest.approx(0.0, abs=1e-9)
    assert channel(found, "imu.wz") == pytest.approx(20.0 / 80)


def test_an_imu_off_the_origin_measures_accelerations_from_rotation() -> None:
    speed, radius, r = 20.0, 80.0, (1.2, -0.4, 0.3)
    w = speed / radius
    found = only(1.0, circling(speed, radius), SensorPlaces(imu_position=r), imu=PERFECT_IMU)
    assert channel(found, "imu.ax") == pytest.approx(-(w**2) * r[0], abs=1e-6)
    assert channel(found, "imu.ay") == pytest.approx(speed * w - w**2 * r[1], abs=1e-6)
    # Spinning up about the vertical: tangential acceleration.
    spin_up = {"wz": lambda t: 0.5 * t, "yaw": lambda t: 0.25 * t**2}
    found = only(1.0, spin_up, SensorPlaces(imu_position=r), imu=PERFECT_IMU)
    t = np.arange(251) / 250
    assert channel(found, "imu.ay") == pytest.approx(0.5 * r[0] - (0.5 * t) ** 2 * r[1], abs=1e-6)
    assert channel(found, "imu.ax") == pytest.approx(-0.5 * r[1] - (0.5 * t) ** 2 * r[0], abs=1e-6)


def test_accelerations_agree_with_the_path_of_the_sensor_in_the_world() -> None:
    """For a motion in all axes, against the second difference of the IMU's own position."""
    columns: dict[str, Any] = {
        "x": lambda t: 5 * np.sin(t),
        "y": lambda t: 3 * np.cos(0.7 * t),
        "z": lambda t: 0.2 * np.sin(5 * t),
        "roll": lambda t: 0.2 * np.sin(2 * t),
        "pitch": lambda t: 0.1 * np.cos(3 * t),
        "yaw": lambda t: 2 * np.sin(0.5 * t),
    }
    track = make_track(3.0, **columns)
    t = track.t
    c = track.columns
    R = rotations(c["roll"], c["pitch"], c["yaw"])
    p = np.stack([c["x"], c["y"], c["z"]], axis=1)
    v = np.gradient(p, t, axis=0, edge_order=2)
    spin = np.einsum("nji,njk->nik", R, np.gradient(R, t, axis=0, edge_order=2))
    rate = np.stack([spin[:, 2, 1], spin[:, 0, 2], spin[:, 1, 0]], axis=1)
    for names, values in ((("vx", "vy", "vz"), np.einsum("nji,nj->ni", R, v)), (("wx", "wy", "wz"), rate)):
        for i, name in enumerate(names):
            c[name] = values[:, i]
    lever = np.array([0.8, -0.5, 0.4])
    sensor = p + R @ lever
    a = np.gradient(np.gradient(sensor, t, axis=0, edge_order=2), t, axis=0, edge_order=2)
    wanted = np.einsum("nji,nj->ni", R, a + np.array([0, 0, G]))
    got = specific_force(track, tuple(lever))
    assert got[5:-5] == pytest.approx(wanted[5:-5], abs=2e-3)


def test_a_turned_imu_reports_in_its_own_axes() -> None:
    # Yawed by +90°, its x points to the car's left and its y to the rear.
    mounting = SensorPlaces(imu_rotation=(0.0, 0.0, math.pi / 2))
    found = only(0.5, circling(20.0, 80.0), mounting, imu=PERFECT_IMU)
    assert channel(found, "imu.ax") == pytest.approx(5.0)
    assert channel(found, "imu.ay") == pytest.approx(0.0, abs=1e-9)
    # Upside down, about x.
    found = only(0.5, {"wz": 0.25}, SensorPlaces(imu_rotation=(math.pi, 0.0, 0.0)), imu=PERFECT_IMU)
    assert channel(found, "imu.az") == pytest.approx(-G)
    assert channel(found, "imu.wz") == pytest.approx(-0.25)


def test_gravity_is_that_of_the_plant() -> None:
    track = make_track(0.1, gravity=9.7)
    found = measure(track, dataclasses.replace(NONE, imu=PERFECT_IMU), SensorPlaces(), 1)
    assert channel(found, "imu.az") == pytest.approx(9.7)


# Errors of a signal


def readings(errors: Errors, true: float = 0.0, n: int = 40_000, k: int = 1, dt: float = 0.01) -> np.ndarray:
    return errors.apply(np.full((n, k), true), dt, np.random.default_rng(3))


def test_white_noise_has_its_sigma_and_no_memory() -> None:
    x = readings(Errors(noise=0.3))[:, 0]
    assert x.std() == pytest.approx(0.3, rel=0.02)
    assert x.mean() == pytest.approx(0.0, abs=0.3 * 4 / 200)
    assert np.corrcoef(x[1:], x[:-1])[0, 1] == pytest.approx(0.0, abs=0.02)


def test_bias_and_scale_are_drawn_once_per_component() -> None:
    biased = readings(Errors(bias=0.5), n=3, k=5000)
    assert (biased == biased[0]).all()
    assert biased[0].std() == pytest.approx(0.5, rel=0.05)
    scaled = readings(Errors(scale=0.01), true=100.0, n=3, k=5000)
    assert (scaled == scaled[0]).all()
    assert scaled[0].mean() == pytest.approx(100.0, abs=0.1)
    assert scaled[0].std() == pytest.approx(1.0, rel=0.05)


@pytest.mark.parametrize("dt", [0.01, 0.001])
def test_the_bias_walks_with_the_root_of_time(dt: float) -> None:
    x = readings(Errors(bias_walk=0.2), n=round(4 / dt) + 1, k=2000, dt=dt)
    assert (x[0] == 0).all()
    assert x[round(1 / dt)].std() == pytest.approx(0.2, rel=0.07)
    assert x[-1].std() == pytest.approx(0.4, rel=0.07)


def test_quantisation_rounds_to_steps() -> None:
    x = readings(Errors(noise=1.0, quantisation=0.25))
    assert np.abs(x / 0.25 - np.round(x / 0.25)).max() < 1e-9
    assert readings(Errors(quantisation=0.25), true=0.3)[0, 0] == pytest.approx(0.25)


def test_signals_of_the_car_are_measured_at_their_rates() -> None:
    found = only(
        1.0,
        {"brake_pressure": 50e5, "vx": 12.3, "torque_rl": 200.0, "torque_rr": -100.0, "wheel_fl_speed": 41.0},
        brake_pressure=SimulatedSignal(),
        speed=SimulatedSignal(rate=50),
        wheel_torques=SimulatedSignal(),
        wheel_speeds=SimulatedSignal(rate=20.0),
    )
    assert channel(found, "brake.pressure") == pytest.approx(50e5)
    assert channel(found, "vehicle.speed") == pytest.approx(12.3)
    assert channel(found, "torque.rl") == pytest.approx(200.0)
    assert channel(found, "torque.rr") == pytest.approx(-100.0)
    assert channel(found, "wheel.fl.speed") == pytest.approx(41.0)
    assert len(channel(found, "wheel.rr.speed")) == 21
    assert len(channel(found, "vehicle.speed")) == 51


def test_steering_encoders_are_optional_one_by_one() -> None:
    columns = {"steer_rack": 0.01, "steer_fl": 0.1, "steer_fr": 0.09}
    found = only(0.1, columns, steering=SimulatedSteering(rack=None, road_wheels=Errors()))
    assert set(found[0].values) == {"steer.fl", "steer.fr"}
    assert found[0].values["steer.fr"] == pytest.approx(0.09)
    assert only(0.1, columns, steering=SimulatedSteering(rack=None, road_wheels=None)) == []


# Hall sensors


def test_hall_counters_lag_the_wheel_by_less_than_an_edge_and_a_constant() -> None:
    angle = {
        f"wheel_{w}_angle": (lambda t, k=k: -5 + k * t) for k, w in enumerate(("fl", "fr", "rl", "rr"), 10)
    }
    found = only(5.0, angle, wheel_angles=SimulatedWheelAngles(edges=48, rate=200.0))
    edge = 2 * math.pi / 48
    t = np.arange(1001) / 200
    phases = set()
    for k, w in enumerate(("fl", "fr", "rl", "rr"), 10):
        counted = channel(found, f"wheel.{w}.angle")
        assert np.abs(counted / edge - np.round(counted / edge)).max() < 1e-6
        off = -5 + k * t - counted
        assert off.max() - off.min() < edge + 1e-9
        assert off.max() - off.min() > 0.9 * edge
        assert -edge <= off.min()
        assert off.max() <= edge
        phases.add(round(off.max() / edge, 2))
    assert len(phases) > 1


# GNSS

EXACT = SimulatedGnss(rate=10.0, horizontal=0.0, vertical=0.0, velocity=0.0, quality=4)
ORIGIN = (math.radians(60.0), math.radians(25.0), 30.0)


def enu(found: list[Measurement]) -> np.ndarray:
    """(n, 3) positions of the antenna in the world frame."""
    lat, lon, alt = (channel(found, f"gnss.{c}") for c in ("lat", "lon", "alt"))
    return np.stack(pymap3d.geodetic2enu(lat, lon, alt, 60.0, 25.0, 30.0), axis=1)


def test_a_fix_is_where_the_antenna_is() -> None:
    lever = (0.5, -0.3, 1.1)
    found = only(
        3.0,
        {"x": 100.0, "y": -50.0, "z": 0.4, "yaw": math.pi / 2},
        SensorPlaces(antenna=lever),
        gnss=EXACT,
        origin=ORIGIN,
    )
    # Facing north, forward is north and left is west.
    assert enu(found) == pytest.approx(np.tile([100 + 0.3, -50 + 0.5, 1.5], (31, 1)), abs=1e-6)
    leaning = only(0.1, {"roll": 0.1}, SensorPlaces(antenna=(0.0, 0.0, 2.0)), gnss=EXACT, origin=ORIGIN)
    assert enu(leaning)[0] == pytest.approx([0.0, -2 * math.sin(0.1), 2 * math.cos(0.1)], abs=1e-6)


def test_course_and_speed_are_those_of_the_antenna() -> None:
    speed, radius, ahead = 10.0, 25.0, 2.0
    found = only(
        6.0, circling(speed, radius), SensorPlaces(antenna=(ahead, 0.0, 1.0)), gnss=EXACT, origin=ORIGIN
    )
    w = speed / radius
    assert channel(found, "gnss.speed") == pytest.approx(math.hypot(speed, w * ahead))
    t = np.arange(61) / 10
    # Clockwise from north; ahead of the origin, the antenna moves further into the turn.
    wanted = np.pi / 2 - (w * t + math.atan2(w * ahead, speed))
    error = np.remainder(channel(found, "gnss.course") - wanted + np.pi, 2 * np.pi) - np.pi
    assert np.abs(error).max() < 1e-4
    assert channel(found, "gnss.course").min() >= 0.0
    assert channel(found, "gnss.course").max() < 2 * math.pi
    # The speed between fixes is the same.
    step = np.linalg.norm(np.diff(enu(found)[:, :2], axis=0), axis=1) * 10
    assert step == pytest.approx(math.hypot(speed, w * ahead), rel=1e-3)


def test_a_standing_receiver_has_no_course() -> None:
    found = only(2.0, {}, gnss="rtk")
    assert len(channel(found, "gnss.speed")) == 101
    assert len(channel(found, "gnss.course")) == 0


def test_rtk_errors_have_the_stated_size() -> None:
    track = make_track(300.0, dt=0.1)
    found = measure(track, dataclasses.replace(NONE, gnss="rtk", origin=ORIGIN), SensorPlaces(), 2)
    assert enu(found).std(axis=0) == pytest.approx([0.02, 0.02, 0.03], rel=0.03)
    assert set(channel(found, "gnss.quality")) == {4.0}
    assert set(channel(found, "gnss.h_acc")) == {0.02}
    assert np.diff([m.t for m in found]) == pytest.approx(20e6)


def test_half_of_the_conventional_error_is_slow_wander() -> None:
    day = make_track(40_000.0, dt=10.0)
    found = measure(day, dataclasses.replace(NONE, gnss="conventional", origin=ORIGIN), SensorPlaces(), 2)
    x = enu(found)[:, :2]
    assert x.std() == pytest.approx(1.0, rel=0.05)
    # What two neighbouring fixes share is the wander; their difference has the white part only.
    assert np.diff(x, axis=0).std() == pytest.approx(math.sqrt(2 * 0.75), rel=0.02)
    lagged = (x[600:] * x[:-600]).mean()
    assert lagged == pytest.approx(0.25 * math.exp(-120 / 120), abs=0.04)
    assert {m.arrival - m.t for m in found} == {80_000_000}
    assert len(found) == 200_001


def test_wander_is_stationary() -> None:
    noise = np.stack([gauss_markov(200, 1.0, 50.0, np.random.default_rng(i)) for i in range(300)])
    for k in (0, 50, 199):
        assert noise[:, k].std() == pytest.approx(1.0, rel=0.1)
    assert (noise[:, 100] * noise[:, 150]).mean() == pytest.approx(math.exp(-1), abs=0.1)


def test_speed_and_course_have_the_noise_of_the_velocity() -> None:
    track = make_track(100.0, dt=0.1, vx=30.0)
    quiet = dataclasses.replace(CONVENTIONAL, rate=20.0, velocity=0.3)
    found = measure(track, dataclasses.replace(NONE, gnss=quiet), SensorPlaces(), 5)
    assert channel(found, "gnss.speed").std() == pytest.approx(0.3, rel=0.07)
    assert channel(found, "gnss.course").std() == pytest.approx(0.3 / 30, rel=0.07)


# Times, gaps and streams


def test_samples_arrive_in_order_and_late_by_their_latency() -> None:
    track = make_track(2.0, vx=5.0)
    found = measure(track, dataclasses.replace(SimulatedSensors(), gnss="conventional"), SensorPlaces(), 1)
    assert all(a.arrival <= b.arrival for a, b in pairwise(found))
    assert {(m.source, m.arrival - m.t) for m in found} >= {("gnss", 80_000_000), ("imu", 0)}
    assert {c for m in found for c in m.values} <= set(CHANNELS)
    assert [m.t for m in found if m.source == "imu"] == [4_000_000 * k for k in range(501)]


def test_outages_stop_samples_and_report_a_lost_fix() -> None:
    outages = {"gnss": [(0.5, 1.0)], "imu": [(0.2, 0.3), (0.4, 0.5)]}
    found = only(2.0, {}, gnss="rtk", imu=SimulatedImu(), outages=outages)
    imu = [m.t for m in found if m.source == "imu"]
    assert not [t for t in imu if 200_000_000 <= t < 300_000_000 or 400_000_000 <= t < 500_000_000]
    assert len(imu) == 501 - 50
    lost = [m for m in found if m.source == "gnss" and 500_000_000 <= m.t < 1_000_000_000]
    assert len(lost) == 25
    assert all(m.values == {"gnss.quality": 0.0} for m in lost)
    assert all("gnss.lat" in m.values for m in found if m.source == "gnss" and m not in lost)


def test_dropouts_have_the_given_frequency() -> None:
    found = only(20.0, {}, speed=SimulatedSignal(rate=500.0, dropout=0.2))
    assert len(found) == pytest.approx(8000, rel=0.03)


def test_the_seed_determines_all_errors() -> None:
    track = make_track(1.0, vx=10.0)
    assert measure(track, SimulatedSensors(), SensorPlaces(), 7) == measure(
        track, SimulatedSensors(), SensorPlaces(), 7
    )
    assert measure(track, SimulatedSensors(), SensorPlaces(), 7) != measure(
        track, SimulatedSensors(), SensorPlaces(), 8
    )


@pytest.mark.parametrize("gone", ["imu", "gnss", "wheel_angles", "steering", "brake_pressure", "speed"])
def test_switching_a_sensor_off_leaves_the_others_unchanged(gone: str) -> None:
    track = make_track(0.5, vx=10.0)
    everything = measure(track, SimulatedSensors(), SensorPlaces(), 7)
    rest = measure(track, SimulatedSensors(**dict[str, Any]({gone: None})), SensorPlaces(), 7)
    sources = {m.source for m in rest}
    assert len({m.source for m in everything} - sources) == 1
    assert rest == [m for m in everything if m.source in sources]


def test_an_outage_leaves_the_other_samples_unchanged() -> None:
    track = make_track(0.5, vx=10.0)
    everything = measure(track, SimulatedSensors(), SensorPlaces(), 7)
    holed = measure(track, SimulatedSensors(outages={"imu": [(0.1, 0.2)]}), SensorPlaces(), 7)
    assert holed == [m for m in everything if m.source != "imu" or not 100_000_000 <= m.t < 200_000_000]


# Settings


def test_sensors_are_read_from_yaml() -> None:
    sensors = loads(
        """
        gnss: {rate: 10, horizontal: 50 cm, vertical: 1, velocity: 0.1, quality: 2, wander: 50 %}
        imu: {gyro: {noise: 0.1 deg/s, bias_walk: 0.001}, rate: 100 Hz}
        wheel_speeds: {noise: 0.05, dropout: 1}
        speed: null
        origin: [48.1, 11.5, 500 m]
        outages: {gnss: [[10, 12 s]]}
        """,
        SimulatedSensors,
    )
    assert isinstance(sensors.gnss, SimulatedGnss)
    assert sensors.gnss.horizontal == pytest.approx(0.5)
    assert sensors.gnss.wander == pytest.approx(0.5)
    assert sensors.imu is not None
    assert sensors.imu.gyro.noise == pytest.approx(math.radians(0.1))
    assert sensors.imu.gyro.bias_walk == 0.001
    assert sensors.wheel_speeds is not None
    assert sensors.wheel_speeds.dropout == pytest.approx(0.01)
    assert sensors.speed is None
    assert sensors.origin == pytest.approx((math.radians(48.1), math.radians(11.5), 500.0))
    assert sensors.outages == {"gnss": [(10.0, 12.0)]}
    assert sensors.steering == SimulatedSteering()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gnss: galileo", "gnss: expected rtk or conventional"),
        ("imu: {rate: 0}", "imu.rate: expected at least 0.01 Hz"),
        ("imu: {gyro: {noise: -1}}", "imu.gyro.noise: expected at least 0 rad/s, got '-1'"),
        ("speed: {noise: 1 rad}", "speed.noise: expected a speed such as '20 m/s', got '1 rad'"),
        ("speed: {dropout: 150}", "speed.dropout: expected at least 0 % and at most 100 %, got '150'"),
        ("outages: {gps: []}", "outages.gps: expected imu, gnss"),
        ("outages: {gnss: [[3, 2]]}", "outages.gnss[0]: expected [from, to], got [3, 2]"),
        ("gnss: {rate: 5}", "gnss.horizontal: missing"),
    ],
)
def test_mistakes_in_sensors_are_reported(text: str, message: str) -> None:
    with pytest.raises(SettingsError) as error:
        loads(text, SimulatedSensors)
    assert message in str(error.value)


def test_samples_may_lie_between_the_steps_of_the_truth() -> None:
    found = only(
        1.0, {"x": lambda t: 3 * t, "vx": 3.0}, gnss=dataclasses.replace(EXACT, rate=7.0), origin=ORIGIN
    )
    assert [m.t for m in found] == [round(k / 7 * 1e9) for k in range(8)]
    assert enu(found)[:, 0] == pytest.approx([3 * k / 7 for k in range(8)], abs=1e-6)
    assert Sampling().latency == 0.0
