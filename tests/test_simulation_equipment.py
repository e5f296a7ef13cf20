"""A simulated car has the sensors of its configuration, with the properties described there."""

import dataclasses
import math
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from estimator_rig import rms

import vehicled
from vehicled import DaemonConfiguration, Drive, Measurement
from vehicled.reading.settings import config_path, loads, shipped_folder
from vehicled.simulation.equipment import Equipment, find_equipment
from vehicled.simulation.manoeuvres import InitialMotion
from vehicled.simulation.scenario import DriveInputs, Scenario
from vehicled.simulation.sensor_settings import Errors, SimulatedImu, SimulatedSensors, SimulatedSteering

SHIPPED = sorted(p.stem for p in shipped_folder().glob("*.yaml"))
FEW = ("hatchback",)
"""Cars of quick tests: with the prototype of most other tests, they have all suspensions, tyres and sensors."""
IMU = {f"imu.{axis}" for axis in ("ax", "ay", "az", "wx", "wy", "wz")}
GNSS = {f"gnss.{what}" for what in ("lat", "lon", "alt", "quality", "h_acc", "v_acc", "speed", "course")}
ANGLES, SPEEDS = ({f"wheel.{w}.{what}" for w in ("fl", "fr", "rl", "rr")} for what in ("angle", "speed"))
BUS = IMU | GNSS | SPEEDS | {"vehicle.speed", "steer.wheel"}
"""Channels of a production car."""
CHANNELS = {
    "prototype": IMU
    | GNSS
    | ANGLES
    | {
        *("steer.rack", "steer.fl", "steer.fr"),
        *("torque.rl", "torque.rr", "brake.pressure", "vehicle.speed"),
    },
    "hatchback": BUS,
    "saloon": BUS,
    "rav4": BUS,
    "compact": IMU | GNSS | ANGLES | SPEEDS | {"vehicle.speed", "steer.rack"},
    "ferrari_250lm": {*("imu.wx", "imu.wy", "imu.wz"), *("steer.fl", "steer.fr", "vehicle.speed")},
    "reference_vehicle": IMU | GNSS | ANGLES | SPEEDS | {"vehicle.speed", "steer.rack"},
}
QUIET = SimulatedSensors(
    imu=SimulatedImu(accelerometer=Errors(), gyro=Errors()),
    steering=SimulatedSteering(wheel=Errors(), rack=Errors(), road_wheels=Errors()),
)
TURN = Scenario(
    duration=1.0, initial=InitialMotion(speed=12.0), inputs=DriveInputs(rack=[(0.1, 0.0), (0.4, 0.006)])
)


@lru_cache
def load(name: str) -> DaemonConfiguration:
    return vehicled.load_configuration(name)


def written(text: str, folder: Path) -> DaemonConfiguration:
    path = folder / "car.yaml"
    path.write_text(text, encoding="utf-8")
    return vehicled.load_configuration(path)


def hatchback(folder: Path, sensors: str) -> DaemonConfiguration:
    """The hatchback with another section `sensors`."""
    text = config_path("hatchback").read_text(encoding="utf-8")
    return written(f"{text[: text.index('sensors:')]}sensors: {{{sensors}}}\n", folder)


def drive(configuration: DaemonConfiguration, sensors: SimulatedSensors = QUIET) -> Drive:
    return vehicled.simulate(dataclasses.replace(TURN, sensors=sensors), configuration)


def channels(measurements: list[Measurement]) -> set[str]:
    return {c for m in measurements for c in m.values}


def values(found: Drive, channel: str) -> np.ndarray:
    return np.array([m.values[channel] for m in found.measurements if channel in m.values])


def at(found: Drive, channel: str) -> np.ndarray:
    """Times of a channel, s."""
    return np.array([m.t for m in found.measurements if channel in m.values]) * 1e-9


@pytest.mark.parametrize("name", SHIPPED)
def test_a_log_has_the_channels_of_the_configuration_and_no_others(name: str) -> None:
    found = vehicled.simulate("step_steer", load(name), duration=0.3)
    assert channels(found.measurements) == CHANNELS[name]


