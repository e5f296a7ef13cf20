"""The settings loader: values, units, and one line for every mistake."""

import enum
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from vehicled.errors import SettingsError, UsageError
from vehicled.reading.settings import Deferred, config_path, load, loads
from vehicled.units import (
    Kilograms,
    Metres,
    MetresPerSecond,
    MetresVector,
    Newtons,
    NewtonsPerMetre,
    Positive,
    Range,
    Seconds,
    Unit,
    UnitBy,
)


class Drive(enum.Enum):
    FRONT = "front"
    REAR = "rear"


@dataclass(frozen=True, kw_only=True)
class HardPoints:
    kind: Literal["hard_points"]
    hinge: MetresVector


@dataclass(frozen=True, kw_only=True)
class Template:
    kind: Literal["template"]
    scale: Annotated[float, Positive] = 1.0


@dataclass(frozen=True, kw_only=True)
class Car:
    mass: Annotated[Kilograms, Positive] = 1000.0
    rate: NewtonsPerMetre | Literal["auto"] = "auto"
    bump: list[tuple[MetresPerSecond, Newtons]] = field(default_factory=list)
    tracks: Annotated[tuple[Metres, ...], Positive] = ()
    suspension: HardPoints | Template | None = None
    wheels: dict[Literal["fl", "fr"], Metres] = field(default_factory=dict)
    friction: Annotated[float, Range(0.0, 2.0)] = 1.0
    seats: Annotated[int, Range(1, 9)] = 2
    name: str = ""
    table: Path = Path()
    drive: Drive = Drive.REAR
    limited: bool = False
    start: Annotated[float, Unit("s", plain=True)] = 0.0
    share: Annotated[float, Unit("%", plain=True), Range(-0.5, 0.5)] = 0.0
    signal: Seconds | list[tuple[Seconds, float]] = 0.0
    options: Deferred | None = None

    def check(self) -> Iterator[tuple[str, str]]:
        if (
            self.suspension is not None
            and isinstance(self.suspension, Template)
            and self.suspension.scale > 3
        ):
            yield "suspension.scale", f"expected at most 3, got {self.suspension.scale:g}"
        if any(b[0] < a[0] for a, b in zip(self.bump, self.bump[1:], strict=False)):
            yield "bump[1]", "expected rising speeds"


@dataclass(frozen=True, kw_only=True)
class Fleet:
    car: Car
    count: int


def only(text: str) -> Any:
    return loads(text, Car)


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("mass: 1.5 t", "mass", 1500.0),
        ("rate: 30 N/mm", "rate", 30e3),
        ("rate: auto", "rate", "auto"),
        ("bump: [[0 m/s, 0 N], [36 km/h, 1 kN]]", "bump", [(0.0, 0.0), (10.0, 1000.0)]),
        ("tracks: 150 160 cm", "tracks", (1.5, 1.6)),
        ("tracks: [150 cm, 1.6 m]", "tracks", (1.5, 1.6)),
        ("suspension: {kind: template}", "suspension", Template(kind="template")),
        ("suspension: null", "suspension", None),
        ("wheels: {fl: 33 cm}", "wheels", {"fl": 0.33}),
        ("friction: 90 %", "friction", 0.9),
        ("friction: 0.9", "friction", 0.9),
        ("seats: 0x5", "seats", 5),
        ("name: 'no. 7'", "name", "no. 7"),
        ("name: on", "name", "on"),
        ("name: '7'", "name", "7"),
        ("drive: front", "drive", Drive.FRONT),
        ("limited: true", "limited", True),
        ("start: 5", "start", 5.0),
        ("start: 5 ms", "start", 0.005),
        ("signal: [[0 s, 1], [1 min, 0.5]]", "signal", [(0.0, 1.0), (60.0, 0.5)]),
        ("share: 5", "share", 0.05),
        ("share: 5 %", "share", 0.05),
        ("signal: 2 ms", "signal", 0.002),
        ("name: &n abc\ntable: *n", "table", Path("abc")),
    ],
)
def test_scalars_are_read_as_yaml_1_2(text: str, name: str, value: Any) -> None:
    got = getattr(only(text), name)
    assert got == pytest.approx(value) if isinstance(value, float) else got == value


PLAIN_ANGLE = Unit("rad", plain=True)


