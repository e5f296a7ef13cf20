"""Checks of a mechanism: it can be assembled, it is determined, and every motion moves a mass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from vehicled.errors import UsageError
from vehicled.multibody import problems
from vehicled.multibody.elements import Angle, Distance, Segment
from vehicled.multibody.instance import MechanismInstance
from vehicled.multibody.misfits import describe_misfit, find_involved, find_part
from vehicled.multibody.model import MechanismError

_MOVES = 1e-6
"""Share of a motion's largest component above which a coordinate counts as moving."""
_LIGHT, _MASSLESS = 1e-11, 1e-14
"""Least inertia as a share of the largest: below the first, ten times the accuracy of the equations of
motion, bodies that are too light would not move. Below the second it counts as zero, but for rounding."""
_NAMED, _MOVED = 10.0, 100.0
"""Weight, as an independent coordinate, of angles and distances of the file, and of what it gives a rate."""
_ROUNDED = 1e-3
"""Share by which a rate of the file may differ from what others make of it, as numbers in a file are rounded."""
_BESIDE = 0.01
"""Length of a motion, in units of the coordinates, to a position beside the start."""
_OBLIQUE = 1e-3
"""Cotangent up to which a direction counts as at right angles to an axis, as numbers in a file are rounded."""


@dataclass(frozen=True)
class MechanismTopology:
    """Numbers of parts and freedoms, counted from the compiled model at its present position."""

    bodies: list[str]
    coordinates: list[str]
    constraints: list[str]
    redundant: list[str]
    """Constraints that are implied by the others."""
    independent: list[str]

    @property
    def rank(self) -> int:
        """Rank of the constraint Jacobian."""
        return len(self.constraints) - len(self.redundant)

    @property
    def degrees_of_freedom(self) -> int:
        """Number of coordinates less the rank of the constraints' Jacobian."""
        return len(self.coordinates) - self.rank


def calc_topology(mechanism: MechanismInstance) -> MechanismTopology:
    """Count parts and freedoms of a mechanism at its present position."""
    names = mechanism.coordinate_names
    return MechanismTopology(
        mechanism.compiled.bodies,
        names,
        mechanism.constraint_names,
        [mechanism.constraint_names[k] for k in _redundant(mechanism)],
        [names[k] for k in mechanism.independent],
    )


def assemble_at_start(mechanism: MechanismInstance) -> None:
    """Assemble a mechanism at the start of its description. Raises MechanismError, naming body or joint."""
    description = mechanism.description
    given = [mechanism.index(name) for name in description.independent or ()]
    held = {k: float(mechanism.guess[k]) for k in given}
    starts = held if description.independent is not None else _given_starts(mechanism)
    solution = problems.assemble(mechanism, mechanism.guess, starts, again=starts == held)
    if not solution.converged and starts != held:
        solution = problems.assemble(mechanism, mechanism.guess, held)
    if not solution.converged:
        _explain_failure(mechanism, given, held, solution)
    _check_angles(mechanism)
    _check_axes(mechanism)
    _check_determined(mechanism, given)
    rates = _given_rates(mechanism)
    mechanism.qd[:] = rates
    problems.solve_velocity(mechanism, mechanism.zd)
    _check_rates(mechanism, rates)
    _check_forces(mechanism)
    _check_mass(mechanism)
    problems.solve_dynamics(mechanism)


def require_freedom(mechanism: MechanismInstance) -> None:
    """Raise UsageError if there is nothing to be observed or identified."""
    if not len(mechanism.independent):
        raise UsageError(
            "no degree of freedom: expected a mechanism that joints and drives leave free to move"
        )


def _given_rates(mechanism: MechanismInstance) -> np.ndarray:
    description = mechanism.description
    rates = np.zeros(len(mechanism.q))
    for name, velocity in description.velocities.items():
        for axis, value in zip("xyz", velocity, strict=False):
            rates[mechanism.index(f"{name}.{axis}")] = value
    for name, coordinate in _measured(mechanism).items():
        rates[mechanism.index(name)] = coordinate.rate
    return rates


def _given_starts(mechanism: MechanismInstance) -> dict[int, float]:
    """Angles and distances whose start is in the file, with it."""
    return {
        mechanism.index(name): coordinate.start
        for name, coordinate in _measured(mechanism).items()
        if coordinate.start is not None
    }


