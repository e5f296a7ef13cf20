"""`vehicled new`: its questions and the files it writes, with a file of answers and in an emulated terminal."""

import math
import os
import re
import shlex
import signal
import threading
import time
from pathlib import Path

import pytest
import yaml
from live_rig import IMU
from terminal_rig import Session

from replay.emulate import PseudoTerminal
from replay.encoders import NmeaEncoder, XsensEncoder
from vehicled.cli import main
from vehicled.daemon.configuration import load_daemon_configuration
from vehicled.errors import UsageError
from vehicled.messages import Measurement
from vehicled.reading.settings import load, shipped_folder
from vehicled.setup.answers import Answers
from vehicled.setup.dialogue import read_answer
from vehicled.setup.questions import RECORD, SENSORS, VEHICLE, make_bus_questions

ASKED = [*VEHICLE, *SENSORS, *make_bus_questions(()), RECORD]
DBC = shipped_folder() / "prototype.dbc"


# -- by a file of answers ------------------------------------------------------------------------------------


def make(tmp_path, answers="", *options):
    path, file = tmp_path / "my_car.yaml", tmp_path / "answers.yaml"
    file.write_text(answers or "mass: 1400 kg\n")
    status = main(["new", str(path), "--answers", str(file), "--no-probe", *options])
    return status, path


def test_a_typical_car_passes_the_check(tmp_path, capsys):
    path = tmp_path / "my_car.yaml"
    assert main(["new", str(path), "--yes", "--no-probe"]) == 0
    assert main(["check", str(path)]) == 0
    assert "degrees of freedom   14" in capsys.readouterr().out
    assert os.listdir(tmp_path) == ["my_car.yaml"]


@pytest.mark.parametrize(
    ("driven", "mass", "wheelbase", "height", "tyre"),
    [
        ("rear", 600, 2.1, 1.2, "175/65 R14"),
        ("front", 1000, 2.4, 1.1, "205/50 ZR15"),
        ("rear", 1800, 2.85, 1.45, "225/45R18 95W"),
        ("all", 2600, 3.0, 1.8, "275/50 R20"),
    ],
)
def test_typical_cars_of_all_sizes_are_valid(tmp_path, driven, mass, wheelbase, height, tyre):
    answers = f"driven: {driven}\nmass: {mass} kg\nwheelbase: {wheelbase} m\nheight: {height} m\nfront_tyre: {tyre}\n"
    status, path = make(tmp_path, answers)
    assert status == 0
    vehicle = load_daemon_configuration(path).vehicle
    assert vehicle.mass == pytest.approx(mass, rel=1e-6)
    assert vehicle.driven == driven


def test_the_next_command_is_quoted_for_a_name_with_spaces(tmp_path, capsys):
    path = tmp_path / "my car.yaml"
    assert main(["new", str(path), "--yes", "--no-probe"]) == 0
    command = capsys.readouterr().out.strip().partition("by: vehicled ")[2]
    assert shlex.split(command) == ["check", str(path)]
    assert "vehicled check 'my car.yaml'" in path.read_text()


def test_given_answers_are_in_the_configuration(tmp_path):
    status, path = make(
        tmp_path,
        "driven: rear\nmass: 1.2 t\nwheelbase: 2500 mm\nfront_share: 48 %\ncenter_of_mass_height: 0.5 m\n"
        "front_track: 1.48 m\nrear_track: 1500 mm\nfront_tyre: 205/55 R16\nrear_tyre: 225/50 R16\n"
        "steering_ratio: 14.5\n"
        "differential: limited_slip\nimu_position: -1.2 0.1 0.3 m\nimu_rotation: 0 0 90 deg\ngnss: false\n"
        "wheels: angles\nsteering: rack\nrecord: /tmp\n"
        "devices:\n  imu: {driver: vectornav, port: /dev/ttyS1, baud: 921600}\n"
        "  gnss: {driver: ubx, port: 'socket://192.168.0.9:2000'}\n",
    )
    assert status == 0
    file = yaml.safe_load(path.read_text())
    vehicle, imu = file["vehicle"], file["sensors"]["imu"]
    assert (vehicle["mass"], vehicle["wheelbase"], vehicle["driven"]) == ("1200 kg", "2.5 m", "rear")
    assert vehicle["front_to_center_of_mass"] == "1.3 m"
    assert "differential" not in vehicle["front"]
    assert vehicle["rear"]["differential"] == "limited_slip"
    assert vehicle["rear"]["track"] == "1.5 m"
    # The centre of mass is 1.3 m behind the front axle and 0.5 m above the ground.
    assert imu == {"position": "0.100 0.100 -0.200 m", "rotation": "0 0 90 deg"}
    assert file["sensors"]["gnss"] is None
    configuration = load_daemon_configuration(path)
    assert configuration.sensors.wheel_speeds is None
    assert configuration.sensors.steering.source == "rack"
    assert {n: d.driver for n, d in configuration.daemon.devices.items()} == {
        "imu": "vectornav",
        "gnss": "ubx",
    }
    assert str(configuration.daemon.record.directory) == "/tmp"


