"""Forms of coordinates in which a mechanism can be simulated, and the number of operations of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from vehicled.multibody.building import AngleForm, build_model, build_step
from vehicled.multibody.description import Description
from vehicled.multibody.equations import make_residual
from vehicled.multibody.joints import add_angle
from vehicled.multibody.model import MechanismError

Form = Literal["natural", "relative"]
FORMS: tuple[Form, ...] = ("natural", "relative")
_FUNCTIONS = ("sin", "cos", "tanh", "atan", "atan2", "exp")
_FUNCTION = 20
"""Operations that take as long as one sine: 10 to 15 ns against 0.5 to 0.7 ns, measured in steps of linkages."""


@dataclass(frozen=True)
class FormCounts:
    """Size of a form, and its operations: every +, −, ×, ÷ and function call counts one."""

    coordinates: int
    constraints: int
    residual: int
    """Operations of M q̈ + Φ_qᵀ λ − Q and Φ."""
    step: int
    """Operations of one time step with one Newton iteration and one projection of rates and of accelerations."""
    functions: int
    """How many operations of the step are sines, cosines and similar functions."""
    singular: list[str]
    """Bodies with three angles, of a ball joint or free, which are singular after a rotation by 90°."""

    @property
    def cost(self) -> int:
        """Cost of the step, with functions weighted by their time."""
        return self.step + (_FUNCTION - 1) * self.functions


def count_forms(description: Description, angle_form: AngleForm = add_angle) -> dict[Form, FormCounts | str]:
    """Counts of each form, or the reason why it is impossible. Raises MechanismError if no form is possible."""
    found: dict[Form, FormCounts | str] = {}
    failure = None
    for form in FORMS:
        try:
            found[form] = _count(replace(description, coordinates=form), angle_form)
        except MechanismError as error:
            found[form], failure = str(error), failure or error
    if failure is not None and not any(isinstance(f, FormCounts) for f in found.values()):
        raise failure
    return found


def choose_form(description: Description, angle_form: AngleForm = add_angle) -> Form:
    """The form without singular angles whose step takes fewer operations, weighted as in `FormCounts.cost`.

    Raises MechanismError as `count_forms`.
    """
    return choose_counted(count_forms(description, angle_form))


def choose_counted(counts: Mapping[Form, FormCounts | str]) -> Form:
    """Choose as `choose_form`, from the result of `count_forms`; natural if both cost the same."""
    built = {form: c for form, c in counts.items() if isinstance(c, FormCounts)}
    return min(built, key=lambda form: (bool(built[form].singular), built[form].cost))


def _count(description: Description, angle_form: AngleForm) -> FormCounts:
    model = build_model(description, angle_form)
    program, system = model.program, model.system
    step = build_step(model)
    residual = make_residual(system, step.multipliers)
    handle = program.kernel("residual", zip(program.array("residual", len(residual)), residual, strict=True))
    program.store("parameters", list(model.symbols.values()))
    program.finish(model.symbols.values())
    k = step.kernels
    parts = (k.predict, k.factor, k.iterate, k.recover, k.project_velocity, k.project_acceleration)
    kinds = [program.kernels[part].operations() for part in parts]
    return FormCounts(
        len(system.coordinates),
        len(system.constraints),
        sum(program.kernels[handle].operations().values()),
        sum(sum(k.values()) for k in kinds),
        sum(k.get(name, 0) for k in kinds for name in _FUNCTIONS),
        list(model.name_pitches()),
    )
