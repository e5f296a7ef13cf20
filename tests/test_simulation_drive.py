"""Simulated drives: courses, the driver, the built-in manoeuvres, scenarios from YAML, and the command."""

import dataclasses
import math
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pymap3d
import pytest
from simulation_plant import SingleTrack

from replay.csv_log import read_estimates
from replay.log import open_log
from vehicled.cli import main
from vehicled.errors import RunError, SettingsError
from vehicled.messages import ESTIMATE_INDEX
from vehicled.reading.settings import loads
from vehicled.simulation.course import CourseBuilder, double_lane_change, double_lane_change_lanes
from vehicled.simulation.drive import drive_plant, simulate
from vehicled.simulation.driver import Controls, SpeedProfile, State
from vehicled.simulation.manoeuvres import MANOEUVRES, InitialMotion
from vehicled.simulation.scenario import InputTable, OpenLoop, Scenario, Sine, find_scenario
from vehicled.simulation.sensor_settings import SimulatedSensors
from vehicled.simulation.sensors import SensorPlaces, Track

# Courses


def test_a_corner_turns_by_its_angle_at_its_radius() -> None:
    path = CourseBuilder(5.0, -3.0, 0.5).straight(10.0).corner(20.0, -math.pi / 2, 8.0).build()
    assert (path.x[0], path.y[0], path.heading[0]) == (5.0, -3.0, 0.5)
    assert path.heading[-1] == pytest.approx(0.5 - math.pi / 2, abs=1e-3)
    assert np.abs(path.curvature).max() == pytest.approx(1 / 20, rel=0.01)
    assert path.s[-1] == pytest.approx(10 + 20 * math.pi / 2 + 8, abs=0.2)
    with pytest.raises(ValueError, match="shorter than its transitions"):
        CourseBuilder().corner(20.0, 0.1, 8.0)


def test_a_lane_shift_ends_straight_at_its_lateral_offset() -> None:
    path = CourseBuilder().shift(40.0, 3.5).build()
    assert path.x[-1] == pytest.approx(40.0, abs=0.1)
    assert path.y[-1] == pytest.approx(3.5, abs=0.02)
    assert path.heading[-1] == pytest.approx(0.0, abs=1e-3)


def test_a_slalom_swings_to_both_sides_and_returns() -> None:
    path = CourseBuilder().weave(36.0, 1.0, 3).build()
    assert path.y.max() == pytest.approx(1.0, abs=0.02)
    assert path.y.min() == pytest.approx(-1.0, abs=0.02)
    assert path.y[-1] == pytest.approx(0.0, abs=0.05)
    crossings = np.flatnonzero(np.diff(np.sign(path.y[50:-50])))
    assert len(crossings) == 5
    assert np.diff(path.x[50:-50][crossings]) == pytest.approx(18.0, abs=0.3)


def test_distance_from_a_path() -> None:
    path = CourseBuilder().straight(20.0).corner(30.0, math.pi, 10.0).build()
    i = 400
    left = np.array([-math.sin(path.heading[i]), math.cos(path.heading[i])])
    x, y = np.array([path.x[i], path.y[i]]) + 1.5 * left
    s = path.nearest(x, y, path.s[i] - 2.0)
    assert s == pytest.approx(path.s[i], abs=0.1)
    assert path.offset(s, x, y) == pytest.approx(1.5, abs=0.01)


def test_lanes_of_iso_3888_1() -> None:
    first, second, third = double_lane_change_lanes(2.0)
    assert [(lane.start, lane.end) for lane in (first, second, third)] == [(0, 15), (45, 70), (95, 125)]
    assert [lane.width for lane in (first, second, third)] == pytest.approx([2.45, 2.65, 2.85])
    assert second.right - first.right == pytest.approx(3.5)
    assert third.right == first.right
    assert first.middle == pytest.approx(0.0)


@pytest.mark.parametrize("width", [1.5, 1.8, 2.0])
def test_the_path_of_the_double_lane_change_stays_between_the_cones(width: float) -> None:
    path = double_lane_change(CourseBuilder(), width).build()
    for lane in double_lane_change_lanes(width):
        inside = (path.x >= lane.start) & (path.x <= lane.end)
        assert inside.any()
        assert (path.y[inside] - width / 2 > lane.right).all()
        assert (path.y[inside] + width / 2 < lane.right + lane.width).all()


