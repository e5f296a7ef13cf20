"""Every key of a configuration is documented: in prototype.yaml, comments included, or in docs/configuration.md."""

from __future__ import annotations

import dataclasses
import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
import yaml

from drivers.registry import load_driver
from vehicled.configuration import File
from vehicled.daemon.configuration import load_daemon_configuration
from vehicled.daemon.daemon import DaemonOptions
from vehicled.multibody.compiled import CompiledMechanism
from vehicled.multibody.description import Description, parse_description
from vehicled.multibody.formulations import make_stepper
from vehicled.multibody.mechanism import Mechanism
from vehicled.reading.expectations import type_hints
from vehicled.reading.settings import load, shipped_folder
from vehicled.vehicle.handbook import Handbook

PROTOTYPE = shipped_folder() / "prototype.yaml"
DOCS = Path(__file__).parent.parent / "docs"
PAGE = (DOCS / "configuration.md").read_text()
_COMMENTED = re.compile(r"^( *)# ( *[a-z_]+:( .*)?)$")
"""A key that is shown in a comment: `# key: value`."""
_IS_DEFAULT = re.compile(r"# defaults?(;|$)")


def uncomment(line: str) -> str:
    return _COMMENTED.sub(r"\1\2", line)


def dataclasses_of(hint: Any) -> Iterator[type]:
    """Dataclasses that a field may hold, also within unions, annotations and dictionaries."""
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        yield hint
    for argument in get_args(hint):
        yield from dataclasses_of(argument)


def fits(cls: type, node: yaml.Node) -> bool:
    """Whether a section can be of this class, according to its `kind` or `suspension` if it has one."""
    if not isinstance(node, yaml.MappingNode):
        return False
    for choice in ("kind", "suspension"):
        hint = type_hints(cls).get(choice)
        given = [value.value for key, value in node.value if key.value == choice]
        if get_origin(hint) is Literal and given and given[0] not in get_args(hint):
            return False
    return True


def collect(node: yaml.Node, cls: type, named: dict[type, set[str]]) -> None:
    """Collect by class the keys of all sections of a file."""
    if not fits(cls, node):
        return
    hints = {"daemon": DaemonOptions} if cls is File else {}
    for key, value in node.value:
        named[cls].add(key.value)
        hint = hints.get(key.value, type_hints(cls).get(key.value))
        sections = [v for _, v in value.value] if get_origin(hint) is dict else [value]
        for section, inner in product(sections, dataclasses_of(hint)):
            collect(section, inner, named)


def classes_below(cls: type) -> set[type]:
    found = {cls}
    for field in dataclasses.fields(cls):
        for inner in dataclasses_of(type_hints(cls)[field.name]):
            found |= classes_below(inner)
    return found


def keys_of(cls: type) -> set[str]:
    return {field.name for field in dataclasses.fields(cls) if field.init}