@dataclass(frozen=True, kw_only=True)
class Pedal:
    offset: Annotated[float, UnitBy({"": PLAIN_ANGLE, "rod": Unit("m", plain=True)}, "of")] = 0.0
    of: Literal["", "rod"] = "rod"
    gauge: Annotated[float, UnitBy({"left": Unit("m"), "angle": PLAIN_ANGLE})] = 0.0


@dataclass(frozen=True, kw_only=True)
class Pedals:
    pedals: dict[str, Pedal]


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("offset: 2 mm", "offset", 0.002),
        ("{offset: 2 mm, of: rod}", "offset", 0.002),
        ("{offset: 0.5, of: ''}", "offset", 0.5),
        ("{offset: 90 deg, of: ''}", "offset", math.pi / 2),
        ("gauge: 2 mm", "gauge", 0.002),
    ],
)
def test_another_field_or_the_key_chooses_the_unit(text: str, name: str, value: float) -> None:
    pedal = loads("pedals:\n  left: " + (text if text[0] == "{" else f"{{{text}}}"), Pedals).pedals["left"]
    assert getattr(pedal, name) == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "left: {offset: 2 deg}",
            "left.offset: expected a length such as '0.35 m', as pedals.left.of is rod,",
        ),
        ("left: {gauge: 2 deg}", "left.gauge: expected a length such as '0.35 m', as it is of left,"),
        ("angle: {gauge: 2 m}", "angle.gauge: expected an angle such as '3 deg', as it is of angle,"),
        ("other: {gauge: 2 m}", "other.gauge: expected a number such as '0.9', got '2 m'"),
    ],
)
def test_messages_say_what_chose_the_unit(text: str, message: str) -> None:
    with pytest.raises(SettingsError) as error:
        loads(f"pedals:\n  {text}", Pedals, "cfg")
    assert str(error.value).startswith(f"cfg:2: pedals.{message}")


@dataclass(frozen=True, kw_only=True)
class Law:
    SHORT_FORM: ClassVar[str] = "name"
    name: Literal["soft", "hard"] = "soft"
    rate: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Spring:
    law: Law = field(default_factory=Law)


@dataclass(frozen=True)
class Link:
    length: float = 1.0


@dataclass(frozen=True)
class Linkage:
    link: Link = field(default_factory=Link)


def test_null_for_an_optional_section_is_refused() -> None:
    with pytest.raises(
        SettingsError, match="cfg:1: link: expected a section, got nothing; leave the key out"
    ):
        loads("link: null", Linkage, "cfg")


def test_a_plain_value_can_stand_for_a_section() -> None:
    assert loads("law: hard", Spring).law == loads("law: {name: hard}", Spring).law == Law(name="hard")
    assert loads("law: {rate: 2.0}", Spring).law == Law(rate=2.0)
    for text in ("law: medium", "law: {name: medium}"):
        with pytest.raises(SettingsError, match="expected soft or hard, got 'medium'"):
            loads(text, Spring)


