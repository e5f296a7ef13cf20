"""`vehicled identify` and `vehicled tune` through the command line."""

import json
import re
from pathlib import Path

import pytest
from drives_rig import changed, drive, mixed

from replay.log import create_log
from vehicled.cli import main
from vehicled.configuration import File
from vehicled.messages import Measurement
from vehicled.reading import settings
from vehicled.simulation.manoeuvres import InitialMotion
from vehicled.simulation.scenario import DriveInputs, Scenario


def write(path: Path, steps, factors: dict[str, float]) -> Path:
    measurements = [m for s in steps for m in s.measurements]
    with create_log(path, {c for m in measurements for c in m.values}) as log:
        for m in measurements:
            values = {c: v * factors.get(c, 1.0) for c, v in m.values.items()}
            log.write(Measurement(m.source, m.t, m.arrival, values))
    return path


def heavy(folder: Path, name: str, seconds: float, **options) -> Path:
    return write(folder / f"{name}.mcap", drive(changed(mass=0.15), mixed(seconds), **options), {})


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("identify")


@pytest.fixture(scope="module")
def sound(folder) -> Path:
    return heavy(folder, "drive", 16.0)


@pytest.fixture(scope="module")
def again(folder) -> Path:
    return heavy(folder, "again", 12.0, seed=4)


@pytest.fixture(scope="module")
def other(folder) -> Path:
    return heavy(folder, "other", 14.0, seed=5)


@pytest.fixture(scope="module")
def logs(folder) -> dict[str, Path]:
    """Logs for tests of checks, from which nothing is identified."""
    inputs = DriveInputs(rack=[(1.0, 0.0), (2.0, 0.004)], rear_torque=90.0)
    moving = Scenario(duration=10.5, initial=InitialMotion(speed=15.0), inputs=inputs)
    steps = drive(changed(), moving)
    return {
        "sound": write(folder / "cruise.mcap", steps, {}),
        "parked": write(
            folder / "parked.mcap", drive(changed(), Scenario(duration=10.5, inputs=DriveInputs())), {}
        ),
        "kmh": write(folder / "kmh.csv", steps, {"vehicle.speed": 3.6}),
        "short": write(folder / "short.mcap", steps[:1000], {}),
    }


@pytest.mark.slow
def test_identify_writes_a_file_with_the_identified_mass(sound, tmp_path, capsys):
    out = tmp_path / "found.yaml"
    arguments = ["--config", "prototype", "--parameters", "mass", "--output", str(out), "--json"]
    arguments += ["--plots", str(tmp_path / "plots")]
    assert main(["identify", str(sound), *arguments]) == 0
    said = json.loads(capsys.readouterr().out)
    (one,) = said["parameters"]
    assert one["identified"]
    file = settings.load(out, File)
    assert file.vehicle.mass == pytest.approx(one["value"], rel=1e-5)
    assert one["value"] > 1.05 * one["prior"]
    validation = said["validation"]
    assert "last third" in validation["drive"]
    assert validation["after"]["criterion"] < validation["before"]["criterion"]
    assert validation["left_because_of_it"] == 0
    for name in ("parameters", "prediction"):
        assert (tmp_path / "plots" / f"{name}.png").stat().st_size > 5000
    # All other lines are unchanged, comments included.
    shipped = settings.config_path("prototype").read_text(encoding="utf-8").splitlines()
    different = [
        b for a, b in zip(shipped, out.read_text(encoding="utf-8").splitlines(), strict=True) if a != b
    ]
    assert len(different) == 1
    assert "chassis" in different[0]


@pytest.mark.parametrize(
    ("log", "arguments", "words"),
    [
        ("kmh", [], ["kmh.csv", "vehicle.speed", "km/h", "--anyway"]),
        ("short", [], ["short.mcap", "10 s"]),
        ("sound", ["--validate", "parked"], ["parked.mcap", "never moves"]),
        ("sound", ["--parameters", "brake_gain,front.brake_gain"], ["one of them"]),
        ("sound", ["--parameters", "front.tire_stiffness"], ["front.tire_stiffness", "front.tyre_stiffness"]),
        ("sound", ["--parameters", "steering.ratio"], ["steering.ratio", "does not have it"]),
        ("sound", ["--output", "/nowhere/at/all.yaml"], ["no such folder"]),
    ],
)
def test_bad_input_is_an_error_of_one_line(logs, capsys, log, arguments, words):
    arguments = [str(logs.get(a, a)) for a in arguments]
    assert main(["identify", str(logs[log]), "--config", "prototype", *arguments]) == 2
    *_, line = capsys.readouterr().err.splitlines()
    for word in words:
        assert word in line


