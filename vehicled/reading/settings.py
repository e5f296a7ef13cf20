"""YAML files into frozen dataclasses: strict, with units, and one line for every mistake.

`load(path, cls)` reads a file; the types of the dataclass' fields define what is valid:

- `bool`, `int`, `float` (dimensionless; `5 %` is 0.05), `str`, `Path` (a relative one starts at the file's
  folder)
- `Literal[…]`, enumerations (by value), `X | None`
- dataclasses, and unions of dataclasses, distinguished by a field that is a literal in each, such as
  `kind: Literal["…"]`; where it is left out, the one that has a default for it is meant
- `list[T]`, `tuple[T, ...]`, `tuple[A, B]`, `dict[K, T]`
- quantities, always written with their unit: `Annotated[float, Unit("kg")]` or an alias of `units`;
  `Annotated[tuple[float, float, float], Unit("m")]` takes `1.25 0.35 0.22 m`. They arrive in SI and radians
- a quantity whose unit another field chooses: `Annotated[float, UnitBy(…, "source")]`
- `Deferred`: a part whose type is known only later, such as the options of a driver from elsewhere

An annotation holds for every number below it that has none of its own, also within a list or a dataclass. `Range`,
`Positive` and `NonNegative` from `units` bound numbers; NaN and infinity are always rejected. A dataclass may have
`check(self)` yielding (key path, message) of what does not fit together: the first, or all by `INDEPENDENT_CHECKS`.

Scalars follow YAML 1.2: only `true` and `false` are booleans, so `on`, `no` and `12:30` are text. One with
`SHORT_FORM` = the name of a field takes a plain value in its place for that field alone.
"""

import dataclasses
import enum
import math
import re
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, TypeVar, Union, get_args, get_origin

import yaml

from vehicled.errors import SettingsError, UsageError
from vehicled.reading.expectations import (
    DIMENSIONLESS,
    SectionKey,
    describe,
    either,
    expectation,
    find_metadata,
    find_nearest,
    find_unit_choice,
    is_null,
    join_path,
    numbers_of,
    printable,
    suggest,
    type_hints,
)
from vehicled.reading.mistakes import Mistakes
from vehicled.reading.yaml_errors import describe_yaml_error
from vehicled.trust.bounded_file import read_bounded
from vehicled.units import Range, Unit, UnitBy, UnitError, parse_unit, split_quantity

T = TypeVar("T")

MAX_BYTES = 1 << 20
MAX_VALUES = 400_000
"""Largest number of values in one file after its aliases are expanded."""

_TAGS = {
    "tag:yaml.org,2002:" + t
    for t in ("null", "bool", "int", "float", "timestamp", "str", "merge", "value", "map", "seq")
}
_INT = re.compile(r"[+-]?[0-9]{1,18}|0x[0-9a-fA-F]{1,15}|0o[0-7]{1,20}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|0x[0-9a-fA-F]+|0o[0-7]+")
_RATIO, _DECIMAL_COMMA = re.compile(r"([0-9.]+)\s*:\s*1"), re.compile(r"[0-9],[0-9]")
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}


def load(path: str | Path, cls: type[T]) -> T:
    """The settings in a YAML file as an instance of the dataclass `cls`. Raises SettingsError."""
    return loads(read(path), cls, str(path), Path(path).parent)


