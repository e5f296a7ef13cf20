"""Parts of a car, as written in its file.

Positions are in the design frame of the file: x forward, y left, z up from the ground, with the car at design
height; the frame's origin along x and y is free. The left side is given; the right side mirrors it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Literal

import numpy as np

from vehicled.maths.inertia import find_impossible
from vehicled.messages import WHEELS
from vehicled.units import KilogramSquareMetresVector, Positive, Range, Unit
from vehicled.vehicle.differential import Differential, Driven, check_drive
from vehicled.vehicle.hard_points import (
    HardPoints,
    LiveAxlePoints,
    MacphersonPoints,
    Suspensions,
    SwingArmPoints,
)
from vehicled.vehicle.proportions import check_proportions
from vehicled.vehicle.ranges import (
    GYRATION,
    AntiRollBar,
    BrakeDamping,
    BrakeGain,
    BrakeStiffness,
    Damping,
    DragArea,
    DragHeight,
    FinalDrive,
    ForcePair,
    Friction,
    Gravity,
    LeastSpeed,
    LiftArea,
    PartMass,
    Place,
    Preload,
    RackRatio,
    RollingResistance,
    SlipPair,
    SlipStiffness,
    SlipStiffnessPair,
    SpringStiffness,
    StopSoftness,
    StopStiffness,
    TrailSlip,
    Travel,
    TyreLoad,
    TyreStiffness,
    WheelInertia,
    WheelRadius,
)

LEFT_RIGHT = {"fl": 1.0, "fr": -1.0, "rl": 1.0, "rr": -1.0}


@dataclass(frozen=True, kw_only=True)
class BodyParameters:
    """A rigid body."""

    mass: PartMass
    center_of_mass: Place
    """Design frame; of the left body if there are two."""
    inertia: Annotated[KilogramSquareMetresVector, Positive]
    """Ixx, Iyy, Izz about the centre of mass, in design axes."""

    def check(self) -> Iterable[tuple[str, str]]:
        """Yield (key, what is wrong) for moments of inertia that no body can have."""
        if (wrong := find_impossible(self.inertia)) is not None:
            yield "inertia", wrong
        gyration = float(np.sqrt(max(self.inertia) / self.mass))
        if gyration not in GYRATION:
            expected = GYRATION.describe(Unit("m"))
            yield "inertia", f"with this mass a radius of gyration of {gyration:.3g} m: expected {expected}"


@dataclass(frozen=True, kw_only=True)
class Wheel:
    """Wheel with tyre: axisymmetric, its centre of mass at the wheel centre."""

    mass: PartMass
    axial_inertia: WheelInertia
    """Moment about the spin axis, including all parts that turn with the wheel."""
    transverse_inertia: WheelInertia

    def check(self) -> Iterable[tuple[str, str]]:
        """Yield (key, what is wrong) for moments of inertia that no body can have."""
        if (
            find_impossible((self.axial_inertia, self.transverse_inertia, self.transverse_inertia))
            is not None
        ):
            yield "axial_inertia", "no body has an axial moment above twice the transverse one"


@dataclass(frozen=True, kw_only=True)
class SuspensionSpring:
    """Coil spring between chassis and lower wishbone."""

    stiffness: SpringStiffness
    """Stiffness at the spring."""
    preload: Preload | None = None
    """Force in design position; default: the force that carries the car at design height."""


@dataclass(frozen=True, kw_only=True)
class Damper:
    """Damper between the same points as the spring."""

    bump: Damping
    rebound: Damping


@dataclass(frozen=True, kw_only=True)
class Stops:
    """Rubber stops at the strut, soft over their first few millimetres."""

    bump: Travel = 0.08
    """Compression of the strut from design position at which the bump stop is met."""
    droop: Travel = 0.08
    stiffness: StopStiffness = 2e5
    softness: StopSoftness = 5e-3


@dataclass(frozen=True, kw_only=True)
class Brake:
    """Disc brake."""

    gain: BrakeGain = 0.0
    """Torque of one wheel per line pressure."""
    stiffness: BrakeStiffness = 4e4
    """Torsional stiffness of the mounting of a stuck disc."""
    damping: BrakeDamping = 60.0


@dataclass(frozen=True, kw_only=True)
class LinearTyre:
    """Friction-limited linear slip law, as used for the published reference vehicle."""

    kind: Literal["linear"]
    radius: WheelRadius
    vertical_stiffness: TyreStiffness
    vertical_damping: Damping
    slip_stiffness_x: SlipStiffness
    """Force per longitudinal slip."""
    slip_stiffness_y: SlipStiffness
    """Force per lateral slip (tangent of the slip angle)."""
    friction: Friction
    least_speed: LeastSpeed = 2.0


@dataclass(frozen=True, kw_only=True)
class Characteristic:
    """TMeasy steady-state force over slip along one axis, at nominal load and at twice that."""

    df0: SlipStiffnessPair
    """Initial slope, force per slip."""
    fm: ForcePair
    """Greatest force."""
    fs: ForcePair
    """Force of full sliding."""
    sm: SlipPair
    """Slip at the greatest force."""
    ss: SlipPair
    """Slip at which sliding begins."""
    stiffness: TyreStiffness = 1.5e5
    """Stiffness of the tyre's deflection along this axis; with df0 it determines the relaxation length."""
    damping: Damping = 300.0

    def check(self) -> Iterable[tuple[str, str]]:
        """Yield (key, what is wrong) for points in an order that no curve passes through."""
        for n in (0, 1):
            if self.df0[n] * self.sm[n] < self.fm[n]:
                yield "df0", "the initial slope times the slip of the greatest force must reach that force"
            if self.ss[n] <= self.sm[n]:
                yield "ss", "sliding must begin at a larger slip than the greatest force"
            if self.fs[n] > self.fm[n]:
                yield "fs", "the sliding force cannot exceed the greatest force"


