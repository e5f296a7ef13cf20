"""The mechanisms of `vehicled bench codegen`, in relative coordinates."""

from __future__ import annotations

from dataclasses import dataclass, field

from vehicled.multibody.relative import AXES, Base, Point, RelativeSpring, RelativeSystem
from vehicled.multibody.system import Coordinate
from vehicled.symbolic.graph import Atom, Graph
from vehicled.symbolic.trigonometry import join_angles
from vehicled.symbolic.vector import Vector


@dataclass
class SymbolicLinkage:
    """A system, and the symbols of its numbers."""

    system: RelativeSystem
    parameters: dict[str, Atom] = field(default_factory=dict)

    def parameter(self, name: str) -> Atom:
        """The symbol of a number of the mechanism (or of a load on it), created on first use."""
        if name not in self.parameters:
            self.parameters[name] = self.system.graph.symbol(name)
        return self.parameters[name]

    def vector(self, *names: str) -> Vector:
        """A vector of parameters; an empty name means zero."""
        return Vector.of([self.parameter(n) if n else self.system.graph.zero for n in names])

    @property
    def gravity(self) -> Vector:
        """Gravity, downwards, world axes, m/s²."""
        return -self.vector("", "", "g")


def four_bar(joins_angles: bool = False) -> SymbolicLinkage:
    """Three links of a planar four-bar linkage by relative angles; the loop is left open.

    The function of the source's figure 1 and listing 1 (Plaza et al.): links of length l1, l2 along their x
    axes turn about y by theta1, theta2, theta3, each against the one before; masses m1 …, centres of mass
    (cg1x, cg1z) …, moments of inertia I1yy … about the links' origins; on each link a force (Fx1, Fz1) … at
    its origin and a moment My1 …, in its axes; gravity g downwards along z. `joins_angles`: see `trigonometry`.
    """
    linkage = SymbolicLinkage(RelativeSystem(Graph(join_angles if joins_angles else None)))
    system, vector = linkage.system, linkage.vector
    base, origin = system.world, system.ground
    for i in (1, 2, 3):
        angle = system.coordinate(f"theta{i}")
        if i > 1:
            origin = system.point(f"joint{i}", origin, base, vector(f"l{i - 1}", "", ""))
        base = system.base(f"link{i}", base, "y", angle)
        mass, moments = linkage.parameter(f"m{i}"), vector("", f"I{i}yy", "")
        system.body(f"link{i}", origin, base, mass, moments, vector(f"cg{i}x", "", f"cg{i}z"))
        system.forces.append((origin, base, vector(f"Fx{i}", "", f"Fz{i}")))
        system.moments.append((base, vector("", f"My{i}", "")))
    return linkage


def locomotive(joins_angles: bool = False) -> SymbolicLinkage:
    """A four-axle bogie locomotive: 21 bodies, 76 relative coordinates. The layout is our own.

    | bodies | coordinates | relative to |
    | --- | --- | --- |
    | car body | 6 | the track |
    | 2 bolsters, on secondary springs | 6 each | car body |
    | 2 bogie frames, on kingpins | 1 each: yaw | bolster |
    | 4 wheelsets, on primary springs | 6 each, the last of them its spin | bogie frame |
    | 4 motors, on rubber mounts | 6 each | bogie frame |
    | 8 axle boxes | 1 each: turning about the axle | axle |

    x forwards, y to the left, z up; angles are yaw, pitch, roll (of wheelsets: yaw, roll, spin). Every body
    has mass, centre of mass and a full inertia matrix of its own; wheelsets are solids of revolution. Springs
    and dampers act along the coordinates, beside four traction rods (car body to bolster) and four yaw dampers
    (car body to bogie frame) between points. Given loads: a contact force on each wheel, a torque on each
    wheelset that its motor bears. The rail's geometry is not part of the function.
    """
    return _Locomotive(RelativeSystem(Graph(join_angles if joins_angles else None))).build()