def test_a_vector_has_one_unit() -> None:
    car = only("suspension: {kind: hard_points, hinge: 125 35 -22 cm}")
    assert car.suspension.hinge == pytest.approx((1.25, 0.35, -0.22))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mass: 1500", "cfg:1: mass: expected a mass such as '1500 kg', got '1500'"),
        ("mass: 1500 N", "cfg:1: mass: expected a mass such as '1500 kg', got '1500 N'"),
        ("\n\nmas: 1 kg", "cfg:3: mas: unknown key; did you mean 'mass'?"),
        ("mass: 1 kg\nmass: 2 kg", "cfg:2: mass: expected once, is already on line 1"),
        ("mass: 0 kg", "cfg:1: mass: expected above 0 kg, got '0 kg'"),
        ("mass: .nan", "cfg:1: mass: expected a mass such as '1500 kg', got '.nan'"),
        ("mass: 1e999 kg", "cfg:1: mass: expected a finite number, got '1e999 kg'"),
        ("friction: .inf", "cfg:1: friction: expected a number such as '0.9', got '.inf'"),
        ("friction: 3", "cfg:1: friction: expected at least 0 and at most 2, got '3'"),
        ("friction: 1.5:1", "cfg:1: friction: expected a number such as '1.5', got '1.5:1'"),
        ("mass: 2,57 t", "cfg:1: mass: expected a mass such as '1500 kg' with a decimal point, got '2,57 t'"),
        ("mass: 2 57 t", "cfg:1: mass: expected a mass such as '1500 kg', got '2 57 t'"),
        (
            "suspension: none",
            "cfg:1: suspension: expected keys such as 'kind:', or null, which leaves it out, got 'none'",
        ),
        ("friction: 3 m", "cfg:1: friction: expected a number such as '0.9', got '3 m'"),
        ("share: 60", "cfg:1: share: expected at least -50 % and at most 50 %, got '60'"),
        ("seats: 12", "cfg:1: seats: expected a whole number at least 1 and at most 9, got 12"),
        ('seats: "4"', "cfg:1: seats: expected a whole number, got '4' in quotes"),
        ("limited: 'true'", "cfg:1: limited: expected true or false, got 'true' in quotes"),
        ("seats: 2.5", "cfg:1: seats: expected a whole number, got '2.5'"),
        ("limited: yes", "cfg:1: limited: expected true or false, got 'yes'"),
        ("drive: all", "cfg:1: drive: expected front or rear, got 'all'"),
        ("name: 7", "cfg:1: name: expected text, got '7'"),
        ("name:", "cfg:1: name: expected text, got nothing"),
        ("tracks: -1 2 m", "cfg:1: tracks: expected above 0 m, got '-1 2 m'"),
        ("wheels:\n  fl: 1 m\n  rr: 1 m", "cfg:3: wheels.rr: expected fl or fr, got 'rr'"),
        (
            "bump: [[1 m/s]]",
            "cfg:1: bump[0]: expected a list [a speed such as '20 m/s', a force such as '900 N']",
        ),
        (
            "bump: [[0 m/s, 0 N],\n  [1 m/s, 5 m]]",
            "cfg:2: bump[1][1]: expected a force such as '900 N', got '5 m'",
        ),
        ("bump: [[2 m/s, 0 N],\n [1 m/s, 5 N]]", "cfg:2: bump[1]: expected rising speeds"),
        ("suspension: {scale: 2}", "cfg:1: suspension.kind: missing; expected hard_points or template"),
        ("suspension: {kind: x}", "cfg:1: suspension.kind: expected hard_points or template, got 'x'"),
        (
            "suspension:\n  kind: hard_points",
            "cfg:2: suspension.hinge: missing; expected 3 numbers and a unit (m)",
        ),
        (
            "suspension: {kind: hard_points, hinge: 1 2 m}",
            "cfg:1: suspension.hinge: expected 3 numbers and a unit (m), got '1 2 m'",
        ),
        ("suspension:\n  kind: template\n  scale: 4", "cfg:3: suspension.scale: expected at most 3, got 4"),
        ("rate: soft", "cfg:1: rate: expected a stiffness such as '30 kN/m' or auto, got 'soft'"),
        ("[mass]", "cfg:1: expected keys and values at the top level, got a list"),
        ("", "cfg: expected settings, got an empty file"),
        ("# nothing", "cfg: expected settings, got an empty file"),
        ("mass: !!python/name:os.system x", "cfg:1: mass: expected plain YAML, got the tag"),
        ("[mass]: 1", "cfg:1: expected a name as key, got a list"),
        ("name: a\n---\nname: b", "cfg:2: expected YAML, got: a second document behind '---'"),
        ("name: a\r\rwheels:\r\tmass: 1", "cfg:4: expected YAML, got: a tab; YAML indents with spaces"),
        ("name: a\nwheels:\n\tmass: 1", "cfg:3: expected YAML, got: a tab; YAML indents with spaces"),
        ("mass: *x", "cfg:1: expected YAML, got: found undefined alias 'x'"),
        ("name: 'a\nmass: 1", "cfg:1: expected YAML, got: a quotation mark without a second one"),
        (
            "name: a\n  mass: 1",
            "cfg:2: expected YAML, got: a key that is indented further than the line before",
        ),
        ("wheels:\n  a: 1\n b: 2", "cfg:3: expected YAML, got: 1 space before a key; expected as many as"),
        ("  name: a\nmass: 1", "cfg:2: expected YAML, got: 0 spaces before a key; expected as many as"),
        ("wheels:\n  a 1\n  b: 2", "cfg:2: expected YAML, got: a line without a colon behind its key"),
        (
            "wheels:\n  a: 1\n  b 2\n  c: 3",
            "cfg:3: expected YAML, got: a line without a colon behind its key",
        ),
        (
            "wheels:\n  # front\n  a 1\n  # rear\n\n  b: 2",
            "cfg:3: expected YAML, got: a line without a colon",
        ),
        ("name:a\nmass: 1", "cfg:1: expected YAML, got: a colon without a space behind it"),
        (
            "name: a: b",
            "cfg:1: expected YAML, got: a second colon with a space behind it; put the text in quotes",
        ),
        ("wheels:\n  - 1\n  a: 2", "cfg:3: expected YAML, got: a key between the items of a list"),
        ("wheels:\n  - a\n    b: 2", "cfg:3: expected YAML, got: a key that is indented further"),
        (
            "wheels:\n  a: 2\n  - 1",
            "cfg:3: expected YAML, got: an item of a list, which begins with '-', between",
        ),
        ("wheels: {a: 1\nmass: 1", "cfg:1: expected YAML, got: '{' without '}', or without commas between"),
        (
            "wheels: [1 m, 2 m\nmass: 1",
            "cfg:1: expected YAML, got: '[' without ']', or without commas between",
        ),
        ("name: @a", "cfg:1: expected YAML, got: a value that begins with '@'; put it in quotes"),
        ("name: }", "cfg:1: expected YAML, got: '}' where a value is expected"),
        ("wheels: {a: 1}}", "cfg:1: expected YAML, got: text behind a value that has ended"),
        ("name: a\nx: \x07", "cfg:2: expected text, got an unprintable character"),
        ('name: "\\UFFFFFFFF"', "cfg: expected YAML"),
        ("[" * 1000, "cfg: nested too deeply"),
        ("name: &a [*a]", "cfg:1: name: expected text, got a list"),
    ],
)
def test_every_mistake_is_reported_in_one_line_with_place_and_reason(text: str, message: str) -> None:
    with pytest.raises(SettingsError) as error:
        loads(text, Car, "cfg")
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)
    assert isinstance(error.value, UsageError)


