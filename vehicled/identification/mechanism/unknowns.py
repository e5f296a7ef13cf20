"""The identified numbers of a mechanism's file: masses, centres of mass, inertia, springs, dampers, friction.

The equations of motion are linear in unknowns θ: Φ = S θ with the parameters Φ of `Regressor`. A rigid body
has its inertial parameters; a bar is uniform, and a point mass has no extent, so that only their mass is
unknown. A body that is massless in the file stays so. The numbers of the file are functions of θ.

The moments of a rigid body in θ are those about its centre of mass in the file. About the origin of its axes
they would grow with its distance, and so would the file's standard deviations: a body whose points are given
by name has its axes at the ground's origin, which may be anywhere. With this choice, mass and centre of mass,
and centre of mass and inertia, are independent near the file's values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
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
"""Ixx, Iyy, Izz and Ixy, Iyz, Ixz among the inertial parameters, in the order of the keys `inertia` and
`products`."""
_CANCELLED = 1e-12
"""Share of a body's moments about its axes' origin below which a moment about its centre of mass is zero, as
for a point."""
_DEPENDENT = 1e-11
"""Size of a combination of base parameters below which it is zero."""
_ROUNDING = 1e-7
"""Share of an unknown in a base parameter below which it is zero: bodies may be far from the origin of their
axes."""
_SPRING_UNITS = {"stiffness": "N/m", "damping": "N·s/m", "friction": "N"}
_TORSION_UNITS = {"stiffness": "N·m/rad", "damping": "N·m·s/rad", "friction": "N·m"}


@dataclass(frozen=True)
class FileQuantity:
    """A number of the file."""

    name: str
    keys: Keys
    place: int | None
    """Index of the number in the key's value; None if the value is a single number."""
    unit: str

    def get(self, description: Description) -> float:
        """Value of the quantity in a description, SI."""
        section, name, key = self.keys
        value = getattr(getattr(description, section)[name], key)
        return float(value if self.place is None else value[self.place])


class MechanismUnknowns:
    """θ (n,) of a mechanism: of its rigid bodies, then further masses, then springs, dampers and friction."""

    def __init__(self, regressor: Regressor) -> None:
        """Raises UsageError for a mechanism without mass."""
        self.regressor = regressor
        description = regressor.mechanism.description
        inertial = parameters.get_names(regressor.mechanism)
        columns: list[tuple[str, np.ndarray, float]] = []
        masses: list[tuple[str, np.ndarray, float]] = []
        self.sizes: list[int] = []
        """Number of elements of each rigid body, as for `feasible.estimate_feasible`."""
        self.quantities: list[FileQuantity] = []
        self.bodies: list[range] = []
        """Unknowns of each rigid body: mass, three first moments, six of inertia."""
        self._centres: list[np.ndarray] = []
        scalars: list[FileQuantity] = []
        start = 0
        for (name, body), size in zip(description.bodies.items(), regressor.sizes, strict=True):
            span = range(start, start := start + len(parameters.get_kinds(size)))
            if body.mass == 0.0:
                continue
            if isinstance(body, Rigid):
                self.sizes.append(size)
                self.bodies.append(range(len(columns), len(columns) + len(span)))
                values = regressor.values[span]
                self._centres.append(values[1:4] / values[0])
                shift = parameters.calc_shift(self._centres[-1])
                about_centre = np.zeros((len(regressor.names), len(span)))
                about_centre[span] = shift
                prior = np.linalg.solve(shift, values)
                prior[np.abs(prior) < _CANCELLED * (np.abs(shift) @ np.abs(values))] = 0.0
                columns += zip((inertial[k] for k in span), about_centre.T, prior, strict=True)
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
        self.units = self.calc_units(self.prior)
        """(n,) units in which all standard deviations of the file's values are equal."""

    def calc_units(self, theta: np.ndarray) -> np.ndarray:
        """(n,) `units` for a file with these θ (n,)."""
        return feasible.calc_units(theta, self.sizes)

    @cached_property
    def base(self) -> BaseSet:
        """Base parameters in terms of θ, from those of the bodies, which follow from the mechanism's joints.

        Springs, dampers and friction count as determined; the data shows whether a motion determines them.
        """
        inertial = find_symbolic_base(self.regressor.mechanism).base.matrix
        further = len(self.regressor.names) - inertial.shape[1]
        rows = scipy.linalg.block_diag(inertial, np.eye(further)) @ self.matrix * self.units
        lengths = np.linalg.norm(rows, axis=1)
        rows = rows[lengths > 0.0] / lengths[lengths > 0.0, None]
        # Unlike these combinations, their span does not depend on the origin of a body's axes.
        span = _without_rounding(scipy.linalg.orth(rows.T, _DEPENDENT).T)
        found = find_base_by_qr(span, len(span))
        units = self.units[found.independent][:, None] / self.units[found.dependent]
        return replace(found, beta=_without_rounding(found.beta) * units)

    def calc_quantities(self, theta: np.ndarray) -> np.ndarray:
        """The numbers of the file for θ (n,), in the order of `quantities`."""
        dimension = self.regressor.mechanism.description.dimension
        parts = [
            _calc_body(theta[body], centre, dimension)
            for body, centre in zip(self.bodies, self._centres, strict=True)
        ]
        return np.concatenate([*parts, theta[self.inertial :]])

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


def _without_rounding(values: np.ndarray) -> np.ndarray:
    return np.where(np.abs(values) > _ROUNDING, values, 0.0)


def _unit(k: int, regressor: Regressor) -> np.ndarray:
    column = np.zeros(len(regressor.names))
    column[k] = 1.0
    return column


def _list_quantities(name: str, dimension: int) -> list[FileQuantity]:
    """Quantities of a rigid body, in the order of `_calc_body`."""
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


def _calc_body(values: np.ndarray, place: np.ndarray, dimension: int) -> np.ndarray:
    """Mass, centre of mass and inertia about it, from the inertial parameters (10,) of a body about a place (3,)."""
    mass, away = values[0], values[1:4] / values[0]
    shift = mass * (away @ away * np.eye(3) - np.outer(away, away))
    about_centre = values[4:] - shift[np.triu_indices(3)]
    centre = place + away
    moments, products = (about_centre[[k - 4 for k in part]] for part in _MOMENTS)
    if dimension == 2:
        return np.array([mass, *centre[:2], moments[2]])
    return np.array([mass, *centre, *moments, *products])