def rows_of(heading: str) -> list[list[str]]:
    """The rows of all tables below a heading of docs/configuration.md, as lists of cells."""
    section = re.split(r"^#+ ", PAGE.split(f" {heading}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def names_in(cell: str) -> set[str]:
    return set(re.findall(r"`([a-z_]+)`", cell))


def test_the_prototype_shows_every_key_of_every_section():
    text = "\n".join(map(uncomment, PROTOTYPE.read_text().splitlines()))
    named: dict[type, set[str]] = defaultdict(set)
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    assert root is not None
    collect(root, File, named)
    by_handbook = classes_below(Handbook)
    missing = {
        f"{cls.__name__}.{key}"
        for cls in classes_below(File) | classes_below(DaemonOptions)
        if named[cls] or cls not in by_handbook
        for key in keys_of(cls).difference(
            *(named[c] for c in cls.__mro__)
        )  # the same section under another name
    }
    assert not missing


def test_the_page_names_every_key_of_a_handbook_car():
    named = set().union(*(names_in(row[0]) for row in rows_of("Vehicle")))
    named |= {"kind", "front", "rear", "aerodynamics", "gravity"}
    (axle,) = dataclasses_of(type_hints(Handbook)["front"])
    assert not (keys_of(Handbook) | keys_of(axle)) - named


@pytest.mark.parametrize("driver", ["xsens", "vectornav", "ubx", "nmea", "can"])
def test_the_page_names_every_option_of_a_driver(driver):
    options = {
        name
        for row in rows_of("Drivers")
        if f"`{driver}`" in row[0] or (row[0] == "serial" and driver != "can")
        for name in names_in(row[1])
    }
    assert options == keys_of(load_driver(driver).Options)


def test_the_page_names_every_setting_of_a_can_signal():
    (signal,) = dataclasses_of(type_hints(load_driver("can").Options)["signals"])
    named = {name for row in rows_of("Drivers") if row[0] == "a signal" for name in names_in(row[1])}
    assert named == keys_of(signal)


def test_the_page_names_every_key_and_kind_of_a_mechanism():
    page = (DOCS / "mechanisms.md").read_text()
    section = page.split("## The file of a mechanism\n", 1)[1].split("\n## ", 1)[0]
    named = names_in("\n".join(line for line in section.splitlines() if line.startswith("| ")))
    classes = classes_below(Description)
    kinds = {kind for cls in classes for kind in get_args(type_hints(cls).get("kind"))}
    assert "spherical" in kinds
    assert not kinds.union(*map(keys_of, classes)) - named


def test_the_mechanism_on_the_page_settles_in_its_equilibrium():
    page = (DOCS / "mechanisms.md").read_text()
    mechanism = Mechanism(CompiledMechanism(parse_description(page.split("```yaml\n", 1)[1].split("```")[0])))
    stepper = make_stepper("ali3p")
    for _ in range(3000):
        stepper.step(mechanism, 1e-3).require("step")
    wheel, body = mechanism.z
    assert wheel == pytest.approx(0.32 - 340 * 9.81 / 200e3, abs=1e-4)
    assert body == pytest.approx(wheel + 0.65 - 300 * 9.81 / 20e3, abs=1e-3)


def without(lines: list[str]) -> list[str]:
    """Remove lines that hold a default, and then sections that are empty."""
    kept = [line for line in lines if not _IS_DEFAULT.search(line) and re.match(r" *[^ #]", line)]
    while True:
        deeper = [
            len(b) - len(b.lstrip()) > len(a) - len(a.lstrip())
            for a, b in zip(kept, [*kept[1:], ""], strict=True)
        ]
        empty = [
            bool(re.match(r" *[a-z_]+: *(#.*)?$", line)) and not d
            for line, d in zip(kept, deeper, strict=True)
        ]
        if not any(empty):
            return kept
        kept = [line for line, e in zip(kept, empty, strict=True) if not e]


def flatten(value: Any, path: str = "") -> dict[str, Any]:
    """Leaves by their path; numbers are rounded, as conversion to SI changes the last digits."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {p: leaf for k, v in value.items() for p, leaf in flatten(v, f"{path}.{k}").items()}
    return {path: float(f"{value:.3g}") if isinstance(value, float) else value}


@pytest.mark.parametrize("change", ["left out", "uncommented"])
def test_values_that_the_prototype_marks_as_default_are_the_defaults(change, tmp_path):
    lines = PROTOTYPE.read_text().splitlines()
    if change == "left out":
        changed = without(lines)
    else:
        # Not keys of an alternative section, which are indented behind the `#`.
        changed = [
            uncomment(line) if _IS_DEFAULT.search(line) and "#   " not in line else line for line in lines
        ]
    assert changed != lines
    path = tmp_path / "changed.yaml"
    path.write_text("\n".join(changed))
    (tmp_path / "prototype.dbc").write_bytes((PROTOTYPE.parent / "prototype.dbc").read_bytes())
    ours, shipped = load(path, File), load(PROTOTYPE, File)
    for name in ("vehicle", "sensors", "filter", "world", "output"):
        assert flatten(getattr(ours, name)) == flatten(getattr(shipped, name)), name
    daemons = [load_daemon_configuration(p) for p in (path, PROTOTYPE)]
    for name in ("loop", "publish", "record", "learned"):
        assert flatten(getattr(daemons[0].daemon, name)) == flatten(getattr(daemons[1].daemon, name)), name
