"""The compiled car, and running instances of it."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, cast

import numpy as np

from vehicled.errors import NoRestError
from vehicled.messages import WHEELS
from vehicled.multibody.step import StepFunction
from vehicled.symbolic.code import ProgramCode
from vehicled.symbolic.differentiation import Differentiation
from vehicled.symbolic.program import KernelHandle, RoutineHandle, Span
from vehicled.vehicle.arrays import CORNER_OUTPUTS, ROOT_OUTPUTS, Z
from vehicled.vehicle.blueprint import get_blueprint
from vehicled.vehicle.extension import Extension, Result
from vehicled.vehicle.hard_points import Suspensions
from vehicled.vehicle.model_parameters import corner_parameters, root_parameters
from vehicled.vehicle.parameters import Vehicle
from vehicled.vehicle.travel import TravelMotion, calc_travel_motion

PENALTY = 1e10
"""α of the augmented Lagrangian, at steps of `_SHORT` and longer: small against 1/rounding."""
_SHORT = 1e-3
"""s. For shorter steps, α grows with 1/h²: (h²/4) α Φ_qᵀΦ_q must outweigh the mass matrix, or the iterations
of a step do not satisfy the constraints, and 4/h² times the violation is an acceleration."""

_PRELOAD_ROUNDS = 4
_SETTLING_STEPS = 500
_SETTLING_STEP = 4e-3
_MOST_SETTLING = 10
"""Largest number of further rounds of `_SETTLING_STEPS` for a car that still moves."""
_STILL = 5e-3
"""m/s, or rad/s: largest rate of the body's height, roll and pitch and of the struts of a car at rest."""
_BEYOND_STOPS = 0.15
"""m: springs and stops do not hold a strut that is farther beyond its stops."""
_UNBALANCED = 0.01
"""Largest difference of wheel loads and weight at rest, over the weight."""
_MET = 1e-6
"""m: largest constraint violation."""
STATE = ("q", "qd", "qdd", "branch.q", "branch.qd", "branch.qdd", "lambda", "branch.lambda", "states")
"""Arrays that hold the state of motion of a car."""
PRESENT = (*STATE, "ground", "inputs", "corner_inputs", "external_force", "adjustments")
"""These, and additions by a filter and the surroundings: together they determine the forces on a car of given
parameters."""


class CompiledCar:
    """Machine code of one tyre law and one pair of suspensions: immutable, shared by all cars of the process.

    With a differentiation there are the differentiated kernels too, and their step (see `Tangents`).
    """

    def __init__(
        self,
        tyre: str,
        suspensions: Suspensions,
        extensions: tuple[Extension[Any], ...] = (),
        width: int = 1,
        differentiation: Differentiation | None = None,
    ) -> None:
        blueprint, object_code = get_blueprint(tyre, suspensions, extensions, width, differentiation)
        self.layout, self.kernels, self.names = blueprint.layout, blueprint.kernels, blueprint.names
        self._results = dict(zip(extensions, blueprint.results, strict=True))
        # Kernels of one car take microseconds and keep the interpreter's lock; other threads run in between.
        code = ProgramCode(blueprint.interface, object_code, keeps_lock=width == 1)
        self.functions = code.functions.kernels
        self.routine: Callable[[RoutineHandle], StepFunction] = code.functions.routine
        """Gives a routine as a function with the arguments of a step. Raises KeyError."""
        self.step = self.routine(blueprint.step)
        if blueprint.tangents is not None and code.differentiated is not None:
            self.tangents = blueprint.tangents
            self.differentiated = code.differentiated.kernels
            """Differentiated kernels, like `functions`."""
            self.differentiated_routine: Callable[[RoutineHandle], StepFunction] = code.differentiated.routine
            """Differentiated routines, like `routine`."""
            self.differentiated_step = self.differentiated_routine(blueprint.step)

    def result(self, extension: Extension[Result]) -> Result:
        """Result of an extension of this car. Raises KeyError for another extension."""
        return cast(Result, self._results[extension])


@lru_cache
def compiled(
    tyre: str,
    suspensions: Suspensions,
    extensions: tuple[Extension[Any], ...] = (),
    width: int = 1,
    differentiation: Differentiation | None = None,
) -> CompiledCar:
    """The one compiled model of that kind in this process, of `width` cars side by side."""
    return CompiledCar(tyre, suspensions, extensions, width, differentiation)