def _measured(mechanism: MechanismInstance) -> dict[str, Angle | Distance]:
    return mechanism.description.angles | mechanism.description.distances


def _check_rates(mechanism: MechanismInstance, rates: np.ndarray) -> None:
    """Refuse rates of angles and distances that others contradict: they would be lost."""
    names = ", ".join(mechanism.coordinate_names[k] for k in mechanism.independent)
    for name in _measured(mechanism):
        k = mechanism.index(name)
        given, found = rates[k], mechanism.qd[k]
        if given and abs(found - given) > _ROUNDED * max(abs(given), abs(found)):
            unit = "m/s" if k in mechanism.lengths else "rad/s"
            section = "angles" if name in mechanism.description.angles else "distances"
            raise MechanismError(
                f"expected {found:.4g} {unit}, which follows from the rates of the independent coordinates "
                f"({names or 'none'}), got {given:.4g} {unit}",
                f"{section}.{name}.rate",
            )


def _explain_failure(
    mechanism: MechanismInstance, given: list[int], held: Mapping[int, float], solution: problems.Solution
) -> NoReturn:
    """Explain why the mechanism cannot be assembled at its start: raises MechanismError."""
    endless = ~np.isfinite(mechanism.calc_constraints())
    if endless.any():
        name = mechanism.constraint_names[int(np.argmax(endless))]
        raise MechanismError(
            f"cannot be assembled: '{name}' has no finite value about the start",
            part=find_part(mechanism.description, name),
        )
    involved, left = find_involved(mechanism), _worst(mechanism, solution)
    # Close to a double root, Newton's method ends where rounding dominates: then only the count is wrong.
    is_met = problems.calc_violation(mechanism) <= np.sqrt(problems.tolerance(mechanism))
    if given and problems.assemble(mechanism, mechanism.guess, again=False).converged:
        try:
            _check_determined(mechanism, given)
        except MechanismError as error:
            why = None if is_met else describe_misfit(mechanism, involved, held, len(given))
            text = f"{error.message}; {why[0]}" if why else error.message
            raise MechanismError(text, error.key, error.part) from None
        raise _describe_start(mechanism, held)
    why = describe_misfit(mechanism, involved, {}) or describe_misfit(mechanism, involved, held)
    text, part = why or left
    raise MechanismError(f"cannot be assembled: {text}", part=part)


def _describe_start(mechanism: MechanismInstance, held: Mapping[int, float]) -> MechanismError:
    """Name the independent coordinate that cannot have its value at the start."""
    for k, value in held.items():
        others = {j: v for j, v in held.items() if j != k}
        if problems.assemble(mechanism, mechanism.guess, others, again=False).converged:
            unit = "m" if k in mechanism.lengths else "rad"
            found = (
                f"with {value:.4g} {unit} it cannot be assembled, the nearest is {mechanism.q[k]:.4g} {unit}"
            )
            return _blame_start(mechanism, mechanism.coordinate_names[k], found)
    names = ", ".join(mechanism.coordinate_names[k] for k in held)
    return MechanismError(f"cannot be assembled with the values of {names} at the start", "independent")


def _blame_start(mechanism: MechanismInstance, coordinate: str, found: str) -> MechanismError:
    description = mechanism.description
    for section in ("angles", "distances"):
        if coordinate in getattr(description, section):
            return MechanismError(found, f"{section}.{coordinate}.start")
    return MechanismError(f"{coordinate}: {found}", "independent")


def _worst(mechanism: MechanismInstance, solution: problems.Solution) -> tuple[str, str]:
    """The constraint furthest from being met, as a message, and its path in the file."""
    phi = np.abs(mechanism.calc_constraints())
    worst = int(np.argmax(phi / mechanism.constraint_units))
    name = mechanism.constraint_names[worst]
    part = find_part(mechanism.description, name)
    if not np.any(mechanism.calc_jacobian()[worst]):
        return (
            f"'{name}' cannot be approached from places that coincide at the start; expected places apart",
            part,
        )
    return (
        f"no single part is in the way; '{name}' stays {phi[worst]:.3g} away from zero "
        f"after {solution.iterations} iterations, last step {solution.step:.3g}",
        part,
    )


