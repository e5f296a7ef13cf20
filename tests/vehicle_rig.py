"""A test rig for the vehicle model: shipped cars, drives with given inputs, and mechanics body by body.

The mechanics here does not use mass matrices in natural coordinates: it finds each body's rotation and velocity
from the basic vectors and adds up textbook formulas.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from vehicled.messages import WHEELS
from vehicled.reading import settings
from vehicled.vehicle.arrays import CORNER_OUTPUTS, ROOT_OUTPUTS
from vehicled.vehicle.car import Car
from vehicled.vehicle.extension import Extension
from vehicled.vehicle.handbook import AnyVehicle
from vehicled.vehicle.parameters import Vehicle

G = 9.81
LOSSLESS = {
    "damper__bump": 0.0,
    "damper__rebound": 0.0,
    "stop__stiffness": 0.0,
    "tyre__vertical_damping": 0.0,
    "tyre__slip_stiffness_x": 1e-9,
    "tyre__slip_stiffness_y": 1e-9,
}
"""Parameters of a car whose energy is conserved: no damper, no stop; tyres that neither damp nor grip."""


@dataclass(frozen=True, kw_only=True)
class _Part:
    vehicle: AnyVehicle


@lru_cache
def given(name: str) -> AnyVehicle:
    """The section `vehicle:` of a shipped configuration."""
    text = settings.config_path(name).read_text()
    section = re.search(r"^vehicle:\n((?:[ #].*)?\n)*", text, re.MULTILINE)
    assert section is not None
    return settings.loads(section[0], _Part, name).vehicle


@lru_cache
def vehicle(name: str) -> Vehicle:
    return given(name).to_vehicle()


Course = Callable[[float], float]


@dataclass
class Log:
    """Results of a drive, one row per step."""

    t: np.ndarray
    outputs: np.ndarray
    corner_outputs: np.ndarray
    iterations: np.ndarray
    violation: float

    def __getitem__(self, name: str) -> np.ndarray:
        """(steps,) of the car or (steps, 4) of the wheels."""
        if name in ROOT_OUTPUTS:
            return self.outputs[:, ROOT_OUTPUTS.index(name)]
        return self.corner_outputs[:, CORNER_OUTPUTS.index(name)]


class Rig:
    """A car with its drives."""

    def __init__(self, v: Vehicle, extensions: tuple[Extension[Any], ...] = ()):
        self.vehicle = v
        self.car = Car(v, extensions)
        self.car.rest()

    def set(self, root: dict[str, float] | None = None, **corners: float) -> Rig:
        """Change parameters; those of all corners by keyword, with `__` for the dot."""
        values = {name.replace("__", "."): value for name, value in corners.items()}
        self.car.set_parameters(root or {}, dict.fromkeys(WHEELS, values))
        return self

    def slope(self, angle: float, direction: float = 0.0) -> Rig:
        """Tilt the ground, rising towards `direction` from x (rad), and put the car at rest on it."""
        rise = np.sin(angle) * np.array([np.cos(direction), np.sin(direction)])
        self.car.ground[:] = (*-rise, np.cos(angle), 0.0)
        change = np.zeros(12)
        if direction:
            change[5] = np.sin(angle)
        else:
            change[4] = np.sin(angle)
        self.car.correct(change)
        # The origin goes from the world's vertical to the ground's normal.
        change[:] = 0.0
        change[:3] = self.car.ground[:3] * self.car.design_height - (0.0, 0.0, self.car.design_height)
        self.car.correct(change)
        return self

    def roll(self, speed: float) -> Rig:
        """Add a forward speed (m/s), with the wheels rolling."""
        change, wheels = np.zeros(12), np.zeros((2, 4))
        change[6] = speed
        wheels[1] = speed / self.car.rolling_radius
        self.car.correct(change, wheels)
        return self

    def drive(
        self,
        duration: float,
        h: float = 4e-3,
        *,
        rack: Callable[[float], tuple[float, float, float]] | None = None,
        torque: Course | None = None,
        brake: Course | None = None,
    ) -> Log:
        """`rack`: displacement, rate, acceleration; `torque`: of each rear wheel; `brake`: pressure."""
        car, n = self.car, round(duration / h)
        outputs, corners = np.empty((n, len(ROOT_OUTPUTS))), np.empty((n, len(CORNER_OUTPUTS), 4))
        iterations, violation = np.empty(n, int), 0.0
        for k in range(n):
            t = (k + 1) * h
            if rack is not None:
                car.inputs[:] = rack(t)
                car.corner_inputs[:3, :2] = car.inputs[:, None]
            if torque is not None:
                car.corner_inputs[3, 2:] = torque(t)
            if brake is not None:
                car.corner_inputs[4] = brake(t)
            iterations[k] = car.step(h)
            violation = max(violation, car.constraint_violation())
            car.report()
            outputs[k], corners[k] = car.outputs, car.corner_outputs
        return Log(h * np.arange(1, n + 1), outputs, corners, iterations, violation)

    def find_energy_drift(self, h: float) -> float:
        """By steps of h (s): largest change of energy within a second, over the range of the elastic one."""
        change = np.zeros(12)
        change[[2, 4, 5]] = 0.005, 0.004, 0.006
        self.car.correct(change)
        for _ in range(4):
            self.car.step(1e-4)
        energies = [self.energy()]
        for _ in range(round(1.0 / h)):
            assert self.car.step(h) > 0
            energies.append(self.energy())
        e = np.array(energies)
        drift: float = np.abs(e.sum(axis=1) - e[0].sum()).max() / np.ptp(e[:, 2])
        return drift

    def energy(self) -> np.ndarray:
        """Kinetic, gravitational, elastic, J."""
        self.car.call(self.car.kernels.energy)
        return self.car.view("energy").copy()


def ramp(value: float, duration: float = 1.0) -> Callable[[float], tuple[float, float, float]]:
    """A rack displacement that is reached smoothly."""

    def rack(t: float) -> tuple[float, float, float]:
        u = min(t / duration, 1.0)
        shape = (
            u**3 * (10 - 15 * u + 6 * u * u),
            30 * u * u * (1 - u) ** 2,
            60 * u * (1 - 3 * u + 2 * u * u),
        )
        return value * shape[0], value * shape[1] / duration, value * shape[2] / duration**2

    return rack


def sine(amplitude: float, frequency: float) -> Callable[[float], tuple[float, float, float]]:
    w = 2 * np.pi * frequency
    return lambda t: (
        amplitude * np.sin(w * t),
        amplitude * w * np.cos(w * t),
        -amplitude * w * w * np.sin(w * t),
    )


# -- mechanics, body by body ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Motion:
    """One body in motion: mass, centre of mass and its velocity, rotation from the design attitude and its
    derivative, central inertia in design axes; for a wheel, `spin_momentum` is the part about its axis."""

    name: str
    mass: float
    place: np.ndarray
    velocity: np.ndarray
    rotation: np.ndarray
    rotation_rate: np.ndarray
    inertia: np.ndarray
    spin_momentum: np.ndarray
    spin_energy: float

    @property
    def angular_velocity(self) -> np.ndarray:
        w = self.rotation_rate @ self.rotation.T
        return np.array([w[2, 1], w[0, 2], w[1, 0]])

    @property
    def angular_momentum(self) -> np.ndarray:
        """About the world's origin."""
        inertia = self.rotation @ self.inertia @ self.rotation.T
        own = inertia @ self.angular_velocity + self.spin_momentum
        return own + self.mass * np.cross(self.place, self.velocity)

    @property
    def kinetic_energy(self) -> float:
        w = self.rotation.T @ self.angular_velocity
        return 0.5 * (self.mass * self.velocity @ self.velocity + w @ self.inertia @ w) + self.spin_energy