def test_missing_keys_are_named() -> None:
    with pytest.raises(SettingsError, match=r"^cfg:1: car: missing; expected a section with mass, rate"):
        loads("count: 3", Fleet, "cfg")
    with pytest.raises(SettingsError, match=r"^cfg:1: count: missing; expected a whole number$"):
        loads("car: {}", Fleet, "cfg")


def test_aliases_are_expanded_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Node:
        children: list["Node"] = field(default_factory=list)

    Node.__annotations__["children"] = list[Node]
    monkeypatch.setattr("vehicled.reading.settings.MAX_VALUES", 20_000)
    bomb = "children:\n- &a {}\n"
    for name, previous in zip("bcdefgh", "abcdefg", strict=True):
        bomb += f"- &{name} {{children: [{', '.join(['*' + previous] * 10)}]}}\n"
    with pytest.raises(SettingsError, match=r"more than .* values; are its aliases nested"):
        loads(bomb, Node)


def test_deferred_parts_keep_their_lines_and_folder(tmp_path: Path) -> None:
    file = tmp_path / "cfg.yaml"
    file.write_text("name: a\noptions:\n  seats: 3\n  table: data.csv\n")
    car = load(file, Car)
    assert car.options is not None
    inner = car.options.to(Car)
    assert inner.seats == 3
    assert inner.table == tmp_path / "data.csv"
    file.write_text("options:\n  seats: x\n")
    car = load(file, Car)
    assert car.options is not None
    with pytest.raises(SettingsError, match=r"cfg.yaml:2: options.seats: expected a whole number, got 'x'$"):
        car.options.to(Car)
    with pytest.raises(SettingsError, match=r"cfg.yaml:2: options: no such driver$"):
        car.options.fail("no such driver")
    file.write_text("name: a\n\noptions:\n  seats: 3\n")
    car = load(file, Car)
    assert car.options is not None
    with pytest.raises(SettingsError, match=r"cfg.yaml:1: name: no such driver$"):
        car.options.fail("no such driver", beside="name")


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("table: tyres/front.csv")
    assert load(tmp_path / "a.yaml", Car).table == tmp_path / "tyres" / "front.csv"
    (tmp_path / "a.yaml").write_text("table: /etc/tyres.csv")
    assert load(tmp_path / "a.yaml", Car).table == Path("/etc/tyres.csv")


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"nowhere.yaml: no such file$"):
        load(tmp_path / "nowhere.yaml", Car)
    with pytest.raises(SettingsError, match=r": expected a regular file, got a folder$"):
        load(tmp_path, Car)
    (tmp_path / "b").write_bytes(b"name: a\nmass: \xff\xfe")
    with pytest.raises(SettingsError, match=r"b:2: expected UTF-8 text$"):
        load(tmp_path / "b", Car)
    (tmp_path / "c").write_bytes(b"#" * (2 << 20))
    with pytest.raises(SettingsError, match=r"c: larger than 1 MiB"):
        load(tmp_path / "c", Car)


