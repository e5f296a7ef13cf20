"""From a description to the atoms of its model, in natural or in relative coordinates, and of its time step."""

from __future__ import annotations

from collections.abc import Callable

from vehicled.multibody import ali3p
from vehicled.multibody.bodies import add_bodies
from vehicled.multibody.description import Description
from vehicled.multibody.dimensions import name_coordinate_units
from vehicled.multibody.elements import Angle, Universal
from vehicled.multibody.joints import add_angle, add_distance, add_drive, add_joint, add_sides
from vehicled.multibody.loads import add_load
from vehicled.multibody.model import MechanismError, Model
from vehicled.multibody.relative_bodies import add_tree
from vehicled.multibody.relative_model import RelativeModel
from vehicled.reading.number_faults import find_fault

AngleForm = Callable[[Model, str, Angle], None]
"""A function that adds the coordinate of an angle, its constraint and its sides (`Model.sines`)."""


def build_model(description: Description, angle_form: AngleForm = add_angle, width: int = 1) -> Model:
    """The mechanism as atoms, in natural or relative coordinates. Raises MechanismError."""
    _refuse_faults(description)
    model: Model
    if description.coordinates == "relative":
        model = RelativeModel(description, width)
        add_tree(model)
    else:
        model = Model(description, width)
        add_bodies(model)
    system = model.system
    of_joints = {c.name for c in system.coordinates}
    model.rigid_constraints = len(system.constraints)
    for name, angle in description.angles.items():
        if name in of_joints:
            add_sides(model, name, angle)
        else:
            angle_form(model, name, angle)
    for name, distance in description.distances.items():
        if name not in of_joints:
            add_distance(model, name, distance)
    for name, joint in description.joints.items():
        if name not in model.met or isinstance(joint, Universal):
            add_joint(model, name, joint)
    for name, drive in description.drives.items():
        add_drive(model, name, drive)
    for name, load in description.forces.items():
        add_load(model, name, load)
    model.complete()
    applied = model.program.array("applied", len(system.coordinates))
    for c, force in zip(system.coordinates, applied, strict=True):
        system.generalised_force(c, force)
    return model


def build_step(model: Model) -> ali3p.Ali3pStep:
    """Kernels of the time step, with a penalty per constraint and a switch per coordinate that holds it."""
    program, system = model.program, model.system
    ali3p.declare_state(program, system)
    penalties = program.array("penalties", len(system.constraints))
    numbers = [iter(program.array("holds", 4 * len(system.coordinates)))] * 4
    holds = {c: ali3p.Hold(*h) for c, h in zip(system.coordinates, zip(*numbers, strict=True), strict=True)}
    (inverse_size,) = program.array("inverse_size", 1)
    units = name_coordinate_units(system, model.name_angles())
    lengths = frozenset(c for c, unit in zip(system.coordinates, units, strict=True) if unit == "m")
    return ali3p.build(program, system, model.h, penalties, holds, lengths=(lengths, inverse_size))


def _refuse_faults(description: Description) -> None:
    """Refuse a description with faults: those from a file were checked, those made in a program were not."""
    if fault := find_fault(description):
        raise MechanismError(fault)