@dataclass(frozen=True, kw_only=True)
class TMeasyTyre:
    """TMeasy (Rill, Road Vehicle Dynamics, chapter 3)."""

    kind: Literal["tmeasy"]
    radius: WheelRadius
    vertical_stiffness: TyreStiffness
    vertical_damping: Damping
    nominal_load: TyreLoad
    longitudinal: Characteristic
    lateral: Characteristic
    rolling_share: Annotated[float, Range(0.0, 1.0)] = 0.33
    """Share of the deflection that is subtracted from the undeformed radius to get the rolling radius."""
    rolling_resistance: RollingResistance = 0.012
    trail: Annotated[float, Range(0.0, 2.0)] = 0.18
    """Ratio of the pneumatic trail at zero slip to the contact length."""
    trail_zero: TrailSlip = 0.2
    """Lateral slip at which the trail vanishes."""
    trail_end: TrailSlip = 0.5
    """Lateral slip above which the trail stays zero."""


@dataclass(frozen=True, kw_only=True)
class AxleParts:
    """Parts of every axle; those of its left side."""

    BODIES: ClassVar[tuple[str, ...]] = ()
    """Keys of the bodies that this kind has, besides the wheel."""

    wheel: Wheel
    spring: SuspensionSpring
    damper: Damper
    stops: Stops = field(default_factory=Stops)
    anti_roll_bar: AntiRollBar = 0.0
    """Vertical force at one lower ball joint (of a swing arm: wheel centre; of a live axle: end of the trailing link)
    per difference of the two heights."""
    brake: Brake = field(default_factory=Brake)
    differential: Differential = field(default_factory=Differential)
    tyre: LinearTyre | TMeasyTyre


@dataclass(frozen=True, kw_only=True)
class Axle(AxleParts):
    """One axle with double wishbones."""

    BODIES: ClassVar = ("lower_wishbone", "upper_wishbone", "knuckle")

    suspension: Literal["double_wishbone"] = "double_wishbone"
    hard_points: HardPoints
    lower_wishbone: BodyParameters
    upper_wishbone: BodyParameters
    knuckle: BodyParameters

    def bodies(self) -> dict[str, BodyParameters]:
        """Bodies of the left corner without the wheel, by name in the model."""
        return {
            "lower_wishbone": self.lower_wishbone,
            "upper_wishbone": self.upper_wishbone,
            "knuckle": self.knuckle,
        }


