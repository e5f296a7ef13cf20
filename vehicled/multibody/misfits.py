"""Contradictory parts of a mechanism: parts without which it can be assembled.

The largest residual does not show them. At the least Σ Φ², the residuals are forces in equilibrium with each
other, Φ_qᵀ Φ = 0: all parts that contradict each other have one, and the others have none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from vehicled.multibody import problems
from vehicled.multibody.description import Description
from vehicled.multibody.instance import MechanismInstance

_SHOWN = 6
_MOST_TRIED, _LIMIT = 12, 40
"""Largest number of parts that are left out in turn, and iterations for each: those of a whole car in natural
coordinates are slow."""
_INVOLVED = 1e-4
"""Share of the largest residual below which a residual is only the inaccuracy of the search for the minimum."""


def find_involved(mechanism: MechanismInstance) -> list[str]:
    """Bodies, joints and drives that contradict each other, for a mechanism at the least Σ Φ²."""
    groups = _group_constraints(mechanism)
    misfits = _calc_misfits(mechanism, groups)
    most = max(misfits.values(), default=0.0)
    return [name for name, misfit in misfits.items() if misfit > _INVOLVED * most]


def describe_misfit(
    mechanism: MechanismInstance,
    involved: Sequence[str],
    held: Mapping[int, float],
    freedom: int | None = None,
) -> tuple[str, str] | None:
    """Parts of which any single one can be left out so that the others can be met; None if there is none.

    Returns a text, and the path in the file of the first of them.

    With the `held` coordinates at their values and, if given, `freedom` degrees of freedom. The first part is
    furthest from being met where the description places the points. The position of the mechanism is changed.
    """
    groups = _group_constraints(mechanism)
    mechanism.q[:] = mechanism.guess
    mechanism.q[list(held)] = list(held.values())
    misfits = _calc_misfits(mechanism, groups)
    tried = sorted(involved, key=lambda name: -misfits[name])[:_MOST_TRIED]
    found = [name for name in tried if _fits_without(mechanism, groups[name], held, freedom)]
    if not found:
        return None
    first, *others = found
    rows = groups[first]
    label = mechanism.compiled.constraints[rows[0]] if len(rows) == 1 else first
    part = find_part(mechanism.description, label)
    if not others:
        return f"the rest fits without '{label}'", part
    also = ", ".join(others[:_SHOWN]) + (", …" if len(others) > _SHOWN else "")
    return f"'{label}' is furthest from the places given; the rest fits without it, or without {also}", part


def find_part(description: Description, constraint: str) -> str:
    """Path in the file of a constraint's part; empty if it has none, as for unit vectors of the model."""
    name = constraint.partition(": ")[0]
    for section in ("joints", "bodies"):
        if name in getattr(description, section):
            return f"{section}.{name}"
    kind, _, name = name.partition(" ")
    section = f"{kind}s"
    found = section in ("drives", "angles", "distances") and name in getattr(description, section)
    return f"{section}.{name}" if found else ""


def _group_constraints(mechanism: MechanismInstance) -> dict[str, list[int]]:
    """Rows of constraints by body or joint, and of each drive; angles and distances only define a coordinate."""
    defined = {f"angle {name}" for name in mechanism.description.angles}
    defined |= {f"distance {name}" for name in mechanism.description.distances}
    groups: dict[str, list[int]] = {}
    for k, label in enumerate(mechanism.compiled.constraints):
        if label not in defined:
            groups.setdefault(label.partition(": ")[0], []).append(k)
    return groups


def _calc_misfits(mechanism: MechanismInstance, groups: Mapping[str, list[int]]) -> dict[str, float]:
    """For each group: approximate displacement of the coordinates that would meet it, in their units."""
    phi = np.abs(mechanism.calc_constraints() / mechanism.constraint_units)
    slopes = np.linalg.norm(problems.calc_scaled_jacobian(mechanism), axis=1)
    by_row = np.divide(phi, slopes, out=np.zeros_like(phi), where=slopes > 0.0)
    return {name: float(np.nan_to_num(by_row[rows].max(), nan=np.inf)) for name, rows in groups.items()}


def _fits_without(
    mechanism: MechanismInstance, rows: list[int], held: Mapping[int, float], freedom: int | None
) -> bool:
    enabled = np.ones(len(mechanism.enabled), dtype=bool)
    enabled[rows] = False
    none_held = np.zeros(len(mechanism.q), dtype=bool)
    mechanism.set_switches(enabled, none_held)
    try:
        if not problems.assemble(mechanism, mechanism.guess, held, limit=_LIMIT, again=False).converged:
            return False
        return freedom is None or problems.calc_motions(mechanism).shape[1] == freedom
    finally:
        mechanism.set_switches(np.ones_like(enabled), none_held)
