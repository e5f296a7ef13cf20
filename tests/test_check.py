"""`vehicled check`: counts of bodies, coordinates and constraints, and one line per mistake with its position."""

import json
import os
import shutil

import numpy as np
import pytest

from vehicled.cli import main
from vehicled.configuration import load_configuration
from vehicled.multibody.files import mechanisms_folder
from vehicled.reading import settings
from vehicled.vehicle.car import Car
from vehicled.vehicle.topology import calc_constraint_jacobian, calc_topology


def check(capsys, config, *options):
    status = main(["check", str(config), *options])
    out, err = capsys.readouterr()
    return status, out, err


@pytest.fixture(scope="module")
def car():
    return Car(load_configuration("prototype").vehicle)


def test_a_kart_is_a_valid_car(tmp_path, capsys):
    answers, path = tmp_path / "answers.yaml", tmp_path / "kart.yaml"
    answers.write_text(
        "mass: 150 kg\nwheelbase: 1.05 m\nheight: 0.9 m\nfront_track: 1.05 m\nrear_track: 1.1 m\n"
        "front_tyre: 130/60 R5\nsteering_ratio: 1.5\n"
    )
    assert main(["new", str(path), "--no-probe", "--answers", str(answers)]) == 0
    capsys.readouterr()
    status, out, _ = check(capsys, path, "--json")
    assert status == 0
    assert json.loads(out)["mass"] == pytest.approx(150.0, rel=1e-6)


@pytest.fixture
def config(tmp_path):
    """Replaces text in a copy of the prototype's configuration."""
    for name in ("prototype.yaml", "prototype.dbc"):
        shutil.copy(settings.shipped_folder() / name, tmp_path)

    def spoil(old, new):
        path = tmp_path / "prototype.yaml"
        text = path.read_text()
        assert text.count(old) == 1
        path.write_text(text.replace(old, new))
        return path

    return spoil


@pytest.mark.parametrize(
    "name", ["prototype", "reference_vehicle", "ferrari_250lm", "rav4", "hatchback", "saloon"]
)
def test_shipped_cars_have_18_bodies_and_14_degrees_of_freedom(capsys, name):
    status, out, err = check(capsys, name, "--json")
    found = json.loads(out)
    assert (status, err) == (0, "")
    assert found["bodies"] == len(set(found["body_names"])) == 18
    assert found["dof"] == found["coordinates"] - found["rank"] == 14
    vehicle = load_configuration(name).vehicle
    assert found["mass"] == pytest.approx(vehicle.mass)
    assert sum(found["wheel_loads"].values()) == pytest.approx(vehicle.mass * vehicle.gravity, rel=1e-6)


def test_sensors_are_those_of_the_configuration(capsys, config):
    path = config("wheel_speeds: null", "wheel_speeds: {noise: 0.2 rad/s}")
    _, before, _ = check(capsys, "prototype", "--json")
    _, after, _ = check(capsys, path, "--json")
    more = set(json.loads(after)["sensors"]) - set(json.loads(before)["sensors"])
    assert more == {f"wheel.{w}.speed" for w in ("fl", "fr", "rl", "rr")}


def test_heading_is_a_sensor_if_two_antennas_are_configured(capsys, config):
    path = config("heading: null", "heading: {}")
    _, before, _ = check(capsys, "prototype", "--json")
    _, after, _ = check(capsys, path, "--json")
    assert set(json.loads(after)["sensors"]) - set(json.loads(before)["sensors"]) == {"gnss.heading"}


def test_check_names_the_driven_axles(capsys, config):
    path = config("driven: rear ", "driven: all\n  torque_split: 30 % ")
    found = json.loads(check(capsys, path, "--json")[1])["drive"]
    assert found == {
        "front": {"share": pytest.approx(0.3), "differential": "open"},
        "rear": {"share": pytest.approx(0.7), "differential": "open"},
    }


def test_the_table_agrees_with_the_json_output(capsys):
    _, out, _ = check(capsys, "prototype", "--json")
    found = json.loads(out)
    status, out, err = check(capsys, "prototype")
    rows = {line[:20].strip(): line[20:].strip() for line in out.splitlines()}
    assert (status, err) == (0, "")
    assert rows["bodies"].startswith("18: chassis, rack, lower wishbone fl fr rl rr")
    assert rows["coordinates"] == str(found["coordinates"])
    assert rows["degrees of freedom"].startswith("14 =")
    assert rows["sensors"] == ", ".join(found["sensors"])
    assert rows["drive"] == "rear 100 %, open"
    assert rows["devices"] == "imu (xsens), gnss (nmea), can (can)"