@dataclass(frozen=True, kw_only=True)
class MacphersonAxle(AxleParts):
    """One axle with MacPherson struts."""

    BODIES: ClassVar = ("lower_wishbone", "knuckle")

    suspension: Literal["macpherson"]
    hard_points: MacphersonPoints
    lower_wishbone: BodyParameters
    knuckle: BodyParameters
    """Including the part of the strut that is fixed to it."""

    def bodies(self) -> dict[str, BodyParameters]:
        """Bodies of the left corner without the wheel, by name in the model."""
        return {"lower_wishbone": self.lower_wishbone, "knuckle": self.knuckle}


@dataclass(frozen=True, kw_only=True)
class SwingArmAxle(AxleParts):
    """One axle with trailing or semi-trailing arms, or a swing axle."""

    BODIES: ClassVar = ("arm",)

    suspension: Literal["swing_arm"]
    hard_points: SwingArmPoints
    arm: BodyParameters
    """Including all that is fixed to it."""

    def bodies(self) -> dict[str, BodyParameters]:
        """Bodies of the left corner without the wheel, by name in the model.

        In the model the arm is two bodies, fixed to each other. Each has half of it, so that no body is
        without mass.
        """
        arm = self.arm
        x, y, z = arm.inertia
        half = replace(arm, mass=0.5 * arm.mass, inertia=(0.5 * x, 0.5 * y, 0.5 * z))
        return {"lower_wishbone": half, "knuckle": half}


@dataclass(frozen=True, kw_only=True)
class LiveAxle(AxleParts):
    """A rigid axle on rods, with the differential in it."""

    BODIES: ClassVar = ("axle",)

    suspension: Literal["live_axle"]
    hard_points: LiveAxlePoints
    axle: BodyParameters
    """Both halves including all that is fixed to them, except the wheels. Rods have no mass: add half of
    their mass here, and half to the chassis."""
    final_drive: FinalDrive = 4.0
    """Ratio; the propeller shaft turns the axle about the car's x axis with the drive torque divided by
    it."""

    def bodies(self) -> dict[str, BodyParameters]:
        """Bodies of the left corner without the wheel: none, as both corners share the axle."""
        return {}


AnyAxle = Axle | MacphersonAxle | SwingArmAxle | LiveAxle
"""Kinds of axle, by `suspension`."""


@dataclass(frozen=True, kw_only=True)
class Aerodynamics:
    """Forces of the air on the chassis, from the speed along x; ρ = 1.225 kg/m³."""

    drag_area: DragArea = 0.0
    """Drag coefficient times frontal area."""
    front_lift_area: LiftArea = 0.0
    """Lift coefficient times area at the front axle; negative for downforce."""
    rear_lift_area: LiftArea = 0.0
    drag_height: DragHeight | None = None
    """Height over the ground; default: that of the vehicle origin."""


@dataclass(frozen=True, kw_only=True)
class SteeringParameters:
    """Rack-and-pinion steering."""

    ratio: RackRatio = 0.0095
    """Rack displacement per steering-wheel angle."""


