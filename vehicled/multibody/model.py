"""A mechanism being built: its parameters, named points, vectors, coordinates and bodies as atoms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from vehicled.errors import UsageError
from vehicled.multibody.description import Description
from vehicled.multibody.dimensions import find_length_powers
from vehicled.multibody.elements import AXES, Segment
from vehicled.multibody.expressions import ExpressionError, parse
from vehicled.multibody.natural import Combination, Frame, Inertia
from vehicled.multibody.system import Coordinate, System
from vehicled.multibody.topology import TreeJoint
from vehicled.symbolic.graph import Atom, Graph
from vehicled.symbolic.program import Program
from vehicled.symbolic.vector import Vector

_MET = 1e-9
"""Largest violation of a constraint that nothing can move to meet, as a share of the mechanism's extent."""


class MechanismError(UsageError):
    """A description that is no valid mechanism: the message names the body or joint and the reason."""

    def __init__(self, message: str, key: str = "", part: str = "") -> None:
        """`key`: path in the file of the fault, if known; the message starts with it.

        `part`: path in the file of the first part that the message names; only its line is looked up.
        """
        super().__init__(f"{key}: {message}" if key else message)
        self.key, self.message, self.part = key, message, part


@dataclass(frozen=True)
class Value:
    """A place or direction in a body's axes: as atoms of parameters, and as numbers for choices."""

    atoms: Vector
    numbers: np.ndarray
    """(3,)"""


@dataclass(frozen=True)
class Part:
    """A body of a mechanism."""

    name: str
    mass: Atom
    centre: Combination
    """Centre of mass."""
    frame: Frame | None = None
    """None for a point mass and for a slender bar in space, which have no orientation."""
    inertia: Inertia | None = None
    """In the axes of the frame; None without a frame."""


@dataclass(frozen=True)
class JointSide:
    """What the coordinate of a joint moves: a force along it acts on `body` and, with opposite sign, on `parent`."""

    body: str
    parent: str
    point: str
    """Point of the body, at the joint."""
    turns: bool
    """Whether the coordinate is an angle."""


@dataclass
class LocalGeometry:
    """Points and vectors of one body, in its axes."""

    points: dict[str, Value] = field(default_factory=dict)
    vectors: dict[str, Value] = field(default_factory=dict)
    frame: Frame | None = None


