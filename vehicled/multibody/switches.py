"""Coordinates held, and constraints disabled, in a state of a mechanism, without compiling it again.

Compiled ALI3-P has a penalty per constraint, zero for a disabled one, and a switch per coordinate, which sets
it to its target and makes its entry in the tangent rigid. The matrices evaluated for problems and other
formulations have no rows for disabled constraints, and one for each held coordinate. The switches belong to
the state: `Mechanism.get_state` and `set_state` include them.
"""

from __future__ import annotations

import numpy as np

from vehicled.errors import UsageError
from vehicled.multibody import problems
from vehicled.multibody.mechanism import Mechanism


def prescribe(
    mechanism: Mechanism, coordinate: str, value: float, rate: float = 0.0, acceleration: float = 0.0
) -> None:
    """Prescribe a coordinate's value, rate and acceleration (m or rad, per s, per s²) from now on.

    Like inputs, the targets are those at the end of the next step; another call changes them. The other
    coordinates follow from position and velocity problem: `problems.solve_position(mechanism, mechanism.z)`.
    The force that holds the coordinate is −λ of its constraint `hold …` (N, or N·m on an angle). Raises
    UsageError for an unknown coordinate.
    """
    k = _coordinate(mechanism, coordinate)
    held = mechanism.held
    mechanism.targets[k] = value, rate, acceleration
    if not held[k]:
        held[k] = True
        _switch(mechanism, mechanism.enabled, held)


def lock(mechanism: Mechanism, coordinate: str) -> None:
    """Hold a coordinate where it is, at rest. Raises UsageError for an unknown coordinate."""
    prescribe(mechanism, coordinate, float(mechanism.q[_coordinate(mechanism, coordinate)]))


def release(mechanism: Mechanism, coordinate: str) -> None:
    """Release a held coordinate. Raises UsageError for an unknown coordinate."""
    held = mechanism.held
    held[_coordinate(mechanism, coordinate)] = False
    _switch(mechanism, mechanism.enabled, held)


def disable(mechanism: Mechanism, constraint: str) -> None:
    """Ignore a constraint (`angle …`, `distance …`, `drive …`), or all those of a body or joint.

    Raises UsageError for an unknown one.
    """
    _enable(mechanism, constraint, False)


def enable(mechanism: Mechanism, constraint: str) -> None:
    """Enable a disabled constraint: if the mechanism violates it, its position has to be solved first.

    Raises UsageError for an unknown one.
    """
    _enable(mechanism, constraint, True)


def find_constraints(mechanism: Mechanism, name: str) -> np.ndarray:
    """Indices (k,), among the description's constraints, of those with a name.

    The constraint of that name, or all those of that body or joint (`name: …`), which may have none. Raises
    UsageError for unknown names, and for joints whose coordinates are those of the mechanism.
    """
    labels, description = mechanism.compiled.constraints, mechanism.description
    if name in mechanism.compiled.model.met:
        raise UsageError(
            f"{name} has no constraints of its own: it is a joint of the tree of relative coordinates"
        )
    rows = [k for k, label in enumerate(labels) if label == name or label.startswith(f"{name}: ")]
    if not rows and name not in {*description.bodies, *description.joints}:
        raise UsageError(f"unknown constraint '{name}'; known here: {', '.join(labels) or 'none'}")
    return np.array(rows, dtype=int)


def _enable(mechanism: Mechanism, constraint: str, on: bool) -> None:
    enabled = mechanism.enabled.copy()
    enabled[find_constraints(mechanism, constraint)] = on
    _switch(mechanism, enabled, mechanism.held)


def _coordinate(mechanism: Mechanism, name: str) -> int:
    try:
        return mechanism.index(name)
    except KeyError:
        known = ", ".join(mechanism.coordinate_names)
        raise UsageError(f"unknown coordinate '{name}'; known here: {known}") from None


def _switch(mechanism: Mechanism, enabled: np.ndarray, held: np.ndarray) -> None:
    mechanism.set_switches(enabled, held)
    motions = problems.calc_motions(mechanism)
    mechanism.set_independent(problems.choose_independent(motions, mechanism.independent))