def test_speed_profiles_hold_constant_speeds_and_never_overshoot() -> None:
    speed = SpeedProfile((0, 0), (2, 0), (10, 20), (15, 20), (20, 0))
    values = np.array([speed(t) for t in np.linspace(0, 25, 2501)])
    assert values.min() == 0.0
    assert values.max() == pytest.approx(20.0)
    assert speed(1.0) == 0.0
    assert speed(12.0) == pytest.approx(20.0)
    assert speed(30.0) == 0.0


# Manoeuvres


def drive(name: str, plant: SingleTrack | None = None) -> Track:
    return drive_plant(find_scenario(name), plant or SingleTrack(), None)[0]


def lateral_acceleration(track: Track) -> np.ndarray:
    return np.gradient(track.columns["vy"], track.t) + track.columns["wz"] * track.columns["vx"]


def test_the_mixed_drive_is_plausible_for_a_human_driver() -> None:
    track = drive("mixed_drive", SingleTrack(friction=0.81, errors=1.05))
    c = track.columns
    assert track.t[-1] == pytest.approx(55.744)
    for moment in (0.0, 1.0, 54.5, 55.744):
        assert c["vx"][round(moment * 1000)] == pytest.approx(0.0, abs=0.02)
    assert 20.0 < c["vx"].max() < 30.0
    lateral = lateral_acceleration(track)
    assert 5.0 < np.abs(lateral).max() < 7.0
    assert lateral.min() < -4.0
    assert lateral.max() > 4.0
    longitudinal = np.gradient(c["vx"], track.t)
    assert 3.0 < longitudinal.max() < 5.0
    assert -7.5 < longitudinal.min() < -5.0
    assert np.ptp(c["x"]) < 400
    assert np.ptp(c["y"]) < 400
    assert np.ptp(np.unwrap(c["yaw"])) > 5.5
    # Smooth: steering and pedals have no steps, and their rates are bounded.
    assert np.abs(np.diff(c["steer.rack"])).max() / 1e-3 < 0.12
    assert np.abs(np.diff(c["steer.rack"], 2)).max() < 2e-6
    assert np.abs(np.diff(c["brake.pressure"])).max() / 1e-3 < 5e8
    assert (c["brake.pressure"] >= 0).all()
    assert (c["torque.rl"] >= 0).all()
    # Brake and drive torque do not overlap, except briefly while changing.
    both = (c["brake.pressure"] > 2e5) & (c["torque.rl"] > 50)
    assert both.mean() < 0.02


def test_the_mixed_drive_is_the_same_every_time() -> None:
    scenario = dataclasses.replace(find_scenario("mixed_drive"), duration=4.0)
    one, two = drive_plant(scenario, SingleTrack(), None)[1], drive_plant(scenario, SingleTrack(), None)[1]
    assert one.tobytes() == two.tobytes()


def test_the_double_lane_change_is_driven_between_the_cones() -> None:
    plant = SingleTrack()
    c = drive("double_lane_change", plant).columns
    half = plant.handling.width / 2
    for lane in double_lane_change_lanes(plant.handling.width):
        inside = (c["x"] >= 30 + lane.start) & (c["x"] <= 30 + lane.end)
        assert inside.any()
        assert (c["y"][inside] - half > lane.right).all()
        assert (c["y"][inside] + half < lane.right + lane.width).all()
    assert c["vx"] == pytest.approx(80 / 3.6, abs=0.5)


def test_constant_radius_keeps_its_radius_while_lateral_acceleration_grows() -> None:
    scenario = dataclasses.replace(find_scenario("constant_radius"), duration=40.0)
    track = drive_plant(scenario, SingleTrack(), None)[0]
    c = track.columns
    late = track.t > 15.0
    middle_x, middle_y = (c["x"][late].min() + c["x"][late].max()) / 2, (c["y"].min() + c["y"].max()) / 2
    radius = np.hypot(c["x"][late] - middle_x, c["y"][late] - middle_y)
    assert radius == pytest.approx(40.0, abs=1.0)
    lateral = lateral_acceleration(track)
    assert lateral[late] == pytest.approx(c["vx"][late] ** 2 / 40, rel=0.05)
    assert lateral[-1] > 2 * lateral[15_000]


