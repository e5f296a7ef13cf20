"""`vehicled new`: signals of a CAN bus that are proposed, and what they add to the file."""

import pytest
import yaml

from vehicled.cli import main
from vehicled.daemon.configuration import load_daemon_configuration
from vehicled.reading.settings import shipped_folder
from vehicled.setup.bus import Bus

DBC = shipped_folder() / "prototype.dbc"


def make(tmp_path, answers):
    path, file = tmp_path / "my_car.yaml", tmp_path / "answers.yaml"
    file.write_text(answers)
    return main(["new", str(path), "--answers", str(file), "--no-probe"]), path


def write_dbc(path, *signals):
    """A DBC file of one message, with signals of 16 bits by name and unit."""
    lines = (
        f' SG_ {name} : {16 * k}|16@1+ (0.01,0) [0|600] "{unit}" X\n'
        for k, (name, unit) in enumerate(signals)
    )
    path.write_text('VERSION ""\nBU_: X\nBO_ 100 Bremse: 8 X\n' + "".join(lines))
    return path


def test_signals_of_a_bus_are_proposed_where_name_and_unit_are_unambiguous():
    proposed = Bus(DBC, 0.3, 0.3).propose()
    assert proposed["wheel.fl.speed"] == "WheelSpeed.SpeedFL"
    assert proposed["wheel.rr.speed"] == "WheelSpeed.SpeedRR"
    assert proposed["steer.wheel"] == "Steering.SteeringWheelAngle"
    assert proposed["vehicle.speed"] == "Vehicle.VehicleSpeed"
    assert proposed["brake.pressure"] == "Brake.BrakePressure"


def test_german_names_are_understood_and_missing_signals_are_reported(tmp_path, capsys):
    signals = ("Fzg_Geschw", "km/h"), ("LRW_Winkel", "deg"), ("LRW_Geschw", "deg/s"), ("Druck_1", "bar")
    dbc = write_dbc(tmp_path / "auto.dbc", *signals)
    assert Bus(dbc, 0.3, 0.3).propose() == {
        "vehicle.speed": "Bremse.Fzg_Geschw",
        "steer.wheel": "Bremse.LRW_Winkel",
        "brake.pressure": "Bremse.Druck_1",
    }
    status, _ = make(tmp_path, f"dbc: {dbc}\n")
    assert status == 0
    lacking = ", ".join((*(f"wheel.{w}.speed" for w in ("fl", "fr", "rl", "rr")), "vehicle.wz"))
    said = capsys.readouterr().err
    assert f"no signal, or several, for {lacking}: left out" in said
    assert "MESSAGE.SIGNAL" not in said


def test_wheel_speeds_in_kilometres_per_hour_get_the_radius(tmp_path):
    dbc = write_dbc(tmp_path / "car.dbc", *((f"WhlSpd_{w}", "km/h") for w in ("FL", "FR", "RL", "RR")))
    status, path = make(tmp_path, f"dbc: {dbc}\nrear_tyre: 195/65 R15\ncan_channel: /dev/ttyACM0\n")
    assert status == 0
    options = yaml.safe_load(path.read_text())["daemon"]["devices"]["can"]["options"]
    assert (options["interface"], options["channel"], options["dbc"]) == ("slcan", "/dev/ttyACM0", "car.dbc")
    assert options["signals"]["wheel.fl.speed"] == {
        "message": "Bremse",
        "signal": "WhlSpd_FL",
        "radius": "0.316 m",
    }
    assert options["signals"]["wheel.rl.speed"]["radius"] == "0.3173 m"
    assert set(options["signals"]) == {f"wheel.{w}.speed" for w in ("fl", "fr", "rl", "rr")}


@pytest.mark.parametrize("name", ["ESP_Gierrate", "YAW_RATE", "VehicleYawRate", "YawSpd"])
def test_the_yaw_rate_on_the_bus_is_used_as_a_second_sensor(tmp_path, name):
    others = ("YawRateOffset", "deg/s"), ("YawAcc", "deg/s^2"), ("YawRateTarget", "deg/s")
    dbc = write_dbc(tmp_path / "car.dbc", (name, "deg/s"), *others)
    status, path = make(tmp_path, f"dbc: {dbc}\n")
    assert status == 0
    configuration = load_daemon_configuration(path)
    assert configuration.find_signals() == {"vehicle.wz"}
    assert configuration.sensors.yaw_rate is not None
    (signal,) = yaml.safe_load(path.read_text())["daemon"]["devices"]["can"]["options"]["signals"].values()
    assert signal["signal"] == name


def test_without_a_yaw_rate_on_the_bus_there_is_no_such_sensor(tmp_path):
    _, path = make(tmp_path, f"dbc: {DBC}\n")
    assert load_daemon_configuration(path).sensors.yaw_rate is None


@pytest.mark.parametrize(
    ("steering", "signals", "found"),
    [
        ("rack", [("RackPos", "mm"), ("RackForce", "N")], {"steer.rack": "RackPos"}),
        (
            "road_wheels",
            [("SteerAngleFL", "deg"), ("SteerAngleFR", "deg"), ("SteerRateFL", "deg/s")],
            {"steer.fl": "SteerAngleFL", "steer.fr": "SteerAngleFR"},
        ),
    ],
)
def test_steering_at_the_rack_and_at_the_road_wheels_is_proposed(tmp_path, steering, signals, found):
    dbc = write_dbc(tmp_path / "car.dbc", *signals)
    status, path = make(tmp_path, f"dbc: {dbc}\nsteering: {steering}\n")
    assert status == 0
    given = yaml.safe_load(path.read_text())["daemon"]["devices"]["can"]["options"]["signals"]
    assert {channel: signal["signal"] for channel, signal in given.items()} == found


def test_a_rack_without_a_signal_is_reported(tmp_path, capsys):
    dbc = write_dbc(tmp_path / "car.dbc", ("StPot", "mm"), ("VehicleSpeed", "km/h"))
    status, _ = make(tmp_path, f"dbc: {dbc}\nsteering: rack\nwheels: none\n")
    assert status == 0
    assert "no signal, or several, for steer.rack, brake.pressure, vehicle.wz" in capsys.readouterr().err