def read(path: str | Path) -> str:
    """The text of a settings file: a regular file of bounded size. Raises SettingsError."""
    name = printable(str(path))
    try:
        data = read_bounded(path, MAX_BYTES, "a YAML file")
    except FileNotFoundError:
        raise SettingsError(f"{name}: no such file") from None
    except UsageError as error:
        raise SettingsError(f"{name}: {error}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SettingsError(f"{name}: cannot be read: {reason}") from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SettingsError(f"{name}:{line}: expected UTF-8 text") from None


def loads(text: str, cls: type[T], name: str = "<text>", folder: Path | None = None) -> T:
    """Read settings from a text. Raises SettingsError.

    `name` stands for the file in messages; relative paths start at `folder`, by default the current one.
    """
    return document(text, name, folder).to(cls)


def document(text: str, name: str = "<text>", folder: Path | None = None) -> "Deferred":
    """The whole of a text, whose parts can be read one by one; `name` and `folder` as of `loads`.

    Raises SettingsError if it is no YAML, or has no keys at its top level.
    """
    name = printable(name)
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        number, problem = describe_yaml_error(error, text)
        line = "" if number is None else f":{number}"
        raise SettingsError(f"{name}{line}: expected YAML, got: {printable(problem)}") from None
    except yaml.reader.ReaderError as error:
        line = f":{text.count(chr(10), 0, error.position) + 1}"
        raise SettingsError(f"{name}{line}: expected text, got an unprintable character") from None
    except RecursionError:
        raise SettingsError(f"{name}: nested too deeply") from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # such as \UFFFFFFFF in double quotes
        raise SettingsError(f"{name}: expected YAML, got: {printable(str(error))}") from None
    if node is None:
        raise SettingsError(f"{name}: expected settings, got an empty file")
    reader = _Reader(name, folder or Path(), node)
    if not isinstance(node, yaml.MappingNode):
        reader.fail(node, "", f"expected keys and values at the top level, got {describe(node)}")
    return Deferred(reader, node, "")


def shipped_folder() -> Path:
    """Folder of the configurations that come with the program: in the wheel, or in the source tree."""
    package = Path(__file__).parent.parent
    wheel = package / "shipped" / "config"
    return wheel if wheel.is_dir() else package.parent / "config"


def config_path(name_or_path: str | Path, folders: Sequence[Path] = (), kind: str = "configuration") -> Path:
    """The path of a configuration that is given as a path or by its name.

    A path stays as it is; a bare word is the file of that name (`prototype`) in `folders`, or among the shipped
    configurations. `kind`: of what is in the folders, for messages.

    Raises SettingsError, listing the names, for a word that is neither.
    """
    path = Path(name_or_path)
    bare = len(path.parts) == 1 and not path.suffix and not path.is_absolute()
    if not bare:
        return path
    shipped = {p.stem: p for folder in folders or [shipped_folder()] for p in sorted(folder.glob("*.yaml"))}
    if path.name in shipped:
        return shipped[path.name]
    if path.is_file():
        return path
    raise SettingsError(
        f"{printable(str(name_or_path))}: expected a file or a shipped {kind} ({', '.join(shipped)})"
    )


class Deferred:
    """A part of a settings file that is read later, when its type is known; keeps file and line."""

    def __init__(self, reader: "_Reader", node: yaml.Node, path: str) -> None:
        self._reader, self._node, self._path = reader, node, path

    def to(self, cls: type[T]) -> T:
        """This part as an instance of the dataclass `cls`. Raises SettingsError, with every mistake in it."""
        try:
            value: T = self._reader.convert(self._node, cls, (), self._path)
            return value
        except RecursionError:
            raise SettingsError(f"{self._reader.name}: nested too deeply") from None

    def parts(self, *keys: str) -> dict[str, "Deferred"]:
        """The sections below these keys, by their own keys, without nulls; empty if there is no such section."""
        pairs = self._node.value if isinstance(self._node, yaml.MappingNode) else []
        found = {
            key.value: Deferred(self._reader, value, join_path(self._path, key.value))
            for key, value in pairs
            if isinstance(key, yaml.ScalarNode) and not is_null(value)
        }
        if not keys:
            return found
        return found[keys[0]].parts(*keys[1:]) if keys[0] in found else {}

    def fail(self, message: str, *, beside: str = "", below: str = "") -> NoReturn:
        """Raise SettingsError with `message` at the place of this part, or of a key beside or below it."""
        if beside:
            self._reader.fail_at(join_path(self._path.rpartition(".")[0], beside), message)
        if below:
            self._reader.fail_at(join_path(self._path, below), message)
        self._reader.fail(self._node, self._path, message)


class _Reader:
    """Turns nodes of one file into values."""

    def __init__(self, name: str, folder: Path, root: yaml.Node) -> None:
        self.name = name
        self.root = root
        self.folder = folder
        self.count = 0

    def fail(self, node: yaml.Node, path: str, message: str) -> NoReturn:
        where = f"{path}: " if path else ""
        raise SettingsError(f"{self.name}:{node.start_mark.line + 1}: {where}{printable(message, 500)}")

    def fail_at(self, path: str, message: str) -> NoReturn:
        """Raise SettingsError at a key path of the file."""
        self.fail(self._at(self.root, path), path, message)

    def convert(self, node: yaml.Node, kind: Any, metadata: tuple[Any, ...], path: str) -> Any:
        """The value of `node` as the type `kind`; `metadata`: of the enclosing annotations, inner first."""
        self.count += 1
        if self.count > MAX_VALUES:
            self.fail(node, path, f"more than {MAX_VALUES} values; are its aliases nested?")
        if node.tag not in _TAGS:
            self.fail(node, path, f"expected plain YAML, got the tag {node.tag[:40]}")
        origin = get_origin(kind)
        if origin is Annotated:
            return self.convert(node, kind.__origin__, kind.__metadata__ + metadata, path)
        if origin in (Union, types.UnionType):
            return self._union(node, get_args(kind), metadata, path)
        if kind is Deferred:
            return Deferred(self, node, path)
        if dataclasses.is_dataclass(kind):
            return self._dataclass(node, kind, metadata, path)
        if origin in (list, tuple):
            return self._sequence(node, kind, metadata, path)
        if origin is dict:
            return self._dict(node, kind, metadata, path)
        return self._scalar(node, kind, metadata, path)

    # Mappings

    def _pairs(
        self, node: yaml.Node, path: str, what: str, mistakes: Mistakes
    ) -> list[tuple[str, yaml.Node, yaml.Node]]:
        """(key, key node, value node) of a mapping; `mistakes` collects invalid names and duplicates."""
        if not isinstance(node, yaml.MappingNode):
            self.fail(node, path, f"expected {what}, got {describe(node)}")
        pairs: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        for key, value in node.value:
            with mistakes.part():
                if not isinstance(key, yaml.ScalarNode) or key.tag not in _TAGS:
                    self.fail(key, path, f"expected a name as key, got {describe(key)}")
                if key.value in pairs:
                    first = pairs[key.value][0].start_mark.line + 1
                    self.fail(key, join_path(path, key.value), f"expected once, is already on line {first}")
                pairs[key.value] = key, value
        return [(name, key, value) for name, (key, value) in pairs.items()]

    def _dataclass(self, node: yaml.Node, cls: Any, metadata: tuple[Any, ...], path: str) -> Any:
        hints = type_hints(cls)
        fields = {f.name: f for f in dataclasses.fields(cls) if f.init}
        values: dict[str, Any] = {}
        short = getattr(cls, "SHORT_FORM", None)
        if short and isinstance(node, yaml.ScalarNode) and node.value:
            return cls(**{short: self.convert(node, hints[short], metadata, path)})
        if is_null(node) and not any(map(_is_required, fields.values())):
            self.fail(node, path, "expected a section, got nothing; leave the key out where there is none")
        mistakes = Mistakes()
        pairs = self._pairs(node, path, f"keys such as '{next(iter(fields), '')}:'", mistakes)
        given = {name for name, _, _ in pairs}
        # Fields that choose a unit come first.
        for name, key, value in sorted(
            pairs, key=lambda pair: find_unit_choice(hints.get(pair[0])) is not None
        ):
            with mistakes.part():
                if name not in fields:
                    self.fail(key, join_path(path, name), f"unknown key; {suggest(name, list(fields))}")
                choice = find_unit_choice(hints[name])
                if choice is not None and choice.field in given - set(values):
                    continue  # its unit is known once that field is right
                chosen = (
                    () if choice is None else (self._choose_unit(choice, fields, values, metadata, path),)
                )
                values[name] = self.convert(value, hints[name], (*chosen, *metadata), join_path(path, name))
        meant = given | {find_nearest(name, list(fields)) for name in given.difference(fields)}
        for name, field in fields.items():
            if _is_required(field) and name not in meant:
                with mistakes.part():
                    wanted = expectation(hints[name], metadata)
                    self.fail(node, join_path(path, name), f"missing; expected {wanted}")
        mistakes.raise_any()
        result = cls(**values)
        check = getattr(result, "check", None)
        if callable(check):
            for where, message in check():
                with mistakes.part():
                    self.fail(self._at(node, where), join_path(path, where), message)
                if not getattr(cls, "INDEPENDENT_CHECKS", False):  # the others often follow from the first
                    break
            mistakes.raise_any()
        return result

    def _choose_unit(
        self,
        choice: UnitBy,
        fields: Mapping[str, dataclasses.Field[Any]],
        values: Mapping[str, Any],
        metadata: tuple[Any, ...],
        path: str,
    ) -> Unit:
        """The unit of a quantity by a field of its section (as read, or its default), or by the section's key."""
        if choice.field:
            chosen = str(values.get(choice.field, fields[choice.field].default))
            reason = f"as {join_path(path, choice.field)} is {chosen}"
        else:
            key = find_metadata(metadata, SectionKey)
            chosen = "" if key is None else key.name
            reason = f"as it is of {chosen}"
        unit = choice.units.get(chosen)
        return DIMENSIONLESS if unit is None else dataclasses.replace(unit, reason=reason)

    def _at(self, node: yaml.Node, path: str) -> yaml.Node:
        """The node at a key path below `node`, or the nearest one above it in the file."""
        parts = re.findall(r"[^.\[\]]+", path)
        while parts:
            # A key may itself contain dots, as names of channels do.
            for count in range(len(parts), 0, -1):
                part = ".".join(parts[:count])
                if isinstance(node, yaml.MappingNode):
                    found = [v for k, v in node.value if k.value == part]
                elif isinstance(node, yaml.SequenceNode) and part.isdecimal() and int(part) < len(node.value):
                    found = [node.value[int(part)]]
                else:
                    found = []
                if found:
                    node, parts = found[0], parts[count:]
                    break
            else:
                break
        return node

    def _dict(self, node: yaml.Node, kind: Any, metadata: tuple[Any, ...], path: str) -> Any:
        key_type, value_type = get_args(kind)
        mistakes = Mistakes()
        values: dict[Any, Any] = {}
        for name, key, value in self._pairs(node, path, "keys and values", mistakes):
            below = join_path(path, name)
            with mistakes.part():
                made = self.convert(key, key_type, (), below)
                values[made] = self.convert(value, value_type, (SectionKey(name), *metadata), below)
        mistakes.raise_any()
        return values

    # Sequences

    def _sequence(self, node: yaml.Node, kind: Any, metadata: tuple[Any, ...], path: str) -> Any:
        origin, args = get_origin(kind), get_args(kind)
        several = origin is list or (len(args) == 2 and args[1] is Ellipsis)
        vector = numbers_of(kind, metadata)
        if isinstance(node, yaml.ScalarNode) and vector is not None:
            return origin(self._quantity(node, vector, path, None if several else len(args)))
        if not isinstance(node, yaml.SequenceNode):
            self.fail(node, path, f"expected {expectation(kind, metadata)}, got {describe(node)}")
        if not several and len(node.value) != len(args):
            self.fail(node, path, f"expected {expectation(kind, metadata)}, got {len(node.value)} values")
        types_ = (args[0] for _ in node.value) if several else args
        mistakes = Mistakes()
        values: list[Any] = []
        for i, (item, t) in enumerate(zip(node.value, types_, strict=True)):
            with mistakes.part():
                values.append(self.convert(item, t, metadata, f"{path}[{i}]"))
        mistakes.raise_any()
        return origin(values)

    # Unions

    def _union(self, node: yaml.Node, members: tuple[Any, ...], metadata: tuple[Any, ...], path: str) -> Any:
        if type(None) in members and is_null(node):
            return None
        wanted = [m for m in members if m is not type(None)]
        fitting = [m for m in wanted if _fits(node, m, metadata)]
        if type(None) in members and isinstance(node, yaml.ScalarNode) and all(map(_is_section, wanted)):
            keys = f"keys such as '{next(f.name for f in dataclasses.fields(wanted[0]) if f.init)}:'"
            self.fail(node, path, f"expected {keys}, or null, which leaves it out, got {describe(node)}")
        if isinstance(node, yaml.MappingNode) and len(fitting) > 1:
            return self.convert(node, self._by_kind(node, fitting, path), metadata, path)
        if len(fitting) == 1 or len(wanted) == 1:
            return self.convert(node, (fitting or wanted)[0], metadata, path)
        for member in fitting:
            try:
                return self.convert(node, member, metadata, path)
            except SettingsError:
                continue
        expected = " or ".join(expectation(m, metadata) for m in wanted)
        self.fail(node, path, f"expected {expected}, got {describe(node)}")

    def _by_kind(self, node: yaml.MappingNode, classes: list[Any], path: str) -> Any:
        """The dataclass whose literal field (`kind`, …) has the value that the file names, or has by default."""
        hints = type_hints(classes[0])
        choice = next(name for name, hint in hints.items() if get_origin(hint) is Literal)
        kinds = {name: c for c in classes for name in get_args(type_hints(c)[choice])}
        pairs = self._pairs(node, path, "keys", Mistakes())  # the section itself reports them
        path = join_path(path, choice)
        for name, _, value in pairs:
            if name == choice:
                if isinstance(value, yaml.ScalarNode) and value.value in kinds:
                    return kinds[value.value]
                self.fail(value, path, f"expected {either(list(kinds))}, got {describe(value)}")
        usual = [c for c in classes if hasattr(c, choice)]
        if usual:
            return usual[0]
        self.fail(node, path, f"missing; expected {either(list(kinds))}")

    # Scalars

    def _scalar(self, node: yaml.Node, kind: Any, metadata: tuple[Any, ...], path: str) -> Any:
        if kind is float and isinstance(node, yaml.ScalarNode):
            return self._quantity(node, metadata, path, 1)[0]
        value = _scalar(node, kind)
        if value is None:
            quoted = " in quotes" if kind in (bool, int) and getattr(node, "style", None) else ""
            self.fail(node, path, f"expected {expectation(kind, metadata)}, got {describe(node)}{quoted}")
        bounds = find_metadata(metadata, Range)
        if bounds is not None and kind is int and value not in bounds:
            self.fail(node, path, f"expected a whole number {bounds.describe(DIMENSIONLESS)}, got {value}")
        if isinstance(value, Path):
            return self.folder / value
        return value

    def _quantity(
        self, node: yaml.ScalarNode, metadata: tuple[Any, ...], path: str, count: int | None
    ) -> list[float]:
        unit = find_metadata(metadata, Unit) or DIMENSIONLESS
        bounds = find_metadata(metadata, Range)
        got = describe(node)
        if count == 1:
            wanted = f"expected {unit.expectation}, got {got}"
        else:
            wanted = f"expected {count or 'some'} numbers and a unit ({unit.symbol}), got {got}"
        ratio = _RATIO.fullmatch(node.value)
        if ratio is not None and unit.dimension == DIMENSIONLESS.dimension:
            self.fail(node, path, f"expected a number such as '{ratio[1]}', got {got}")
        try:
            numbers, text = split_quantity(node.value)
            factor, dimension = parse_unit(text) if text else (1.0, DIMENSIONLESS.dimension)
        except UnitError as error:
            self.fail(node, path, f"{wanted}: {error}" if any(map(str.isdigit, node.value)) else wanted)
        if not text and unit.plain:
            factor, dimension = unit.factor, unit.dimension
        if dimension != unit.dimension or (count is not None and len(numbers) != count):
            point = " with a decimal point" if _DECIMAL_COMMA.search(node.value) else ""
            self.fail(node, path, wanted.replace(", got", f"{point}, got", 1))
        values = [number * factor for number in numbers]
        for value in values:
            if not math.isfinite(value):
                self.fail(node, path, f"expected a finite number, got {got}")
            if bounds is not None and value not in bounds:
                self.fail(node, path, f"expected {bounds.describe(unit)}, got {got}")
        return values


def _scalar(node: yaml.Node, kind: Any) -> Any:
    """The value of a scalar node as bool, int, str, Path, literal or enumeration; None if it is not one."""
    if not isinstance(node, yaml.ScalarNode):
        return None
    text, plain = node.value, node.style is None
    if kind is bool:
        return _BOOL.get(text) if plain else None
    if kind is int:
        return int(text, 0 if text[:1] == "0" and text[1:2] in "xo" else 10) if _is_int(node) else None
    if kind is str or kind is Path:
        number = plain and (text in _BOOL or _NUMBER.fullmatch(text) is not None)
        return None if is_null(node) or number or "\0" in text else kind(text)
    if get_origin(kind) is Literal:
        return next((a for a in get_args(kind) if _scalar(node, type(a)) == a or a == text), None)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return next((m for m in kind if str(m.value) == text), None)
    raise TypeError(f"settings cannot hold {kind!r}")


def _is_section(kind: Any) -> bool:
    """Whether a value of this type can only be a mapping."""
    return dataclasses.is_dataclass(kind) and getattr(kind, "SHORT_FORM", None) is None


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _is_int(node: yaml.ScalarNode) -> bool:
    return node.style is None and _INT.fullmatch(node.value) is not None


def _fits(node: yaml.Node, kind: Any, metadata: tuple[Any, ...]) -> bool:
    """Whether the shape of the node (scalar, list, mapping) can be a value of this type."""
    if get_origin(kind) is Annotated:
        return _fits(node, kind.__origin__, kind.__metadata__ + metadata)
    if kind is Deferred:
        return True
    if dataclasses.is_dataclass(kind) or get_origin(kind) is dict:
        return isinstance(node, yaml.MappingNode)
    if get_origin(kind) in (list, tuple):
        vector = numbers_of(kind, metadata) is not None
        return isinstance(node, yaml.SequenceNode) or (vector and isinstance(node, yaml.ScalarNode))
    return isinstance(node, yaml.ScalarNode)
