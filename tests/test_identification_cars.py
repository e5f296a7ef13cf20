"""Identification of ten parameters that are off by 10 to 20 %, from one drive with all sensor errors."""

import pytest

from vehicled.cli import main
from vehicled.commands.benches.identify import car_lines
from vehicled.studies.benchmarks.identify_plots import draw_cars
from vehicled.studies.benchmarks.vehicle_identify import PARAMETERS, run_car

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def car():
    return run_car(PARAMETERS, 3)


def test_every_parameter_is_found(car):
    assert len(car["parameters"]) == 10
    for p in car["parameters"]:
        error = p["value"] - p["true"]
        assert p["identified"], p["name"]
        assert abs(error) <= 3.0 * p["sigma"], p["name"]
        assert abs(error) <= 0.02 * p["true"], p["name"]
        # The prior was far off, and σ is small; the prior of the centre of mass was off by 3 % only.
        assert abs(p["prior"] - p["true"]) > 2.0 * abs(error)
        assert p["sigma"] < 0.02 * p["true"]


def test_the_table_of_cars_has_parameters_and_a_summary(car):
    other = car | {"parameters": [p | {"identified": False, "value": p["prior"]} for p in car["parameters"]]}
    lines = car_lines([car, other])
    assert len([line for line in lines if line.startswith(("mass", "front.", "rear."))]) == 7
    assert "10 of 20 identified, 10 of them within 3 σ" in lines[-1]
    (mass,) = [line for line in lines if line.startswith("mass")]
    assert "±" in mass
    assert "(" in mass


def test_a_picture_of_cars_is_written(car, tmp_path):
    draw_cars([car, car], tmp_path / "pictures")
    assert (tmp_path / "pictures" / "cars.png").stat().st_size > 5000


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--seed", "1"], "--mechanism vehicle"),
        (["--mechanism", "vehicle", "--seed", "-1"], "0 or more"),
        (["--mechanism", "vehicle", "--workers", "0"], "at least 1"),
        (["--mechanism", "vehicle", "--parameters", "torque_gain"], "errors of their own"),
        (["--mechanism", "vehicle", "--parameters", "front.tire_stiffness"], "did you mean"),
    ],
)
def test_invalid_arguments_are_errors_of_one_line(arguments, word, capsys):
    assert main(["bench", "identify", *arguments]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert word in line