def test_every_line_states_the_source_of_its_figure(tmp_path):
    _, path = make(tmp_path, "mass: 1500 kg\nfront_tyre: 195/65 R15\n")
    lines = {line.split(":")[0].strip(): line for line in path.read_text().splitlines() if ": " in line}
    assert lines["mass"].endswith("# given")
    assert "# typical: " in lines["wheelbase"]
    radii = [line for line in path.read_text().splitlines() if "wheel_radius" in line]
    assert "# given; 195/65 R15" in radii[0]
    assert "# typical: as in front; 195/65 R15" in radii[1]


def test_keys_without_a_question_are_written_as_comments_with_their_defaults(tmp_path):
    _, path = make(tmp_path)
    text = path.read_text()
    before = load_daemon_configuration(path).sensors
    without, n = re.subn(r"^    # (\w+: .*# default;)", r"    \1", text, flags=re.MULTILINE)
    assert n == 3
    path.write_text(without)
    after = load_daemon_configuration(path).sensors
    assert after.imu.rotation_sigma == pytest.approx(before.imu.rotation_sigma, rel=0.01)
    assert (after.gnss.latency, after.gnss.latency_sigma) == (before.gnss.latency, before.gnss.latency_sigma)
    path.write_text(without.replace("latency: 0 s", "latency: 0.1 s"))
    assert load_daemon_configuration(path).sensors.gnss.latency == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("height", "track", "area"),
    [(1.48, 1.54, (0.60, 0.72)), (1.70, 1.60, (0.75, 1.0)), (2.4, 1.71, (1.3, 1.8))],
)
def test_the_drag_area_follows_the_size(tmp_path, height, track, area):
    """For a compact car, an SUV and a van."""
    _, path = make(tmp_path, f"height: {height} m\nfront_track: {track} m\n")
    low, high = area
    assert low < load_daemon_configuration(path).vehicle.aerodynamics.drag_area < high


@pytest.mark.parametrize(
    ("devices", "meaning"),
    [("", "0.05 s to 0.2 s"), ("devices: {gnss: {driver: ubx, port: /dev/ttyS1}}\n", "beside the 0.03 s")],
)
def test_what_the_driver_of_the_receiver_takes_off_is_said(tmp_path, devices, meaning):
    _, path = make(tmp_path, f"mass: 1400 kg\n{devices}")
    (line,) = [x for x in path.read_text().splitlines() if x.startswith("    # latency: 0 s")]
    assert meaning in line


def test_downforce_is_that_of_the_wings_at_its_speed(tmp_path):
    """100 km/h in air of 1.225 kg/m³: 472.6 Pa."""
    _, path = make(tmp_path, "details: true\nfront_downforce: 400 N\nrear_downforce: 600 N\n")
    air = load_daemon_configuration(path).vehicle.aerodynamics
    assert -472.6 * air.front_lift_area == pytest.approx(400.0, rel=1e-3)
    assert -472.6 * air.rear_lift_area == pytest.approx(600.0, rel=1e-3)