def test_signals_are_mapped_to_channels(logs, folder, capsys):
    mapping, parked = folder / "mapping.yaml", ["--validate", str(logs["parked"])]
    columns = logs["kmh"].read_text(encoding="utf-8").split("\n", 1)[0].split(",")
    channels = [c for c in columns if c != "t" and not c.endswith(".arrival")]
    units = {"vehicle.speed": ", unit: km/h"}
    lines = [f"  {c}: {{signal: {c}{units.get(c, '')}}}\n" for c in channels]
    mapping.write_text("channels:\n" + "".join(lines), encoding="utf-8")
    command = ["identify", str(logs["kmh"]), "--config", "prototype", "--mapping", str(mapping)]
    # The speed is in the unit of its channel now: only the other log is refused.
    assert main([*command, *parked]) == 2
    *_, line = capsys.readouterr().err.splitlines()
    assert "parked.mcap" in line
    mapping.write_text("channels: 1\n", encoding="utf-8")
    assert main([*command, *parked]) == 2
    assert "mapping.yaml" in capsys.readouterr().err


@pytest.mark.slow
def test_identify_prints_a_table_for_two_logs_and_one_for_validation(sound, again, other, tmp_path, capsys):
    out = tmp_path / "found.yaml"
    arguments = ["--validate", str(other), "--parameters", "mass,antenna.z", "--output", str(out)]
    assert main(["identify", str(sound), str(again), "--config", "prototype", *arguments]) == 0
    said = capsys.readouterr().out
    assert re.search(r"^mass +1150 +13\d\d(\.\d)? +\d+(\.\d)?  kg$", said, re.MULTILINE)
    assert re.search(r"^antenna.z +0.75 +left +m +the drives determine it less well", said, re.MULTILINE)
    assert f"prediction of {other}, which was not used:" in said
    assert "after: better" in said
    assert "plant noise, which stays" in said
    assert "antenna: -0.30 0.00 0.75 m" in out.read_text(encoding="utf-8")


@pytest.mark.slow
def test_tune_writes_noise_in_its_place(again, tmp_path, capsys):
    out, given = tmp_path / "tuned.yaml", tmp_path / "given.yaml"
    text = settings.config_path("prototype").read_text(encoding="utf-8")
    assert text.count("noise: 0.0023 rad/s") == 1
    given.write_text(text.replace("noise: 0.0023 rad/s", "noise: 0.006 rad/s"), encoding="utf-8")
    arguments = ["--config", str(given), "--parameters", "gyro.noise", "--output", str(out)]
    assert main(["tune", str(again), *arguments]) == 0
    said = capsys.readouterr().out
    assert "after: better" in said
    assert "plant noise, which stays" not in said
    noise = settings.load(out, File).sensors.imu.gyroscopes.noise
    assert noise == pytest.approx(0.002, rel=0.4)  # that of the sensor, and more by a wrong mass
    (row,) = (line.split() for line in said.splitlines() if line.startswith("gyro.noise"))
    assert float(row[2]) == pytest.approx(noise, rel=1e-4)


@pytest.mark.slow
def test_tune_finds_the_noise_of_a_log(sound, tmp_path, capsys):
    out = tmp_path / "tuned.yaml"
    arguments = [
        "--parameters",
        "gyro.noise,vehicle_speed.noise,plant.height,plant.pitch,plant.roll,*.yaw",
        "--output",
        str(out),
    ]
    assert main(["tune", str(sound), "--config", "prototype", *arguments]) == 0
    said = capsys.readouterr().out
    assert "after: better" in said
    noise = settings.load(out, File).sensors.imu.gyroscopes.noise
    assert noise == pytest.approx(0.002, rel=0.25)  # and more by a wrong mass


def test_a_missing_argument_or_log_is_an_error(capsys):
    assert main(["identify", "--config", "prototype"]) == 2
    assert "LOG" in capsys.readouterr().err
    assert main(["tune", "nowhere.csv", "--config", "prototype"]) == 2
    assert "nowhere.csv" in capsys.readouterr().err


@pytest.mark.parametrize(("command", "name"), [("identify", "front.friction"), ("tune", "plant.yaw")])
def test_parameters_are_listed_with_their_deviations(capsys, command, name):
    assert main([command, "--config", "ferrari_250lm", "--list"]) == 0
    assert name in capsys.readouterr().out
    assert main([command, "--config", "ferrari_250lm", "--list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[name] > 0.0


def test_figures_of_a_handbook_car_are_listed_with_their_keys_and_units(capsys):
    """Before, a ride frequency was listed as a spring rate without a unit, a cornering stiffness as one in N."""
    assert main(["identify", "--config", "hatchback", "--list"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    listed = {words[0]: (words[1], words[3]) for words in lines if words[1].startswith("(")}
    assert {name: found for name, found in listed.items() if name.startswith("rear.")} == {
        "rear.spring": ("(ride_frequency)", "Hz"),
        "rear.damper": ("(damping_ratio)", "rear"),  # no unit: the next word is the meaning
        "rear.anti_roll_bar": ("(roll_stiffness)", "N·m/rad"),
        "rear.tyre_stiffness": ("(cornering_stiffness)", "N/rad"),
    }


@pytest.mark.parametrize(("car", "unit"), [("hatchback", "rad"), ("prototype", "m")])
def test_the_unit_of_the_steering_offset_is_that_of_the_measured_quantity(car, unit, capsys):
    assert main(["identify", "--config", car, "--list"]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("steering.offset")]
    assert line.split()[2] == unit
