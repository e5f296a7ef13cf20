"""A mechanism ready to run: an instance that is assembled and can be set to a state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import numpy as np

from vehicled.errors import UsageError
from vehicled.multibody import checks, problems
from vehicled.multibody.compiled import CompiledMechanism, Extension
from vehicled.multibody.description import Description
from vehicled.multibody.elements import Load
from vehicled.multibody.files import mechanism_path
from vehicled.multibody.forms import FORMS, Form
from vehicled.multibody.instance import MechanismInstance
from vehicled.multibody.model import MechanismError
from vehicled.reading import settings


class Mechanism(MechanismInstance):
    """An instance whose constraints are met."""

    def __init__(self, compiled: CompiledMechanism) -> None:
        """Assemble at the start, at rest except for the given rates.

        Raises MechanismError, naming the body or joint, if it cannot be assembled or its equations have no
        unique solution.
        """
        super().__init__(compiled)
        checks.assemble_at_start(self)

    @classmethod
    def load(
        cls,
        name_or_path: str | Path,
        extensions: Sequence[Extension] = (),
        form: Form | None = None,
        loads: Mapping[str, Load] | None = None,
        functions: Mapping[str, str] | None = None,
    ) -> Mechanism:
        """The mechanism in a file, or the shipped one of that name.

        `extensions`: further kernels, such as those of a `SensorSet`. `form`: replaces the file's
        `coordinates`. `loads`: further forces, by names that the file's do not have; an error in one has the
        key `forces.NAME.…`. `functions`: expressions of time in place of `inputs` of the file; an error in one
        has the key `functions.NAME`. Raises SettingsError, MechanismError; UsageError for an unknown form.
        """
        if form is not None and form not in FORMS:
            raise UsageError(f"form: expected {' or '.join(FORMS)}, got {form!r}")
        path = mechanism_path(name_or_path)
        file = settings.document(settings.read(path), str(path))
        return cls._build(file, extensions, form, str(name_or_path), loads or {}, functions or {})

    @classmethod
    def parse(cls, text: str, extensions: Sequence[Extension] = ()) -> Mechanism:
        """As `load`, from the text of such a file."""
        return cls._build(settings.document(text, "mechanism"), extensions, None, "mechanism")

    @classmethod
    def _build(
        cls,
        file: settings.Deferred,
        extensions: Sequence[Extension],
        form: Form | None,
        name: str,
        loads: Mapping[str, Load] = MappingProxyType({}),
        functions: Mapping[str, str] = MappingProxyType({}),
    ) -> Mechanism:
        if (car := file.parts().get("vehicle")) is not None:
            car.fail(
                "expected a mechanism; this file is the configuration of a car, which `vehicled codegen --language "
                "yaml` writes as one"
            )
        description = file.to(Description)
        if form is not None:
            description = replace(description, coordinates=form)
        if loads or functions:
            description = replace(
                description,
                forces={**description.forces, **loads},
                inputs=[name for name in description.inputs if name not in functions],
                functions={**description.functions, **functions},
            )
        try:
            return cls(CompiledMechanism(description, extensions))
        except MechanismError as error:
            of_load = any(error.key.startswith(f"forces.{load}.") for load in loads)
            if of_load or error.key in (f"functions.{name}" for name in functions):
                raise  # not part of the file
            if error.key or error.part:
                file.fail(error.message, below=error.key or error.part)
            raise MechanismError(f"{name}: {error}") from None

    def set_independent_state(self, z: np.ndarray, zd: np.ndarray) -> problems.Solution:
        """Set z, ż (f,), and q, q̇, q̈, λ that follow from them.

        Raises UsageError if their number differs from that of the independent coordinates.
        """
        for name, values in (("z", z), ("ż", zd)):
            if np.shape(values) != self.independent.shape:
                names = ", ".join(self.coordinate_names[k] for k in self.independent) or "none"
                raise UsageError(
                    f"{name}: expected {len(self.independent)} ({names}), got shape {np.shape(values)}"
                )
        solution = problems.solve_position(self, z)
        if solution.converged:
            problems.solve_velocity(self, zd)
            problems.solve_dynamics(self)
        return solution
