"""The file of a mechanism with the estimated values, each with its standard deviation in a comment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import yaml

from vehicled.errors import RunError
from vehicled.identification.mechanism.findings import FoundQuantity
from vehicled.identification.vehicle.yaml_text import Edit, Keys, edit
from vehicled.multibody.description import parse_description
from vehicled.units import parse_unit, split_quantity

_WRITTEN = 1e-5
"""Largest relative difference of a value after it was written and read again."""


def write(text: str, found: Sequence[FoundQuantity], source: str) -> str:
    """The text of a mechanism's file with the estimated values; comments, order and units stay.

    Without any estimated value the text is unchanged. A standard deviation in brackets is that of a value
    that is not identified by itself. `source`: origin of the values, for the first line. Raises RunError if
    the file has one value for several bodies (a YAML alias), so that it cannot be written.
    """
    by_keys: dict[Keys, list[FoundQuantity]] = {}
    for one in found:
        by_keys.setdefault(one.quantity.keys, []).append(one)
    changed = {k: rows for k, rows in by_keys.items() if any(r.changes for r in rows)}
    if not changed:
        return text
    edits = [
        Edit(keys, tuple(r.value for r in rows), rows[0].quantity.unit) for keys, rows in changed.items()
    ]
    text = _comment(edit(text, edits), changed)
    _check(text, [r for rows in changed.values() for r in rows])
    return (
        f"# Identified from {source}. ± standard deviation; in brackets where a value is not identified by itself.\n"
        + text
    )


def _comment(text: str, changed: dict[Keys, list[FoundQuantity]]) -> str:
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    lines = text.splitlines()
    for keys, rows in changed.items():
        node: Any = root
        for key in keys:
            node = next(v for k, v in node.value if k.value == key)
        _, unit = split_quantity(node.value)
        factor = parse_unit(unit)[0] if unit else 1.0
        sigmas = [f"{r.sigma / factor:.2g}" for r in rows]
        shown = [s if r.identified else f"({s})" for s, r in zip(sigmas, rows, strict=True)]
        note = f"{keys[-1]} ± {' '.join([*shown, unit])}".rstrip()
        k = node.end_mark.line
        lines[k] += f"; {note}" if _ends_in_comment(lines[k], node.end_mark.column) else f"  # {note}"
    return "\n".join(lines) + "\n"


def _ends_in_comment(line: str, column: int) -> bool:
    """Whether a comment follows a value that ends in this column."""
    return any(token in line[column:] for token in (" #", "\t#"))


def _check(text: str, rows: Sequence[FoundQuantity]) -> None:
    description = parse_description(text)
    for row in rows:
        size = max(abs(row.value), row.sigma)
        if not np.isclose(row.quantity.get(description), row.value, rtol=_WRITTEN, atol=_WRITTEN * size):
            raise RunError(
                f"{row.quantity.name}: expected a value of its own in the file, which others have as well"
            )
