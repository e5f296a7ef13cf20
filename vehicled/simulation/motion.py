"""Motions of mechanisms, sampled at equal intervals: what `vehicled simulate --mechanism` writes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vehicled.errors import UsageError
from vehicled.multibody.elements import CoordinateForce
from vehicled.multibody.forms import Form
from vehicled.multibody.formulations import Stepper
from vehicled.multibody.mechanism import Mechanism
from vehicled.multibody.model import MechanismError
from vehicled.multibody.problems import calc_violation

_LEFT = 1e-6
"""Largest |Φ|, in sizes of the mechanism, that is accepted after a step that did not reach its tolerance."""
_FORCE_ON = "force on "


@dataclass(frozen=True)
class SimulatedMotion:
    """N samples of a mechanism with n coordinates, of which f are independent."""

    names: Sequence[str]
    """(n,) names of the coordinates."""
    t: np.ndarray
    """(N,) s"""
    q: np.ndarray
    """(N, n) m, rad; rates and accelerations likewise."""
    qd: np.ndarray
    qdd: np.ndarray
    independent: Sequence[str]
    """(f,)"""
    forces: Mapping[str, np.ndarray]
    """(N,) N or N·m, by the coordinate that is driven."""
    energy: np.ndarray
    """(N,) kinetic and potential, J."""
    kinetic: float
    """Largest kinetic energy of all samples, J."""
    violation: float
    """Largest |Φ| of all samples, in sizes of the mechanism."""
    unconverged: int
    """Number of steps that did not reach their tolerance."""

    def get(self, name: str, rate: bool = False) -> np.ndarray:
        """(N,) values of a coordinate, or of its rate. Raises ValueError for an unknown name."""
        return (self.qd if rate else self.q)[:, self.names.index(name)]


class DrivenMechanism:
    """A mechanism with forces on its independent coordinates in addition to those of its file."""

    def __init__(
        self,
        name_or_path: str | Path,
        forces: Mapping[str, str] | None = None,
        form: Form | None = None,
        inputs: Mapping[str, str] | None = None,
    ) -> None:
        """`forces`: by coordinate, an expression as in the file of a mechanism.

        `inputs`: by input of the file, an expression of time; the others stay at zero. `form` as of
        `Mechanism.load`. Raises SettingsError, MechanismError, UsageError.
        """
        forces, inputs = forces or {}, inputs or {}
        mechanism = Mechanism.load(name_or_path, form=form)
        self._name, self.mechanism = name_or_path, mechanism
        """The mechanism in its initial state."""
        self._check(forces)
        for name in forces:
            if name not in mechanism.description.coordinate_names():
                raise UsageError(
                    f"{name_or_path}: force on {name}: expected a coordinate that the file names, in `angles` or "
                    "`distances`"
                )
        for name in inputs:
            if name not in (known := mechanism.description.inputs):
                expected = ", ".join(known) or "none"
                raise UsageError(f"{name_or_path}: no input '{name}'; expected {expected}")
        loads = {
            _FORCE_ON + name: CoordinateForce(kind="on_coordinate", coordinate=name, force=text)
            for name, text in forces.items()
        }
        if loads or inputs:
            try:
                self.mechanism = Mechanism.load(name_or_path, form=form, loads=loads, functions=inputs)
            except MechanismError as error:
                if error.key.startswith("functions."):
                    name = error.key.removeprefix("functions.")
                    raise UsageError(f"{name_or_path}: input {name}: {error.message}") from None
                on = error.key.removeprefix(f"forces.{_FORCE_ON}").removesuffix(".force")
                raise UsageError(f"{name_or_path}: force on {on}: {error.message}") from None
        order = list(self.mechanism.description.forces)
        self._rows = {name: order.index(_FORCE_ON + name) for name in forces}

    @property
    def _independent(self) -> list[str]:
        return [self.mechanism.coordinate_names[k] for k in self.mechanism.independent]

    def _check(self, names: Iterable[str]) -> None:
        """Raise UsageError for a name that is not that of an independent coordinate."""
        for name in names:
            if name not in self._independent:
                known = ", ".join(self._independent) or "none"
                raise UsageError(f"{self._name}: no independent coordinate '{name}'; expected {known}")

    def calc_forces(self) -> dict[str, float]:
        """N or N·m, by coordinate, in the present state."""
        loads = self.mechanism.calc_loads()
        return {name: float(loads[row, 0]) for name, row in self._rows.items()}

    def move(self, start: Mapping[str, float], rates: Mapping[str, float]) -> None:
        """Move it to other values (m, rad) and rates of some independent coordinates. Raises UsageError."""
        mechanism = self.mechanism
        z, zd = mechanism.z, mechanism.zd
        for given, values in ((start, z), (rates, zd)):
            self._check(given)
            for name, value in given.items():
                values[self._independent.index(name)] = value
        if not mechanism.set_independent_state(z, zd).converged:
            place = ", ".join(f"{name} = {value:g}" for name, value in start.items())
            raise UsageError(f"{self._name}: it cannot be moved to {place} from the start of its file")


def simulate_motion(
    driven: DrivenMechanism,
    stepper: Stepper,
    duration: float,
    every: float,
    step: float,
    progress: Callable[[float], None] | None = None,
) -> SimulatedMotion:
    """Simulate for `duration` from the present state, with samples at both ends and `every` so many seconds.

    Steps are at most `step` long, a whole number of them between samples. `progress` receives the time, s.
    Raises RunError where a step fails.
    """
    mechanism = driven.mechanism
    count, parts = round(duration / every), max(1, math.ceil(every / step - 1e-9))
    begin, n = mechanism.t, len(mechanism.q)
    t = begin + every * np.arange(count + 1)
    q, qd, qdd = (np.empty((count + 1, n)) for _ in range(3))
    kinetic, potential = np.empty((2, count + 1))
    forces = {name: np.empty(count + 1) for name in driven.calc_forces()}
    violation, unconverged = 0.0, 0
    for k in range(count + 1):
        if k:
            unconverged += _advance(mechanism, stepper, every / parts, parts)
            mechanism.t = float(t[k])  # without accumulated rounding of the steps
        q[k], qd[k], qdd[k] = mechanism.q, mechanism.qd, mechanism.qdd
        kinetic[k], potential[k] = mechanism.calc_kinetic_energy(), mechanism.calc_potential_energy()
        for name, force in driven.calc_forces().items():
            forces[name][k] = force
        violation = max(violation, calc_violation(mechanism))
        if progress is not None:
            progress(float(t[k]) - begin)
    names = list(mechanism.coordinate_names)
    independent = [names[k] for k in mechanism.independent]
    most = float(kinetic.max())
    return SimulatedMotion(
        names, t, q, qd, qdd, independent, forces, kinetic + potential, most, violation, unconverged
    )


def _advance(mechanism: Mechanism, stepper: Stepper, h: float, parts: int) -> int:
    """Advance by `parts` steps of h; returns how many did not reach their tolerance. Raises RunError."""
    missed = 0
    for _ in range(parts):
        begin = mechanism.t
        solution = stepper.step(mechanism, h)
        if not solution.converged:
            missed += 1
            # ALI3-P reports this when it passes a singular position, and continues.
            if not calc_violation(mechanism) <= _LEFT:
                solution.require(f"step at {begin:.6g} s")
    return missed