def _check_angles(mechanism: MechanismInstance) -> None:
    name = mechanism.find_turned_angle()
    if name is not None:
        theta = mechanism.q[mechanism.index(name)]
        raise MechanismError(
            f"cannot be assembled: angle {name} is {theta:.4g} rad at the start, "
            "but the places of the points lie on the other side",
            part=f"angles.{name}",
        )


def _check_axes(mechanism: MechanismInstance) -> None:
    """Refuse angles between two directions oblique to the axis: their constraint measures something else."""
    places = mechanism.calc_point_positions()

    def along(segment: Segment) -> np.ndarray:
        if isinstance(segment, str):
            return mechanism.placement.vector(segment, mechanism.q)
        start, end = (places[p] for p in segment)
        direction: np.ndarray = end - start
        return direction

    for name, angle in mechanism.description.angles.items():
        if angle.about is None:
            continue
        axis = along(angle.about)
        across = [(np.linalg.norm(np.cross(axis, d)), abs(axis @ d)) for d in map(along, angle.between)]
        if all(lean > _OBLIQUE * right for right, lean in across):
            degrees = " and ".join(f"{np.degrees(np.arctan2(*sides)):.3g}°" for sides in across)
            raise MechanismError(
                f"expected it at right angles to one of the two directions at least, got {degrees}",
                f"angles.{name}.about",
            )


def _check_determined(mechanism: MechanismInstance, given: list[int]) -> None:
    description, names = mechanism.description, mechanism.coordinate_names
    motions = problems.calc_motions(mechanism)
    free = motions.shape[1]
    declared = description.degrees_of_freedom
    by = "declared"
    if declared is None:
        declared = len(given) if description.independent is not None else free
        by = f"declared by independent ({', '.join(names[k] for k in given)})" if given else by
    if len(_redundant(mechanism)) and (beside := _count_beside(mechanism, motions)) < free:
        raise MechanismError(
            f"singular at the start, as where a parallelogram is in line: {free} degrees of freedom there, {beside} "
            "beside it; expected a start beside it",
            part=find_part(description, _movers(mechanism, motions)[0]),
        )
    if free > declared:
        left = _motions_without(motions, given)
        who = _movers(mechanism, left if left.shape[1] else motions)
        raise MechanismError(
            f"under-determined: {free} degrees of freedom, {declared} {by}; {_list(who)} can move",
            part=find_part(description, who[0]),
        )
    if free < declared:
        extra = [mechanism.constraint_names[k] for k in _redundant(mechanism)]
        holding = [*(f"drive {name}" for name in description.drives), *description.joints]
        stiff = holding or mechanism.compiled.bodies
        leave = f": {_list(stiff)} leave{'s' * (len(stiff) == 1)} no more"
        why = f"; '{extra[0]}' follows from other constraints" if extra else leave
        counted = "independent" if description.degrees_of_freedom is None else "degrees_of_freedom"
        culprits = extra or holding
        raise MechanismError(
            f"over-determined: {free} degrees of freedom, {declared} {by}{why}",
            part=find_part(description, culprits[0]) if culprits else counted,
        )
    if given and len(given) != free:
        raise MechanismError(f"expected {free} coordinates, got {len(given)}", "independent")
    left = _motions_without(motions, given)
    if given and left.shape[1]:
        listed = ", ".join(names[k] for k in given)
        stay = "stays" if len(given) == 1 else "stay"
        who = _movers(mechanism, left)
        raise MechanismError(f"{_list(who)} can move while {listed} {stay}", "independent")
    mechanism.set_independent(np.array(given) if given else _choose_independent(mechanism, motions))


def _count_beside(mechanism: MechanismInstance, motions: np.ndarray) -> int:
    """Least number of motions at positions near the present one, along its motions (n, f); q is not changed."""
    here, least = mechanism.q.copy(), int(motions.shape[1])
    for way in (*motions.T, motions.sum(axis=1)):
        there = here + _BESIDE * way * mechanism.units
        if problems.assemble(mechanism, there, again=False).converged:
            least = min(least, problems.calc_motions(mechanism).shape[1])
    mechanism.q[:] = here
    return least


