"""Edits of the text of a configuration: new values, with comments, order and units unchanged."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import yaml

from vehicled.units import Unit, parse_unit, split_quantity

Keys = tuple[str, ...]
_DIGITS = 6


@dataclasses.dataclass(frozen=True)
class Edit:
    """A new value at a key path, in SI."""

    keys: Keys
    values: tuple[float, ...]
    unit: str
    """Unit for writing if there is no value yet; empty for plain numbers."""


def find_edits(before: Any, after: Any, keys: Keys = ()) -> Iterator[Edit]:
    """Edits for the numbers that differ between two instances of one settings dataclass."""
    hints = get_type_hints(type(after), include_extras=True)
    for field in dataclasses.fields(after):
        old, new = getattr(before, field.name), getattr(after, field.name)
        here = (*keys, field.name)
        if dataclasses.is_dataclass(new) and not isinstance(new, type):
            yield from find_edits(old, new, here)
        elif old != new:
            values = new if isinstance(new, tuple) else (new,)
            yield Edit(here, values, _unit(hints[field.name]))


def _unit(hint: Any) -> str:
    """The unit's symbol anywhere in an annotation; empty if there is none."""
    if get_origin(hint) is Annotated:
        own = next((m.symbol for m in hint.__metadata__ if isinstance(m, Unit)), "")
        return own or _unit(get_args(hint)[0])
    return next(filter(None, (_unit(a) for a in get_args(hint))), "")


def edit(text: str, edits: list[Edit]) -> str:
    """The text with these values; missing keys are added to their section."""
    for one in edits:
        text = _edit(text, one)
    return text


def _edit(text: str, edit: Edit) -> str:
    node: Any = yaml.compose(text, Loader=yaml.SafeLoader)
    for depth, key in enumerate(edit.keys):
        below = next((v for k, v in _pairs(node) if k.value == key), None)
        if below is None or _is_null(below):
            value = _written(edit.values, edit.unit)
            for missing in reversed(edit.keys[depth + 1 :]):
                value = f"{{{missing}: {value}}}"
            if below is not None:
                return _replaced(text, below, value)
            return _inserted(text, node, f"{key}: {value}")
        node = below
    if isinstance(node, yaml.SequenceNode):
        return _replaced(text, node, f"[{', '.join(_number(v) for v in edit.values)}]")
    _, unit = split_quantity(node.value)
    return _replaced(text, node, _written(edit.values, unit))


def _pairs(node: yaml.Node) -> list[tuple[Any, yaml.Node]]:
    return node.value if isinstance(node, yaml.MappingNode) else []


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"


def _written(values: tuple[float, ...], unit: str) -> str:
    factor = parse_unit(unit)[0] if unit else 1.0
    return " ".join([*(_number(v / factor) for v in values), *filter(None, [unit])])


def _number(value: float) -> str:
    return f"{value:.{_DIGITS}g}"


def _replaced(text: str, node: yaml.Node, value: str) -> str:
    begin, end = node.start_mark.index, node.end_mark.index
    # A comment after the value keeps its column if possible.
    line_end = text.find("\n", end)
    rest = text[end : len(text) if line_end < 0 else line_end]
    spaces = len(rest) - len(rest.lstrip(" "))
    if rest[spaces : spaces + 1] == "#":
        room = max(1, spaces + (end - begin) - len(value))
        return text[:begin] + value + " " * room + text[end + spaces :]
    return text[:begin] + value + text[end:]


def _inserted(text: str, node: yaml.Node, line: str) -> str:
    """Insert a line as the first entry of a mapping."""
    begin = node.start_mark.index
    if isinstance(node, yaml.MappingNode) and node.flow_style:
        comma = ", " if node.value else ""
        return f"{text[: begin + 1]}{line}{comma}{text[begin + 1 :]}"
    return f"{text[:begin]}{line}\n{' ' * node.start_mark.column}{text[begin:]}"