class Model:
    """Collects the elements that the description names; functions of bodies, joints and loads add to it."""

    def __init__(self, description: Description, width: int = 1) -> None:
        self.description = description
        self.dimension = description.dimension
        self.planar = self.dimension == 2
        self.graph = g = Graph()
        self.program = Program(g, width=width)
        self.system = self._make_system(g)
        (self.h,) = self.program.array("step", 1)
        self.symbols: dict[str, Atom] = {}
        self.values: dict[str, float] = {}
        self.units: dict[str, str] = {}
        """SI units of the parameters."""
        self.points: dict[str, Combination] = {}
        self.vectors: dict[str, Combination] = {}
        self.guess: list[float] = []
        """Approximate value of each coordinate at the start."""
        self.places: dict[str, np.ndarray] = {}
        """(3,) approximate values of points, and of vectors, at the start."""
        self.geometry: dict[str, LocalGeometry] = {}
        self.parts: dict[str, Part] = {}
        self.unit_vectors: set[str] = set()
        """Vectors whose length a constraint keeps at one."""
        self.sines: dict[str, tuple[Atom, Atom]] = {}
        """For each angle: |a||b| times sine and cosine of the angle between the directions."""
        self.rigid_constraints = 0
        """Number of constraints of bodies, which come first."""
        self.wrenches: dict[str, tuple[Atom, ...]] = {}
        """(6,) by constraint of a joint, angle or distance: derivatives with respect to a displacement of the
        second side's point, and to a rotation of the second side about it."""
        self.load_forces: dict[str, Vector] = {}
        """By load: the force at its (second) point, or the torque; a force on a coordinate (the first of two)
        is the first element."""
        self.potential = g.zero
        self.met: dict[str, TreeJoint] = {}
        """Joints that the choice of coordinates satisfies; except for universal joints they have no constraints."""
        self.joint_sides: dict[str, JointSide] = {}
        """For each coordinate of such joints, and of bodies that move freely: what it moves."""
        self.varies = False
        """Whether the mass matrix and the maps of bodies depend on the position, as in relative coordinates."""
        self.reach = 0.0
        """m², sum of squares of lengths in the constraints that are not coordinates."""
        self.directions = 0
        """Number of unit vectors in the constraints that are not coordinates."""
        (self.t,) = self.program.array("time", 1)
        self.system.rates[self.t] = g.one
        rates = ("", ".rate", ".acceleration")
        self.inputs = {n: [g.symbol(f"input.{n}{r}") for r in rates] for n in description.inputs}
        self.program.store("inputs", [s for triple in self.inputs.values() for s in triple])
        for value, rate, acceleration in self.inputs.values():
            self.system.rates |= {value: rate, rate: acceleration}
        units = description.parameter_units()
        for name, number in description.parameter_values().items():
            self.parameter(name, number, units[name])
        self.functions: dict[str, Atom] = {}
        for name, text in description.functions.items():
            self.functions[name] = self.expression(f"functions.{name}", text, of="time")
        self._declare_ground()
        self._declare_moving()

    def _make_system(self, graph: Graph) -> System:
        return System(graph)

    # -- parameters ---------------------------------------------------------------------------------------

    def parameter(self, name: str, value: float, unit: str) -> Atom:
        """The symbol of a parameter, made on first use; `value` is in `unit`, an SI unit.

        Raises MechanismError if parts of the same name give it two values.
        """
        if self.values.get(name, value) != value:
            raise MechanismError(
                f"{name} stands for two numbers, {self.values[name]:g} and {value:g}, as two parts have this name; "
                "expected a name for each",
                part=self._find_owner(name),
            )
        if name not in self.symbols:
            self.symbols[name] = self.graph.symbol(f"parameter.{name}")
            self.values[name] = float(value)
            self.units[name] = unit
        return self.symbols[name]

    def _find_owner(self, parameter: str) -> str:
        """Path in the file of the last part that has a parameter of this name; empty if there is none."""
        for section in ("forces", "joints", "bodies"):
            for name, part in getattr(self.description, section).items():
                if parameter.startswith(f"{name}."):
                    key = parameter.removeprefix(f"{name}.").partition(".")[0]
                    return f"{section}.{name}" + (f".{key}" if hasattr(part, key) else "")
        return ""

    def value(self, name: str, numbers: Sequence[float], unit: str = "m") -> Value:
        """Vector of parameters `name.x` …; in the plane the third component is zero."""
        atoms = [self.parameter(f"{name}.{a}", v, unit) for a, v in zip("xyz", numbers, strict=False)]
        atoms += [self.graph.zero] * (3 - len(atoms))
        return Value(Vector.of(atoms), np.array([*numbers, 0.0][:3], dtype=float))

    def direction(self, name: str, numbers: Sequence[float]) -> Value:
        """A unit vector from numbers or parameters, as `value` makes a vector."""
        raw = self.value(name, numbers, "1")
        return Value(raw.atoms.unit(), raw.numbers / np.linalg.norm(raw.numbers))

    def constant(self, numbers: np.ndarray) -> Value:
        """(3,) numbers that are not parameters."""
        return Value(Vector.of([self.graph.constant(v) for v in numbers]), np.asarray(numbers, dtype=float))

    # -- coordinates --------------------------------------------------------------------------------------

    def _declare_ground(self) -> None:
        ground = self.geometry["ground"] = LocalGeometry()
        for name, axis in zip(AXES, np.eye(3), strict=True):
            ground.vectors[name] = self.constant(axis)
        for name, numbers in self.description.ground.points.items():
            ground.points[name] = self.value(f"ground.{name}", numbers)
        for name, numbers in self.description.ground.vectors.items():
            ground.vectors[name] = self.direction(f"ground.{name}", numbers)
        for items, store, point in (
            (ground.points, self.points, True),
            (ground.vectors, self.vectors, False),
        ):
            for name, value in items.items():
                store[name] = self.system.fixed(name, value.atoms, point=point)
                self.places[name] = value.numbers
        zero = self.graph.zero
        origin = self.system.fixed("origin", Vector(zero, zero, zero), point=True)
        ground.frame = Frame(origin, [self.vectors[a] for a in AXES])

    def _declare_moving(self) -> None:
        """Declare coordinates of the points and unit vectors of the description."""
        for name, numbers in self.description.points.items():
            self.points[name] = self.basic(name, np.array(numbers), point=True)
        for name, numbers in self.description.vectors.items():
            self.vectors[name] = self.basic(name, np.array(numbers) / np.linalg.norm(numbers), point=False)

    def basic(self, name: str, guess: np.ndarray, *, point: bool) -> Combination:
        """A new point or vector with coordinates."""
        full = np.zeros(3)
        full[: len(guess)] = guess
        self.places[name] = full
        self.guess += list(full[: self.dimension])
        design = Vector.of([self.graph.constant(v) for v in full])
        return self.system.vector(name, design, point=point, planar=self.planar)

    def scalar(self, name: str, guess: float) -> Coordinate:
        """A new coordinate of its own."""
        self.guess.append(guess)
        return self.system.coordinate(name, 0, self.graph.constant(guess))

    def coordinate(self, name: str) -> Coordinate:
        """The coordinate of that name. Raises StopIteration if there is none."""
        return next(c for c in self.system.coordinates if c.name == name)

    def segment(self, segment: Segment) -> tuple[Combination, np.ndarray]:
        """A direction, and its approximate value at the start: (3,) in the ground's axes."""
        if isinstance(segment, str):
            return self.vectors[segment], self.place(segment)
        a, b = segment
        return self.points[b] - self.points[a], self.place(b) - self.place(a)

    def place(self, name: str) -> np.ndarray:
        """(3,) approximate value of a point or vector at the start."""
        if name in self.places:
            return self.places[name]
        combination = self.points[name] if name in self.points else self.vectors[name]
        position: np.ndarray = np.zeros(3) + self.evaluate(combination)
        return position

    def evaluate(self, combination: Combination) -> np.ndarray:
        """(3,) approximate value of a combination at the start."""
        values: dict[Atom, Atom] = {s: self.graph.constant(self.values[n]) for n, s in self.symbols.items()}
        for c, guess in zip(self.system.coordinates, self.guess, strict=True):
            values[c.q] = self.graph.constant(guess)
        return np.array([a.value for a in self.graph.substitute(list(combination.position), values)])

    def has_design(self, name: str) -> bool:
        """Whether a point or vector has a given place; those in bodies' own axes have none."""
        ground, given = self.geometry["ground"], self.description
        return any(name in places for places in (ground.points, ground.vectors, given.points, given.vectors))

    def design(self, name: str) -> Value:
        """A point's or vector's place as given, as parameters of the geometry."""
        if name in self.geometry["ground"].points:
            return self.geometry["ground"].points[name]
        if name in self.geometry["ground"].vectors:
            return self.geometry["ground"].vectors[name]
        if name in self.description.vectors:
            return self.direction(f"design.{name}", self.description.vectors[name])
        return self.value(f"design.{name}", self.description.points[name])

    @property
    def extent(self) -> float:
        """Largest extent, along an axis, of the places given for points, m; 1 m if that is zero."""
        places = [*self.description.ground.points.values(), *self.description.points.values()]
        return (float(np.ptp(np.array(places), axis=0).max()) if places else 0.0) or 1.0

    def name_angles(self) -> set[str]:
        """Names of the coordinates that are angles."""
        return {*self.description.angles, *(name for name, side in self.joint_sides.items() if side.turns)}

    def name_pitches(self) -> dict[str, str]:
        """For each body with a ball joint, or free: name of the angle that can make its three angles singular."""
        return {s.body: name for name, s in self.joint_sides.items() if name == f"{s.body}.angle_y"}

    def complete(self) -> None:
        """Finish the model: called after all bodies, constraints and forces were added."""

    # -- for joints and loads -----------------------------------------------------------------------

    def flat(self, a: Vector) -> Vector:
        """A vector of the plane rotated by a right angle, from x to y."""
        return Vector(-a.y, a.x, self.graph.zero)

    def cross(self, a: Vector, b: Vector) -> Atom:
        """Vector product of two vectors in the plane."""
        return a.x * b.y - a.y * b.x

    def constraint(
        self, name: str, expression: Atom, shift: Vector | None = None, turn: Vector | None = None
    ) -> None:
        """Add a constraint, unless it is an identity.

        `shift`, `turn`: derivatives with respect to motions of the second side, see `wrenches`. Raises
        MechanismError if nothing can move to meet it.
        """
        moving = 0
        for c in self.system.coordinates:
            moving |= c.q.depends
        if expression.depends & moving:
            self.system.constraint(name, expression)
            if shift or turn:
                rest = Vector(*[self.graph.zero] * 3)
                self.wrenches[name] = (*(shift or rest), *(turn or rest))
            return
        values: dict[Atom, Atom] = {s: self.graph.constant(self.values[n]) for n, s in self.symbols.items()}
        (left,) = self.graph.substitute([expression], values)
        known = {a: self.units[name] for name, a in self.symbols.items()}
        (power,) = find_length_powers([expression], known)
        if left.op != "const" or abs(left.value) > _MET * self.extent ** (power or 0.0):
            raise MechanismError(f"{name}: cannot be met, because nothing in it can move")

    def rate(self, expression: Atom) -> Atom:
        """d/dt of an expression in q and t. Raises ExpressionError if it contains rates."""
        for c in self.system.coordinates:
            if expression.depends & c.qd.depends:
                raise ExpressionError("rate of a rate")
        seeds: dict[Atom, Atom] = {c.q: c.qd for c in self.system.coordinates} | self.system.rates
        return self.graph.directional([expression], seeds)[0]

    def expression(
        self, where: str, text: str | float, *, of: str, more: Mapping[str, Atom] | None = None
    ) -> Atom:
        """The atom of an expression `of` the `state`, of the `position` or of `time` only.

        Raises MechanismError naming `where`.
        """
        names = {"t": self.t, **self.symbols, **{n: s[0] for n, s in self.inputs.items()}, **self.functions}
        if of != "time":
            for name, combination in (*self.points.items(), *self.vectors.items()):
                components = zip("xyz"[: self.dimension], combination.position, strict=False)
                names |= {f"{name}.{axis}": component for axis, component in components}
            scalars = {*self.description.angles, *self.description.distances}
            names |= {c.name: c.q for c in self.system.coordinates if c.name in scalars}
        rate = self.rate if of == "state" else None
        try:
            return parse(text, self.graph, {**names, **(more or {})}, rate)
        except ExpressionError as error:
            raise MechanismError(str(error), where) from None

    def home(self, where: str, *names: str) -> LocalGeometry:
        """The body that has these vectors. Raises MechanismError if none has."""
        for geometry in self.geometry.values():
            if geometry.frame is not None and all(n in geometry.vectors for n in names):
                return geometry
        raise MechanismError(f"{where}: no body has {' and '.join(names)}")

    def normals(self, where: str, axis: str) -> tuple[Combination, Combination]:
        """Two directions of an axis' body at right angles to it and to each other."""
        home = self.home(where, axis)
        assert home.frame is not None
        along = home.vectors[axis]
        helper = self.constant(np.eye(3)[np.argmin(np.abs(along.numbers))])
        first = along.atoms.cross(helper.atoms).unit()
        return home.frame.direction(first), home.frame.direction(along.atoms.cross(first))