class _Locomotive(SymbolicLinkage):
    def build(self) -> SymbolicLinkage:
        system = self.system
        at, base = self.suspended("car", system.ground, system.world, None, "zyx")
        self.body("car", at, base)
        for end in ("front", "rear"):
            self.bogie(end, at, base)
        return self

    def bogie(self, end: str, car: Point, car_base: Base) -> None:
        system, vector = self.system, self.vector
        pivot = system.point(f"pivot.{end}", car, car_base, vector(f"pivot.{end}.x", "", "pivot.z"))
        bolster, bolster_base = self.suspended(f"bolster.{end}", pivot, car_base, "secondary", "zyx")
        self.body(f"bolster.{end}", bolster, bolster_base)
        base = system.base(f"frame.{end}", bolster_base, "z", self.sprung(f"frame.{end}.rz", "kingpin"))
        frame = system.point(f"frame.{end}", bolster, base, vector("", "", "frame.z"))
        self.body(f"frame.{end}", frame, base)
        for side in ("left", "right"):
            for kind, inner, inner_base in (("rod", bolster, bolster_base), ("yaw_damper", frame, base)):
                ends = (
                    system.point(
                        f"{kind}.{end}.{side}.car",
                        car,
                        car_base,
                        vector(f"{kind}.{end}.car.x", f"{kind}.{side}.y", f"{kind}.car.z"),
                    ),
                    system.point(
                        f"{kind}.{end}.{side}",
                        inner,
                        inner_base,
                        vector(f"{kind}.{end}.x", f"{kind}.{side}.y", f"{kind}.z"),
                    ),
                )
                law = (self.parameter(f"{kind}.{x}") for x in ("stiffness", "damping", "length"))
                system.springs.append(RelativeSpring(ends, *law))
        for axle in ("leading", "trailing"):
            self.axle(f"{end}.{axle}", axle, frame, base)

    def axle(self, name: str, axle: str, frame: Point, frame_base: Base) -> None:
        system, vector = self.system, self.vector
        seat = system.point(f"seat.{name}", frame, frame_base, vector(f"{axle}.x", "", "axle.z"))
        centre, spun = self.suspended(f"wheelset.{name}", seat, frame_base, "primary", "zxy")
        # Wheelsets spin: parts along the axle that do not spin are given in the preceding base.
        base, spin = spun.parent, spun.coordinate
        assert base is not None
        assert spin is not None
        across = f"wheelset.{name}.Ixx"
        moments = vector(across, f"wheelset.{name}.Iyy", across)
        system.body(f"wheelset.{name}", centre, spun, self.parameter(f"wheelset.{name}.m"), moments)
        for side in ("left", "right"):
            arm = vector("", f"contact.{side}.y", "contact.z")
            contact = system.point(f"contact.{name}.{side}", centre, base, arm)
            force = vector(*(f"contact.{name}.{side}.F{a}" for a in AXES))
            system.forces.append((contact, base, force))
            # The contact point stays below while the wheel rotates; the force acts on the wheel and also
            # turns it.
            system.generalised.append((spin, arm.z * force.x - arm.x * force.z))

            turn = self.sprung(f"box.{name}.{side}.ry", "box")
            box = system.point(f"box.{name}.{side}", centre, base, vector("", f"box.{side}.y", ""))
            self.body(f"box.{name}.{side}", box, system.base(f"box.{name}.{side}", base, "y", turn))

        mount = system.point(f"mount.{name}", frame, frame_base, vector(f"motor.{axle}.x", "", "motor.z"))
        motor, motor_base = self.suspended(f"motor.{name}", mount, frame_base, "mount", "zyx")
        self.body(f"motor.{name}", motor, motor_base)
        torque = vector("", f"motor.{name}.torque", "")
        system.moments += [(spun, torque), (motor_base, -torque)]

    def suspended(
        self, name: str, at: Point, base: Base, springs: str | None, order: str
    ) -> tuple[Point, Base]:
        """Six coordinates: displacements in `base`, then rotations about axes in the given order."""
        slides = {a: self.sprung(f"{name}.{a}", springs) for a in AXES}
        point = self.system.point(name, at, base, None, slides)
        for a in order:
            angle = self.sprung(f"{name}.r{a}", springs)
            base = self.system.base(f"{name}.r{a}", base, a, angle)
        return point, base

    def sprung(self, name: str, springs: str | None) -> Coordinate:
        """A coordinate with a spring and a damper along it; all of one kind are equal."""
        c = self.system.coordinate(name)
        if springs:
            law = f"{springs}.{name.rpartition('.')[2]}"
            force = self.parameter(f"{law}.stiffness") * c.q + self.parameter(f"{law}.damping") * c.qd
            self.system.generalised.append((c, -force))
        return c

    def body(self, name: str, point: Point, base: Base) -> None:
        vectors = [
            self.vector(*(f"{name}.{x}" for x in names))
            for names in (("Ixx", "Iyy", "Izz"), ("cx", "cy", "cz"), ("Ixy", "Iyz", "Izx"))
        ]
        self.system.body(name, point, base, self.parameter(f"{name}.m"), *vectors)
