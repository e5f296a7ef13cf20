"""Explanations of errors that no filter makes: a truth about another origin, or in degrees."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from vehicled.maths.angles import wrap

_LEAST_OFFSET = 0.05
"""m: offsets of centimetres are due to receivers and antennas."""
_CONSTANT = 5.0
"""Least ratio of the offset to its scatter, and to σ: an error of a receiver that lasts for minutes is within σ."""
_SMALLER, _EXPLAINED = 0.1, 0.5
"""Largest error that remains if the truth is in degrees, relative to the error as it is, and to the estimated
quantity."""


class Turning(NamedTuple):
    """An angle or its rate, (n,) each, rad."""

    estimate: np.ndarray
    as_degrees: np.ndarray
    """The truth, if it was given in degrees."""
    error: np.ndarray
    """The error without this conversion."""
    is_within_turn: bool


def find_offset(errors: Mapping[str, np.ndarray], sigmas: Mapping[str, np.ndarray]) -> Iterator[str]:
    """Remark if positions are off by the same offset everywhere. `errors`, `sigmas`: (n,) by column, m."""
    if not {"x", "y"} <= errors.keys():
        return
    plane = errors["x"] + 1j * errors["y"]
    plane = plane[np.isfinite(plane)]
    if len(plane) < 2:
        return
    # Medians, as an initial error of metres is not scatter.
    offset = complex(np.median(plane.real), np.median(plane.imag))
    scatter = float(np.median(np.abs(plane - offset)))
    known = [float(np.nanmedian(sigmas[c])) for c in ("x", "y") if c in sigmas]
    if abs(offset) > max(_LEAST_OFFSET, _CONSTANT * max(scatter, *known, 0.0)):
        yield (
            f"x and y are off by {abs(offset):.3g} m everywhere (± {scatter:.2g} m): is the truth about another "
            "origin (`world` in the configuration sets it), or of another point (--truth-point)?"
        )


def find_degrees(columns: Mapping[str, Turning], truth: str) -> Iterator[str]:
    """Remark if angles or rates of a truth are in degrees. `truth`: its name."""
    found = []
    for name, turning in columns.items():
        left = turning.estimate - turning.as_degrees
        if turning.is_within_turn:
            left = wrap(left)
        known = np.isfinite(left) & np.isfinite(turning.error)
        if not known.any():
            continue
        rest, as_is, size = (
            float(np.median(np.abs(v[known]))) for v in (left, turning.error, turning.estimate)
        )
        if rest < min(_SMALLER * as_is, _EXPLAINED * size):
            found.append(name)
    if found:
        yield f"{truth}: {', '.join(found)} seem to be in degrees: expected rad and rad/s"