def test_tyres_of_more_friction_are_stiffer(tmp_path):
    """Racing slicks are stiffer; wet asphalt does not make tyres softer."""
    stiffnesses = []
    for friction in (0.5, 1.0, 1.6):
        status, path = make(tmp_path, f"mass: 800 kg\nfriction: {friction}\n", "--force")
        assert status == 0
        axles = yaml.safe_load(path.read_text())["vehicle"]
        stiffnesses.append(
            [float(axles[axle]["cornering_stiffness"].split()[0]) for axle in ("front", "rear")]
        )
    assert stiffnesses[0] == stiffnesses[1]
    assert stiffnesses[2] == pytest.approx([1.6 * k for k in stiffnesses[1]], rel=0.02)


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ("mass: 14 kg\n", "answers.yaml:1: mass: expected at least 100 kg and at most 8000 kg, got '14 kg'"),
        ("mass: 1400\n", "mass: expected a mass such as '1500 kg'"),
        ("wheelbase: 2.6 kg\n", "wheelbase: expected a length"),
        ("front_tyre: big\n", "answers.yaml:1: front_tyre: expected a size such as '205/55 R16'"),
        ("front_tyre: 995/55 R16\n", "no car has '995/55 R16'"),
        ("wheelbse: 2.6 m\n", "did you mean 'wheelbase'"),
        ("driven: both\n", "driven: expected front, rear or all"),
        ("height: 1 m\ncenter_of_mass_height: 1.1 m\n", "expected at most 0.8 of the car's height"),
        ("front_track: 0.9 m\nfront_tyre: 315/80 R22\n", "answers.yaml: vehicle.front"),
        (
            "mass: 1400 kg\ndevices: {imu: {driver: nothing, port: /dev/ttyS1}}\n",
            "answers.yaml:2: devices.imu.driver: no driver 'nothing'; known here: can",
        ),
        (
            "mass: 1400 kg\ndevices: {imu: {driver: xsens, port: 'socket://x'}}\n",
            "answers.yaml:2: devices.imu.port: expected a path, socket://HOST:PORT",
        ),
        (
            "mass: 1400 kg\ndevices: {bus: {driver: can, port: can0}}\n",
            "answers.yaml:2: devices.bus.port: the driver 'can' has no such option",
        ),
        (
            "devices:\n  imu: {driver: xsens, port: /dev/x}\n  gnss: {driver: ubx, port: /dev/x}\n",
            "answers.yaml:3: devices.gnss.port: /dev/x is also the port of 'imu'",
        ),
        (
            "devices: {imu: {driver: xsens, port: ''}}\n",
            "devices.imu.port: expected a path, socket://HOST:PORT",
        ),
        (
            "mass: 1400 kg\ndevices: {imu: {driver: xsens, port: /dev/ttyS1, baud: 11520}}\n",
            "answers.yaml:2: devices.imu.baud: expected a rate of serial ports (4800, 9600, 19200",
        ),
        ("devices: {gps: {driver: ublox, port: /dev/ttyS1}}\n", "; did you mean 'ubx'?"),
        (
            "signals: {brake.pressure: Brake.BrakePressure}\n",
            "answers.yaml:1: signals: expected dbc as well, the DBC file that they are in",
        ),
        ("dbc: missing.dbc\n", "answers.yaml:1: dbc: "),
        (
            f"dbc: {DBC}\nsignals: {{brake.pressure: Brake.Nothing}}\n",
            "answers.yaml:2: signals: brake.pressure: no signal 'Nothing' in Brake",
        ),
    ],
)
def test_an_impossible_answer_is_reported_and_nothing_is_written(tmp_path, capsys, answers, message):
    status, _ = make(tmp_path, answers)
    error = capsys.readouterr().err
    assert status == 2
    assert message in error.splitlines()[-1]
    assert os.listdir(tmp_path) == ["answers.yaml"]


def test_a_file_is_replaced_only_by_force(tmp_path, capsys):
    path = tmp_path / "my_car.yaml"
    path.write_text("mine\n")
    assert main(["new", str(path), "--yes", "--no-probe"]) == 2
    assert "my_car.yaml: exists; --force replaces it" in capsys.readouterr().err
    assert path.read_text() == "mine\n"
    assert main(["new", str(path), "--yes", "--no-probe", "--force"]) == 0
    assert "kind: handbook" in path.read_text()
    assert main(["new", str(tmp_path / "none" / "car.yaml"), "--yes"]) == 2
    assert main(["new", str(tmp_path / "car.txt"), "--yes"]) == 2


# -- units, tyres, signals -----------------------------------------------------------------------------------


def test_every_question_has_an_answer_key_and_a_default():
    assert {q.key for q in ASKED} == set(Answers.__annotations__) - {"devices", "signals"}
    known = {}
    for question in ASKED:
        known[question.key] = question.default(known)


@pytest.mark.parametrize(
    ("key", "typed", "value"),
    [
        ("mass", "1350", 1350.0),
        ("mass", "1.35 t", 1350.0),
        ("front_share", "55", 0.55),
        ("front_share", "55 %", 0.55),
        ("front_roll_stiffness", "450", 450 * 180 / math.pi),
        ("imu_position", "-1.2 0 0.3", (-1.2, 0.0, 0.3)),
        ("imu_position", "-1200 0 300 mm", (-1.2, 0.0, 0.3)),
        ("imu_rotation", "0 0 90", (0.0, 0.0, math.pi / 2)),
        ("imu", "N", False),
        ("front_tyre", "195/65R15", "195/65R15"),
        ("driven", "all", "all"),
    ],
)
def test_answers_are_read_with_and_without_units(key, typed, value):
    (question,) = (q for q in ASKED if q.key == key)
    assert read_answer(question, typed) == pytest.approx(value)


