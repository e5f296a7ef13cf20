"""Compiled cars kept on disk: a car is read back without building it, and never replaced by another one."""

import shutil
from dataclasses import dataclass, replace

import numpy as np
import pytest

from vehicled.configuration import load_configuration
from vehicled.filter.state_table import make_table
from vehicled.filter.structure import FilterKernels, Structure, make_extension
from vehicled.stepping import run_steps
from vehicled.symbolic import cache, machine
from vehicled.symbolic.differentiation import Differentiation
from vehicled.vehicle import model, sensor_models
from vehicled.vehicle.blueprint import Blueprint, get_blueprint, hash_source
from vehicled.vehicle.car import Car, CompiledCar, Instances
from vehicled.vehicle.extension import Extension
from vehicled.vehicle.sensor_models import SENSOR_KERNELS

WISHBONES = ("double_wishbone", "double_wishbone")


def structure(kind: str = "errorEKF") -> Structure:
    """Structure of a filter of this `kind` for the prototype."""
    configuration = load_configuration("prototype")
    sensors = configuration.sensors.make_setup()
    table = make_table(replace(configuration.filter, kind=kind), sensors.states)
    return Structure(kind, table.groups, sensors.observations)


def prepare(patched, folder):
    patched.delenv("CACHE_DIRECTORY", raising=False)
    patched.setenv("VEHICLED_CACHE", str(folder))
    # Compiling takes a minute, and is tested elsewhere.
    patched.setattr(machine, "compile_object", lambda ir, _: ir[:1000].encode())