def test_step_steer_reaches_its_lateral_acceleration() -> None:
    track = drive("step_steer", SingleTrack(friction=1.0))
    lateral = lateral_acceleration(track)
    assert np.abs(lateral[:2000]).max() < 0.01
    assert lateral[-500:].mean() == pytest.approx(4.0, rel=0.08)


def test_sine_with_dwell_has_its_period_and_dwell() -> None:
    rack = drive("sine_with_dwell").columns["steer.rack"]
    assert rack.max() == pytest.approx(-rack.min(), rel=1e-3)
    held = np.flatnonzero(rack < 0.999 * rack.min())
    assert (held[-1] - held[0]) / 1000 == pytest.approx(0.5, abs=0.05)
    moving = np.flatnonzero(rack != 0)
    assert (moving[-1] - moving[0]) / 1000 == pytest.approx(1 / 0.7 + 0.5, abs=0.01)


def test_the_slalom_swings_about_its_line() -> None:
    slalom = drive("slalom")
    assert np.abs(slalom.columns["y"]).max() == pytest.approx(1.0, abs=0.2)
    assert 4.0 < np.abs(lateral_acceleration(slalom)).max() < 7.0


def test_acceleration_and_braking_go_straight_on() -> None:
    straight = drive("acceleration_and_braking").columns
    assert np.abs(straight["y"]).max() < 1e-6
    assert straight["vx"].max() == pytest.approx(25.0, abs=0.5)
    assert straight["vx"][-1] < 0.02


def test_a_manoeuvre_begins_at_its_initial_position() -> None:
    scenario = dataclasses.replace(
        find_scenario("slalom"),
        duration=4.0,
        initial=InitialMotion(speed=13.0, x=50.0, y=20.0, yaw=math.pi / 2),
    )
    c = drive_plant(scenario, SingleTrack(), None)[0].columns
    assert c["x"] == pytest.approx(50.0, abs=1.5)
    assert c["y"][-1] == pytest.approx(20 + 13 * 4, abs=1.0)


# Inputs


def test_a_table_is_linear_in_between_and_constant_outside() -> None:
    table = InputTable(((1.0, 0.0), (3.0, 4.0), (4.0, 4.0)))
    assert [table.value(t) for t in (0.0, 1.0, 2.0, 3.0, 3.5, 9.0)] == [0.0, 0.0, 2.0, 4.0, 4.0, 4.0]
    assert [table.first(t) for t in (0.0, 2.0, 3.5, 9.0)] == [0.0, 2.0, 0.0, 0.0]
    assert table.second(2.0) == 0.0


def test_derivatives_of_a_sine() -> None:
    sine = Sine(amplitude=0.004, frequency=0.25, start=1.0)
    assert sine.value(0.5) == sine.first(0.5) == sine.second(0.5) == 0.0
    assert sine.value(2.0) == pytest.approx(0.004)
    h = 1e-4
    for t in (1.3, 2.0, 4.7):
        assert sine.first(t) == pytest.approx((sine.value(t + h) - sine.value(t - h)) / (2 * h), abs=1e-9)
        assert sine.second(t) == pytest.approx((sine.first(t + h) - sine.first(t - h)) / (2 * h), abs=1e-8)


# Scenarios

YAML = """
duration: 3
initial: {speed: 20, yaw: 90 deg}
inputs:
  rack: {sine: {amplitude: 4 mm, frequency: 0.25}}
  rear_torque: [[0, 0], [1, 200], [2 s, 0.4 kN·m]]
  brake_pressure: 0
plant: {mass: 5, tyre_stiffness: -10 %}
sensors: {gnss: conventional, imu: null}
"""