class Basics:
    """Basic vectors of a car by name: design value, present value, and rate (`qdd`: second derivative instead)."""

    def __init__(self, car: Car, rates: str = "qd"):
        names = car.compiled.names.coordinates
        root = [n for n in names if n[-2:] not in WHEELS]
        branch = [n[:-3] for n in names if n.endswith(" fl")]
        self._root = {n: i for i, n in enumerate(root)}
        self._branch = {n: i for i, n in enumerate(branch)}
        saved = car.workspace.copy()
        now = [car.view(n).copy() for n in ("q", "branch.q", rates, f"branch.{rates}")]
        car.call(car.kernels.design)
        design = [car.view(n).copy() for n in ("q", "branch.q")]
        car.workspace[:] = saved
        self._values = {"now": (now[0], now[1]), "rate": (now[2], now[3]), "design": (design[0], design[1])}

    def __call__(self, name: str, when: str, corner: int = 0) -> np.ndarray:
        root, branch = self._values[when]
        if f"{name}.x" in self._root:
            return np.array([root[self._root[f"{name}.{a}"]] for a in "xyz"])
        return np.array([branch[self._branch[f"{name}.{a}"], corner] for a in "xyz"])

    def spin(self, corner: int) -> float:
        return float(self._values["rate"][1][self._branch["wheel.spin"], corner])


