"""Writing new values into the text of a configuration."""

import dataclasses
import re

import pytest
from drives_rig import TEXT, prototype_file

from vehicled.configuration import File
from vehicled.identification.vehicle.names import PARAMETERS, apply, choose, with_defaults
from vehicled.identification.vehicle.session import write
from vehicled.identification.vehicle.yaml_text import Edit, edit, find_edits
from vehicled.reading import settings

FERRARI = settings.config_path("ferrari_250lm").read_text(encoding="utf-8")


def changes_of(parameters):
    return [0.04 if p.positive else 0.3 * p.sigma for p in parameters]


@pytest.mark.parametrize("text", [TEXT, FERRARI], ids=["hard points", "handbook"])
def test_written_values_are_read_again(text):
    file = with_defaults(settings.loads(text, File))
    parameters = choose("*", file)
    new = apply(file, parameters, changes_of(parameters))
    read = with_defaults(settings.loads(edit(text, list(find_edits(file, new))), File))
    for p in parameters:
        assert p.get(new) != p.get(file), p.name
        assert p.get(read) == pytest.approx(p.get(new), rel=1e-5), p.name


def test_writing_a_value_changes_no_other_line():
    file = prototype_file()
    new = apply(file, [PARAMETERS["front.spring"]], [0.1])
    before, after = TEXT.splitlines(), edit(TEXT, list(find_edits(file, new))).splitlines()
    different = [(a, b) for a, b in zip(before, after, strict=True) if a != b]
    assert different == [("    spring: {stiffness: 52 kN/m}", "    spring: {stiffness: 57.4689 kN/m}")]


def test_the_steering_offset_keeps_its_unit():
    text = TEXT.replace("offset: 0      ", "offset: 2 mm   ", 1)
    file = settings.loads(text, File)
    new = apply(file, [PARAMETERS["steering.offset"]], [1e-3])
    assert new.sensors.steering.offset == pytest.approx(3e-3)
    assert "    offset: 3 mm " in edit(text, list(find_edits(file, new)))


def test_a_comment_keeps_its_column():
    text = "a: 12 mm     # why\nb: 1 m\n"
    assert edit(text, [Edit(("a",), (0.0125,), "m")]) == "a: 12.5 mm   # why\nb: 1 m\n"
    assert edit(text, [Edit(("a",), (0.123456,), "m")]) == "a: 123.456 mm # why\nb: 1 m\n"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a:\n  c: 1 m\n", "a:\n  b: 2 m\n  c: 1 m\n"),
        ("a: {c: 1 m}\n", "a: {b: 2 m, c: 1 m}\n"),
        ("a: {}\n", "a: {b: 2 m}\n"),
        ("a: null   # none\n", "a: {b: 2 m} # none\n"),
        ("c: 1 m\n", "a: {b: 2 m}\nc: 1 m\n"),
    ],
)
def test_missing_keys_are_added(text, wanted):
    assert edit(text, [Edit(("a", "b"), (2.0,), "m")]) == wanted


def test_several_numbers_keep_their_unit():
    assert edit("a: 1 2 3 deg\n", [Edit(("a",), (0.0, 0.0, 0.0174532925), "rad")]) == "a: 0 0 1 deg\n"
    assert edit("a: [1 m, 2 m]\n", [Edit(("a",), (3.0, 4.0), "")]).startswith("a: [3")


def test_default_values_of_a_handbook_car_are_written_as_identified():
    left_out = r"^ +(inertia|roll_stiffness|wheel_inertia|unsprung_mass):.*\n"
    text = re.sub(left_out, "", FERRARI, flags=re.MULTILINE)
    assert text.count("\n") == FERRARI.count("\n") - 5
    file = with_defaults(settings.loads(text, File))
    names = ("mass", "front.anti_roll_bar", "front.wheel_radius", "rear.tyre_stiffness")
    found = apply(file, [PARAMETERS[n] for n in names], [0.1, 0.2, 0.05, -0.1])
    loaded = with_defaults(settings.loads(write(text, file, found), File))
    for old, new in ((found.vehicle, loaded.vehicle), (found.vehicle.front, loaded.vehicle.front)):
        for field in dataclasses.fields(old):
            value = getattr(old, field.name)
            if isinstance(value, (int, float, tuple)):
                assert getattr(new, field.name) == pytest.approx(value, rel=1e-4), field.name
