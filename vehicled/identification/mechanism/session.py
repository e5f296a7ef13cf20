"""Session: from logs of a mechanism to an estimate, its validation, and the results to write and show.

Logs that do not fit the mechanism are refused. Parameters must hold on a log that was not used: if its forces
are predicted worse, the base parameter that contributes most to this keeps the file's value, and the others
are estimated again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from vehicled.errors import RunError, UsageError
from vehicled.identification.mechanism.estimate import (
    Recorded,
    UnknownsEstimate,
    calc_equations,
    calc_error,
    estimate,
)
from vehicled.identification.mechanism.motion_errors import RunEquations
from vehicled.identification.mechanism.plausibility import find_fault, find_unexplained
from vehicled.identification.mechanism.unknowns import MechanismUnknowns
from vehicled.terminal.progress import Progress


@dataclass(frozen=True)
class Validation:
    """Validation on an unused log: error of its forces (`calc_error`) with the file's values, and after."""

    name: str
    before: float
    after: float
    choices: int
    """Number of base parameters that have the file's value because of it."""


@dataclass(frozen=True)
class MechanismSession:
    """The estimate, and its validation."""

    estimate: UnknownsEstimate
    coordinates: list[str]
    """(f,) names of the independent coordinates."""
    validation: Validation | None
    notes: list[str]


def run(
    unknowns: MechanismUnknowns,
    runs: Sequence[Recorded],
    validate: Recorded | None,
    anyway: bool,
    quiet: bool,
) -> MechanismSession:
    """Estimate a mechanism's parameters from runs. Raises UsageError for runs that do not fit it, RunError.

    `anyway`: give misfits as notes, instead of refusing the runs.
    """
    for together in [runs] if validate is None else [runs, [validate]]:
        _check_driven(together)
    every = [*runs, *([] if validate is None else [validate])]
    doubts: list[str] = []
    for one in every:
        with _naming(one.name):
            fault = find_fault(unknowns, one)
        doubts += [f"{one.name}: {fault}"] if fault else []
    _refuse(doubts, anyway)
    equations = _calc_equations(unknowns, every, quiet)
    held_out = None if validate is None else equations.pop()
    mechanism = unknowns.regressor.mechanism
    coordinates = [mechanism.coordinate_names[k] for k in mechanism.independent]
    found = estimate(unknowns, equations)
    for one, shares in zip(runs, found.unexplained, strict=True):
        doubts += [f"{one.name}: {fault}" for fault in find_unexplained(coordinates, shares)]
    _refuse(doubts, anyway)
    validation = None
    if validate is not None and held_out is not None:
        found, validation = _find_validated(unknowns, equations, found, validate.name, held_out)
    return MechanismSession(found, coordinates, validation, [*doubts, *found.notes])


def _check_driven(runs: Sequence[Recorded]) -> None:
    """Raise UsageError if no force is known: without one, masses, springs and dampers have no scale."""
    if not any(np.any(one.forces) for one in runs):
        names = ", ".join(one.name for one in runs)
        raise UsageError(f"{names}: every force is zero; expected one that drives the mechanism")


def _refuse(doubts: Sequence[str], anyway: bool) -> None:
    if doubts and not anyway:
        raise UsageError(f"{'; '.join(doubts)} (--anyway uses such logs nevertheless)")


@contextmanager
def _naming(name: str) -> Iterator[None]:
    """Begin the text of errors inside the context with the name of a run."""
    try:
        yield
    except (UsageError, RunError) as error:
        raise type(error)(f"{name}: {error}") from None


def _calc_equations(unknowns: MechanismUnknowns, runs: Sequence[Recorded], quiet: bool) -> list[RunEquations]:
    equations, done = [], 0
    with Progress("equations", float(sum(len(one.t) for one in runs)), "samples", quiet) as progress:
        for one in runs:

            def report(count: int, before: int = done) -> None:
                progress.update(before + count)

            with _naming(one.name):
                equations.append(calc_equations(unknowns, one, report))
            done += len(one.t)
            progress.update(done)
    return equations


def _find_validated(
    unknowns: MechanismUnknowns,
    equations: Sequence[RunEquations],
    found: UnknownsEstimate,
    name: str,
    held_out: RunEquations,
) -> tuple[UnknownsEstimate, Validation]:
    """An estimate that predicts the forces of the held-out run better than the file does, or the file's values."""
    rows = unknowns.base.matrix * unknowns.units
    before = calc_error(unknowns, [held_out], unknowns.prior)
    left: list[int] = []
    while True:
        after = calc_error(unknowns, [held_out], found.theta)
        free = [k for k, c in enumerate(found.base) if c.identified]
        if not free or after < before:
            return found, Validation(name, before, after, len(left))
        without = []
        for k in free:
            change = (found.theta - unknowns.prior) / unknowns.units
            change -= rows[k] * (rows[k] @ change) / (rows[k] @ rows[k])
            without.append(calc_error(unknowns, [held_out], unknowns.prior + unknowns.units * change))
        left.append(free[int(np.argmin(without))])
        found = estimate(unknowns, equations, left)
