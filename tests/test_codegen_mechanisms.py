"""`vehicled codegen` on mechanisms: the generated code agrees with the machine code and with mechanics."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from codegen_rig import CompiledC, LoadedPython, compare_with_machine_code, load_python, needs_compiler

from vehicled.cli import main
from vehicled.multibody.dimensions import name_units
from vehicled.multibody.files import mechanisms_folder
from vehicled.multibody.library import make_library
from vehicled.multibody.mechanism import Mechanism
from vehicled.reading.settings import config_path
from vehicled.symbolic import c_library
from vehicled.symbolic.graph import Graph
from vehicled.symbolic.text import library_name

LONG = {"front_suspension", "flyball_governor"}
"""The mechanisms with the longest code."""
SHIPPED = [
    pytest.param(path.stem, marks=pytest.mark.slow if path.stem in LONG else ())
    for path in sorted(mechanisms_folder().glob("*.yaml"))
]


@pytest.fixture(scope="module", params=SHIPPED)
def library(request):
    return make_library(request.param)


@pytest.fixture(scope="module")
def in_python(library):
    return load_python(library)


@needs_compiler
def test_c_agrees_with_the_machine_code(library, tmp_path):
    compare_with_machine_code(library, CompiledC(library, c_library.write(library), tmp_path))


def test_python_agrees_with_the_machine_code(library, in_python):
    compare_with_machine_code(library, LoadedPython(library, in_python))


# -- mechanics -------------------------------------------------------------------------------------------


@pytest.fixture
def text(library, in_python):
    return LoadedPython(library, in_python)


def test_the_residual_is_zero_in_a_motion(library, text):
    mechanism = Mechanism.load(library.name)
    mechanism.set_independent_state(mechanism.z, np.full(len(mechanism.z), 0.3))
    for name in ("q", "qd", "qdd", "time"):
        text.members[name][:] = mechanism.view(name)
    text.members["lambda"][:] = mechanism.multipliers
    text.call("residual")
    forces = np.abs(mechanism.calc_forces()).max() + np.abs(mechanism.mass @ mechanism.qdd).max()
    assert np.abs(text.members["residual"]).max() <= 1e-8 * max(1.0, forces)


def test_tangents_agree_with_finite_differences(text):
    random = np.random.default_rng(3)
    for name in ("q", "qd", "qdd", "lambda"):
        text.members[name][:] += 0.1 * random.normal(size=len(text.members[name]))
    text.call("tangent")
    for name in ("q", "qd", "qdd", "lambda"):
        unknown = text.members[name]
        step, sides = 1e-6 * random.normal(size=len(unknown)), []
        for sign in (1.0, -1.0):
            unknown += sign * step
            text.call("residual")
            sides.append(text.members["residual"].copy())
            unknown -= sign * step
        expected = (sides[0] - sides[1]) / 2
        found = text.members[f"residual_by_{name}"].reshape(len(expected), -1) @ step
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-7 * np.abs(sides[0]).max() * 1e-2)


@needs_compiler
def test_a_pendulum_in_c_swings_with_its_period(tmp_path):
    """A point mass on a massless rod of 1 m, released at rest. The arithmetic–geometric mean gives its period."""
    library = make_library("simple_pendulum")
    text = CompiledC(library, c_library.write(library), tmp_path)
    text.call("initialise")
    mean, other = 1.0, math.cos(math.pi / 4)
    for _ in range(6):
        mean, other = (mean + other) / 2, math.sqrt(mean * other)
    half, steps = math.pi * math.sqrt(1.0 / 9.81) / mean, 2000
    text.members["step"][:] = half / steps
    text.members["penalties"][:] *= (1e-3 / (half / steps)) ** 2
    for _ in range(steps):
        text.members["time"] += text.members["step"]
        assert text.call("step", 30, 1e-22, 1e-8, 2) > 0
    assert text.members["q"] == pytest.approx([1.0, 0.0], abs=2e-5)
    assert text.members["time"][0] == pytest.approx(half)


# -- the command -------------------------------------------------------------------------------------------


def test_the_command_writes_files_and_reports_their_contents(tmp_path, capsys):
    folder = tmp_path / "new" / "folder"
    assert main(["codegen", "four_bar", "--language", "c", "--output", str(folder), "--json"]) == 0
    out, _ = capsys.readouterr()
    found = json.loads(out)
    assert {path: (folder / path).stat().st_size for path in ("four_bar.h", "four_bar.c")} == {
        Path(path).name: size for path, size in found["files"].items()
    }
    assert found["bytes"] == sum(found["files"].values())
    assert found["operations"] == sum(found["functions"].values())
    header = (folder / "four_bar.h").read_text()
    included = re.findall("#include (.*)", header + (folder / "four_bar.c").read_text())
    assert included == ['"four_bar.h"', "<math.h>"]
    for line in ("theta, rad", "theta, N·m", "crank: length of A–P, m²", "crank.mass, kg", "(9, 5), by rows"):
        assert line in header
    assert main(["codegen", "four_bar", "--language", "python", "--output", str(folder)]) == 0
    assert "four_bar.py" in capsys.readouterr().out


def test_a_file_that_exists_is_replaced_only_with_force(tmp_path, capsys):
    command = ["codegen", "four_bar", "--language", "c", "--output", str(tmp_path)]
    source = tmp_path / "four_bar.c"
    source.write_text("mine")
    assert main(command) == 2
    assert capsys.readouterr().err == f"vehicled: {source}: exists; --force replaces it\n"
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"four_bar.c": "mine"}
    assert main([*command, "--force"]) == 0
    assert "four_bar.h" in source.read_text()


def test_the_mechanism_itself_is_never_replaced(tmp_path, capsys):
    configuration = tmp_path / "car.yaml"
    configuration.write_text(config_path("prototype").read_text())
    (tmp_path / "car_mechanism.yaml").symlink_to(configuration)
    command = ["codegen", str(configuration), "--language", "yaml", "--output", str(tmp_path), "--force"]
    before = configuration.read_text()
    assert main(command) == 2
    assert "expected another file than the mechanism" in capsys.readouterr().err
    assert configuration.read_text() == before


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("length: 8 m", "length: 80 m"), "cannot be assembled"),
        (("points: [P, Q], length: 8 m", "points: [P, R], length: 8 m"), "unknown point 'R'"),
        (("independent: [theta]", "independent: [theta, P.x]"), "degree"),
    ],
)
def test_an_invalid_mechanism_is_refused_with_the_reason(tmp_path, capsys, change, reason):
    path = tmp_path / "broken.yaml"
    text = (mechanisms_folder() / "four_bar.yaml").read_text()
    assert change[0] in text
    path.write_text(text.replace(*change))
    assert main(["codegen", str(path), "--language", "c", "--output", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert reason in error
    assert len(error.splitlines()) == 1
    assert list(tmp_path.iterdir()) == [path]


@needs_compiler
def test_names_that_c_does_not_accept_are_changed(tmp_path):
    """Names that are keywords or functions of C or Python, or that have letters other than Latin ones."""
    path = tmp_path / "double.yaml"
    path.write_text(
        "space: planar\ngravity: 0 -9.81 m/s²\nground: {points: {double: 0 0 m}}\n"
        "points: {fabs: 1 0 m}\nangles: {θ: {between: [x, [double, fabs]]}}\ninputs: [k]\n"
        "bodies: {class: {kind: bar, points: [double, fabs], mass: 1 kg}}\n"
        "forces: {lambda: {kind: on_coordinate, coordinate: θ, force: k*cos(θ)}}\n",
        encoding="utf-8",
    )
    library = make_library(path)
    compare_with_machine_code(library, CompiledC(library, c_library.write(library), tmp_path))
    compare_with_machine_code(library, LoadedPython(library, load_python(library)))


@pytest.mark.parametrize("name", ["sin", "NULL", "INFINITY", "main", "printf", "numpy", "double"])
def test_names_of_the_libraries_of_c_and_python_are_changed(tmp_path, name):
    path = tmp_path / f"{name}.yaml"
    path.write_text((mechanisms_folder() / "pendulum.yaml").read_text())
    assert make_library(path).name == f"{name}_"
    assert library_name("four_bar") == "four_bar"


def test_units_of_expressions_follow_from_those_of_symbols():
    """A sum of different units has no unit; neither has an expression that contains it."""
    g = Graph()
    m, x, v = (g.symbol(name) for name in "mxv")
    known = {m: "kg", x: "m", v: "m/s"}
    whole = [m * v * v / x, g.sqrt(x * x), x / v, g.sin(x / x), g.where_less(x, g.one, g.zero, v)]
    assert name_units(whole, known) == ["N", "m", "s", "1", "m/s"]
    assert name_units([x + v, m * (x - g.one), g.symbol("other") * m], known) == [None] * 3
