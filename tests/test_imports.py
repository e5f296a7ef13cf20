"""Imports between modules: the layers of the architecture, and the modules that the daemon loads."""

import ast
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from vehicled.rig.configuration import write_configuration
from vehicled.vehicle.extension import FOLDERS
from vehicled.vehicle.extension import PLAIN as PLAIN_FOLDERS

ROOT = Path(__file__).parent.parent
PACKAGES = ("vehicled", "drivers", "replay")

FACADE = "vehicled"
"""The package that offers names of any row to users, each loaded at its first use. By itself it loads its version
alone, and the project does not use it. So it belongs to no row, and every module may have it as a parent."""

PLAIN = {
    FACADE,
    *(f"vehicled.{folder}" for folder in PLAIN_FOLDERS),
    "vehicled.backoff",
    "vehicled.errors",
    "vehicled.garbage",
    "vehicled.messages",
    "vehicled.points",
    "vehicled.requests",
    "vehicled.schemas",
    "vehicled.units",
    "vehicled.version",
    "vehicled.viewer_messages",
}
"""Folders and modules that any other may import, and that import only each other."""

ROWS = (
    "vehicled.symbolic",
    "vehicled.multibody",
    "vehicled.vehicle",
    "vehicled.filter",
    "vehicled.sources",
    "vehicled.configuration",
    "vehicled.estimator",
    "vehicled.drive_summary",
    "vehicled.stepping",
    "vehicled.smoothing",
    "vehicled.simulation",
    "vehicled.jobs",
    "vehicled.identification",
    "drivers",
    "replay",
    "vehicled.foxglove",
    "vehicled.daemon",
    "vehicled.particles",
    "vehicled.live",
    "vehicled.scoring",
    "vehicled.log_check",
    "vehicled.report",
    "vehicled.batch",
    "vehicled.rig",
    "vehicled.studies",
    "vehicled.api",
    "vehicled.view",
    "vehicled.demo",
    "vehicled.setup",
    "vehicled.commands",
    "vehicled.cli",
    "vehicled.__main__",
)
"""Each row may import the rows before it."""

ONLY: dict[str, set[str]] = {
    "vehicled.symbolic": {"vehicled.trust"},
    "drivers": PLAIN,
    "replay": PLAIN | {"drivers"},
    "vehicled.simulation": {row for row in ROWS if row != "vehicled.identification"} | PLAIN,
}
"""Rows that may import less than all before them."""

WITHOUT_IO = ROWS[: ROWS.index("vehicled.estimator") + 1]
IO = {"can", "mcap", "multiprocessing", "select", "serial", "signal", "socket", "threading", "time", "zmq"}
"""Modules that read clocks or communicate with anything outside the process."""
MEASURES_COMPILATION = ("vehicled.symbolic.cache", "time")