def test_rank_counts_independent_constraints_only(car):
    jacobian = calc_constraint_jacobian(car)
    names = car.compiled.names
    assert jacobian.shape == (len(names.constraints), len(names.coordinates))
    values = np.linalg.svd(jacobian, compute_uv=False)
    # No singular value is close to the threshold, so the rank is certain.
    assert values[-1] > 1e-3
    assert np.linalg.matrix_rank(np.vstack([jacobian, jacobian[:3].sum(axis=0)])) == len(values)


def test_the_jacobian_is_zero_only_for_motions_that_constraints_permit(car):
    names = car.compiled.names
    jacobian = calc_constraint_jacobian(car)
    spin = [n for n, name in enumerate(names.coordinates) if name.startswith("wheel.spin")]
    assert len(spin) == 4
    assert not jacobian[:, spin].any()
    # A shift of the whole car: points move, directions stay.
    points = ("r1", "rack", "lower.joint", "upper.joint")
    shift = np.array([float(name.split(" ")[0] in {f"{p}.z" for p in points}) for name in names.coordinates])
    assert shift.sum() == 10
    assert np.abs(jacobian @ shift).max() < 1e-9
    one_point = np.zeros(len(shift))
    one_point[names.coordinates.index("r1.z")] = 1.0
    assert np.abs(jacobian @ one_point).max() > 0.01


def test_counting_does_not_change_the_car(car):
    before = car.workspace.copy()
    calc_topology(car)
    assert np.array_equal(car.workspace, before)


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ("differential: open", "differential: welded", ["rear.differential", "open, locked or limited_slip"]),
        (
            "differential: open",
            "differential: {kind: locked, locking: 20 %}",
            ["rear.differential.locking", "limited_slip", "locked"],
        ),
        ("driven: rear ", "torque_split: 40 % ", ["vehicle.torque_split", "driven: all", "rear"]),
        ("baud: 921600", "baut: 921600", ["prototype.yaml:", "imu", "baut", "baud"]),
        (
            "baud: 921600",
            "baud: 9216000",
            ["prototype.yaml:", "imu.options.baud", "921600, 1000000", "got 9216000"],
        ),
        (
            "interface: socketcan            # default; slcan: an adapter on a serial port\n        channel: can0 ",
            "interface: slcan\n        channel: /dev/ttyACM0@11520 ",
            ["prototype.yaml:", "can.options.channel", "expected a rate of serial ports", "got 11520"],
        ),
        (
            "interface: socketcan ",
            "interface: slcn ",
            ["prototype.yaml:", "can.options.interface: no interface 'slcn'; did you mean 'slcan'?"],
        ),
        (
            "port: /dev/vehicled-gnss",
            "port: /dev",
            ["prototype.yaml:", "devices.gnss.options: expected a serial port, but /dev is a folder"],
        ),
        (
            "port: /dev/vehicled-gnss",
            "port: /etc/passwd",
            ["prototype.yaml:", "devices.gnss.options: expected a serial port, but /etc/passwd is a file"],
        ),
        (
            "port: /dev/vehicled-gnss",
            "port: /dev//vehicled-imu",
            ["prototype.yaml:", "gnss", "/dev//vehicled-imu", "port of 'imu'"],
        ),
        (
            "interface: socketcan            # default; slcan: an adapter on a serial port\n        channel: can0 ",
            "interface: slcan\n        channel: /dev/vehicled-imu@921600 ",
            ["prototype.yaml:", "can", "/dev/vehicled-imu is also the port of 'imu'"],
        ),
        (
            "driver: xsens",
            "driver: xesns",
            [
                "prototype.yaml:",
                "devices.imu.driver: no driver",
                "xesns",
                "did you mean 'xsens'?",
            ],
        ),
        ("dbc: prototype.dbc", "dbc: other.dbc", ["prototype.yaml:", "can", "other.dbc"]),
        (
            "signal: RackPosition",
            "signal: RackPostion",
            ["prototype.yaml:", "can", "RackPostion", "RackPosition"],
        ),
        ("    antenna: -0.30 0.00 0.75 m", "    antenna: -541 0.000 930 m", ["gnss.antenna", "at most 20 m"]),
        (
            "latency: 0 ms                       # default; by how much fixes",
            "latency: 50 s  # fixes",
            ["gnss.latency", "at most 1 s"],
        ),
        ("baud: 460800, latency: 20 ms", "baud: 460800, latency: 20 s", ["gnss", "latency", "at most 1 s"]),
        (
            "wheel_speeds: null",
            "wheel_speeds: none",
            ["sensors.wheel_speeds: expected keys such as 'latency:', or null, which leaves it out"],
        ),
        ("message: Brake,", "message: Break,", ["prototype.yaml:", "brake.pressure", "Break", "Brake"]),
        ("steer.rack: {", "steer.rock: {", ["prototype.yaml:", "steer.rock"]),
        (
            "spring: {stiffness: 52 kN/m}",
            "spring: {stiffness: 52 kN}",
            ["prototype.yaml:", "stiffness", "N/m"],
        ),
        (
            "endpoint: tcp://127.0.0.1:5550",
            "endpoint: tcp://*:5550",
            ["prototype.yaml:", "endpoint", "loopback"],
        ),
    ],
)
def test_a_mistake_is_reported_in_one_line_with_its_position(capsys, config, old, new, parts):
    status, out, err = check(capsys, config(old, new))
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    for part in parts:
        assert part in err


