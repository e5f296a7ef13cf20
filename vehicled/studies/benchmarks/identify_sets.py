"""The sets of base parameters of the source, as printed there: lists of the dependent parameters.

Mejía Calderón (2016), tables 5.4 to 5.6 and the lists of T4 and T5 that follow them. The source's bodies 1 to 7 are
those of one side, 9 to 15 of the other, 8 the rack; its x runs along wishbones and tie rods and along the axle, which
are y in `front_suspension`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_BODIES = ("lower_wishbone", "upper_wishbone", "knuckle", "tie_rod", "wheel", "upper_rod", "lower_rod")
_TURNED = {"lower_wishbone", "upper_wishbone", "tie_rod", "wheel"}
_RACK = 8
_RODS = "Ixy7 Ixx7 Ixz7 Iyy7 Iyz7 Izz7 Ixy15 Ixx15 Ixz15 Iyy15 Iyz15 Izz15"
"""Dependent in every set: both rods of a damper rotate together, so only the sums of their inertia matter."""

VALID = {
    "T1 knuckles": "m5 mx5 Izz5 Iyy2 m2 m4 Iyy4 Iyy1 m1 m7 m13 mx13 Izz13 Iyy10 m10 m12 Iyy12 Iyy9 m9 m15",
    "T2 lower wishbones": "m5 mx5 Iyy5 mx2 m2 m4 mx4 m3 m7 m1 m13 mx13 Iyy13 mx10 m10 m12 mx12 m11 m15 m9",
    "T3 both wishbones": "m5 mx5 Izz5 Iyy2 mz3 m4 m8 m3 m7 Iyy1 m13 mx13 Izz13 Iyy10 mz11 m12 Iyy12 m11 m15 Iyy9",
    "T4 drawn, valid": "m1 Iyy1 m2 Iyy2 Izz3 Iyy4 m5 mx5 Izz5 m7 "
    "mx9 Iyy10 mz11 Ixx11 Izz11 Iyy12 m13 mx13 Izz13 m15",
}
"""Dependent parameters by set, named by the bodies to which the source transfers parameters; without `_RODS`,
which are dependent in all sets."""
REJECTED = "T5 drawn"
_REJECTED = (
    "m3 mx3 Ixy3 Ixz3 Iyy4 Ixy5 Iyy5 Ixx6 Ixz6 Iyy6 Izz6 Ixy7 mz9 mz10 Iyy10 Ixx11 Ixz11 Izz11 m12 Ixz12 Iyy12 "
    "Iyz12 my13 Ixz13 Iyz13 Izz13 mz14 Ixx14 mz15 Ixy15 Iyy15 Izz15"
)


def get_dependent(name: str, names: Sequence[str]) -> list[int]:
    """Indices of the dependent parameters of a set, among the names of all parameters."""
    text = _REJECTED if name == REJECTED else f"{VALID[name]} {_RODS}"
    return [names.index(_translate(one)) for one in text.split()]


def complement(dependent: Iterable[int], null: Iterable[int], size: int) -> list[int]:
    """Indices of the independent parameters."""
    left = {*dependent, *null}
    return [k for k in range(size) if k not in left]


def _translate(printed: str) -> str:
    """Name of a parameter here: `Iyy12` becomes `tie_rod_right.Ixx`."""
    kind = printed.rstrip("0123456789")
    number = int(printed[len(kind) :])
    if number == _RACK:
        return f"rack.{kind}"
    side = "left" if number < _RACK else "right"
    body = _BODIES[(number if number < _RACK else number - _RACK) - 1]
    axes = kind[1:]
    if body in _TURNED:
        axes = axes.translate(str.maketrans("xy", "yx"))
    return f"{body}_{side}.{kind[0]}{''.join(sorted(axes))}"