def test_a_scenario_is_read_from_yaml() -> None:
    scenario = loads(YAML, Scenario)
    assert scenario.length == 3.0
    assert scenario.begin == InitialMotion(speed=20.0, yaw=math.pi / 2)
    assert scenario.plant.mass == pytest.approx(0.05)
    assert scenario.plant.tyre_stiffness == pytest.approx(-0.1)
    assert scenario.plant.friction == 0.0
    assert scenario.sensors == SimulatedSensors(gnss="conventional", imu=None)
    controller = scenario.make_controller(SingleTrack().handling)
    assert isinstance(controller, OpenLoop)
    assert controller.inputs(1.0) == pytest.approx(Controls(0.004, 200.0, 0.0))
    assert controller.inputs(1.5) == pytest.approx(Controls(0.004 * math.sin(0.75 * math.pi), 300.0, 0.0))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("duration: 3", "<text>:1: inputs: expected either inputs or a manoeuvre"),
        ("inputs: {}", "<text>:1: duration: missing"),
        ("inputs: {}\nmanoeuvre: slalom\nduration: 1", "<text>:1: inputs: expected either"),
        ("manoeuvre: drifting", "<text>:1: manoeuvre: expected one of step_steer, double_lane_change"),
        ("duration: -3", "<text>:1: duration: expected above 0 s"),
        ("duration: 1\ninputs:\n  rack: []", "<text>:3: inputs.rack: expected at least one [t, value]"),
        ("duration: 1\ninputs: {rack: [[1, 0], [1, 1]]}", "<text>:2: inputs.rack[1]: expected rising times"),
        ("duration: 1\ninputs: {rack: 3 deg}", "<text>:2: inputs.rack: expected a length"),
        (
            "duration: 1\ninputs: {rack: {cosine: {}}}",
            "<text>:2: inputs.rack.cosine: unknown key; did you mean 'sine'?",
        ),
        ("manoeuvre: slalom\nplant: {mass: -95}", "<text>:2: plant.mass: expected at least -90 %"),
    ],
)
def test_mistakes_in_scenarios_are_reported(text: str, message: str) -> None:
    with pytest.raises(SettingsError) as error:
        loads(text, Scenario)
    assert str(error.value).startswith(message)


def test_built_in_drives_have_plants_with_parameter_errors() -> None:
    for name in MANOEUVRES:
        errors = find_scenario(name).plant
        assert (errors.mass, errors.inertia, errors.tyre_stiffness, errors.friction) == (
            0.05,
            0.05,
            -0.1,
            -0.1,
        )
    with pytest.raises(SettingsError, match=r"^drift: expected a YAML file or one of step_steer, "):
        find_scenario("drift")


# The drive as a whole


