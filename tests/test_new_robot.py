"""`vehicled new` for carts and robots: tyre sizes of golf carts and karts, and a single steering angle."""

import re

import pytest

from vehicled.cli import main
from vehicled.daemon.configuration import load_daemon_configuration
from vehicled.reading.settings import shipped_folder
from vehicled.setup.tyre_size import read_tyre

GOLF_CART = """\
driven: rear
mass: 400 kg
wheelbase: 1.65 m
front_share: 45 %
height: 1.8 m
center_of_mass_height: 0.45 m
front_track: 0.9 m
front_tyre: 18x8.50-8
rear_tyre: 0.23 m
steering: bicycle
"""


def make(tmp_path, answers):
    path, file = tmp_path / "cart.yaml", tmp_path / "answers.yaml"
    file.write_text(answers)
    return main(["new", str(path), "--answers", str(file), "--no-probe"]), path


@pytest.mark.parametrize(
    ("size", "radius"),
    [
        ("205/55 R16", 0.316),
        ("205/55R16 91V", 0.316),
        ("155 SR 13", 0.2891),
        ("205R16C 110R", 0.3672),
        ("T125/70 R17", 0.3034),
        ("P 265/70 r17", 0.4014),
        ("90/60 R5", 0.1175),
        ("225/75 R16C", 0.37195),
        ("225/75R16C 118/116R", 0.37195),
        ("235/75 R17.5", 0.3985),
        ("315/80 R22.5 156/150L", 0.53775),
        ("205/50-10", 0.2295),
        ("155/80-13", 0.2891),
        ("18x8.50-8", 0.2286),
        (" 18X8.50 - 8 4PR", 0.2286),
        ("AT25x8R12", 0.3175),
        ("10x4.5-5", 0.127),
        ("18.0x6.0-10", 0.2286),
        ("0.23 m", 0.23),
        ("230 mm", 0.23),
    ],
)
def test_the_radius_of_a_tyre(size, radius):
    assert read_tyre(size).radius == pytest.approx(radius, abs=1e-4)


@pytest.mark.parametrize(
    "size",
    [
        "big",
        "0.23",
        "0.23 kg",
        "0.2 0.3 m",
        "23 m",
        "nan m",
        "18x8.50-20",
        "4x4-3",
        "995/55 R16",
        "205/55",
        "205/55 R16.2",
        "",
    ],
)
def test_an_invalid_tyre_size_is_refused_with_what_is_expected(size):
    with pytest.raises(ValueError, match=r"^expected a size such as '205/55 R16'.*18x8\.50-8.*0\.23 m"):
        read_tyre(size)


LORRY = """\
driven: rear
mass: 6.5 t
wheelbase: 4.2 m
front_share: 40 %
height: 3.2 m
front_track: 2.0 m
rear_track: 1.85 m
front_tyre: 235/75 R17.5
steering_ratio: 20
"""


def test_a_lorry_stands_on_tyres_for_its_load(tmp_path):
    """Its default tyres were those of cars, so soft that it stood on its rims; no answer changes them."""
    status, path = make(tmp_path, LORRY)
    assert status == 0
    assert main(["check", str(path)]) == 0


def test_the_file_contains_the_given_tyre_size(tmp_path):
    status, path = make(tmp_path, GOLF_CART)
    assert status == 0
    front, rear = (line for line in path.read_text().splitlines() if "wheel_radius" in line)
    assert re.sub(" +", " ", front) == " wheel_radius: 0.2286 m # given; 18x8.50-8, half the outer diameter"
    assert re.sub(" +", " ", rear) == " wheel_radius: 0.23 m # given; the radius itself"


def test_a_single_steering_angle_has_a_steering_ratio_of_1(tmp_path):
    status, path = make(tmp_path, GOLF_CART)
    assert status == 0
    configuration = load_daemon_configuration(path)
    assert configuration.sensors.steering.source == "wheel"
    (line,) = (line for line in path.read_text().splitlines() if "steering_ratio" in line)
    assert line.split("#")[0].split() == ["steering_ratio:", "1"]
    assert "typical" not in line
    assert main(["check", str(path)]) == 0


def test_another_ratio_for_a_single_steering_angle_is_refused(tmp_path, capsys):
    status, _ = make(tmp_path, GOLF_CART + "steering_ratio: 15\n")
    assert status == 2
    assert "answers.yaml:11: steering_ratio: expected 1, or none" in capsys.readouterr().err
    assert make(tmp_path, GOLF_CART + "steering_ratio: 1\n")[0] == 0


def test_a_steering_wheel_angle_on_the_bus_is_not_taken_for_the_road_wheel_angle(tmp_path, capsys):
    status, path = make(tmp_path, GOLF_CART + f"dbc: {shipped_folder() / 'prototype.dbc'}\n")
    assert status == 0
    assert "steer.wheel" not in load_daemon_configuration(path).find_signals()
    assert "no signal, or several, for steer.wheel, vehicle.wz: left out" in capsys.readouterr().err