@pytest.mark.parametrize(
    "typed", ["", "many", "1350 m", "nan", "-3", "13,50 kg", "{a: b}", '"', "1e9", "é # x: y"]
)
def test_nonsense_is_refused_with_what_is_expected(typed):
    with pytest.raises(UsageError, match=r"^expected"):
        read_answer(VEHICLE[1], typed)


# -- in a terminal -------------------------------------------------------------------------------------------


@pytest.fixture
def start(tmp_path):
    """A function that starts the program in `tmp_path`; the program ends with the test."""
    sessions = []

    def run(*arguments):
        sessions.append(Session(tmp_path, *arguments))
        return sessions[-1]

    yield run
    for session in sessions:
        session.kill()


def enter_until(session, last):
    """Press Enter at every question before `last`."""
    while session.expect(rf"{last}|\]: |none\): |recorded\): ")[0] != last:
        session.type("\r")


def test_questions_are_repeated_until_the_answers_are_plausible(tmp_path, start):
    session = start("--no-probe")
    session.expect(r"drive: front, rear or all\? \[front\]: ", "sideways")
    session.expect(r"expected front, rear or all, got 'sideways'")
    session.expect(r"\[front\]: ", "rear")
    session.expect(r"Mass .*\[1400 kg\]: ", "14")
    session.expect(r"expected at least 100 kg and at most 8000 kg, got '14 kg'")
    session.expect(r"\[1400 kg\]: ", "1.1 t")
    session.expect(r"Wheelbase \[2.65 m\]: ", "2400 mm")
    session.expect(r"front axle \[50 %\]: ", "47")
    enter_until(session, "Tyres in front")
    session.expect(r"\[205/55 R16\]: ", "wide")
    session.expect(r"expected a size such as '205/55 R16'")
    session.expect(r"\[205/55 R16\]: ", "195/65 R15")
    session.expect(r"Tyres behind \[195/65 R15\]: ", "")
    enter_until(session, "Is there an IMU")
    session.expect(r"\[yes\]: ", "perhaps")
    session.expect("expected yes or no")
    session.expect(r"\[yes\]: ", "no")
    session.expect(r"GNSS receiver\? \[yes\]: ", "y")
    session.expect("from the ground below the middle of the front axle")
    session.expect(r"Place of its antenna \[.*\]: ", "-1.5 0 1.3")
    enter_until(session, "DBC file")
    session.expect(r"none\): ", "none")
    enter_until(session, "Folder for recordings")
    session.type("\r")
    status, text = session.end()
    assert status == 0, text
    assert "written and checked" in text
    vehicle = load_daemon_configuration(tmp_path / "my_car.yaml").vehicle
    assert vehicle.mass == pytest.approx(1100.0)
    file = yaml.safe_load((tmp_path / "my_car.yaml").read_text())
    assert file["vehicle"]["driven"] == "rear"
    assert file["sensors"]["imu"] is None


def test_questions_are_repeated_with_the_answers_as_defaults_if_these_do_not_fit_together(tmp_path, start):
    (tmp_path / "answers.yaml").write_text("details: false\n")
    session = start("--no-probe")
    session.expect(r"\[front\]: ", "all")
    enter_until(session, "Track in front")
    session.expect(r"\[.*\]: ", "0.85")
    session.expect(r"Track behind .*: ", "")
    session.expect(r"Tyres in front .*: ", "315/80 R22")
    enter_until(session, "These figures do not fit together")
    session.expect(r"vehicle\.front\.\w+: ")
    session.expect(r"\[all\]: ", "")
    enter_until(session, "Track in front")
    session.expect(r" \[0.85 m\]: ", "1.6")
    session.expect(r"Track behind \[1.6 m\]: ", "")
    session.expect(r"\[315/80 R22\]: ", "225/50 R17")
    enter_until(session, "Folder for recordings")
    session.type("\r")
    status, text = session.end()
    assert status == 0, text


def test_ctrl_c_and_the_end_of_the_input_leave_no_file(tmp_path, start):
    session = start("--no-probe")
    session.expect(r"Mass|\]: ", "")
    session.expect(r"\[1400 kg\]: ")
    status, text = session.end("\x03")
    assert status == 130
    assert "Traceback" not in text
    session = start("--no-probe")
    session.expect(r"\[front\]: ")
    status, text = session.end("\x04")
    assert status == 2
    assert "the input ended before the last question" in text
    assert os.listdir(tmp_path) == []