def _choose_independent(mechanism: MechanismInstance, motions: np.ndarray) -> np.ndarray:
    """Coordinates that determine the others: first those that the file moves at the start, then those it names."""
    rates = _given_rates(mechanism)
    named = [mechanism.index(name) for name in _measured(mechanism)]
    weights = np.ones(len(rates))
    weights[named] = _NAMED
    weights[rates != 0.0] = _MOVED
    return problems.choose_independent(motions, weights=weights)


def _motions_without(motions: np.ndarray, given: list[int]) -> np.ndarray:
    """Combinations (n, k) of orthonormal motions (n, f) that do not move the given coordinates.

    Motions count as zero relative to a whole motion: at a dead centre, a single coordinate moves by rounding
    only.
    """
    _, sizes, combinations = np.linalg.svd(motions[given])
    moved = np.count_nonzero(sizes > problems.RANK_TOLERANCE)
    left: np.ndarray = motions @ combinations[moved:].T
    return left


def _redundant(mechanism: MechanismInstance) -> list[int]:
    """Constraints that are implied by those before them."""
    jacobian = problems.calc_scaled_jacobian(mechanism)
    if not jacobian.size:
        return []
    sizes = np.linalg.norm(jacobian, axis=1)
    kept = np.zeros((0, jacobian.shape[1]))
    left = []
    for k, row in enumerate(jacobian / np.where(sizes > 0, sizes, 1.0)[:, None]):
        rest = row - kept.T @ (kept @ row)
        rest -= kept.T @ (kept @ rest)
        size = np.linalg.norm(rest)
        if size > problems.RANK_TOLERANCE:
            kept = np.vstack([kept, rest / size])
        else:
            left.append(k)
    return left


def _movers(mechanism: MechanismInstance, motions: np.ndarray) -> list[str]:
    """The bodies that motions (n, k) move, or the coordinates if none of them belongs to a body."""
    moved = np.abs(motions).max(axis=1)
    names = {
        _without_axis(name)
        for name, size in zip(mechanism.coordinate_names, moved, strict=True)
        if size > _MOVES * moved.max()
    }
    bodies = [b for b in mechanism.compiled.bodies if names & _held(mechanism, b)]
    return bodies or sorted(names)


def _list(names: Sequence[str]) -> str:
    return ", ".join(names[:4])


def _held(mechanism: MechanismInstance, body: str) -> set[str]:
    """Names of a body's points and vectors, and of the coordinates of the joint to its parent."""
    model = mechanism.compiled.model
    if body in model.geometry:
        held = {*model.geometry[body].points, *model.geometry[body].vectors}
    else:
        held = {basic.name for basic in model.parts[body].centre.terms}
    return held | {_without_axis(name) for name, side in model.joint_sides.items() if side.body == body}


def _without_axis(coordinate: str) -> str:
    return coordinate.removesuffix(".x").removesuffix(".y").removesuffix(".z")


def _check_forces(mechanism: MechanismInstance) -> None:
    forces = mechanism.calc_forces()
    if np.all(np.isfinite(forces)):
        return
    bad = mechanism.coordinate_names[int(np.argmax(~np.isfinite(forces)))]
    loads = ", ".join([*mechanism.description.forces, "gravity and masses"])
    raise MechanismError(f"forces: no finite force on {bad} at the start; check {loads}")


def _check_mass(mechanism: MechanismInstance) -> None:
    """Check that every motion allowed by the constraints moves a mass."""
    motions = problems.calc_motions(mechanism)
    if not motions.shape[1]:
        return
    moved = motions * mechanism.units[:, None]
    values, vectors = np.linalg.eigh(moved.T @ mechanism.mass @ moved)
    if values[0] <= _LIGHT * max(values[-1], 0.0):
        who = _movers(mechanism, motions @ vectors[:, :1])
        what = "can move without moving any mass"
        if values[0] > _MASSLESS * max(values[-1], 0.0):
            share = values[0] / values[-1]
            what = f"can move with {share:.1g} of the inertia of others; expected at least {_LIGHT:g}"
        raise MechanismError(
            f"the mass matrix is singular: {_list(who)} {what}",
            part=find_part(mechanism.description, who[0]),
        )
