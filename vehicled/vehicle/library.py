"""A car as source code for other programs: its functions, with names and units of their arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatch

import numpy as np

from vehicled.messages import WHEELS
from vehicled.multibody.dimensions import name_conjugate, name_coordinate_units, name_units
from vehicled.multibody.library import PREPARE, describe_step
from vehicled.symbolic.library import ArrayText, Library
from vehicled.symbolic.program import KernelHandle
from vehicled.vehicle.arrays import (
    ADJUSTMENTS,
    ANTENNA,
    CORNER_INPUTS,
    CORNER_OUTPUTS,
    IMU,
    INPUTS,
    MOUNTING,
    POSE,
    R_IMU,
    ROOT_OUTPUTS,
)
from vehicled.vehicle.car import PENALTY, STATE, Car
from vehicled.vehicle.equations import EQUATIONS, UNKNOWNS
from vehicled.vehicle.model import VehicleProgram, build
from vehicled.vehicle.parameters import Vehicle
from vehicled.vehicle.sensor_models import SENSOR_KERNELS
from vehicled.version import __version__

_STEP = 4e-3
"""s: initial time step in the generated code."""

_FUNCTIONS = {
    "prepare": PREPARE,
    "residual": "M q̈ + Φ_qᵀ λ − Q, and Φ: zero in a motion of the car. Forces are those at the end of a step.",
    "tangent": "Change of the residual with a change of q, q̇, q̈ and λ: its derivative in that direction.",
    "report": "Outputs of the present state.",
    "energy": "Kinetic, gravitational and elastic energy.",
    "observe_pose": "Pose of the chassis, which sensor models read.",
    "gnss_position": "What an antenna receives: east, north, up, m.",
    "gnss_speed": "Speed over ground of the antenna, m/s.",
    "gnss_course": "Course over ground of the antenna, rad clockwise from north.",
    "imu_gyro": "Angular velocity in axes of the IMU, rad/s.",
    "imu_accelerometer": "Specific force in axes of the IMU, m/s².",
    "body_velocity": "Velocity ahead and to the left, m/s, and sideslip, rad.",
}

_STEP_TEXT = describe_step(
    "Set inputs, then call this",
    f"limit {Car.iteration_limit}, tolerance {Car.tolerance**2:g}, large {Car.large**2:g}, "
    f"passes {Car.projection_passes}",
)

_PARAMETER_UNITS = {
    "*.mass": "kg",
    "*.i??": "kg·m²",
    "wheel.axial": "kg·m²",
    "wheel.transverse": "kg·m²",
    "*.axis.?": "1",
    "gravity.?": "m/s²",
    "aero.*_area": "m²",
    "brake.stiffness": "N·m/rad",
    "brake.damping": "N·m·s/rad",
    "brake.gain": "N·m/Pa",
    "tyre.slip_stiffness_?": "N",
    "*stiffness": "N/m",
    "*damping": "N·s/m",
    "damper.*": "N·s/m",
    "spring.preload": "N",
    "tyre.nominal_load": "N",
    "tyre.?.f??": "N",
    "tyre.?.df??": "N",
    "tyre.?.s??": "1",
    "tyre.*_speed": "m/s",
    "tyre.friction": "1",
    "tyre.rolling_*": "1",
    "tyre.trail*": "1",
    "is_rear": "1",
    "propeller_share": "1",
    "*": "m",
}
"""Units by pattern of the name; the first matching pattern applies."""

_STATE_UNITS = {
    "*.windup": "rad",
    "*.torque": "N·m",
    "wheel.rate": "rad/s",
    "wheel.angle": "rad",
    "*.rate": "m/s",
    "*": "m",
}

_OUTPUT_UNITS = {
    **dict.fromkeys(("roll", "pitch", "yaw", "sideslip", "slip.angle", "wheel.angle"), "rad"),
    **dict.fromkeys(("w?", "wheel.speed"), "rad/s"),
    **dict.fromkeys(("v?", "suspension.rate"), "m/s"),
    **dict.fromkeys(("tyre.f?", "suspension.force"), "N"),
    "slip.ratio": "1",
    "a?": "m/s²",
    "*": "m",
}

_INPUT_UNITS = {
    "*.rate": "m/s",
    "*.acceleration": "m/s²",
    "drive": "N·m",
    "brake": "Pa",
    "*_limit": "N·m",
    "*": "m",
}

_POSE_UNITS = {
    **dict.fromkeys("xyz", "m"),
    "yaw": "rad",
    "v??": "1",
    **dict.fromkeys(("ahead", "left", "up"), "m/s"),
    "*w?": "rad/s",
    "alpha.?": "rad/s²",
    "a?": "m/s²",
}


def make_library(name: str, vehicle: Vehicle, places: Mapping[str, np.ndarray] | None = None) -> Library:
    """Library of a car at rest on level ground; `name`: an identifier.

    `places`: `antenna` and `imu` (3,), m in vehicle axes, and `R_imu_vehicle` (3, 3); by default at the
    vehicle origin, with the axes of the vehicle.
    """
    places = {"antenna": np.zeros(3), "imu": np.zeros(3), "R_imu_vehicle": np.eye(3), **(places or {})}
    made = build(vehicle.tyre, vehicle.suspensions, (SENSOR_KERNELS, EQUATIONS))
    car = Car(vehicle)
    kept = ("parameters", "corner_parameters", "ground", *STATE)
    mounting = np.zeros(len(MOUNTING))
    mounting[ANTENNA], mounting[IMU] = places["antenna"], places["imu"]
    mounting[R_IMU] = places["R_imu_vehicle"].ravel()
    values = {array: car.view(array).copy() for array in kept}
    values |= {"mounting": mounting, "integration": np.array([_STEP, PENALTY])}
    title = [
        f"{name}: {len(made.names.bodies)} bodies, {len(made.names.coordinates)} coordinates, "
        f"{len(made.names.constraints)} constraints; {vehicle.tyre} tyres.",
        "M q̈ + Φ_qᵀ λ = Q(q, q̇, t), Φ(q, t) = 0. SI units and radians, axes of ISO 8855.",
        "The car has a root and four equal branches, the corners: arrays of these have a row of four, "
        f"{' '.join(WHEELS)}.",
        f"Written by vehicled {__version__}.",
    ]
    functions = {KernelHandle(kernel): text for kernel, text in _FUNCTIONS.items()}
    return Library(
        name, title, made.program, functions, {made.step.routine: _STEP_TEXT}, dict(_describe(made)), values
    )


def _find_unit(name: str, units: Mapping[str, str]) -> str:
    """Unit of the first pattern that matches a name. Raises StopIteration."""
    return next(unit for pattern, unit in units.items() if fnmatch(name, pattern))


def _list(names: tuple[str, ...] | list[str], units: Mapping[str, str]) -> list[str]:
    return [f"{name}, {_find_unit(name, units)}" for name in names]


def name_parameter_units(made: VehicleProgram) -> list[tuple[str, str]]:
    """Name and unit of every parameter, of the root and of a corner."""
    names = (*made.names.parameters, *made.names.corner_parameters)
    return [(name, _find_unit(name, _PARAMETER_UNITS)) for name in names]


def _describe(made: VehicleProgram) -> Iterator[tuple[str, ArrayText]]:
    arrays, names = made.program.arrays, made.names
    penalty = "penalty of constraints, for steps of 1 ms and longer; below, to grow with 1/h²"
    yield "integration", ArrayText("Integration", (), ["h, s: the time step", penalty])
    yield (
        "inputs",
        ArrayText(
            "Steering rack: displacement to the left and its derivatives", (), _list(INPUTS, _INPUT_UNITS)
        ),
    )
    text = (
        "Tie rods' inner ends (displacement and its derivatives), drive, brake, differential, road, by corner"
    )
    yield "corner_inputs", ArrayText(text, (), _list(CORNER_INPUTS, _INPUT_UNITS))
    text = "Changes of inputs and parameters, by corner: zero changes nothing"
    yield "adjustments", ArrayText(text, (), _list(ADJUSTMENTS, {"rod": "m", "along": "N", "*": "1"}))
    yield (
        "ground",
        ArrayText(
            "Plane of the ground", (), [*(f"normal.{a}, 1" for a in "xyz"), "distance from the origin, m"]
        ),
    )
    text = "Further forces at the vehicle origin, and moments about the car's axes to its top and to its left"
    yield "external_force", ArrayText(text, (), ["ahead, N", "left, N", "yawing, N·m", "pitching, N·m"])
    yield "parameters", ArrayText("Parameters of the car", (), _list(names.parameters, _PARAMETER_UNITS))
    text = "Parameters by corner; places in axes of the car, relative to its origin"
    yield "corner_parameters", ArrayText(text, (), _list(names.corner_parameters, _PARAMETER_UNITS))
    yield (
        "states",
        ArrayText(
            "Internal states of tyres, brakes and differentials, by corner",
            (),
            _list(names.states, _STATE_UNITS),
        ),
    )
    yield (
        "outputs",
        ArrayText(
            "Outputs: place, orientation, velocity, rates, acceleration",
            (),
            _list(ROOT_OUTPUTS, _OUTPUT_UNITS),
        ),
    )
    yield "corner_outputs", ArrayText("Outputs by corner", (), _list(CORNER_OUTPUTS, _OUTPUT_UNITS))
    yield "energy", ArrayText("Energies", (), ["kinetic, J", "gravitational, J", "elastic, J"])
    yield (
        "mounting",
        ArrayText(
            "Places of antenna and IMU, and rotation to the IMU's axes",
            (),
            _list(MOUNTING, {"imu.r??": "1", "*": "m"}),
        ),
    )
    yield "pose", ArrayText("Pose of the chassis, its rates and accelerations", (), _list(POSE, _POSE_UNITS))
    yield "predicted", ArrayText("What the sensor that was called last reads")
    text = "Its derivatives by the first twelve elements of pose"
    yield (
        "sensitivity",
        ArrayText(text, (len(arrays["predicted"]), len(arrays["sensitivity"]) // len(arrays["predicted"]))),
    )
    yield from _describe_equations(made)


def _describe_equations(made: VehicleProgram) -> Iterator[tuple[str, ArrayText]]:
    system, arrays = made.step.system, made.program.arrays
    units = name_coordinate_units(system, ("wheel.spin",))
    parameters = (*arrays["parameters"], *arrays["corner_parameters"])
    known = {a: unit for a, (_, unit) in zip(parameters, name_parameter_units(made), strict=True)}
    known |= {c.q: unit for c, unit in zip(system.coordinates, units, strict=True)}
    known |= {arrays["inputs"][0]: "m", arrays["corner_inputs"][0]: "m", arrays["adjustments"][0]: "m"}
    of_constraints = name_units([phi for _, phi in system.constraints], known)
    words = {
        "q": ("q: coordinates", "{}"),
        "qd": ("q̇: their rates", "{}/s"),
        "qdd": ("q̈: their accelerations", "{}/s²"),
    }
    for prefix, rank in (("", 0), ("branch.", 1)):
        where = " of each corner" if rank else ""
        coordinates = [(c.name, u) for c, u in zip(system.coordinates, units, strict=True) if c.rank == rank]
        constraints = [
            (name, u)
            for (name, phi), u in zip(system.constraints, of_constraints, strict=True)
            if phi.rank == rank
        ]
        forces = [f"{n}, {name_conjugate(u)}" for n, u in coordinates]
        phi_lines = [f"{n}, {u or 'as its expression'}" for n, u in constraints]
        work = [f"{n}, {'N·m per unit of it' if u is None else name_conjugate(u)}" for n, u in constraints]
        for name in UNKNOWNS[:3]:
            text, unit = words[name]
            yield (
                f"{prefix}{name}",
                ArrayText(text + where, (), [f"{n}, {unit.format(u)}" for n, u in coordinates]),
            )
        text = f"λ{where}: multipliers of the constraints"
        yield f"{prefix}lambda", ArrayText(text, (), work)
        yield f"{prefix}residual", ArrayText(f"M q̈ + Φ_qᵀ λ − Q{where}", (), forces)
        yield f"{prefix}constraints", ArrayText(f"Φ{where}", (), phi_lines)
        for name in (*UNKNOWNS, "residual", "constraints"):
            yield f"{prefix}change_of_{name}", ArrayText(f"A change of {prefix}{name}, as that")
