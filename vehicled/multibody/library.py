"""A mechanism as source code for other programs: its functions, with names, shapes and units of their arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import fill

import numpy as np

from vehicled.multibody.description import Description, load_description
from vehicled.multibody.dimensions import name_conjugate, name_coordinate_units, name_units
from vehicled.multibody.elements import Bar, PointMass, Rigid
from vehicled.multibody.equations import UNKNOWNS, add_equations
from vehicled.multibody.formulations import Ali3p, calc_penalty
from vehicled.multibody.mechanism import Mechanism
from vehicled.multibody.model import Model
from vehicled.multibody.sensors import Accelerometer, Encoder, Gyroscope, Position, Sensor, SensorSet
from vehicled.symbolic.library import ArrayText, Library
from vehicled.symbolic.program import KernelHandle
from vehicled.symbolic.text import library_name
from vehicled.version import __version__

_STEP = 1e-3
"""Initial time step of generated code, s."""

PREPARE = "What depends on the parameters alone: to be called after they have been changed."

_FUNCTIONS = {
    "prepare": PREPARE,
    "residual": "M q̈ + Φ_qᵀ λ − Q, and Φ: zero in a motion of the mechanism.",
    "tangent": "Derivatives of the residual by q, q̇, q̈ and λ.",
    "constraints": "Φ(q, t).",
    "jacobian": "Φ_q.",
    "jacobian_rate": "dΦ_q/dt.",
    "drift": "Φ_t: Φ̇ = Φ_q q̇ + Φ_t.",
    "gamma": "γ(q, q̇, t): Φ_q q̈ = γ.",
    "mass": "M.",
    "forces": "Q(q, q̇, t), without those of constraints.",
    "forces_by_q": "∂Q/∂q.",
    "forces_by_qd": "∂Q/∂q̇.",
    "energy": "Kinetic and potential energy.",
    "point_position": "Places of all points.",
    "point_velocity": "Velocities of all points.",
    "point_acceleration": "Accelerations of all points.",
}

_WIDTH = 112
"""Number of characters of a line of text."""


def make_library(name_or_path: str | Path) -> Library:
    """Library of the mechanism in a file, or of the shipped one of that name, assembled at its start.

    Raises SettingsError, MechanismError.
    """
    description = load_description(name_or_path)
    sets = [SensorSet(found, kind) for kind, found in _find_sensors(description).items() if found]
    mechanism = Mechanism.load(name_or_path, (add_equations, *sets))
    compiled = mechanism.compiled
    name = library_name(Path(name_or_path).stem)
    functions = {KernelHandle(kernel): text for kernel, text in _FUNCTIONS.items()}
    for s in sets:
        functions[KernelHandle(s.name)] = f"What {s.name} read."
        functions[KernelHandle(f"{s.name}_jacobians")] = f"Derivatives of what {s.name} read, by q, q̇ and q̈."
    usual = Ali3p()
    step = describe_step(
        "Set step and penalties, add the step to time, which is then the end of the step, and call this",
        f"limit {usual.limit}, tolerance ({usual.tolerance:g} max(1, |q|))^2 with |q| as that of its change, "
        f"large {usual.large**2:g}, passes {usual.projections}",
    )
    values = {
        "parameters": np.array(list(compiled.parameters.values())),
        **{part: mechanism.view(part).copy() for part in ("q", "qd", "qdd", "lambda", "time")},
        "step": np.array([_STEP]),
        "penalties": calc_penalty(mechanism, _STEP),
        "inverse_size": mechanism.view("inverse_size").copy(),
    }
    n, m = len(compiled.coordinates), len(compiled.constraints)
    title = [
        f"{name}: {len(compiled.bodies)} bodies, n = {n} coordinates, m = {m} constraints.",
        "M q̈ + Φ_qᵀ λ = Q(q, q̇, t), Φ(q, t) = 0. SI units and radians.",
        f"Written by vehicled {__version__}.",
    ]
    arrays = dict(_describe(mechanism, sets))
    return Library(name, title, compiled.program, functions, {compiled.step.routine: step}, arrays, values)


def describe_step(how: str, arguments: str) -> str:
    """Lines of text on the routine of a time step; `how` to call it, and the arguments that this program uses."""
    return fill(
        f"One time step by an augmented Lagrangian of index 3 with projections (trapezoidal rule). {how}. tolerance "
        "and large are squares of |change of q|: below the first an iteration is the last one, above the second the "
        "tangent is factorised again; passes: projections of rates. Returns the number of iterations, negative where "
        f"the tolerance was not reached. In use here: {arguments}.",
        _WIDTH,
    )


def _find_sensors(description: Description) -> dict[str, list[Sensor]]:
    """Every sensor that a mechanism can have, by kind. Standard deviations are not part of the code."""
    segments = [
        body.points if isinstance(body, Bar) else tuple(body.points)[:2]
        for body in description.bodies.values()
        if not isinstance(body, PointMass) and len(body.points) > 1
    ]
    lines = [(first, second) for first, second in segments]
    markers = [m for body in description.bodies.values() if isinstance(body, Rigid) for m in body.markers]
    return {
        "encoders": [Encoder(name, 1.0) for name in (*description.angles, *description.distances)],
        "gyroscopes": [Gyroscope(line, 1.0) for line in lines if description.dimension == 2],
        "accelerometers": [Accelerometer(line[1], line, 1.0) for line in lines],
        "positions": [Position(point, 1.0) for point in (*description.points, *markers)],
    }


def _describe(mechanism: Mechanism, sets: Sequence[SensorSet]) -> Iterator[tuple[str, ArrayText]]:
    compiled, model = mechanism.compiled, mechanism.compiled.model
    names, of_coordinates = (
        compiled.coordinates,
        name_coordinate_units(model.system, model.name_angles()),
    )
    n, m = len(names), len(compiled.constraints)

    def coordinates(text: str, units: Sequence[str]) -> ArrayText:
        return ArrayText(text, (), [f"{name}, {u}" for name, u in zip(names, units, strict=True)])

    forces = [name_conjugate(u) for u in of_coordinates]
    known = {a: model.units[name] for name, a in model.symbols.items()} | {model.t: "s"}
    known |= {c.q: unit for c, unit in zip(model.system.coordinates, of_coordinates, strict=True)}
    of_constraints = name_units([phi for _, phi in model.system.constraints], known)
    phi = [
        f"{c}, {u or 'as its expression'}" for c, u in zip(compiled.constraints, of_constraints, strict=True)
    ]
    work = [f"{c}, {'N·m per unit of it' if u is None else name_conjugate(u)}"
            for c, u in zip(compiled.constraints, of_constraints, strict=True)]  # fmt: skip
    inputs = [
        f"{i}{rate}" for i in model.inputs for rate in (", as in its file", "'s rate", "'s acceleration")
    ]
    yield "parameters", ArrayText("Parameters", (), [f"{p}, {model.units[p]}" for p in compiled.parameters])
    yield "time", ArrayText("t, s")
    yield "step", ArrayText("h, s: the time step")
    yield (
        "inverse_size",
        ArrayText("1/m: one over the size of the mechanism; |change of q| has lengths times this"),
    )
    yield "inputs", ArrayText("Functions of time that the caller gives", (), inputs)
    yield "q", coordinates("q: coordinates", of_coordinates)
    yield "qd", coordinates("q̇: their rates", [f"{u}/s" for u in of_coordinates])
    yield "qdd", coordinates("q̈: their accelerations", [f"{u}/s²" for u in of_coordinates])
    yield "applied", coordinates("Further generalised forces that the caller gives: part of Q", forces)
    yield "forces", coordinates("Q: generalised forces", forces)
    yield "lambda", ArrayText("λ: multipliers of the constraints", (), work)
    yield "penalties", ArrayText(f"α of each constraint, for step {_STEP:g} s; goes with 1/h²")
    yield "constraints", ArrayText("Φ", (), phi)
    yield "phi", ArrayText("Φ at the end of a step, as constraints")
    yield "drift", ArrayText("Φ_t: units of Φ per s")
    yield "gamma", ArrayText("γ: units of Φ per s²")
    yield "residual", ArrayText("Residual", (), [*coordinates("", forces).elements, *phi])
    for name, wide, by in zip(UNKNOWNS, (n, n, n, m), ("q", "q̇", "q̈", "λ"), strict=True):
        text = f"∂residual/∂{by}: unit of the row's residual over that of the column's {by}"
        yield f"residual_by_{name}", ArrayText(text, (n + m, wide))
    yield (
        "jacobian",
        ArrayText("Φ_q: unit of the row's constraint over that of the column's coordinate", (m, n)),
    )
    yield "jacobian_rate", ArrayText("dΦ_q/dt: as jacobian, per s", (m, n))
    yield "mass", ArrayText("M: unit of the row's force over that of the column's q̈", (n, n))
    yield "forces_by_q", ArrayText("∂Q/∂q: unit of the row's force over that of the column's q", (n, n))
    yield "forces_by_qd", ArrayText("∂Q/∂q̇: unit of the row's force over that of the column's q̇", (n, n))
    yield "energy", ArrayText("Energy", (), ["kinetic, J", "potential, of gravity and springs, J"])
    for part, unit in (("position", "m"), ("velocity", "m/s"), ("acceleration", "m/s²")):
        elements = [f"{p}.{axis}, {unit}" for p in compiled.points for axis in "xyz"]
        yield f"point_{part}", ArrayText(f"{part.capitalize()} of points, in the ground's axes", (), elements)
    for s in sets:
        readings = [line for sensor in s.sensors for line in _readings(model, sensor)]
        yield s.name, ArrayText(f"Readings of {s.name}", (), readings)
        for by, symbol in (("q", "q"), ("qd", "q̇"), ("qdd", "q̈")):
            text = (
                f"Their derivatives by {symbol}: unit of the row's reading over that of the column's {symbol}"
            )
            yield f"{s.name}_by_{by}", ArrayText(text, (len(readings), n))


def _readings(model: Model, sensor: Sensor) -> list[str]:
    match sensor:
        case Encoder(coordinate):
            return [f"{coordinate}, {'rad' if coordinate in model.description.angles else 'm'}"]
        case Gyroscope((start, end)):
            return [f"rate of the line {start}–{end}, rad/s"]
        case Accelerometer(point, (start, end)):
            return [f"specific force at {point} along {start}–{end}, m/s²"]
        case Position(point):
            return [f"{point}.{axis}, m" for axis in "xyz"[: model.dimension]]
    raise ValueError(f"{type(sensor).__name__} has no text")