@cache
def modules() -> dict[str, ast.Module]:
    """All modules of the project, read only when a test needs them, because each worker imports this file."""
    found = {}
    for path in (p for package in PACKAGES for p in (ROOT / package).rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        found[name] = ast.parse(path.read_text(encoding="utf-8"), path)
    return found


def imports(tree: ast.Module) -> Iterator[str]:
    """Full names of the modules that are imported, also those within functions and for types alone."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute here"
            assert node.module is not None
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in modules() else node.module


def row_of(module: str) -> str:
    """The row or plain module that a module of ours belongs to."""
    parts = module.split(".")
    return ".".join(parts[:2]) if parts[0] == "vehicled" else parts[0]


def arrows() -> dict[tuple[str, str], list[str]]:
    """(importing row, imported row) → the modules that do it."""
    found = defaultdict(list)
    for module, tree in modules().items():
        for imported in imports(tree):
            if imported in modules() and row_of(imported) != row_of(module):
                found[row_of(module), row_of(imported)].append(f"{module} → {imported}")
    return found


def allowed(importing: str, imported: str) -> bool:
    if importing == FACADE:
        return True
    if importing in PLAIN:
        return imported in PLAIN
    if imported not in ONLY.get(importing, PLAIN | set(ROWS)):
        return False
    return imported in PLAIN or ROWS.index(imported) < ROWS.index(importing)


def test_every_module_belongs_to_a_row():
    assert {row_of(module) for module in modules()} <= PLAIN | set(ROWS)


def test_modules_import_only_earlier_rows():
    assert {arrow: who for arrow, who in arrows().items() if not allowed(*arrow)} == {}


def test_modules_that_determine_the_code_of_a_car_are_in_its_hash():
    """These are all rows up to the sources, and the plain folders and modules that they import."""
    assert ROWS[: len(FOLDERS)] == tuple(f"vehicled.{folder}" for folder in FOLDERS)
    files = {path.stem for path in (ROOT / "vehicled").glob("*.py")}
    plain = {name.removeprefix("vehicled.") for name in PLAIN - {FACADE}}
    assert plain - set(PLAIN_FOLDERS) < files
    assert set(PLAIN_FOLDERS) <= plain


def test_the_facade_loads_only_its_version_by_itself():
    show = "import sys; before = set(sys.modules); import vehicled; print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, check=True)
    ours = {m for m in done.stdout.split() if m.split(".")[0] in PACKAGES}
    assert ours == {FACADE, "vehicled.version"}
    assert "numpy" not in done.stdout.split()


def test_a_configuration_is_read_without_machine_code():
    show = "import sys, vehicled.configuration; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, check=True)
    assert {"llvmlite", "vehicled.vehicle.car"} & set(done.stdout.split()) == set()


def test_modules_of_the_project_import_nothing_from_the_facade():
    asked = {
        alias.name
        for tree in modules().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == FACADE
        for alias in node.names
        if f"{FACADE}.{alias.name}" not in modules()
    }
    assert asked == set()


def test_modules_of_the_estimator_have_no_input_or_output_and_no_clock():
    found = {
        (module, imported.split(".")[0])
        for module, tree in modules().items()
        if row_of(module) in WITHOUT_IO
        for imported in imports(tree)
    }
    assert {pair for pair in found if pair[1] in IO} <= {MEASURES_COMPILATION}


SHOW_MODULES = """
import sys, time
from vehicled.cli import main
from vehicled.daemon.daemon import Daemon

def run(daemon):
    with daemon:
        while daemon.status is None:
            time.sleep(0.01)
    print(*sys.modules)

Daemon.run = run
sys.exit(main(["run", "--config", sys.argv[1]]))
"""
"""`vehicled run` up to its first status, without devices."""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory) -> set[str]:
    """Modules that `vehicled run` has imported at its first status."""
    folder = tmp_path_factory.mktemp("run")
    configuration = folder / "prototype.yaml"
    write_configuration("prototype", configuration, folder, folder, gnss_latency=0.0)
    command = [sys.executable, "-c", SHOW_MODULES, configuration]
    for _ in range(2):  # the first run may have to build the car
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_the_daemon_imports_only_the_rows_that_it_needs(loaded):
    rows = {row_of(module) for module in loaded if module.split(".")[0] in PACKAGES}
    before = set(ROWS[: ROWS.index("vehicled.daemon") + 1])
    not_needed = {"vehicled.identification", "vehicled.simulation"}
    assert rows <= PLAIN | before - not_needed | {"vehicled.commands", "vehicled.cli"}
    assert {m for m in loaded if m.startswith("vehicled.commands.")} == {"vehicled.commands.run"}


def test_the_daemon_imports_no_large_library_that_it_does_not_need(loaded):
    large = {
        *("casadi", "exudyn", "lz4", "matplotlib", "mujoco", "pandas", "PIL", "scipy", "sympy"),
        *("multiprocessing.pool", "numpy.f2py", "numpy.testing", "tkinter", "unittest"),
    }
    assert large & loaded == set()


def test_every_public_class_name_is_defined_once() -> None:
    places = defaultdict(list)
    for module, tree in modules().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(module)
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_no_file_is_longer_than_500_lines() -> None:
    paths = [p for package in (*PACKAGES, "tests") for p in (ROOT / package).rglob("*.py")]
    long = {str(p.relative_to(ROOT)): n for p in paths if (n := len(p.read_text().splitlines())) > 500}
    assert long == {}


def test_the_daemon_imports_nothing_that_builds_a_car_if_the_car_is_cached(loaded):
    builders = {
        *("vehicled.symbolic.graph", "vehicled.symbolic.llvm", "vehicled.symbolic.tangent"),
        *("vehicled.multibody.system", "vehicled.multibody.ali3p"),
        *("vehicled.vehicle.model", "vehicled.vehicle.outputs", "vehicled.vehicle.sensor_models"),
        *("vehicled.filter.error_model", "vehicled.filter.error_dynamics"),
    }
    assert builders & loaded == set()
