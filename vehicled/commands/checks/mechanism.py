"""A mechanism as `vehicled check` describes it: its parts and freedoms, and the operations of its forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vehicled.multibody.checks import MechanismTopology
    from vehicled.multibody.mechanism import Mechanism
    from vehicled.vehicle.topology import CarTopology

STAGES = ("equations", "motions", "operations")
"""What `describe_mechanism` finds one after the other; for a car each takes about a second or more."""


def describe_mechanism(
    name_or_path: str, step: float, integrator: str, begin: Callable[[int], None]
) -> dict[str, Any]:
    """The JSON object of the mechanism of a file, or of the car of a configuration, and of a time step, s.

    `begin` receives the index in STAGES of what begins. Raises SettingsError.
    """
    import dataclasses

    from vehicled.multibody.checks import calc_topology
    from vehicled.multibody.forms import choose_counted, count_form, count_forms
    from vehicled.multibody.reactions import find_undetermined_components
    from vehicled.multibody.step_length import find_fast_motion

    begin(0)
    mechanism = _load(name_or_path)
    begin(1)
    topology = calc_topology(mechanism)
    formulation = "ali3p" if integrator == "trapezoidal" else "matrix_r"
    fast = find_fast_motion(mechanism, step, formulation, integrator)
    doubts = [] if fast is None else [{"key": "step", "text": fast.describe(step)}]
    undetermined = find_undetermined_components(mechanism)
    begin(2)
    compiled = mechanism.compiled
    forms = count_forms(mechanism.description, built=count_form(compiled.model, compiled.step))
    return {
        **count_parts(topology),
        "sensors": [],
        "body_names": topology.bodies,
        "coordinate_names": topology.coordinates,
        "independent": topology.independent,
        "redundant": topology.redundant,
        "undetermined_reactions": list(undetermined),
        "undetermined_components": undetermined,
        "form": mechanism.description.coordinates,
        "auto": choose_counted(forms),
        "forms": {
            form: {"refused": found}
            if isinstance(found, str)
            else {**dataclasses.asdict(found), "cost": found.cost}
            for form, found in forms.items()
        },
        "doubtful": doubts,
    }


def _load(name_or_path: str) -> Mechanism:
    """The mechanism of a mechanism's file, or of the car of a configuration."""
    from vehicled.multibody.files import is_mechanism
    from vehicled.multibody.mechanism import Mechanism

    if is_mechanism(name_or_path):
        return Mechanism.load(name_or_path)
    from vehicled.configuration import load_configuration
    from vehicled.multibody.compiled import CompiledMechanism
    from vehicled.vehicle.car import Car
    from vehicled.vehicle.mechanism import describe_car

    car = Car(load_configuration(name_or_path).vehicle)
    return Mechanism(CompiledMechanism(describe_car(car), optimisation=0))


def count_parts(topology: CarTopology | MechanismTopology) -> dict[str, int]:
    """Keys of the JSON object that cars and mechanisms have in common."""
    return {
        "bodies": len(topology.bodies),
        "coordinates": len(topology.coordinates),
        "constraints": len(topology.constraints),
        "rank": topology.rank,
        "dof": topology.degrees_of_freedom,
    }


def make_lines(found: dict[str, Any]) -> list[str]:
    """The lines of a description, for a terminal."""
    rows = [
        ("bodies", f"{found['bodies']}: {', '.join(found['body_names'])}"),
        ("coordinates", f"{found['coordinates']}: {', '.join(_gather_axes(found['coordinate_names']))}"),
        ("constraints", f"{found['constraints']}, of rank {found['rank']}"),
        ("redundant", "; ".join(found["redundant"]) or "none"),
        ("reactions", _reactions_text(found["undetermined_components"])),
        ("degrees of freedom", f"{found['dof']} = {found['coordinates']} − {found['rank']}"),
        ("independent", ", ".join(found["independent"]) or "none"),
        *((f"{form} coordinates", _form_text(counts)) for form, counts in found["forms"].items()),
        ("auto would take", f"{found['auto']} coordinates"),
        ("in use", f"{found['form']} coordinates"),
    ]
    lines = [f"{name:<20} {value}" for name, value in rows]
    return lines + [describe_doubt(doubt) for doubt in found["doubtful"]]


def _reactions_text(undetermined: dict[str, list[str]]) -> str:
    if not undetermined:
        return "determined"
    texts = []
    for name, components in undetermined.items():
        kinds = [(k, "".join(c[-1] for c in components if c.startswith(k))) for k in ("force", "torque")]
        texts.append(f"{name} ({', '.join(f'{kind} {axes}' for kind, axes in kinds if axes)})")
    return f"not determined at {', '.join(texts)}: least squares, one of many solutions"


def _gather_axes(names: list[str]) -> list[str]:
    """Join `P.x`, `P.y`, `P.z` to `P.xyz`."""
    axes: dict[str, str] = {}
    for name in names:
        head, _, axis = name.rpartition(".")
        in_parts = bool(head) and axis in ("x", "y", "z")
        axes[head if in_parts else name] = axes.get(head, "") + axis if in_parts else ""
    return [f"{name}.{found}" if found else name for name, found in axes.items()]


def _form_text(counts: dict[str, Any]) -> str:
    if "refused" in counts:
        return f"none: {counts['refused']}"
    return (
        f"{counts['coordinates']}, {counts['constraints']} constraints; operations: residual "
        f"{counts['residual']:,}, step {counts['step']:,} with {counts['functions']} functions, "
        f"weighted {counts['cost']:,}"
        + (
            f"; singular where {', '.join(counts['singular'])} turns by 90° about y"
            if counts["singular"]
            else ""
        )
    )


def describe_doubt(doubt: dict[str, str]) -> str:
    """One line of what is probably wrong."""
    return f"doubtful: {doubt['key']}: {doubt['text']}"