@pytest.mark.parametrize(
    "name", [name if name in FEW else pytest.param(name, marks=pytest.mark.slow) for name in SHIPPED]
)
def test_the_replay_of_a_simulated_log_tracks_the_car(name: str) -> None:
    configuration = load(name)
    weave = {"amplitude": 0.005, "frequency": 0.3, "start": 1.0}
    scenario = loads(
        f"duration: 8 s\ninitial: {{speed: 15}}\ninputs: {{rack: {{sine: {weave}}}, rear_torque: 120}}",
        Scenario,
    )
    # The RAV4 has the receiver of a phone. Beside a better one, its IMU, which is mounted high, would be worse.
    found = vehicled.simulate(
        scenario, configuration, seed=2, gnss="conventional" if name == "rav4" else None
    )
    estimates, truth = vehicled.estimate(found, configuration), found.truth
    known = (estimates.t_ns > 1e9) & (estimates.t_ns <= truth.t_ns[-1])

    def error(column: str) -> np.ndarray:
        true = np.interp(estimates.t_ns, truth.t_ns, truth[column])
        return (estimates[column] - true)[known]

    assert rms(error("vx")) < 0.1
    assert rms(error("wz")) < math.radians(1.0)
    assert rms(error("sideslip")) < math.radians(0.25)
    # Without an origin of the world x and y begin at the first fix.
    assert max(np.ptp(error("x")), np.ptp(error("y"))) < (2.0 if name == "rav4" else 0.5)


def test_the_steering_wheel_turns_by_the_rack_over_the_ratio(tmp_path: Path) -> None:
    configuration = hatchback(tmp_path, "steering: {source: wheel, offset: 4 deg}")
    found = drive(configuration, dataclasses.replace(QUIET, steering=SimulatedSteering(wheel=Errors())))
    turned = 0.006 / configuration.vehicle.steering.ratio
    assert values(found, "steer.wheel")[-1] == pytest.approx(turned + math.radians(4.0))
    assert values(found, "steer.wheel")[0] == pytest.approx(math.radians(4.0))


@pytest.mark.parametrize(
    ("source", "offset", "names", "shift"),
    [
        ("rack", "2 mm", ["steer.rack"], 0.002),
        ("road_wheels", "-1 deg", ["steer.fl", "steer.fr"], -0.0174533),
    ],
)
def test_rack_and_road_wheel_angles_have_their_offsets(
    tmp_path: Path, source: str, offset: str, names: list[str], shift: float
) -> None:
    configuration = hatchback(tmp_path, f"steering: {{source: {source}, offset: {offset}}}")
    plain = hatchback(tmp_path, f"steering: {{source: {source}}}")
    sensors = dataclasses.replace(QUIET, steering=SimulatedSteering())
    moved, unmoved = drive(configuration, sensors), drive(plain, sensors)
    assert {c for c in channels(moved.measurements) if c.startswith("steer.")} == set(names)
    for name in names:
        assert values(moved, name) - values(unmoved, name) == pytest.approx(shift, abs=1e-6)


def test_time_stamps_are_late_by_the_configured_latency(tmp_path: Path) -> None:
    """With `gnss.latency: 100 ms`, a fix with the time t was measured 100 ms earlier."""
    late, on_time = (drive(hatchback(tmp_path, f"gnss: {{latency: {ms} ms}}")) for ms in (100, 0))
    assert at(late, "gnss.lat") == pytest.approx(at(on_time, "gnss.lat") + 0.1)
    assert (values(late, "gnss.lat") == values(on_time, "gnss.lat")).all()
    assert all(m.arrival >= m.t for m in late.measurements)
    assert (at(late, "imu.wz") == at(on_time, "imu.wz")).all()


def test_known_offsets_and_removed_gravity_are_in_the_readings(tmp_path: Path) -> None:
    accelerometers = "accelerometers: {gravity_removed: true, offset: 0 0 0.5 m/s²}"
    changed = drive(hatchback(tmp_path, f"imu: {{{accelerometers}, gyroscopes: {{offset: 0 0 2 deg/s}}}}"))
    plain = drive(hatchback(tmp_path, "imu: {}"))
    gravity = load("hatchback").vehicle.gravity
    assert values(plain, "imu.az")[0] == pytest.approx(gravity, abs=0.2)
    assert values(changed, "imu.az")[0] - values(plain, "imu.az")[0] == pytest.approx(0.5 - gravity, abs=0.01)
    assert values(changed, "imu.wz") - values(plain, "imu.wz") == pytest.approx(math.radians(2.0))


