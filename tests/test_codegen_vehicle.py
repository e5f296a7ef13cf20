"""`vehicled codegen` on a car: lanes of corners, sensor models and the whole step as source code."""

from __future__ import annotations

import contextlib
import io
import json
import re

import numpy as np
import pytest
from codegen_rig import CompiledC, LoadedPython, compare_with_machine_code, load_python, needs_compiler

from vehicled.cli import main
from vehicled.configuration import load_configuration
from vehicled.multibody.description import load_description
from vehicled.multibody.dimensions import name_units
from vehicled.symbolic import c_library
from vehicled.vehicle.arrays import DRIVE_TORQUE
from vehicled.vehicle.car import Car
from vehicled.vehicle.library import make_library, name_parameter_units
from vehicled.vehicle.model import build

LIMITS = (Car.iteration_limit, Car.tolerance**2, Car.large**2, Car.projection_passes)


@pytest.fixture(
    scope="module", params=["prototype", pytest.param("reference_vehicle", marks=pytest.mark.slow)]
)
def vehicle(request):
    return load_configuration(request.param).vehicle


@pytest.fixture(scope="module")
def library(vehicle):
    return make_library("car", vehicle)


@pytest.fixture(scope="module")
def in_c(library, tmp_path_factory):
    return CompiledC(library, c_library.write(library), tmp_path_factory.mktemp("c"))


@pytest.fixture(scope="module")
def in_python(library):
    return load_python(library)


@needs_compiler
def test_c_agrees_with_the_machine_code(library, in_c):
    compare_with_machine_code(library, in_c)


def test_python_agrees_with_the_machine_code(library, in_python):
    compare_with_machine_code(library, LoadedPython(library, in_python))


@needs_compiler
def test_the_car_in_c_drives_as_in_vehicled(in_c, vehicle):
    written = in_c
    written.call("initialise")
    car = Car(vehicle)
    for k in range(250):
        for inputs, rack in (
            (car.corner_inputs, car.inputs),
            (written.members["corner_inputs"], written.members["inputs"]),
        ):
            inputs[DRIVE_TORQUE, 2:] = 300.0
            rack[0] = 1e-5 * k
        assert car.step(float(written.members["integration"][0])) > 0
        assert written.call("step", *LIMITS) > 0
    assert written.members["q"] == pytest.approx(car.view("q"), abs=1e-8)
    assert written.members["branch.q"] == pytest.approx(car.view("branch.q"), abs=1e-8)
    assert np.linalg.norm(car.view("qd")[:2]) > 0.3


RESIDUALS = ("residual", "branch.residual", "constraints", "branch.constraints")
UNKNOWNS = [f"{prefix}{name}" for prefix in ("", "branch.") for name in ("q", "qd", "qdd", "lambda")]


def change_of(name: str) -> str:
    prefix, _, last = name.rpartition(".")
    return f"{prefix}.change_of_{last}" if prefix else f"change_of_{last}"


def test_the_residual_is_zero_at_rest(library, vehicle, in_python):
    text = LoadedPython(library, in_python)
    text.call("residual")
    for name in RESIDUALS:
        assert np.abs(text.members[name]).max() < 1e-5 * vehicle.mass * vehicle.gravity, name


def test_the_tangent_agrees_with_finite_differences(library, in_python):
    text = LoadedPython(library, in_python)
    random = np.random.default_rng(2)
    for name in UNKNOWNS:
        values, change = text.members[name], text.members[change_of(name)]
        values += 1e-3 * random.normal(size=values.shape)
        change[...] = random.normal(size=values.shape)
    text.call("tangent")
    step, sides = 1e-7, []
    for sign in (1.0, -1.0):
        for name in UNKNOWNS:
            text.members[name] += sign * step * text.members[change_of(name)]
        text.call("residual")
        sides.append({name: text.members[name].copy() for name in RESIDUALS})
        for name in UNKNOWNS:
            text.members[name] -= sign * step * text.members[change_of(name)]
    for name in RESIDUALS:
        expected = (sides[0][name] - sides[1][name]) / (2 * step)
        scale = np.abs(expected).max()
        assert text.members[change_of(name)] == pytest.approx(expected, abs=1e-5 * scale), name


# -- names and units ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("tyre", ["tmeasy", "linear"])
def test_units_of_parameters_give_the_units_of_the_mass_matrix(tyre):
    """Sums of terms have a unit only if all parameters have the correct one."""
    made = build(tyre, ("double_wishbone", "double_wishbone"))
    arrays, system = made.program.arrays, made.step.system
    known = {
        a: unit
        for a, (_, unit) in zip(
            (*arrays["parameters"], *arrays["corner_parameters"]), name_parameter_units(made), strict=True
        )
    }
    assert set(name_units([m for *_, m in system.mass], known)) == {"kg", "kg·m", "kg·m²"}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Python code of the prototype with its sensors, and the command's output."""
    folder = tmp_path_factory.mktemp("codegen")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        status = main(["codegen", "prototype", "--language", "python", "--output", str(folder), "--json"])
    assert status == 0
    return (folder / "prototype.py").read_text(), json.loads(printed.getvalue())


def test_sensors_have_their_configured_positions(written):
    """At rest, the antenna is at its configured height above the ground; accelerometers measure gravity upwards."""
    module = {}
    exec(written[0], module)
    m, sensors = module["State"](), load_configuration("prototype").sensors
    module["observe_pose"](m)
    module["gnss_position"](m)
    vehicle = load_configuration("prototype").vehicle
    height = vehicle.center_of_mass()[2] + sensors.gnss.antenna[2]
    assert m.predicted == pytest.approx([*sensors.gnss.antenna[:2], height], abs=5e-3)
    module["imu_accelerometer"](m)
    assert m.predicted == pytest.approx(sensors.imu.R_imu_vehicle @ [0.0, 0.0, vehicle.gravity], abs=0.05)


def test_the_command_writes_a_car(written):
    text, found = written
    assert found["mechanism"] == "prototype"
    assert found["bytes"] == len(text.encode())
    assert set(re.findall(r"(?m)^\s*(?:import|from) (\w+)", text)) == {"numpy"}
    for line in ("spring.stiffness, N/m", "tyre.fy, N", "wheel.spin, rad", "tie rod: length, m²"):
        assert line in text


def test_the_command_writes_a_car_as_a_mechanism(tmp_path, capsys):
    arguments = ["--language", "yaml", "--output", str(tmp_path), "--json"]
    assert main(["codegen", "prototype", *arguments]) == 0
    path = tmp_path / "prototype_mechanism.yaml"
    found = json.loads(capsys.readouterr().out)
    assert found["files"] == {str(path): path.stat().st_size}
    assert load_description(path).joints["tie_rod_fl"].points == (
        "tie_rod_fl_on_rack",
        "tie_rod_fl_on_knuckle",
    )
    assert main(["codegen", "four_bar", *arguments]) == 2
    assert capsys.readouterr().err.strip().endswith("expected the configuration of a car, got a mechanism")


def test_a_file_that_is_neither_car_nor_mechanism_is_refused(tmp_path, capsys):
    path = tmp_path / "neither.yaml"
    path.write_text("speed: 3\n")
    assert main(["codegen", str(path), "--language", "c", "--output", str(tmp_path)]) == 2
    assert "speed" in capsys.readouterr().err
