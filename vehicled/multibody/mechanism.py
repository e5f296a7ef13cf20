"""A mechanism that runs: an instance that is assembled and can be brought to a state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from vehicled.errors import UsageError
from vehicled.multibody import checks, problems
from vehicled.multibody.compiled import CompiledMechanism, Extension
from vehicled.multibody.description import Description, load_description, parse_description
from vehicled.multibody.forms import FORMS, Form
from vehicled.multibody.instance import MechanismInstance
from vehicled.multibody.model import MechanismError


class Mechanism(MechanismInstance):
    """An instance whose constraints are met."""

    def __init__(self, compiled: CompiledMechanism) -> None:
        """Assembled at its start, at rest but for the rates given.

        Raises MechanismError, naming the body or joint, when it cannot be assembled or its equations have no unique
        solution.
        """
        super().__init__(compiled)
        checks.assemble_at_start(self)

    @classmethod
    def load(
        cls, name_or_path: str | Path, extensions: Sequence[Extension] = (), form: Form | None = None
    ) -> Mechanism:
        """The mechanism in a file, or the shipped one of that name.

        `extensions`: further kernels, such as those of a `SensorSet`. `form`: in place of the file's `coordinates`.
        Raises SettingsError, MechanismError; UsageError for a form that there is not.
        """
        if form is not None and form not in FORMS:
            raise UsageError(f"form: expected {' or '.join(FORMS)}, got {form!r}")
        description = load_description(name_or_path)
        if form is not None:
            description = replace(description, coordinates=form)
        return cls._build(description, extensions, str(name_or_path))

    @classmethod
    def parse(cls, text: str, extensions: Sequence[Extension] = ()) -> Mechanism:
        """As `load`, from the text of such a file."""
        return cls._build(parse_description(text), extensions, "mechanism")

    @classmethod
    def _build(cls, description: Description, extensions: Sequence[Extension], name: str) -> Mechanism:
        try:
            return cls(CompiledMechanism(description, extensions))
        except MechanismError as error:
            raise MechanismError(f"{name}: {error}") from None

    def set_independent_state(self, z: np.ndarray, zd: np.ndarray) -> problems.Solution:
        """Bring the mechanism to z, ż with all that follows from them: q, q̇, q̈, λ."""
        solution = problems.solve_position(self, z)
        if solution.converged:
            problems.solve_velocity(self, zd)
            problems.solve_dynamics(self)
        return solution