@dataclass(frozen=True, kw_only=True)
class Vehicle:
    """A car by its hard points."""

    kind: Literal["hard_points"]
    chassis: BodyParameters
    rack: BodyParameters
    front: AnyAxle
    rear: AnyAxle
    aerodynamics: Aerodynamics = field(default_factory=Aerodynamics)
    steering: SteeringParameters = field(default_factory=SteeringParameters)
    driven: Driven = "rear"
    """Axles that the engine drives."""
    torque_split: Annotated[float, Range(0.01, 0.99)] | None = None
    """With `driven: all`, the front axle's share of the torque; default: all wheels slip alike."""
    gravity: Gravity = 9.81

    def check(self) -> Iterable[tuple[str, str]]:
        """Yield (key, what is wrong) for axles that do not fit together."""
        if isinstance(self.front, SwingArmAxle | LiveAxle):
            what = "swing arms" if isinstance(self.front, SwingArmAxle) else "live axles"
            yield "front.suspension", f"{what} cannot be steered; expected double_wishbone or macpherson"
        if self.front.tyre.kind != self.rear.tyre.kind:
            yield "rear.tyre.kind", "both axles take the same tyre law"
        if self.front.hard_points.wheel_center[0] <= self.rear.hard_points.wheel_center[0]:
            yield "front.hard_points.wheel_center", "the front wheels must lie before the rear wheels"
            return
        yield from check_proportions(self)
        differentials = {"front": self.front.differential, "rear": self.rear.differential}
        yield from check_drive(self.driven, self.torque_split, differentials)

    def to_vehicle(self) -> Vehicle:
        """The car itself; `Handbook` has the same method."""
        return self

    @property
    def wheelbase(self) -> float:
        """Distance of the axles, m."""
        return self.front.hard_points.wheel_center[0] - self.rear.hard_points.wheel_center[0]

    @property
    def tyre(self) -> str:
        """Kind of tyre law, the same for both axles."""
        return self.front.tyre.kind

    @property
    def suspensions(self) -> Suspensions:
        """Kinds of suspension, front and rear: with the tyre law, what a compiled model is made for."""
        return self.front.suspension, self.rear.suspension

    def axle(self, wheel: str) -> AnyAxle:
        """The axle of a wheel (`fl`, `fr`, `rl`, `rr`)."""
        return self.front if wheel[0] == "f" else self.rear

    def is_driven(self, wheel: str) -> bool:
        """Whether the engine drives a wheel."""
        return self.driven == "all" or self.driven[0] == wheel[0]

    def calc_front_share(self, slip_stiffness: np.ndarray) -> float:
        """The front axle's share of the drive torque; `slip_stiffness` (4,) of the wheels, in any unit."""
        if self.driven != "all":
            return float(self.driven == "front")
        if self.torque_split is not None:
            return self.torque_split
        return float(slip_stiffness[:2].sum() / slip_stiffness.sum())

    def calc_brake_shares(self, radius: np.ndarray, slip_stiffness: np.ndarray) -> np.ndarray:
        """(4,) the wheels' shares of the braking force, with equal pressure at all brakes.

        If no brake is given, all wheels have the same slip. Both arguments (4,) by wheel: rolling radius in
        m; slip stiffness in any unit.
        """
        axles = self.front, self.front, self.rear, self.rear
        force = np.array([axle.brake.gain for axle in axles]) / radius
        share = force if force.any() else slip_stiffness
        shares: np.ndarray = share / share.sum()
        return shares

    @property
    def mass(self) -> float:
        """Mass of the whole car, kg."""
        central = sum(b.mass for b in self.central_bodies().values())
        return central + sum(m for m, _ in self._corner_masses())

    def central_bodies(self) -> dict[str, BodyParameters]:
        """Bodies that belong to no corner, by name in the model."""
        bodies = {"chassis": self.chassis, "rack": self.rack}
        return bodies | {"axle": self.rear.axle} if isinstance(self.rear, LiveAxle) else bodies

    def center_of_mass(self) -> np.ndarray:
        """Centre of mass of the whole car in design position, design frame, (3,) m: the vehicle origin."""
        parts = [(b.mass, np.array(b.center_of_mass)) for b in self.central_bodies().values()]
        parts += self._corner_masses()
        masses = np.array([m for m, _ in parts])
        center: np.ndarray = masses @ np.array([r for _, r in parts]) / masses.sum()
        return center

    def _corner_masses(self) -> list[tuple[float, np.ndarray]]:
        parts = []
        for w in WHEELS:
            axle, mirror = self.axle(w), np.array([1.0, LEFT_RIGHT[w], 1.0])
            for b in axle.bodies().values():
                parts.append((b.mass, mirror * b.center_of_mass))
            parts.append((axle.wheel.mass, mirror * axle.hard_points.wheel_center))
        return parts
