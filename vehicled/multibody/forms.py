"""Forms of coordinates in which a mechanism can be simulated, and the number of operations of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from vehicled.multibody.ali3p import Ali3pStep
from vehicled.multibody.building import AngleForm, build_model, build_step
from vehicled.multibody.description import Description
from vehicled.multibody.equations import make_residual
from vehicled.multibody.joints import add_angle
from vehicled.multibody.model import MechanismError, Model
from vehicled.symbolic.graph import Atom

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


def count_forms(
    description: Description, angle_form: AngleForm = add_angle, built: FormCounts | None = None
) -> dict[Form, FormCounts | str]:
    """Counts of each form, or the reason why it is impossible. Raises MechanismError if no form is possible.

    `built`: counts of the description's own form, if they are known.
    """
    found: dict[Form, FormCounts | str] = {}
    failure = None
    for form in FORMS:
        if built is not None and form == description.coordinates:
            found[form] = built
            continue
        try:
            model = build_model(replace(description, coordinates=form), angle_form)
            found[form] = count_form(model, build_step(model))
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


def count_form(model: Model, step: Ali3pStep) -> FormCounts:
    """Counts of a model with its time step, whose program may be finished."""
    system, k = model.system, step.kernels
    parts = (k.predict, k.factor, k.iterate, k.recover, k.project_velocity, k.project_acceleration)
    kinds = [_count_operations(model, model.program.outputs(part)) for part in parts]
    return FormCounts(
        len(system.coordinates),
        len(system.constraints),
        _count_operations(model, make_residual(system, step.multipliers)).total(),
        sum(k.total() for k in kinds),
        sum(k[name] for k in kinds for name in _FUNCTIONS),
        list(model.name_pitches()),
    )


def _count_operations(model: Model, outputs: Sequence[Atom]) -> Counter[str]:
    """Operations by kind, without those on parameters alone: these are not part of a step (`Program.finish`)."""
    parameters = 0
    for symbol in model.symbols.values():
        parameters |= symbol.depends
    return Counter(a.op for a in model.graph.reachable(outputs, ~parameters) if a.args)
