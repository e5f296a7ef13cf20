"""Four-bar linkages of slender rods: classes, range of the input angle, and assembly in closed form.

Lengths are (ground, input, floating, output), m. The input turns about A at the origin and carries P at its end, the
output turns about B at (ground, 0) and carries Q; the floating bar joins P and Q. Classes after McCarthy and Soh,
Geometric Design of Linkages, section 2.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vehicled.errors import UsageError
from vehicled.multibody.description import Description
from vehicled.multibody.elements import Angle, Bar, GroundBody

Lengths = Sequence[float]
GRAVITY = 9.8
"""m/s², as in the source."""

_KINDS = (
    "0-rocker 0-rocker",
    "crank-crank",
    "rocker-rocker",
    "π-rocker π-rocker",
    "rocker-crank",
    "π-rocker 0-rocker",
    "0-rocker π-rocker",
    "crank-rocker",
)
"""Kind by 4[T1 > 0] + 2[T2 > 0] + [T3 > 0]; the input first. With angles from the direction A to B, a
0-rocker swings through 0, a π-rocker through π, a rocker through neither."""


@dataclass(frozen=True)
class Grashof:
    """Kind of linkage for given lengths."""

    kind: str
    """Empty if the linkage folds, as then it is none of the eight kinds."""
    folds: bool
    """Whether all bars can lie on one line; there it may change to the other way of assembly."""
    turns_fully: bool
    """Whether the input can make full turns."""


def classify(lengths: Lengths) -> Grashof:
    """The kind of linkage with these lengths. Raises UsageError if they cannot be assembled."""
    ground, link, floating, output = _checked(lengths)
    t1 = ground + floating - link - output
    t2 = output + ground - link - floating
    t3 = output + floating - ground - link
    folds = t1 * t2 * t3 == 0.0
    kind = "" if folds else _KINDS[4 * (t1 > 0.0) + 2 * (t2 > 0.0) + (t3 > 0.0)]
    ((low, high), *_) = input_ranges(lengths)
    return Grashof(kind, folds, bool(high - low >= 2.0 * np.pi))


def input_ranges(lengths: Lengths) -> list[tuple[float, float]]:
    """Intervals of the input's angle at which the linkage can be assembled, rad.

    One, or two that are mirror images; (−π, π) if it turns fully.

    The distance of P from B has to be from |floating − output| to floating + output. Raises UsageError.
    """
    ground, link, floating, output = _checked(lengths)

    def cosine(distance: float) -> float:
        return float((ground**2 + link**2 - distance**2) / (2.0 * ground * link))

    # cos θ decreases as P moves away from B.
    largest, smallest = cosine(abs(floating - output)), cosine(floating + output)
    if smallest <= -1.0 and largest >= 1.0:
        return [(-np.pi, np.pi)]
    nearest = np.arccos(min(largest, 1.0))
    furthest = np.arccos(max(smallest, -1.0))
    if nearest == 0.0:
        return [(-furthest, furthest)]
    if furthest == np.pi:
        return [(nearest, 2.0 * np.pi - nearest)]
    return [(nearest, furthest), (-furthest, -nearest)]


def random_angles(lengths: Lengths, count: int, random: np.random.Generator) -> np.ndarray:
    """(count,) input angles, uniform over all that can be assembled, rad. Raises UsageError."""
    ranges = np.array(input_ranges(lengths))
    widths = ranges[:, 1] - ranges[:, 0]
    along = random.random(count) * widths.sum()
    which = np.searchsorted(np.cumsum(widths), along, side="right").clip(0, len(ranges) - 1)
    angles: np.ndarray = ranges[which, 0] + along - np.concatenate(([0.0], np.cumsum(widths)))[which]
    return angles


def random_branches(count: int, random: np.random.Generator) -> np.ndarray:
    """(count,) numbers 1 or −1, see `assemble`."""
    return np.where(random.random(count) < 0.5, 1.0, -1.0)


def assemble(
    lengths: Lengths, angles: np.ndarray, branches: np.ndarray, speeds: np.ndarray | float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """(4, N) coordinates P.x, P.y, Q.x, Q.y, m, and their rates, m/s.

    `branches`: 1 with Q on the left of the line from P to B, −1 on the right. `speeds` of the input, rad/s; they
    have to be zero at the ends of its travel. Raises UsageError when an angle is out of reach.
    """
    ground, link, floating, output = _checked(lengths)
    angles = np.asarray(angles, dtype=float)
    px, py = link * np.cos(angles), link * np.sin(angles)
    bx, by = ground - px, -py
    squared = bx**2 + by**2
    # Components along the line from P to B, and perpendicular to the left.
    along = (squared + floating**2 - output**2) / (2.0 * squared)
    height = floating**2 / squared - along**2
    if np.any(height < -1e-9):
        worst = np.degrees(angles[np.argmin(height)])
        raise UsageError(f"lengths {_text(lengths)}: cannot be assembled with the input at {worst:.1f}°")
    across = branches * np.sqrt(np.maximum(height, 0.0))
    qx, qy = px + along * bx - across * by, py + along * by + across * bx
    # (Q − P)·(Q̇ − Ṗ) = 0 and (Q − B)·Q̇ = 0.
    vx, vy = -speeds * py, speeds * px
    ex, ey, fx, fy = qx - px, qy - py, qx - ground, qy
    determinant = ex * fy - ey * fx
    right = ex * vx + ey * vy
    rate = np.divide(right, determinant, out=np.zeros_like(angles), where=right != 0.0)
    return np.array([px, py, qx, qy]), np.array([vx, vy, fy * rate, -fx * rate])


def describe(lengths: Lengths, masses: Sequence[float] = (1.0, 1.0, 0.0)) -> Description:
    """The linkage as a mechanism; its input's angle is named "crank".

    `masses` of input, floating and output bar, kg: slender rods with a central inertia of m L²/12. As in the
    source, the output has no mass: it is a constant distance (the source gives the others an inertia about
    their ends that makes the central one negative). Raises UsageError.
    """
    ground, link, floating, output = _checked(lengths)
    (q, _) = assemble(lengths, random_angles(lengths, 1, np.random.default_rng(0)), np.ones(1))
    px, py, qx, qy = q[:, 0].tolist()
    bars = zip((("A", "P"), ("P", "Q"), ("Q", "B")), (link, floating, output), masses, strict=True)
    names = ("input", "floating", "output")
    bodies = [Bar(kind="bar", points=points, length=length, mass=mass) for points, length, mass in bars]
    return Description(
        space="planar",
        gravity=(0.0, -GRAVITY),
        ground=GroundBody(points={"A": (0.0, 0.0), "B": (ground, 0.0)}),
        points={"P": (px, py), "Q": (qx, qy)},
        angles={"crank": Angle(between=("x", ("A", "P")))},
        bodies=dict(zip(names, bodies, strict=True)),
        independent=["crank"],
    )


def _checked(lengths: Lengths) -> tuple[float, ...]:
    if len(lengths) != 4 or not all(np.isfinite(x) and x > 0.0 for x in lengths):
        raise UsageError(
            f"lengths {_text(lengths)}: expected four above zero (ground, input, floating, output)"
        )
    if 2.0 * max(lengths) >= sum(lengths):
        raise UsageError(
            f"lengths {_text(lengths)}: the longest bar has to be shorter than the others together"
        )
    return tuple(float(x) for x in lengths)


def _text(lengths: Lengths) -> str:
    return ", ".join(f"{x:g}" for x in lengths)