def test_steps_of_a_wheel_counter_are_its_resolution(tmp_path: Path) -> None:
    found = drive(hatchback(tmp_path, "wheel_angles: {resolution: 7.5 deg}"))
    edges = values(found, "wheel.rl.angle") / math.radians(7.5)
    assert edges == pytest.approx(np.round(edges), abs=1e-6)
    assert {1.0, 0.0} == set(np.round(edges) % 2), "no wider than that"


CAN = """
daemon:
  devices:
    can:
      driver: can
      options:
        dbc: prototype.dbc
        signals:
          torque.front: {message: WheelTorque, signal: TorqueRL}
          torque.rl: {message: WheelTorque, signal: TorqueRR}
          brake.pressure: {message: Brake, signal: BrakePressure}
          wheel.fl.angle: {message: WheelHall, signal: HallFL, roll_over: 65536, pulses_per_revolution: 96}
"""


def test_torques_and_pressure_are_measured_if_a_can_device_sends_them(tmp_path: Path) -> None:
    text = config_path("hatchback").read_text(encoding="utf-8")
    inputs = "  wheel_torques: {gain: 1.25}\n  brake_pressure: {offset: 0.5 bar}\n"
    configuration = written(text.replace("sensors:\n", f"sensors:\n{inputs}") + CAN, tmp_path)
    scenario = dataclasses.replace(TURN, inputs=DriveInputs(front_torque=500.0, brake_pressure=1e5))
    sensors = loads("{wheel_torques: {}, brake_pressure: {}}", SimulatedSensors)
    found = vehicled.simulate(dataclasses.replace(scenario, sensors=sensors), configuration)
    # The wheel counter is left out because of `sensors.wheel_angles: null`.
    assert channels(found.measurements) == BUS | {"torque.front", "torque.rl", "brake.pressure"}
    assert values(found, "torque.front") == pytest.approx(400.0), "the reading is less than the torque"
    assert values(found, "torque.rl") == pytest.approx(0.0), "this axle is not driven"
    assert values(found, "brake.pressure") == pytest.approx(1.5e5), "the reading is more than the pressure"


@pytest.mark.parametrize(
    ("text", "more", "less"),
    [
        ("{steering: null}", set(), {"steer.wheel"}),
        ("{imu: null, speed: null}", set(), IMU | {"vehicle.speed"}),
        ("{wheel_speeds: {noise: 0.3}}", set(), set()),
        ("{wheel_angles: {}}", ANGLES, set()),
        ("{wheel_torques: {noise: 1}}", {"torque.fl", "torque.fr"}, set()),
        ("{steering: {rate: 50, rack: {noise: 1 mm}}}", {"steer.rack"}, set()),
        ("{steering: {wheel: null}}", set(), {"steer.wheel"}),
        ("{gnss: configured}", set(), set()),
    ],
)
def test_a_scenario_overrides_the_sensors_that_it_names(text: str, more: set[str], less: set[str]) -> None:
    found = drive(load("hatchback"), loads(text, SimulatedSensors))
    assert channels(found.measurements) == (BUS | more) - less


def test_a_scenario_gives_a_receiver_to_a_car_without_one() -> None:
    found = vehicled.simulate("step_steer", load("ferrari_250lm"), duration=0.5, gnss="conventional")
    assert channels(found.measurements) == CHANNELS["ferrari_250lm"] | GNSS


def test_the_world_is_that_of_the_configuration_unless_the_scenario_has_another() -> None:
    world = load("rav4").world
    assert world is not None
    latitude = math.degrees(world.latitude)
    assert drive(load("rav4")).truth["lat"][0] == pytest.approx(latitude, abs=1e-3)
    assert values(drive(load("rav4")), "gnss.lat")[0] == pytest.approx(latitude, abs=1e-3)
    elsewhere = dataclasses.replace(QUIET, origin=(math.radians(60.0), 0.0, 0.0))
    assert drive(load("rav4"), elsewhere).truth["lat"][0] == pytest.approx(60.0, abs=1e-3)


def test_the_prototype_has_the_default_equipment() -> None:
    configuration = load("prototype")
    found = find_equipment(configuration, configuration.find_signals())
    others = {f"gnss.{what}" for what in ("vn", "ve", "vd", "s_acc", "hdop")}  # which receivers can give
    assert found.channels == CHANNELS["prototype"] | others
    assert (found.edges, found.steering_ratio) == (Equipment().edges, Equipment().steering_ratio)
    assert not any([*found.latencies.values(), *found.offsets.values()])
    assert set(found.gains.values()) == {1.0}
