"""What a settings file should contain at a place, and what it contains, in words for one line of an error."""

import dataclasses
import difflib
import enum
import types
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml

from vehicled.units import Unit, UnitBy

T = TypeVar("T")

DIMENSIONLESS = Unit("1", plain=True)
_NULL = {"", "~", "null", "Null", "NULL"}


def is_null(node: yaml.Node) -> bool:
    """Whether the node is one of YAML's forms of null."""
    return isinstance(node, yaml.ScalarNode) and node.style is None and node.value in _NULL


@lru_cache(maxsize=256)
def type_hints(cls: Any) -> dict[str, Any]:
    """The types of a dataclass' fields with their annotations; the result is cached."""
    return get_type_hints(cls, include_extras=True)


def numbers_of(kind: Any, metadata: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """The metadata of the numbers of a list or tuple that may be written `1 2 3 m`; None if it may not."""
    elements = [a for a in get_args(kind) if a is not Ellipsis]
    element = elements[0]
    if get_origin(element) is Annotated:
        metadata, element = element.__metadata__ + metadata, element.__origin__
    uniform = element is float and all(e == elements[0] for e in elements)
    return metadata if uniform and find_metadata(metadata, Unit) is not None else None


def find_metadata(metadata: tuple[Any, ...], kind: type[T]) -> T | None:
    """The first metadata of that kind: of the innermost annotation."""
    for m in metadata:
        if isinstance(m, kind):
            return m
    return None


def expectation(kind: Any, metadata: tuple[Any, ...]) -> str:
    """What the file should contain where this type is expected, in words."""
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return expectation(kind.__origin__, kind.__metadata__ + metadata)
    if origin in (Union, types.UnionType):
        return " or ".join(expectation(a, metadata) for a in args if a is not type(None))
    if dataclasses.is_dataclass(kind):
        return f"a section with {', '.join(f.name for f in dataclasses.fields(kind) if f.init)}"
    if origin is dict:
        return "names and values"
    if origin in (list, tuple):
        if origin is list or (len(args) == 2 and args[1] is Ellipsis):
            return f"a list, each {expectation(args[0], metadata)}"
        unit = find_metadata(numbers_of(kind, metadata) or (), Unit)
        if unit is not None:
            return f"{len(args)} numbers and a unit ({unit.symbol})"
        return f"a list [{', '.join(expectation(a, metadata) for a in args)}]"
    if kind is float:
        return (find_metadata(metadata, Unit) or DIMENSIONLESS).expectation
    if origin is Literal:
        return either([str(a) for a in args])
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return either([str(m.value) for m in kind])
    names = {bool: "true or false", int: "a whole number", str: "text", Path: "a path"}
    return names.get(kind, "a section")


def find_unit_choice(kind: Any) -> UnitBy | None:
    """The metadata that chooses the unit of a field of that type; None if the type alone determines it."""
    return find_metadata(getattr(kind, "__metadata__", ()), UnitBy)


@dataclasses.dataclass(frozen=True)
class SectionKey:
    """Metadata for values below a key of a mapping whose keys the file chooses."""

    name: str


def either(names: list[str]) -> str:
    """The names as `a, b or c`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def suggest(name: str, known: list[str]) -> str:
    """A hint for an unknown name: the nearest known one, or all."""
    near = find_nearest(name, known)
    return f"known here: {', '.join(known)}" if near is None else f"did you mean '{near}'?"


def find_nearest(name: str, known: list[str]) -> str | None:
    """The known name that was probably meant."""
    near = difflib.get_close_matches(name[:60], known, n=1, cutoff=0.5)
    return near[0] if near else None


def describe(node: yaml.Node) -> str:
    """Description of the file's content at a node."""
    if isinstance(node, yaml.MappingNode):
        return "a mapping"
    if isinstance(node, yaml.SequenceNode):
        return "a list"
    if is_null(node):
        return "nothing"
    text = node.value if len(node.value) <= 40 else node.value[:39] + "…"
    return f"'{text}'"


def join_path(path: str, name: str) -> str:
    """The key path of `name` below `path`."""
    name = printable(name, 60)
    return f"{path}.{name}" if path and name else path or name


def printable(text: str, limit: int = 300) -> str:
    """The text on one line, with control characters escaped, not longer than the limit."""
    line = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    return line if len(line) <= limit else line[: limit - 1] + "…"