class Instances:
    """A car, or several side by side, in a workspace of their own.

    Arrays are views into the workspace: write to `inputs` and `corner_inputs`, read `outputs` after `report`.
    With several cars, arrays have one more axis, the last one, with an element per car.
    """

    iteration_limit = 12
    tolerance = 1e-9
    """On ‖Δq‖ of the last Newton iteration, m."""
    large = 1e-4
    """‖Δq‖ of an iteration above which the tangent is factorised again, m."""
    projection_passes = 2

    def __init__(self, code: CompiledCar) -> None:
        self.compiled = code
        self.kernels = code.kernels
        self.layout = code.layout
        self.workspace = self.layout.allocate()
        self._pointer = self.workspace.ctypes.data
        self._step = code.step
        self._functions = code.functions
        self.inputs = self.view("inputs")
        """(3,) elements of INPUTS."""
        self.corner_inputs = self.view("corner_inputs")
        """(8, 4) rows of CORNER_INPUTS, by wheel."""
        self.ground = self.view("ground")
        """Unit normal (3) and distance from the world's origin along it (m) of the flat ground."""
        self.outputs = self.view("outputs")
        self.corner_outputs = self.view("corner_outputs")
        self.states = self.view("states")
        self.correction = self.view("correction")
        self.corner_correction = self.view("corner_correction")
        self._state = {n: i for i, n in enumerate(code.names.states)}
        self._carry = self.view("carry")
        self._travel_jacobian = self.view("travel_jacobian")
        self._branch_q, self._branch_qd = self.view("branch.q"), self.view("branch.qd")
        # A live axle's coordinates are the last ones of the root.
        axle = sum(name.startswith("axle.") for name in code.names.coordinates)
        self._axle_q, self._axle_qd = (q[len(q) - axle :] for q in map(self.view, ("q", "qd")))
        self._integration = self.view("integration")

    def view(self, name: str) -> np.ndarray:
        """An array (count,) or (count, 4), of several cars with a last axis by car; a view. Raises KeyError."""
        return self.layout.view(self.workspace, name)

    def call(self, kernel: KernelHandle) -> None:
        """Run a kernel on the workspace; for several cars the interpreter's lock is released meanwhile."""
        self._functions[kernel](self._pointer)

    def bind(self, kernel: KernelHandle) -> Callable[[], None]:
        """A kernel on this workspace as a function; faster than `call`."""
        return partial(self._functions[kernel], self._pointer)

    def address(self, kernel: KernelHandle) -> int:
        """Address of a kernel's machine code."""
        function: Any = self._functions[kernel]
        return ctypes.cast(function, ctypes.c_void_p).value or 0

    def result(self, extension: Extension[Result]) -> Result:
        """Result of an extension of this car. Raises KeyError for another extension."""
        return self.compiled.result(extension)

    def correct(self, change: np.ndarray, wheels: np.ndarray | None = None, *, carry: bool = False) -> None:
        """Move the car by a change of chart and wheels.

        `change` (12,) is that of the chart (x y z ψ v1z v2z and their rates), `wheels` (2, 4) that of the
        wheels' angle and rate.

        With `carry` the velocity is rotated with the heading, its change is in directions along and across
        the car and normal to the ground, and the ground plane moves with the car.
        """
        self.correction[:] = change
        self.corner_correction[:] = 0.0 if wheels is None else wheels
        self._carry[0] = float(carry)
        self.call(self.kernels.correct)

    def correct_suspension(self, travel: np.ndarray, rate: np.ndarray, motion: TravelMotion) -> None:
        """Move the wheels relative to the chassis by a small travel (m) and rate (m/s), (4,) each, along `motion`.

        Constraints hold to first order; the next step corrects the rest.
        """
        n = len(motion.corners)
        self._branch_q[:n] += motion.corners @ travel
        self._branch_qd[:n] += motion.corners @ rate
        if len(motion.axle):
            self._axle_q += motion.axle @ travel
            self._axle_qd += motion.axle @ rate

    def step(self, h: float, step: StepFunction | None = None) -> int:
        """Advance by h seconds. Returns the number of Newton iterations, negative when not converged.

        `step`: a routine that contains the step, to be run in place of it (see `find_routine`).
        """
        self._set_step(h)
        return (step or self._step)(
            self._pointer, self.iteration_limit, self.tolerance**2, self.large**2, self.projection_passes
        )

    def step_euler(self, h: float, euler: KernelHandle) -> None:
        """Advance by h seconds by forward Euler, with the kernel added by `ali3p.add_forward_euler`."""
        self._set_step(h)
        self.call(euler)

    def _set_step(self, h: float) -> None:
        self._integration[0] = h
        self._integration[1] = PENALTY if h >= _SHORT else PENALTY * (_SHORT / h) ** 2

    def report(self) -> None:
        """Bring `outputs` and `corner_outputs` up to date."""
        self.call(self.kernels.report)

    def get_state(self, name: str) -> np.ndarray:
        """(4,) an internal state by wheel, such as `differential.torque` (N·m); a view. Raises KeyError."""
        state: np.ndarray = self.states[self._state[name]]
        return state

    def corner_output(self, name: str) -> np.ndarray:
        """(4,) one of CORNER_OUTPUTS by wheel as of the last `report`, a view. Raises ValueError."""
        outputs: np.ndarray = self.corner_outputs[CORNER_OUTPUTS.index(name)]
        return outputs

    def constraint_violation(self) -> float:
        """Largest |Φ| at the end of the last step (m, or m² for lengths squared)."""
        return max(float(np.abs(self.view(n)).max()) for n in ("phi", "branch.phi"))