@pytest.fixture
def folder(tmp_path, monkeypatch):
    prepare(monkeypatch, tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder with the plain car."""
    kept = tmp_path_factory.mktemp("built")
    with pytest.MonkeyPatch.context() as patched:
        prepare(patched, kept)
        get()
    return kept


@pytest.fixture
def kept(folder, built):
    """The plain car as read back."""
    shutil.copytree(built, folder, dirs_exist_ok=True)
    return get()


@pytest.fixture
def builds(monkeypatch):
    """Arguments of every `model.build`."""
    calls = []
    build = model.build
    monkeypatch.setattr(model, "build", lambda *a: (calls.append(a), build(*a))[1])
    return calls


def get(tyre="linear", extensions=(), width=1, differentiation=None) -> tuple[Blueprint, bytes]:
    return get_blueprint(tyre, WISHBONES, extensions, width, differentiation)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"tyre": "tmeasy", "width": 8, "extensions": (SENSOR_KERNELS,)},
        {"differentiation": Differentiation(2, ("newton", "integration"))},
    ],
    ids=["plain", "wide with sensors", "differentiated"],
)
def test_a_blueprint_is_made_once_and_read_back_the_same(folder, builds, arguments):
    made, read = get(**arguments), get(**arguments)
    assert len(builds) == 1
    assert read == made


@pytest.mark.parametrize("kind", ["errorEKF", "UKF", pytest.param("DEKF", marks=pytest.mark.slow)])
def test_kernels_of_a_filter_are_read_back_the_same(folder, kind):
    extensions = (make_extension(structure(kind)),)
    made, read = get(extensions=extensions)[0].results, get(extensions=extensions)[0].results
    assert read == made
    assert isinstance(read[0], FilterKernels)


def test_each_kind_of_car_has_its_own_blueprint(folder, kept, builds):
    others = [
        {"tyre": "tmeasy"},
        {"width": 2},
        {"extensions": (SENSOR_KERNELS,)},
        {"differentiation": Differentiation(2)},
    ]
    for _ in range(2):
        for arguments in others:
            get(**arguments)
    assert len(builds) == len(others)


def test_the_key_of_a_filter_depends_on_all_that_is_compiled():
    whole = structure()
    group = whole.groups[-1]
    groups = [
        replace(group, name="other"),
        replace(group, elements=(*group.elements, "more")),
        replace(group, process=None if group.process else lambda _: None),
        replace(group, limit=0.123),
    ]
    others = [replace(whole, groups=(*whole.groups[:-1], g)) for g in groups]
    others += [replace(whole, groups=whole.groups[::-1]), replace(whole, kind="DEKF")]
    others += [replace(whole, observations=o) for o in (whole.observations[1:], whole.observations[::-1])]
    keys = {make_extension(s).code_key for s in (whole, *others)}
    assert None not in keys
    assert len(keys) == 1 + len(others)


def test_changed_source_is_built_again(folder, kept, builds):
    get_blueprint("linear", WISHBONES, (), 1, None, source="changed")
    assert len(builds) == 1
    # The blueprint that was built from the old source is removed.
    assert len(list(folder.glob("*.car"))) == 1


@pytest.mark.parametrize("folder_of_source", [".", "vehicle", "filter/deeper"])
def test_the_hash_covers_every_file_and_its_name(tmp_path, folder_of_source):
    assert hash_source(tmp_path) is None
    folder = tmp_path / folder_of_source
    folder.mkdir(parents=True, exist_ok=True)
    found = set()
    for name, text in (("a.py", "x"), ("a.py", "y"), ("b.py", ""), ("a.py", "x")):
        (folder / name).write_text(text)
        found.add(hash_source(tmp_path))
    (folder / "b.py").rename(folder / "c.py")
    found.add(hash_source(tmp_path))
    assert len(found) == 5
    # Files that are not part of a model do not count.
    (tmp_path / "daemon").mkdir()
    (tmp_path / "daemon" / "a.py").write_text("x")
    assert hash_source(tmp_path) in found


def add_nothing(program, parts) -> None:
    """Defined in a test: its source is not in the key."""


def call_nothing(program, parts, argument) -> None:
    """The same, with an argument."""


@dataclass(frozen=True)
class Unknown:
    code_key = None


OUTSIDE = Extension(add_nothing, type(None))
ELSEWHERE = Extension(run_steps, type(None))
LOCAL = Extension(lambda program, parts: None, type(None))
UNKNOWN = Extension(call_nothing, type(None), (Unknown(),))
FOREIGN = make_extension(replace(structure(), observations=(lambda model: None,)))


@pytest.mark.parametrize("extension", [OUTSIDE, ELSEWHERE, LOCAL, UNKNOWN, FOREIGN])
def test_an_extension_whose_source_is_not_in_the_key_is_never_kept(folder, builds, extension):
    assert extension.code_key is None
    for _ in range(2):
        get(extensions=(extension,))
    assert len(builds) == 2
    assert list(folder.glob("*.car")) == []


def test_an_extension_whose_function_was_replaced_has_no_key(monkeypatch):
    monkeypatch.setattr(sensor_models, "add_sensor_kernels", add_nothing)
    assert SENSOR_KERNELS.code_key is None
    assert Extension(sensor_models.add_sensor_kernels, type(None)).code_key is None


DAMAGES = {
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "foreign": lambda path: path.write_bytes(b"foreign"),
    "not ours within": lambda path: cache.keep(path.stem, "car", b"[1, 2]"),
    "half of it": lambda path: cache.keep(path.stem, "car", b'{"layout": {"lanes": 4}}'),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_blueprint_is_ignored_with_a_message_and_made_again(folder, kept, builds, caplog, damage):
    caplog.clear()
    (path,) = folder.glob("*.car")
    damage(path)
    assert get() == kept
    assert "ignored" in caplog.text
    assert len(builds) == 1
    assert get() == kept
    assert len(builds) == 1


def test_lost_object_code_is_made_again(folder, kept, builds):
    (path,) = folder.glob("*.o")
    path.unlink()
    assert get() == kept
    assert len(builds) == 1


def test_a_car_from_disk_moves_as_any_other():
    vehicle = load_configuration("prototype").vehicle
    first = Car(vehicle)
    second = Instances(CompiledCar(vehicle.tyre, vehicle.suspensions))
    second.workspace[:] = first.workspace
    for car in (first, second):
        car.corner_inputs[3] = 50.0
        for _ in range(50):
            assert car.step(0.004) > 0
    assert np.array_equal(first.workspace, second.workspace)