def motions(rig: Rig, rates: str = "qd") -> list[Motion]:
    """Present motion of all 18 bodies of a car; with `qdd`, second derivatives replace the rates."""
    car, basics = rig.car, Basics(rig.car, rates)
    root = {n: float(car.parameters[i]) for i, n in enumerate(car.compiled.names.parameters)}
    chassis = _body(root, "chassis", basics, 0, "r1", ("v1", "v2", "v3"))
    bodies = [chassis, _body(root, "rack", basics, 0, "rack", ("v1", "v2", "v3"))]

    def on_chassis(design: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A chassis point's place and velocity."""
        at, rate = basics("r1", "now"), basics("r1", "rate")
        return at + chassis.rotation @ design, rate + chassis.rotation_rate @ design

    names = car.compiled.names.corner_parameters
    for n in range(4):
        p = {name: float(car.corner_parameters[i, n]) for i, name in enumerate(names)}
        for side in ("lower", "upper"):
            hinge, axis = _vector(p, f"{side}.hinge"), _vector(p, f"{side}.axis")
            place, rate = on_chassis(hinge)
            joint, normal = f"{side}.joint", f"{side}.normal"
            columns = {
                "design": (axis, basics(joint, "design", n) - hinge, basics(normal, "design", n)),
                "now": (chassis.rotation @ axis, basics(joint, "now", n) - place, basics(normal, "now", n)),
                "rate": (
                    chassis.rotation_rate @ axis,
                    basics(joint, "rate", n) - rate,
                    basics(normal, "rate", n),
                ),
            }
            bodies.append(_moved(p, f"{side}_wishbone", hinge, place, rate, columns))
        columns = {
            when: (
                basics("upper.joint", when, n) - basics("lower.joint", when, n),
                basics("knuckle.forward", when, n),
                basics("wheel.axis", when, n),
            )
            for when in ("design", "now", "rate")
        }
        lower = [basics("lower.joint", when, n) for when in ("design", "now", "rate")]
        knuckle = _moved(p, "knuckle", *lower, columns)
        bodies.append(knuckle)
        s, sd = basics("wheel.axis", "now", n), basics("wheel.axis", "rate", n)
        arm = _vector(p, "wheel.centre") - lower[0]
        spin = basics.spin(n)
        bodies.append(
            Motion(
                "wheel",
                p["wheel.mass"],
                lower[1] + knuckle.rotation @ arm,
                lower[2] + knuckle.rotation_rate @ arm,
                np.eye(3),
                np.zeros((3, 3)),
                np.zeros((3, 3)),
                p["wheel.transverse"] * np.cross(s, sd) + p["wheel.axial"] * spin * s,
                0.5 * (p["wheel.transverse"] * sd @ sd + p["wheel.axial"] * spin**2),
            )
        )
    return bodies


def _vector(p: dict[str, float], name: str) -> np.ndarray:
    return np.array([p[f"{name}.{a}"] for a in "xyz"])


def _body(p, name, basics, corner, origin, directions) -> Motion:
    columns = {w: tuple(basics(d, w, corner) for d in directions) for w in ("design", "now", "rate")}
    places = [basics(origin, w, corner) for w in ("design", "now", "rate")]
    return _moved(p, name, *places, columns)


def _moved(p, name, design, now, rate, columns) -> Motion:
    inverse = np.linalg.inv(np.column_stack(columns["design"]))
    rotation, turning = (np.column_stack(columns[w]) @ inverse for w in ("now", "rate"))
    arm = _vector(p, f"{name}.com") - design
    moments = np.diag([p[f"{name}.i{a}"] for a in ("xx", "yy", "zz")])
    place, velocity = now + rotation @ arm, rate + turning @ arm
    return Motion(name, p[f"{name}.mass"], place, velocity, rotation, turning, moments, np.zeros(3), 0.0)


def momenta(rig: Rig) -> tuple[np.ndarray, np.ndarray]:
    """Linear momentum, and angular momentum about the car's centre of mass."""
    bodies = motions(rig)
    mass = sum(b.mass for b in bodies)
    linear = sum(b.mass * b.velocity for b in bodies)
    center = sum(b.mass * b.place for b in bodies) / mass
    angular = sum(b.angular_momentum for b in bodies) - np.cross(center, linear)
    return linear, angular
