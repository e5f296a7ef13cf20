"""Parts of a mechanism, as written in its file.

A planar mechanism lies in the plane z = 0 and takes two numbers for a place or a direction, a spatial one three.
Names are shared: a point or unit vector that stands in two bodies belongs to both and joins them, without
any further coordinates or constraints. `x`, `y`, `z` are the ground's directions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Annotated, Literal

from vehicled.multibody.elements import (
    AXES,
    Angle,
    Body,
    CoordinateForce,
    Cylindrical,
    DifferenceSpring,
    Direction,
    Distance,
    Expression,
    Fixed,
    Force,
    GroundBody,
    Joint,
    Load,
    Place,
    PointMass,
    Prismatic,
    Revolute,
    Rigid,
    Segment,
    Torque,
    TorsionSpring,
    Universal,
)
from vehicled.multibody.expressions import RESERVED
from vehicled.multibody.files import mechanism_path
from vehicled.reading import settings
from vehicled.units import Range, Unit, UnitError, name_unit, parse_unit, split_quantity


@dataclass(frozen=True, kw_only=True)
class Description:
    """Description of a mechanism."""

    space: Literal["planar", "spatial"]
    coordinates: Literal["natural", "relative", "auto"] = "natural"
    """Natural: of points and unit vectors; relative: of joints, with constraints that close loops; auto: the
    form whose step costs less, without ball joints (`forms`)."""
    gravity: Annotated[tuple[float, ...], Unit("m/s²"), Range(-1e6, 1e6)] | None = None
    ground: GroundBody = field(default_factory=GroundBody)
    points: dict[str, Place] = field(default_factory=dict)
    """Approximate places at the start; points are moved as little as possible to meet the constraints."""
    vectors: dict[str, Direction] = field(default_factory=dict)
    velocities: dict[str, Annotated[tuple[float, ...], Unit("m/s")]] = field(default_factory=dict)
    """Velocities of points at the start; only those of independent coordinates are used."""
    angles: dict[str, Angle] = field(default_factory=dict)
    distances: dict[str, Distance] = field(default_factory=dict)
    parameters: dict[str, float | str] = field(default_factory=dict)
    """Numbers for expressions, given with their unit; expressions use them in SI."""
    inputs: list[str] = field(default_factory=list)
    """Names of functions of time that the caller gives, with rate and acceleration; zero at the start."""
    functions: dict[str, Expression] = field(default_factory=dict)
    """Named expressions of t, parameters, inputs and earlier functions, for use in other expressions."""
    bodies: dict[str, Body]
    joints: dict[str, Joint] = field(default_factory=dict)
    drives: dict[str, Expression] = field(default_factory=dict)
    """Coordinates that follow an expression of t, parameters, inputs and functions."""
    forces: dict[str, Load] = field(default_factory=dict)
    independent: list[str] | None = None
    """Coordinates that keep their start values and determine the others; chosen automatically by default."""
    degrees_of_freedom: int | None = None
    """Default: the number of independent coordinates, if given; otherwise it is not checked."""

    @property
    def dimension(self) -> int:
        """2 for planar mechanisms, 3 in space."""
        return 2 if self.space == "planar" else 3

    def parameter_values(self) -> dict[str, float]:
        """`parameters` in SI. Raises UnitError."""
        values = {}
        for name, value in self.parameters.items():
            if isinstance(value, str):
                numbers, text = split_quantity(value)
                if len(numbers) != 1:
                    raise UnitError(f"expected one number and a unit, got {value[:40]!r}")
                values[name] = numbers[0] * (parse_unit(text)[0] if text else 1.0)
            else:
                values[name] = value
        return values

    def parameter_units(self) -> dict[str, str]:
        """SI units of `parameter_values`. Raises UnitError."""
        texts = {n: split_quantity(v)[1] if isinstance(v, str) else "" for n, v in self.parameters.items()}
        return {name: name_unit(parse_unit(text or "1")[1]) for name, text in texts.items()}

    def point_names(self) -> set[str]:
        """Names of all points: of ground, mechanism and bodies together."""
        markers = chain.from_iterable(b.markers for b in self.bodies.values() if isinstance(b, Rigid))
        return {*self.ground.points, *self.points, *markers}

    def vector_names(self) -> set[str]:
        """Names of all unit vectors: axes, and those of ground, mechanism and bodies together."""
        directions = chain.from_iterable(b.directions for b in self.bodies.values() if isinstance(b, Rigid))
        return {*AXES[: self.dimension], *self.ground.vectors, *self.vectors, *directions}

    def coordinate_names(self) -> list[str]:
        """Names of the coordinates in the model's order, without those that the model adds.

        The model adds unit vectors and, in relative coordinates, those of joints that have no name in the
        description.
        """
        moving = (*self.points, *self.vectors) if self.coordinates != "relative" else ()
        components = [f"{n}.{a}" for n in moving for a in "xyz"[: self.dimension]]
        return [*components, *self.angles, *self.distances]

    # -- checks that need no more than the file ----------------------------------------------------------

    def check(self) -> Iterator[tuple[str, str]]:
        """Yield (key, fault) for names, dimensions, bodies and parameters that do not fit together."""
        yield from self._check_names()
        yield from self._check_dimensions()
        yield from self._check_bodies()
        yield from self._check_uses()
        try:
            self.parameter_values()
        except UnitError as error:
            yield "parameters", str(error)

    def _check_names(self) -> Iterator[tuple[str, str]]:
        sections: dict[str, Iterable[str]] = {
            "ground.points": self.ground.points,
            "ground.vectors": self.ground.vectors,
            "points": self.points,
            "vectors": self.vectors,
            "angles": self.angles,
            "distances": self.distances,
            "parameters": self.parameters,
            "inputs": self.inputs,
            "functions": self.functions,
        }
        for body, b in self.bodies.items():
            if isinstance(b, Rigid):
                sections |= {f"bodies.{body}.markers": b.markers, f"bodies.{body}.directions": b.directions}
        seen = dict.fromkeys(AXES, "the ground's directions")
        for section, names in sections.items():
            for name in names:
                where = section if section == "inputs" else f"{section}.{name}"
                if not name.isidentifier() or name in RESERVED:
                    why = ", a word of expressions" if name in RESERVED else ""
                    yield where, f"expected a name of letters, digits and _, got '{name}'{why}"
                elif name in seen:
                    yield where, f"'{name}' stands in {seen[name]} already"
                seen[name] = section
        for section, names in (("bodies", self.bodies), ("joints", self.joints), ("forces", self.forces)):
            for name in names:
                if not (name and name.isprintable()):
                    yield section, f"expected names of one line of characters, got {name!r}"
        # `switches` names constraints by body or joint; reactions name joints, points and directions.
        placed = self.point_names() | self.vector_names()
        taken = {name: seen[name] for name in placed} | dict.fromkeys(self.bodies, "bodies")
        for name in self.joints:
            if name in taken:
                yield f"joints.{name}", f"'{name}' stands in {taken[name]} already"
        if "ground" in self.bodies:
            yield "bodies.ground", "expected another name: this one is that of what does not move"
        if not self.bodies:
            yield "bodies", "expected at least one body"

    def _check_dimensions(self) -> Iterator[tuple[str, str]]:
        n = self.dimension
        places: list[tuple[str, tuple[float, ...] | None]] = [("gravity", self.gravity)]
        for section, items in (
            ("ground.points", self.ground.points),
            ("ground.vectors", self.ground.vectors),
            ("points", self.points),
            ("vectors", self.vectors),
            ("velocities", self.velocities),
        ):
            places += [(f"{section}.{name}", value) for name, value in items.items()]
        for body, b in self.bodies.items():
            if isinstance(b, Rigid):
                for part in ("points", "vectors", "markers", "directions"):
                    items = getattr(b, part)
                    if isinstance(items, dict):
                        places += [(f"bodies.{body}.{part}.{name}", v) for name, v in items.items()]
                places.append((f"bodies.{body}.center_of_mass", b.center_of_mass))
                wanted = 1 if n == 2 else 3
                if len(b.inertia) != wanted:
                    text = "one number, Izz" if n == 2 else "three numbers, Ixx Iyy Izz"
                    yield f"bodies.{body}.inertia", f"expected {text}, in a {self.space} mechanism"
        for path, value in places:
            if value is not None and len(value) != n:
                yield path, f"expected {n} numbers in a {self.space} mechanism, got {len(value)}"
        for path, value in places:
            direction = "vectors" in path.split(".") or "directions" in path.split(".")
            if direction and value is not None and not any(value):
                yield path, "expected a direction, got the zero vector"

    def _check_bodies(self) -> Iterator[tuple[str, str]]:
        points, vectors = {*self.ground.points, *self.points}, self.vector_names()
        basic_vectors = {*AXES, *self.ground.vectors, *self.vectors}
        for name, b in self.bodies.items():
            own = [b.point] if isinstance(b, PointMass) else list(b.points)
            for p in own:
                if p not in points:
                    yield f"bodies.{name}", _unknown("point", p, points)
            if len(set(own)) != len(own) or not own:
                yield f"bodies.{name}.points", "expected points that are not the same"
            for v in b.vectors if isinstance(b, Rigid) else ():
                if v not in basic_vectors:
                    yield f"bodies.{name}.vectors", _unknown("vector", v, vectors)

    def _check_uses(self) -> Iterator[tuple[str, str]]:
        points, vectors = self.point_names(), self.vector_names()
        spatial = self.space == "spatial"

        def segment(value: Segment | None) -> Iterator[str]:
            if isinstance(value, str):
                if value not in vectors:
                    yield _unknown("vector", value, vectors)
            else:
                for p in value or ():
                    if p not in points:
                        yield _unknown("point", p, points)
                yield from repeated(value or ())

        def repeated(pair: Sequence[str]) -> Iterator[str]:
            if len(pair) == 2 and pair[0] == pair[1]:
                yield f"expected two points, got {pair[0]} twice"

        for name, a in self.angles.items():
            for part in (*a.between, a.about):
                for message in segment(part):
                    yield f"angles.{name}", message
            if spatial and a.about is None:
                yield f"angles.{name}.about", "missing; expected the axis of the angle"
        for name, d in self.distances.items():
            for message in chain(segment(d.points), segment(d.along)):
                yield f"distances.{name}", message
        for section, items in (("joints", self.joints), ("forces", self.forces)):
            for name, item in items.items():
                for p in (*getattr(item, "points", ()), *filter(None, [getattr(item, "point", None)])):
                    if p not in points:
                        yield f"{section}.{name}", _unknown("point", p, points)
                axes = (*(getattr(item, "axes", None) or ()), *(getattr(item, "normals", None) or ()))
                if not axes:  # The points of joints with axes may be one point that bodies share.
                    for message in repeated(getattr(item, "points", ())):
                        yield f"{section}.{name}.points", message
                for v in (*axes, *filter(None, [getattr(item, "axis", None)])):
                    if v not in vectors:
                        yield f"{section}.{name}", _unknown("vector", v, vectors)
        for name, j in self.joints.items():
            if not spatial and isinstance(j, (Universal, Cylindrical)):
                yield f"joints.{name}.kind", f"a {j.kind} joint needs space, this mechanism is planar"
            if spatial and isinstance(j, (Revolute,)) and j.axes is None:
                yield f"joints.{name}.axes", "missing; expected the two axes"
            if spatial and isinstance(j, (Prismatic, Fixed)) and j.normals is None:
                yield f"joints.{name}.normals", "missing; expected two directions at right angles to the axes"
        coordinates = self.coordinate_names()
        for section, names in (("drives", list(self.drives)), ("independent", self.independent or [])):
            for name in names:
                if name not in coordinates:
                    yield section, _unknown("coordinate", name, coordinates)
        for name in self.independent or []:
            if name in self.drives:
                yield (
                    f"drives.{name}",
                    f"{name} is also independent: a coordinate is either driven or independent",
                )
            if (self.independent or []).count(name) > 1:
                yield "independent", f"expected each coordinate once, got {name} again"
        for name, f in self.forces.items():
            if isinstance(f, TorsionSpring) and f.angle not in self.angles:
                yield f"forces.{name}.angle", _unknown("angle", f.angle, self.angles)
            if isinstance(f, DifferenceSpring):
                for distance in f.distances:
                    if distance not in self.distances:
                        yield f"forces.{name}.distances", _unknown("distance", distance, self.distances)
            if isinstance(f, CoordinateForce) and f.coordinate not in coordinates:
                yield f"forces.{name}.coordinate", _unknown("coordinate", f.coordinate, coordinates)
            if isinstance(f, Torque):
                if f.body not in self.bodies:
                    yield f"forces.{name}.body", _unknown("body", f.body, self.bodies)
                if len(f.torque) != (3 if spatial else 1):
                    yield f"forces.{name}.torque", f"expected {3 if spatial else 1} component(s)"
            if isinstance(f, Force) and len(f.force) != self.dimension:
                yield f"forces.{name}.force", f"expected {self.dimension} components"
        for name in self.velocities:
            if name not in self.points:
                yield f"velocities.{name}", _unknown("point", name, self.points)


def _unknown(kind: str, name: str, known: Iterable[str]) -> str:
    return f"unknown {kind} '{name}'; known here: {', '.join(sorted(known)) or 'none'}"


def load_description(name_or_path: str | Path) -> Description:
    """The mechanism in a file, or the shipped mechanism of that name (`four_bar`). Raises SettingsError."""
    return settings.load(mechanism_path(name_or_path), Description)


def parse_description(text: str) -> Description:
    """The mechanism in the text of a file. Raises SettingsError."""
    return settings.loads(text, Description, "mechanism")
