"""What of a mechanism's file is identified: masses, places of centres of mass, inertia, springs, dampers, friction.

The equations of motion are linear in unknowns θ: Φ = S θ with the parameters Φ of `Regressor`. A rigid body has its
inertial parameters; a bar is uniform, and a point mass has no extent, so that the mass alone is unknown. What is
massless in the file stays so. The numbers of the file are functions of θ.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg

from vehicled.errors import UsageError
from vehicled.identification import feasible, parameters
from vehicled.identification.base import BaseSet, find_base_by_qr
from vehicled.identification.regressors import Damping, DryFriction, Regressor, Stiffness
from vehicled.identification.symbolic_base import find_symbolic_base
from vehicled.identification.vehicle.yaml_text import Keys
from vehicled.multibody.description import Description
from vehicled.multibody.elements import Rigid, TorsionSpring

_MOMENTS = ((4, 7, 9), (5, 8, 6))
"""Ixx, Iyy, Izz and Ixy, Iyz, Ixz among the inertial parameters: as the keys `inertia` and `products` have them."""


_SPRING_UNITS = {"stiffness": "N/m", "damping": "N·s/m", "friction": "N"}
_TORSION_UNITS = {"stiffness": "N·m/rad", "damping": "N·m·s/rad", "friction": "N·m"}


@dataclass(frozen=True)
class FileQuantity:
    """A number of the file."""

    name: str
    keys: Keys
    place: int | None
    """Which number of the key's value; None: it has one."""
    unit: str

    def get(self, description: Description) -> float:
        """Its value, SI."""
        section, name, key = self.keys
        value = getattr(getattr(description, section)[name], key)
        return float(value if self.place is None else value[self.place])


class MechanismUnknowns:
    """θ (n,) of a mechanism: those of its rigid bodies, then further masses, then springs, dampers and friction."""

    def __init__(self, regressor: Regressor) -> None:
        """Raises UsageError for a mechanism without mass."""
        self.regressor = regressor
        description = regressor.mechanism.description
        inertial = parameters.get_names(regressor.mechanism)
        columns: list[tuple[str, np.ndarray, float]] = []
        masses: list[tuple[str, np.ndarray, float]] = []
        self.sizes: list[int] = []
        """Elements of each rigid body, as for `feasible.estimate_feasible`."""
        self.quantities: list[FileQuantity] = []
        self._rigid: list[int] = []
        scalars: list[FileQuantity] = []
        start = 0
        for (name, body), size in zip(description.bodies.items(), regressor.sizes, strict=True):
            span = range(start, start := start + len(parameters.get_kinds(size)))
            if body.mass == 0.0:
                continue
            if isinstance(body, Rigid):
                self.sizes.append(size)
                self._rigid.append(description.dimension)
                columns += [(inertial[k], _unit(k, regressor), regressor.values[k]) for k in span]
                self.quantities += _list_quantities(name, description.dimension)
            else:
                column = np.zeros(len(regressor.names))
                column[span] = regressor.values[span] / body.mass
                masses.append((f"{name}.mass", column, body.mass))
                scalars.append(FileQuantity(f"{name}.mass", ("bodies", name, "mass"), None, "kg"))
        if not columns and not masses:
            raise UsageError("bodies: expected one at least with a mass")
        for k, further in enumerate(regressor.columns, regressor.inertial):
            assert isinstance(further, (Stiffness, Damping, DryFriction))
            masses.append((further.name, _unit(k, regressor), regressor.values[k]))
            key = further.name.removeprefix(f"{further.spring}.")
            turns = isinstance(description.forces[further.spring], TorsionSpring)
            unit = _TORSION_UNITS[key] if turns else _SPRING_UNITS[key]
            scalars.append(FileQuantity(further.name, ("forces", further.spring, key), None, unit))
        self.inertial = len(columns)
        """Number of unknowns of rigid bodies, which come first."""
        columns += masses
        self.quantities += scalars
        self.names = [name for name, *_ in columns]
        self.matrix = np.column_stack([column for _, column, _ in columns])
        """(p, n) S."""
        self.prior = np.array([value for *_, value in columns])
        """(n,) θ of the file."""
        self.units = feasible.calc_units(self.prior, self.sizes)
        """(n,) in which the standard deviations of the file's values are all alike."""

    @cached_property
    def base(self) -> BaseSet:
        """By the base parameters of the bodies, which follow from the mechanism's joints.

        Springs, dampers and friction count as determined; whether a motion determines them, the data shows.
        """
        inertial = find_symbolic_base(self.regressor.mechanism).base.matrix
        further = len(self.regressor.names) - inertial.shape[1]
        return find_base_by_qr(scipy.linalg.block_diag(inertial, np.eye(further)) @ self.matrix)

    def calc_quantities(self, theta: np.ndarray) -> np.ndarray:
        """The numbers of the file for θ (n,), in the order of `quantities`."""
        parts, start = [], 0
        for dimension in self._rigid:
            parts.append(_calc_body(theta[start : start + len(parameters.INERTIAL)], dimension))
            start += len(parameters.INERTIAL)
        return np.concatenate([*parts, theta[start:]])

    def calc_gradients(self, theta: np.ndarray) -> np.ndarray:
        """(quantities, n) derivatives by θ/units, by central differences."""
        small = 1e-5
        columns = []
        for k, unit in enumerate(self.units):
            step = np.zeros(len(theta))
            step[k] = small * unit
            ends = (self.calc_quantities(theta + step), self.calc_quantities(theta - step))
            columns.append((ends[0] - ends[1]) / (2.0 * small))
        return np.column_stack(columns)


def _unit(k: int, regressor: Regressor) -> np.ndarray:
    column = np.zeros(len(regressor.names))
    column[k] = 1.0
    return column


def _list_quantities(name: str, dimension: int) -> list[FileQuantity]:
    """Of a rigid body, in the order of `_calc_body`."""
    found = [FileQuantity(f"{name}.mass", ("bodies", name, "mass"), None, "kg")]
    for place, axis in enumerate("xyz"[:dimension]):
        keys = ("bodies", name, "center_of_mass")
        found.append(FileQuantity(f"{name}.center_of_mass.{axis}", keys, place, "m"))
    kinds = (
        {"inertia": ("Izz",)}
        if dimension == 2
        else {"inertia": ("Ixx", "Iyy", "Izz"), "products": ("Ixy", "Iyz", "Izx")}
    )
    for key, names in kinds.items():
        for place, kind in enumerate(names):
            found.append(FileQuantity(f"{name}.{kind}", ("bodies", name, key), place, "kg·m²"))
    return found


def _calc_body(values: np.ndarray, dimension: int) -> np.ndarray:
    """Mass, centre of mass and inertia about it, from the inertial parameters (10,) of a body."""
    mass, centre = values[0], values[1:4] / values[0]
    shift = mass * (centre @ centre * np.eye(3) - np.outer(centre, centre))
    about_centre = values[4:] - shift[np.triu_indices(3)]
    moments, products = (about_centre[[k - 4 for k in part]] for part in _MOMENTS)
    if dimension == 2:
        return np.array([mass, *centre[:2], moments[2]])
    return np.array([mass, *centre, *moments, *products])