@pytest.mark.parametrize(
    ("antenna", "doubts"),
    [
        ("-0.30 0.00 0.75 m", []),
        ("-0.30 0.00 -0.75 m", ["below the road: expected z upwards"]),
        ("-0.30 0.00 7.5 m", ["m over the road"]),
        ("9.3 0.00 0.75 m", ["ahead of the front axle"]),
        ("-9.3 0.00 0.75 m", ["behind the rear axle"]),
        ("-0.30 -7.5 0.75 m", ["it lies 7.5 m beside the middle of the car"]),
    ],
)
def test_sensor_positions_below_the_road_or_outside_the_car_are_doubtful(capsys, config, antenna, doubts):
    path = config("    antenna: -0.30 0.00 0.75 m", f"    antenna: {antenna}")
    status, out, err = check(capsys, path)
    lines = [line for line in out.splitlines() if line.startswith("doubtful: ")]
    assert (status, err, len(lines)) == (0, "", len(doubts))
    for line, doubt in zip(lines, doubts, strict=True):
        assert line.startswith("doubtful: sensors.gnss.antenna: it lies ")
        assert doubt in line


@pytest.mark.parametrize(
    ("latency", "sigma", "memory"),
    [(0.05, 0.02, None), (0.8, 0.06, None), (0.8, 0.15, "1.4 s"), (1.0, 0.01, "1.2 s")],
)
def test_latencies_beyond_the_memory_are_doubtful(capsys, config, latency, sigma, memory):
    known = "default; how well that is known"
    config("    latency: 0 ms                       #", f"    latency: {latency} s #")
    path = config(
        f"    latency_sigma: 20 ms                # {known}", f"    latency_sigma: {sigma} s # {known}"
    )
    status, out, err = check(capsys, path)
    lines = [line for line in out.splitlines() if line.startswith("doubtful: ")]
    assert (status, err, len(lines)) == (0, "", memory is not None)
    if memory is not None:
        assert lines[0].startswith("doubtful: sensors.gnss.latency: measurements may be ")
        assert lines[0].endswith(f"beyond filter.memory (1 s): expected memory: {memory}")


def test_a_mechanism_is_counted_and_listed(capsys):
    status, out, err = check(capsys, "five_bar", "--json")
    found = json.loads(out)
    assert (status, err) == (0, "")
    assert (found["bodies"], found["coordinates"], found["rank"], found["dof"]) == (4, 8, 6, 2)
    assert found["independent"] == ["theta1", "theta2"]
    assert found["redundant"] == []
    status, out, err = check(capsys, "five_bar")
    rows = {line[:20].strip(): line[20:].strip() for line in out.splitlines()}
    assert rows["coordinates"].startswith("8: ")
    assert ".xy, " in rows["coordinates"]
    assert rows["degrees of freedom"] == "2 = 8 − 6"
    assert rows["bodies"] == "4: left_crank, left_coupler, right_coupler, right_crank"