@pytest.fixture
def devices(tmp_path):
    """Options for the ports of an emulated IMU, an emulated GNSS receiver, and a silent device."""
    imu, gnss = XsensEncoder(), NmeaEncoder()
    fix = {"gnss.lat": 47.25, "gnss.lon": 8.5, "gnss.alt": 412.5, "gnss.quality": 4.0}
    folder = tmp_path / "dev"
    folder.mkdir()
    ports = {name: PseudoTerminal(folder / name) for name in ("imu", "gnss", "silent")}
    ended = threading.Event()

    def send():
        count = 0
        while not ended.wait(0.01):
            t, count = time.monotonic_ns(), count + 1
            ports["imu"].write(imu.encode(Measurement("imu", t, t, IMU)))
            if count % 20 == 0:
                ports["gnss"].write(gnss.encode(Measurement("gnss", t, t, fix)))

    thread = threading.Thread(target=send)
    thread.start()
    yield [option for name in ports for option in ("--port", str(folder / name))]
    ended.set()
    thread.join()
    for port in ports.values():
        port.close()


def test_devices_that_are_found_are_in_the_configuration(tmp_path, start, devices):
    session = start(*devices)
    enter_until(session, "Listening to")
    session.expect(r"imu: xsens \(\d+ messages\) at 115200 baud")
    session.expect(r"gnss: nmea \(NMEA\) at 115200 baud")
    session.expect(r"silent is silent.*adapter\? \(sends the character V\) \[no\]: ", "yes")
    session.expect(r"silent: silent, no CAN adapter")
    session.expect(r"Use \S+imu \(xsens\) as imu\? \[yes\]: ", "")
    session.expect(r"Use \S+gnss \(nmea\) as gnss\? \[yes\]: ", "")
    session.expect(r"DBC file of the CAN bus \(Enter: none\): ", "prototyp.dbc")
    session.expect(r"prototyp\.dbc: cannot be read: No such file")
    session.expect(r"DBC file of the CAN bus \(Enter: none\): ", str(DBC))
    session.expect(r"\[can0\]: ", "")
    session.expect(r"wheel.fl.speed \[WheelSpeed.SpeedFL\]: ", "Brake.BrakePressure")
    session.expect(r"expected a unit like m/s or km/h beside `radius`, got .bar.")
    session.expect(r"wheel.fl.speed \[WheelSpeed.SpeedFL\]: ", "")
    enter_until(session, r"brake.pressure")
    session.expect(r": ", "none")
    session.expect(r"vehicle.wz \[none\]: ", "")
    session.expect(r"Folder for recordings .*: ", "")
    status, text = session.end()
    assert status == 0, text
    configuration = load_daemon_configuration(tmp_path / "my_car.yaml")
    found = {name: device.driver for name, device in configuration.daemon.devices.items()}
    assert found == {"imu": "xsens", "gnss": "nmea", "can": "can"}
    channels = configuration.find_signals()
    assert {"wheel.fl.speed", "steer.wheel", "vehicle.speed"} <= channels
    assert "brake.pressure" not in channels


def test_without_questions_the_devices_found_are_used(tmp_path, devices, capsys):
    path = tmp_path / "my_car.yaml"
    assert main(["new", str(path), "--yes", *devices]) == 0
    file = yaml.safe_load(path.read_text())
    options = file["daemon"]["devices"]["imu"]["options"]
    assert options == {"port": devices[1], "baud": 115200}
    assert set(file["daemon"]["devices"]) == {"imu", "gnss"}
    assert "silent" in capsys.readouterr().err


def test_ctrl_c_while_listening_writes_nothing(tmp_path, start, devices):
    session = start(*devices)
    enter_until(session, "Listening to")
    time.sleep(0.2)
    os.kill(session.process, signal.SIGINT)
    status, text = session.end()
    assert status == 130
    assert "Traceback" not in text
    assert not (tmp_path / "my_car.yaml").exists()


def test_the_documentation_lists_all_answers(tmp_path):
    page = (Path(__file__).parent.parent / "docs" / "first_configuration.md").read_text()
    keys = set(re.findall(r"(?m)^\| `(\w+)`", page))
    assert keys == set(Answers.__annotations__)
    (example,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    file = tmp_path / "answers.yaml"
    file.write_text(example)
    assert load(file, Answers).mass is not None