def test_a_log_in_place_of_settings_is_refused_with_what_is_expected(tmp_path: Path) -> None:
    log = tmp_path / "drive.csv"
    log.write_text("t,imu.ax\n" + "0.01,1.0\n" * 200_000)
    with pytest.raises(SettingsError, match=r"drive\.csv: larger than 1 MiB; expected a YAML file$"):
        load(log, Car)


def test_only_regular_files_of_bounded_size_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SettingsError, match=r"pipe: expected a regular file, got a pipe$"):
        load(tmp_path / "pipe", Car)
    with pytest.raises(SettingsError, match=r"zero: expected a regular file, got a device$"):
        load("/dev/zero", Car)
    with (tmp_path / "large").open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(SettingsError, match=r"large: larger than 1 MiB"):
        load(tmp_path / "large", Car)


def test_shipped_configurations_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "prototype.yaml").write_text("{}")
    (tmp_path / "other.yaml").write_text("{}")
    monkeypatch.setattr("vehicled.reading.settings.shipped_folder", lambda: tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").write_text("{}")
    assert config_path("prototype") == tmp_path / "prototype.yaml"
    assert config_path("some/where.yaml") == Path("some/where.yaml")
    assert config_path("prototype.yaml") == Path("prototype.yaml")
    assert config_path("mine") == Path("mine")
    with pytest.raises(SettingsError, match=r"^protoype: expected a file or .* \(other, prototype\)$"):
        config_path("protoype")


@settings(max_examples=200)
@given(st.text())
def test_any_text_gives_a_value_or_an_error_of_one_line(text: str) -> None:
    try:
        result = loads(text, Car)
    except SettingsError as error:
        assert "\n" not in str(error)
    else:
        assert isinstance(result, Car)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just("3 m"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=200)
@given(st.dictionaries(st.sampled_from(list(Car.__dataclass_fields__)), values, max_size=4))
def test_any_yaml_under_known_keys_gives_a_value_or_an_error_of_one_line(tree: dict[str, Any]) -> None:
    try:
        car = loads(yaml.safe_dump(tree, allow_unicode=True), Car)
    except SettingsError as error:
        assert "\n" not in str(error)
    else:
        assert math.isfinite(car.mass)
        assert math.isfinite(car.friction)


@settings(max_examples=100)
@given(st.binary(max_size=200))
def test_any_bytes_give_a_value_or_an_error_of_one_line(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "garbage.yaml"
    path.write_bytes(data)
    try:
        load(path, Car)
    except SettingsError as error:
        assert "\n" not in str(error)


def mistakes(text):
    with pytest.raises(SettingsError) as error:
        loads(text, Car)
    assert str(error.value) == error.value.mistakes[0]
    return [m.removeprefix("<text>:") for m in error.value.mistakes]


def test_every_mistake_of_a_section_is_reported():
    found = mistakes("mass: 3\nseats: many\nseats: 4\ntracks: [1 m, 2, 3 kg]\nwheels: {fl: 1 s, fr: 2 s}\n")
    where = [m.partition(": expected")[0] for m in found]
    assert sorted(where) == [
        "1: mass",
        "2: seats",
        "3: seats",
        "4: tracks[1]",
        "4: tracks[2]",
        "5: wheels.fl",
        "5: wheels.fr",
    ]


def test_a_misspelt_key_is_not_also_reported_as_missing():
    found = mistakes("suspension: {kind: hard_points, hinges: 1 2 3 m}")
    assert found == ["1: suspension.hinges: unknown key; did you mean 'hinge'?"]


def test_a_quantity_is_not_checked_if_the_field_that_chooses_its_unit_is_wrong():
    with pytest.raises(SettingsError) as error:
        loads("pedals: {left: {of: floor, offset: 1 kg}}", Pedals)
    assert [m.split(": ")[1] for m in error.value.mistakes] == ["pedals.left.of"]