def test_undetermined_reactions_are_named(capsys):
    assert json.loads(check(capsys, "four_bar", "--json")[1])["undetermined_reactions"] == []
    rows = {line[:20].strip(): line[20:].strip() for line in check(capsys, "four_bar")[1].splitlines()}
    assert rows["reactions"] == "determined"
    assert json.loads(check(capsys, "flyball_governor", "--json")[1])["undetermined_reactions"] == [
        "z",
        "u",
        "v",
    ]
    rows = {
        line[:20].strip(): line[20:].strip() for line in check(capsys, "flyball_governor")[1].splitlines()
    }
    assert rows["reactions"].startswith("not determined at z (torque xy), u (torque yz), v (torque xz): ")
    # A direction that bodies share transmits no torque about itself.
    assert json.loads(check(capsys, "flyball_governor", "--json")[1])["undetermined_components"] == {
        "z": ["torque.x", "torque.y"],
        "u": ["torque.y", "torque.z"],
        "v": ["torque.x", "torque.z"],
    }


def test_a_log_cannot_be_described_as_a_mechanism(capsys):
    assert main(["check", "--log", "drive.csv", "--mechanism"]) == 2
    assert capsys.readouterr().err.count("--mechanism: expected a CONFIG") == 1


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--config", "my_car.yaml"], "--config"),
        (["--mapping", "m.yaml"], "--mapping"),
        (["--config", "my_car.yaml", "--mapping", "m.yaml"], "--config, --mapping"),
    ],
)
def test_options_for_logs_require_a_log(capsys, options, named):
    assert check(capsys, "my_car.yaml", *options) == (2, "", f"vehicled: {named}: only with --log LOG\n")


@pytest.mark.slow
def test_a_car_can_be_described_as_a_mechanism(capsys):
    status, out, err = check(capsys, "prototype", "--mechanism", "--json")
    found = json.loads(out)
    assert (status, err) == (0, "")
    assert (found["bodies"], found["dof"], found["redundant"]) == (18, 14, [])
    assert found["coordinates"] - found["rank"] == 14
    forms = found["forms"]
    assert forms["natural"]["coordinates"] == found["coordinates"]
    # For each corner: upper ball joint 3, tie rod 1. Heights of wheels and of bar ends: 8. Drive of the rack: 1.
    assert forms["relative"]["constraints"] == 4 * (3 + 1) + 8 + 1
    assert forms["relative"]["step"] < forms["natural"]["step"]


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        (
            "length: 8 m",
            "length: 80 m",
            [
                ":9: bodies.coupler: cannot be assembled: 'coupler: length of P–Q' ",
                "fits without it, or without crank, rocker",
            ],
        ),
        ("length: 8 m", "lenght: 8 m", [":9: ", "bodies.coupler.lenght", "length"]),
        ("independent: [theta]", "degrees_of_freedom: 2", [": degrees_of_freedom: over-determined"]),
        (
            "independent: [theta]",
            "independent: [theta]\njoints:\n  stay: {kind: distance, points: [P, B]}",
            [":13: joints.stay: over-determined: 0 degrees of freedom, 1 declared"],
        ),
        (
            "  rocker: {kind: bar, points: [Q, B], length: 5 m, mass: 5 kg}\n",
            "",
            [":9: bodies.coupler: under-determined: 2 degrees of freedom, 1 declared by", "coupler can move"],
        ),
    ],
)
def test_an_invalid_mechanism_is_reported_in_one_line(capsys, tmp_path, old, new, parts):
    text = (mechanisms_folder() / "four_bar.yaml").read_text()
    assert text.count(old) == 1
    path = tmp_path / "linkage.yaml"
    path.write_text(text.replace(old, new))
    status, out, err = check(capsys, path)
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    for part in ["linkage.yaml", *parts]:
        assert part in err


def test_an_unknown_configuration_is_reported_with_known_names(capsys):
    status, out, err = check(capsys, "prototpye")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "prototpye" in err
    assert "prototype" in err


@pytest.mark.parametrize(
    "command", ["check fourbar", "check fourbar --mechanism", "codegen fourbar --language c"]
)
def test_shipped_mechanisms_are_listed_for_an_unknown_name(capsys, command):
    assert main(command.split()) == 2
    message = capsys.readouterr().err
    assert message.startswith("vehicled: fourbar: expected a file or a shipped configuration or mechanism (")
    assert "prototype" in message
    assert "four_bar" in message
    assert message.count("\n") == 1


@pytest.mark.parametrize("path", ["/dev/zero", "pipe"])
def test_a_device_or_pipe_is_refused_as_a_configuration(tmp_path, capsys, path):
    os.mkfifo(tmp_path / "pipe")
    status, _, err = check(capsys, tmp_path / path)
    assert (status, err.count("\n")) == (2, 1)
    assert "expected a regular file, got a " in err