def test_truth_and_measurements_are_of_the_same_drive() -> None:
    sensors = SimulatedSensors(origin=(math.radians(60.0), math.radians(25.0), 30.0))
    scenario = dataclasses.replace(loads(YAML, Scenario), sensors=sensors)
    measurements, truth = simulate(scenario, SingleTrack(mounting=SensorPlaces(antenna=(0.0, 0.0, 1.0))), 1)
    assert truth.t.tolist() == [4_000_000 * k for k in range(751)]
    at = {c: truth.values[:, i] for c, i in ESTIMATE_INDEX.items()}
    back = pymap3d.geodetic2enu(at["lat"], at["lon"], at["alt"], 60.0, 25.0, 30.0)
    assert np.stack(back) == pytest.approx(np.stack([at["x"], at["y"], at["z"]]), abs=1e-6)
    fixes = [m for m in measurements if m.source == "gnss"]
    rows = [m.t // 4_000_000 for m in fixes]
    east, north, up = pymap3d.geodetic2enu(
        *(np.array([m.values[f"gnss.{c}"] for m in fixes]) for c in ("lat", "lon", "alt")), 60.0, 25.0, 30.0
    )
    assert np.abs(east - at["x"][rows]).max() < 0.1
    assert np.abs(north - at["y"][rows]).max() < 0.1
    assert up - at["z"][rows] == pytest.approx(1.0, abs=0.15)
    racks = {m.t: m.values["steer.rack"] for m in measurements if m.source == "steer"}
    assert racks[1_000_000_000] == pytest.approx(0.004, abs=5e-4)
    assert (
        simulate(scenario, SingleTrack(mounting=SensorPlaces(antenna=(0.0, 0.0, 1.0))), 1)[0] == measurements
    )


def test_inputs_reach_the_plant_at_the_end_of_each_step() -> None:
    class Recorder(SingleTrack):
        seen: list[tuple[float, float]] = []  # noqa: RUF012

        def step(self, t: float, dt: float, controls: Controls) -> None:
            self.seen.append((t + dt, controls.rack))
            super().step(t, dt, controls)

    sine = Sine(amplitude=0.004, frequency=0.25)
    drive_plant(loads(YAML, Scenario), Recorder(), None)
    assert len(Recorder.seen) == 3000
    assert all(rack == pytest.approx(sine.value(t), abs=1e-12) for t, rack in Recorder.seen)


def test_a_plant_that_diverges_is_reported() -> None:
    class Exploding(SingleTrack):
        def step(self, t: float, dt: float, controls: Controls) -> None:
            self.x = math.nan if t > 0.5 else 0.0

    with pytest.raises(RunError, match=r"no longer finite at t = 0\.50"):
        simulate(loads(YAML, Scenario), Exploding(), 1)


def test_progress_is_reported() -> None:
    reported: list[float] = []
    drive_plant(loads(YAML, Scenario), SingleTrack(), reported.append)
    assert reported[0] == 0.0
    assert reported[-1] == pytest.approx(3.0)
    assert reported == sorted(reported)


def test_a_driver_at_standstill_does_not_steer_and_keeps_braking() -> None:
    controller = MANOEUVRES["mixed_drive"].make(SingleTrack().handling, InitialMotion())
    for k in range(800):
        controls = controller.inputs(k * 1e-3, State(0.0, 0.4, 0.1, 0.0, 0.0, 0.0))
    assert controls.rack == 0.0
    assert controls.rear_torque == 0.0
    assert controls.brake_pressure > 1e6


# The command


@pytest.fixture
def single_track(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the command use the plant of these tests."""
    plant = ModuleType("vehicled.simulation.plant")
    plant.make_plant = lambda configuration, errors: SingleTrack(errors=1 + errors.mass)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, plant.__name__, plant)


@pytest.mark.parametrize("kind", ["csv", "mcap"])
def test_the_command_writes_log_and_truth(kind: str, tmp_path: Path, single_track: None) -> None:
    scenario = tmp_path / "turn.yaml"
    scenario.write_text(YAML.replace("duration: 3", "duration: 1").replace("imu: null", ""))
    log, truth = tmp_path / f"drive.{kind}", tmp_path / "truth.csv"
    arguments = ["simulate", str(scenario), "--config", "prototype", "--truth", str(truth), "--output"]
    assert main([*arguments, str(log)]) == 0
    found = list(open_log(log).measurements())
    wanted, real = simulate(loads(scenario.read_text(), Scenario), SingleTrack(errors=1.05), 1)
    assert sorted(found, key=lambda m: (m.t, m.source)) == sorted(wanted, key=lambda m: (m.t, m.source))
    table = read_estimates(truth)
    assert table.t.tolist() == real.t.tolist()
    assert table.columns["yaw"] == pytest.approx(real.values[:, ESTIMATE_INDEX["yaw"]], abs=1e-12)
    first = log.read_bytes()
    assert main([*arguments, str(log)]) == 0
    assert log.read_bytes() == first
    assert main([*arguments, str(log), "--seed", "2"]) == 0
    assert log.read_bytes() != first


def test_the_receiver_is_chosen_on_the_command_line(tmp_path: Path, single_track: None) -> None:
    scenario = tmp_path / "turn.yaml"
    scenario.write_text("duration: 1\ninputs: {}\nsensors: {imu: null}")
    log = str(tmp_path / "log.csv")
    arguments = ["simulate", str(scenario), "--config", "prototype", "--output", log, "--gnss"]
    fixes = {}
    for receiver in ("rtk", "conventional", "none"):
        assert main([*arguments, receiver]) == 0
        found = [m for m in open_log(log).measurements() if m.source == "gnss"]
        fixes[receiver] = len(found)
    assert fixes == {"rtk": 51, "conventional": 6, "none": 0}


def test_the_command_lists_the_built_in_drives(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(MANOEUVRES)
    assert any("mixed_drive" in line and "55.744 s" in line for line in lines)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "SCENARIO is missing"),
        (["slalom"], "--config is missing"),
        (["slalom", "--config", "x"], "--output is missing"),
        (
            ["slalom", "--config", "prototype", "--output", "a.txt"],
            "--output a.txt: expected a name that ends in .mcap or .csv",
        ),
        (
            ["slalom", "--config", "prototype", "--output", "/no/where/a.csv"],
            "/no/where/a.csv: no such folder",
        ),
        (
            ["slalom", "--config", "prototype", "--output", "a.csv", "--seed", "-1"],
            "expected a seed of at least 0",
        ),
        (
            ["drift", "--config", "prototype", "--output", "a.csv"],
            "drift: expected a YAML file or one of step_steer",
        ),
        (["slalom", "--config", "prototype", "--output", "a.csv", "--gnss", "best"], "--gnss"),
    ],
)
def test_bad_usage_is_reported_in_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
