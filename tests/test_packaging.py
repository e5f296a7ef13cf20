"""The wheel contains all that a user needs, and declares what it imports."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from drivers.registry import GROUP, known_drivers
from vehicled import __version__
from vehicled.studies.benchmarks.algebras import PEERS

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PACKAGES = ("vehicled", "drivers", "replay")
MODULES = {
    "foxglove_sdk": "foxglove",
    "commonroad_vehicle_models": "vehiclemodels",
    "pyserial": "serial",
    "python_can": "can",
    "pyzmq": "zmq",
    "pyyaml": "yaml",
}
"""Distributions whose module has another name."""


def test_there_is_one_version():
    assert PROJECT["version"] == __version__


def test_every_import_is_declared_and_every_declaration_is_needed():
    imported = set()
    for path in (p for package in PACKAGES for p in (ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                imported.add(node.module.split(".")[0])
            elif isinstance(node, ast.Call) and ast.unparse(node.func) == "require":
                imported.add(ast.literal_eval(node.args[0]).split(".")[0])  # of an extra
    imported |= set(PEERS)  # imported by name, if installed
    extras = PROJECT["optional-dependencies"]
    listed = [
        *PROJECT["dependencies"],
        *(d for name in extras.keys() - {"docs", "test"} for d in extras[name]),
    ]
    names = [re.split(r"[^\w-]", d)[0].replace("-", "_").lower() for d in listed]
    declared = {MODULES.get(name, name) for name in names} - {PROJECT["name"]}  # extras of our own
    assert imported - set(sys.stdlib_module_names) - set(PACKAGES) == declared


def test_every_extra_that_is_named_is_declared():
    texts = [p.read_text() for package in PACKAGES for p in (ROOT / package).rglob("*.py")]
    named = {e for text in texts for e in re.findall(r"vehicled\[(\w+)\]", text)}
    named |= {e for text in texts for e in re.findall(r'require\("[\w.]+", "(\w+)"', text)}
    assert {"view", "mdf"} <= named <= set(PROJECT["optional-dependencies"])


def test_drivers_are_entry_points():
    assert set(known_drivers()) >= set(PROJECT["entry-points"][GROUP])
    assert len(PROJECT["entry-points"][GROUP]) == 5


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The wheel, unpacked in a folder of its own."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    subprocess.run([sys.executable, "-m", "zipfile", "-e", wheel, folder / "site"], check=True)
    return folder / "site"


CHECK = """
import sys

sys.path.insert(0, sys.argv[1])
from vehicled.cli import main

for name in sys.argv[2:]:
    print("\\f")
    assert main(["check", name]) == 0, name
sys.exit(main(["check", "nothing"]))
"""
"""Runs `vehicled check` of the wheel for each model in one process, and finally for an unknown name."""


def test_the_wheel_contains_configurations_and_units(installed):
    shipped = installed / "vehicled" / "shipped"
    for folder in ("config", "systemd"):
        assert {p.name for p in (shipped / folder).iterdir()} == {p.name for p in (ROOT / folder).iterdir()}
    names = {p.name for p in installed.iterdir()}
    assert names == {*PACKAGES, f"vehicled-{__version__}.dist-info"}


def test_the_wheel_contains_all_files_of_the_packages(installed):
    """Also files that are not imported: drives, pages, schemas, units of measurement systems."""
    for package in PACKAGES:
        there = {p.relative_to(installed) for p in (installed / package).rglob("*") if p.is_file()}
        here = {p.relative_to(ROOT) for p in (ROOT / package).rglob("*") if p.is_file()}
        assert {p for p in here if p.suffix not in (".pyc", ".pyo")} <= there


def test_vendored_code_has_its_licence_and_version(installed):
    folder = installed / "vehicled" / "vendored"
    for part in folder.iterdir():
        assert "Copyright" in (part / "LICENSE").read_text()
        version = re.search(r"# \w+ ([\d.]+)", (part / "README.md").read_text())[1]
        assert any(f"v{version}" in script.read_text()[:200] for script in part.glob("*.js"))


def test_the_wheel_is_typed(installed):
    assert all((installed / package / "py.typed").is_file() for package in PACKAGES)


def test_the_wheel_works_from_any_folder(installed, tmp_path):
    """Without access to the source tree."""
    cars = ("prototype", "reference_vehicle", "ferrari_250lm", "rav4", "hatchback", "saloon")
    command = [sys.executable, "-P", "-c", CHECK, installed, *cars, "suspension_corner"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    *checked, corner = done.stdout.split("\f")[1:]
    assert len(checked) == len(cars), done.stderr
    assert all("degrees of freedom   14" in text for text in checked)
    assert "degrees of freedom   1 = 23 − 22" in corner
    # For an unknown name the message lists the files of the wheel.
    assert done.returncode == 2
    assert "prototype" in done.stderr