MISTAKES = {
    "vehicle.driven": ("driven: rear ", "driven: raer "),
    "vehicle.rear.differential": ("differential: open", "differential: welded"),
    "sensors.wheel_speeds.noise": ("wheel_speeds: null", "wheel_speeds: {noise: 0.2 m}"),
    "daemon.devices.imu.options.baut": ("baud: 921600", "baut: 921600"),
    "daemon.devices.gnss.options.prt": ("port: /dev/vehicled-gnss", "prt: /dev/vehicled-gnss"),
    "daemon.lop": ("\n  loop:", "\n  lop:"),
}


def test_all_independent_mistakes_are_reported_at_once(capsys, config):
    for old, new in MISTAKES.values():
        path = config(old, new)
    status, out, err = check(capsys, path)
    assert (status, out) == (2, "")
    lines = err.splitlines()
    assert len(lines) == len(MISTAKES)
    text = path.read_text()
    for key, (_, new) in MISTAKES.items():
        at = text[: text.index(new.lstrip())].count("\n") + 1
        if key.endswith("differential") or key.endswith("driven") or key.endswith("noise"):
            assert any(line.startswith(f"vehicled: {path}:{at}: {key}: expected ") for line in lines), key
        else:
            assert any(line.startswith(f"vehicled: {path}:{at}: {key}: unknown key; ") for line in lines), key


def test_json_has_all_mistakes_as_a_list(capsys, config):
    for old, new in MISTAKES.values():
        path = config(old, new)
    status, out, err = check(capsys, path, "--json")
    assert status == 2
    assert [f"vehicled: {m}" for m in json.loads(out)["mistakes"]] == err.splitlines()


def test_only_the_first_of_thousands_of_mistakes_are_shown(capsys, config):
    path = config("wheel_speeds: null", "\n  ".join(f"key_{i}: 1" for i in range(3000)))
    status, _, err = check(capsys, path)
    assert status == 2
    assert len(err.splitlines()) == 51
    assert err.splitlines()[-1] == "vehicled: 2950 more mistakes"


DEVICES = """\
sensors:
  can: {joint.1.angle: {value: theta, sigma: 1 deg}, joint.2.speed: {rate: phi, sigma: 0.1 rad/s}}
"""


def test_a_configuration_of_particles_is_described(capsys, tmp_path):
    path = tmp_path / "devices.yaml"
    path.write_text(DEVICES)
    assert main(["check", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "can.joint.1.angle: theta to 0.01745 rad, can.joint.2.speed: rate of phi to 0.1 rad/s" in shown
    assert main(["check", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [s["channel"] for s in found["sensors"]] == ["joint.1.angle", "joint.2.speed"]


@pytest.mark.parametrize(("name", "near"), [("joint1.angle", "joint.1.angle"), ("encoder", "joint.1.angle")])
def test_an_unknown_channel_of_particles_is_the_only_mistake_reported(capsys, tmp_path, name, near):
    path = tmp_path / "devices.yaml"
    path.write_text(DEVICES.replace("joint.1.angle", name))
    assert main(["check", str(path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"devices.yaml:2: sensors.can.{name}: unknown channel" in line
    assert near in line


def test_device_options_of_particles_are_checked_by_their_drivers(capsys, tmp_path):
    """All mistakes are reported at once, so that `vehicled particles` finds no others."""
    signals = "{joint.1.angle: {message: A, signal: B}}"
    path = tmp_path / "devices.yaml"
    path.write_text(
        DEVICES.replace("joint.1.angle", "joint1.angle").replace("joint.2.speed", "joint.2.sped")
        + "daemon:\n  devices:\n    imu: {driver: xsnes, options: {port: /dev/ttyUSB0}}\n"
        + f"    can: {{driver: can, options: {{dbc: rig.dbc, signals: {signals}}}}}\n"
    )
    assert main(["check", str(path)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 4
    assert "sensors.can.joint1.angle: unknown channel" in lines[0]
    assert "sensors.can.joint.2.sped: unknown channel" in lines[1]
    assert "daemon.devices.imu.driver: no driver 'xsnes'; did you mean 'xsens'?" in lines[2]
    assert "daemon.devices.can.options.dbc: " in lines[3]
    assert "rig.dbc: cannot be read" in lines[3]


def test_a_configuration_of_particles_cannot_be_described_as_a_mechanism(capsys, tmp_path):
    path = tmp_path / "devices.yaml"
    path.write_text(DEVICES)
    assert main(["check", str(path), "--mechanism"]) == 2
    assert "--mechanism: expected the configuration of a car, not of particles" in capsys.readouterr().err