_KEPT_CARS = 4
_settled: dict[tuple[CompiledCar, Vehicle], tuple[np.ndarray, ...]] = {}
"""Workspace, rolling radii and slip stiffness of the cars settled last."""


class Car(Instances):
    """One car."""

    def __init__(
        self,
        vehicle: Vehicle,
        extensions: tuple[Extension[Any], ...] = (),
        differentiation: Differentiation | None = None,
    ) -> None:
        super().__init__(compiled(vehicle.tyre, vehicle.suspensions, extensions, 1, differentiation))
        self.vehicle = vehicle
        self.flat_corner_inputs = self.corner_inputs.data.cast("B").cast("d")
        """`corner_inputs` as a flat view, row after row: writing a number takes a fraction of the time."""
        self._is_differentiated = differentiation is not None
        self._d_correction, self._d_corner_correction = map(self.tangent, ("correction", "corner_correction"))
        names = self.compiled.names
        self._parameter = {n: i for i, n in enumerate(names.parameters)}
        self._corner_parameter = {n: i for i, n in enumerate(names.corner_parameters)}
        self.parameters = self.view("parameters")
        self.corner_parameters = self.view("corner_parameters")
        self.ground[:] = (0.0, 0.0, 1.0, 0.0)
        self.design_height = float(vehicle.center_of_mass()[2])
        """Height of the vehicle origin over the ground in design position, m."""
        self.set_parameters(root_parameters(vehicle), {w: corner_parameters(vehicle, w) for w in WHEELS})
        self._settle_or_copy()
        if differentiation is not None:
            self._functions, self._step = self.compiled.differentiated, self.compiled.differentiated_step

    def find_routine(self, handle: RoutineHandle) -> StepFunction:
        """A routine for `step`; the differentiated one if the car has a differentiation. Raises KeyError."""
        compiled = self.compiled
        return (compiled.differentiated_routine if self._is_differentiated else compiled.routine)(handle)

    # -- derivatives ----------------------------------------------------------------------------------

    def tangent(self, array: str) -> np.ndarray:
        """Derivatives of an array, last axis by direction: (count, directions) or (count, 4, directions) view.

        Of length 0 for a car that was made without a differentiation.
        """
        if self._is_differentiated:
            return self.compiled.tangents.view(self.workspace, array)
        return np.zeros((*self.view(array).shape, 0))

    def span(self, first: str, last: str) -> tuple[Span, ...]:
        """Places of the arrays `first` to `last` in the workspace, and of their tangents if there are any.

        Raises KeyError.
        """
        spans = [self.layout.span(first, last)]
        if self._is_differentiated:
            begin, layout = self.compiled.tangents.begin, self.compiled.tangents.layout
            place, size = layout.span(first, last)
            spans.append(Span(begin + place, size))
        return tuple(spans)

    def differentiate(self, array: str, k: int, other: Car, step: float) -> None:
        """Set the derivatives in direction k of an array, from a car whose parameter is larger by a small step."""
        self.tangent(array)[..., k] = (other.view(array) - self.view(array)) / step

    def clear_tangents(self, *arrays: str) -> None:
        """Set the derivatives of arrays to zero."""
        for array in arrays:
            self.tangent(array)[...] = 0.0

    def correct(
        self,
        change: np.ndarray,
        wheels: np.ndarray | None = None,
        *,
        carry: bool = False,
        d_change: np.ndarray | None = None,
        d_wheels: np.ndarray | None = None,
    ) -> None:
        """Move the car as `Instances.correct`; with the derivatives (…, directions) of the changes, else 0."""
        if self._is_differentiated:
            self._d_correction[...] = 0.0 if d_change is None else d_change
            self._d_corner_correction[...] = 0.0 if d_wheels is None else d_wheels
        super().correct(change, wheels, carry=carry)

    def calc_travel_motion(self) -> TravelMotion:
        """Motion of the suspensions by travel at the present position, with a fixed chassis."""
        self.call(self.kernels.travel_jacobian)
        columns = len(self._branch_q) - 1 + len(self._axle_q)
        jacobian = self._travel_jacobian.reshape(-1, columns, len(WHEELS)).transpose(2, 0, 1)
        return calc_travel_motion(jacobian, len(self._axle_q))

    def correct_suspension(
        self, travel: np.ndarray, rate: np.ndarray, motion: TravelMotion | None = None
    ) -> None:
        """As `Instances.correct_suspension`; by default with the motion at the present position."""
        super().correct_suspension(travel, rate, self.calc_travel_motion() if motion is None else motion)

    # -- parameters -----------------------------------------------------------------------------------

    def set_parameters(self, root: dict[str, float], corners: dict[str, dict[str, float]]) -> None:
        """Write parameters by name and recompute what depends on them. Raises KeyError on unknown names."""
        for name, value in root.items():
            self.parameters[self._parameter[name]] = value
        for n, w in enumerate(WHEELS):
            for name, value in corners.get(w, {}).items():
                self.corner_parameters[self._corner_parameter[name], n] = value
        self.call(self.kernels.prepare)

    def get_corner_parameter(self, name: str) -> np.ndarray:
        """(4,) values of a parameter by wheel, a view. Raises KeyError."""
        parameters: np.ndarray = self.corner_parameters[self._corner_parameter[name]]
        return parameters

    # -- state ----------------------------------------------------------------------------------------

    def restart(self) -> None:
        """Design configuration at rest, origin over the world's at design height, λ and internal states zero."""
        for name in ("lambda", "branch.lambda", "states"):
            self.view(name)[:] = 0.0
        self.call(self.kernels.design)
        change = np.zeros_like(self.correction)
        change[Z] = self.design_height
        self.correct(change)

    def _settle_or_copy(self) -> None:
        """`settle`, or copy the result of a recent car of the same vehicle and code: the same numbers."""
        key = self.compiled, self.vehicle
        if key in _settled:
            workspace, self.rolling_radius, self.slip_stiffness = (a.copy() for a in _settled[key])
            self.workspace[:] = self._rest = workspace
            return
        self.settle()
        if len(_settled) >= _KEPT_CARS:
            _settled.pop(next(iter(_settled)))
        found = self.workspace, self.rolling_radius, self.slip_stiffness
        _settled[key] = tuple(a.copy() for a in found)

    def settle(self, find_preload: bool = True, part: str = "vehicle") -> None:
        """Find the equilibrium at rest on level ground.

        Springs without a given preload get the one that carries the car at design height;
        `suspension.deflection` is zero in this state, and `rest` brings the car back to it.

        Raises NoRestError; its message names by `part` the section of a file that contains the figures.
        """
        free = np.array([find_preload and self.vehicle.axle(w).spring.preload is None for w in WHEELS])
        preload = self.get_corner_parameter("spring.preload")
        travel = self.get_corner_parameter("rest.travel")
        travel[:] = 0.0
        carried = self.vehicle.mass * self.vehicle.gravity / 4
        preload[free] = carried
        rounds = _PRELOAD_ROUNDS if free.any() else 1
        for n in range(rounds):
            self.call(self.kernels.prepare)
            self.restart()
            for _ in range(2):
                self._let_settle()
            if n + 1 < rounds:
                force = self.corner_output("suspension.force")
                # The strut's force hardly changes with travel: its value at rest also holds in design position.
                symmetric = 0.5 * (force + force[[1, 0, 3, 2]])
                preload[free] = symmetric[free]
        for _ in range(_MOST_SETTLING):
            if (unrest := self._find_unrest()) is None:
                break
            self._let_settle()
        else:
            raise NoRestError(
                f"{part}: the car does not come to rest on level ground, {unrest}: expected masses, places, springs, "
                "dampers and tyres that carry it"
            )
        travel[:] = self.corner_output("suspension.deflection")
        self.rolling_radius = self._rolling_radius()
        """(4,) of the wheels at rest, m."""
        self.slip_stiffness = self._slip_stiffness()
        """(4,) longitudinal force per slip of the tyres at rest, N."""
        self.call(self.kernels.prepare)
        self.view("qd")[:] = 0.0
        self.view("branch.qd")[:] = 0.0
        self._rest = self.workspace.copy()

    def _let_settle(self) -> None:
        # At standstill tyres keep the lateral deflection from first contact: it is cleared in between.
        self.states[:] = 0.0
        for _ in range(_SETTLING_STEPS):
            self.step(_SETTLING_STEP)
        self.report()

    def _find_unrest(self) -> str | None:
        """Evidence in the outputs that the car does not stand, else None; it may roll, as nothing holds it."""
        load, names = float(self.corner_output("tyre.fz").sum()), self.compiled.names
        mass = sum(self.parameters[n] for n, name in enumerate(names.parameters) if name.endswith(".mass"))
        for n, name in enumerate(names.corner_parameters):
            if name.endswith(".mass"):
                mass += self.corner_parameters[n].sum()
        weight = float(mass * -self.parameters[self._parameter["gravity.z"]])
        rates = np.abs([*map(self.output, ("vz", "wx", "wy")), *self.corner_output("suspension.rate")])
        if not math.isfinite(load) or not np.isfinite(rates).all():
            return "its motion grows beyond all bounds"
        if self.constraint_violation() > _MET:
            return "its suspensions come apart"
        if abs(load - weight) > _UNBALANCED * weight:
            return f"its wheels carry {load:.0f} N of {weight:.0f} N"
        travel = self.corner_output("suspension.deflection")
        bump, droop = map(self.get_corner_parameter, ("stop.bump", "stop.droop"))
        beyond = float(np.maximum(travel - bump, -travel - droop).max())
        if beyond > _BEYOND_STOPS:
            return f"its struts end {1e3 * beyond:.0f} mm beyond their stops"
        if rates.max() > _STILL:
            body, struts = 1e3 * rates[:3].max(), 1e3 * rates[3:].max()
            return f"its body moves at {body:.2g} mm/s and its struts at {struts:.2g} mm/s"
        return None

    def _rolling_radius(self) -> np.ndarray:
        radius = self.get_corner_parameter("tyre.radius").copy()
        if "tyre.rolling_share" in self._corner_parameter:
            pressed = self.corner_output("tyre.fz") / self.get_corner_parameter("tyre.vertical_stiffness")
            radius -= self.get_corner_parameter("tyre.rolling_share") * pressed
        return radius

    def _slip_stiffness(self) -> np.ndarray:
        if self.vehicle.tyre == "linear":
            return self.get_corner_parameter("tyre.slip_stiffness_x").copy()
        one, two = (self.get_corner_parameter(f"tyre.x.df0{n}") for n in (1, 2))
        ratio = self.corner_output("tyre.fz") / self.get_corner_parameter("tyre.nominal_load")
        stiffness: np.ndarray = ratio * ((2.0 * one - 0.5 * two) - (one - 0.5 * two) * ratio)
        return stiffness

    def rest(self) -> None:
        """Bring the car to rest on level ground, origin near the world's, heading along x."""
        for name in STATE:
            self.view(name)[:] = self.layout.view(self._rest, name)

    def locate(self, point: np.ndarray) -> np.ndarray:
        """Place (3,) in world axes, m, of a point of the chassis (m, vehicle axes)."""
        # The first coordinates are the vehicle origin and the axes of the chassis.
        origin, *axes = self.view("q")[:12].reshape(4, 3)
        place: np.ndarray = origin + point @ np.array(axes)
        return place

    def output(self, name: str) -> float:
        """One of ROOT_OUTPUTS as of the last `report`. Raises ValueError for another name."""
        return float(self.outputs[ROOT_OUTPUTS.index(name)])
