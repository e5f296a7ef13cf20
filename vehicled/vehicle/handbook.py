"""A car by handbook figures, modelled by a scaled double-wishbone template.

Usually masses, wheelbase, tracks and perhaps a cornering stiffness are known, but no hard points. These come
from the template; rates at the wheel are converted by its motion ratios, so that the car has exactly the
given figures at rest: mass, centre of mass, moments of inertia, wheel rates, damping, roll stiffness,
roll-centre heights, cornering stiffness, friction. Figures that are left out have the defaults stated below.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Annotated, Literal

import numpy as np

from vehicled.units import KilogramSquareMetresVector, Metres, Positive, Range
from vehicled.vehicle.differential import Differential, Driven, check_drive
from vehicled.vehicle.hard_points import HardPoints
from vehicled.vehicle.kinematics import Corner, calc_rates, moved
from vehicled.vehicle.parameters import (
    Aerodynamics,
    Axle,
    BodyParameters,
    Brake,
    Characteristic,
    Damper,
    SteeringParameters,
    Stops,
    SuspensionSpring,
    TMeasyTyre,
    Vehicle,
    Wheel,
)
from vehicled.vehicle.ranges import (
    BrakeGain,
    CenterOfMassHeight,
    CorneringStiffness,
    Damping,
    DampingRatio,
    Friction,
    Gravity,
    Mass,
    PartMass,
    RelaxationLength,
    RideFrequency,
    RollCenterHeight,
    RollingResistance,
    RollStiffness,
    SpringStiffness,
    SteeringRatio,
    Track,
    Travel,
    TyreStiffness,
    Wheelbase,
    WheelInertia,
    WheelRadius,
)

_ROLL_PER_G = math.radians(7.0)
"""Roll of the body at a lateral acceleration of 1 g if no bar is given: that of middle-market saloons
(Milliken and Milliken, Race Car Vehicle Dynamics, 1995: from 3° for the firmest road cars to 8.5° for the
softest)."""
_LEAST_TYRE_STIFFNESS, _TYRE_DEFLECTION = 2e5, 0.08
"""Least default of the vertical stiffness, N/m, and largest deflection by the default at rest, in radii: tyres of
vans and lorries are built and pumped up for their load."""
_INERTIA_FOLLOWS = "by mass, tracks, wheelbase, front_to_center_of_mass and center_of_mass_height: "
_ROUNDS = 20
_DIFFERENCE = 1e-6
"""Step of the difference quotients, in wheel radii."""


@dataclass(frozen=True, kw_only=True)
class HandbookAxle:
    """One axle; figures hold for one wheel unless they say axle."""

    track: Track
    wheel_radius: WheelRadius
    """Radius of the undeformed tyre."""
    wheel_rate: SpringStiffness | None = None
    """Stiffness of the springs referred to the wheel, without tyre and anti-roll bar."""
    ride_frequency: RideFrequency | None = None
    """Natural frequency of the sprung mass on its springs, in place of `wheel_rate`; default 1.4 Hz."""
    damping: Damping | None = None
    """Damping of one damper referred to the wheel, mean of bump and rebound."""
    damping_ratio: DampingRatio | None = None
    """Damping ratio of the sprung mass, in place of `damping`; default 0.3."""
    roll_stiffness: RollStiffness | None = None
    """Roll stiffness of the axle's anti-roll bar, without the springs; default: what is missing for a roll of
    7° at 1 g, shared between the axles in proportion to their loads."""
    roll_center_height: RollCenterHeight = 0.05
    """Height over the ground, at rest."""
    bump_travel: Travel = 0.08
    """Travel of the wheel, from rest to the bump stop."""
    droop_travel: Travel = 0.08
    unsprung_mass: PartMass | None = None
    """Unsprung mass of one corner: wheel, knuckle, brake, wishbones; default 3 % of the car's mass."""
    wheel_inertia: WheelInertia | None = None
    """Moment of inertia of all that turns with one wheel, about its axis; default m (0.8 r)² with half the
    unsprung mass."""
    tyre_stiffness: TyreStiffness | None = None
    """Vertical stiffness; default 200 kN/m, or under heavier loads what deflects it by 8 % of its radius."""
    tyre_damping: Damping = 300.0
    """Vertical damping."""
    cornering_stiffness: CorneringStiffness
    """Cornering stiffness of the axle (both tyres) at its static load."""
    slip_stiffness_ratio: Annotated[float, Range(0.1, 10.0)] = 1.6
    """Longitudinal force per slip over lateral force per slip angle."""
    friction: Friction = 1.0
    """Friction at static load."""
    relaxation_length: RelaxationLength | None = None
    """Default 1.3 wheel radii."""
    rolling_resistance: RollingResistance = 0.012
    brake_gain: BrakeGain | None = None
    """Torque of one wheel per line pressure; default: 1 g at 80 bar, distributed between front and rear in
    proportion to the loads during that deceleration."""
    differential: Differential = field(default_factory=Differential)

    def check(self) -> Iterable[tuple[str, str]]:
        """Yield (key, what is wrong) for figures that exclude each other, or a wheel too large for the track."""
        if self.wheel_rate is not None and self.ride_frequency is not None:
            yield "ride_frequency", "expected either this or wheel_rate"
        if self.damping is not None and self.damping_ratio is not None:
            yield "damping_ratio", "expected either this or damping"
        if self.wheel_radius > 0.45 * self.track:
            yield "wheel_radius", "too large for this track: expected at most 0.45 of it"


@dataclass(frozen=True, kw_only=True)
class Handbook:
    """A car by handbook figures; with driver, fuel and load, at rest on level ground."""

    kind: Literal["handbook"]
    mass: Mass
    wheelbase: Wheelbase
    front_to_center_of_mass: Annotated[Metres, Positive]
    """Distance from the front axle back to the centre of mass."""
    center_of_mass_height: CenterOfMassHeight
    inertia: Annotated[KilogramSquareMetresVector, Positive] | None = None
    """Ixx Iyy Izz of the whole car about its centre of mass; default m (0.4 track)², 0.95 Izz and m·a·b, with
    a and b the distances from the axles to the centre of mass."""
    front: HandbookAxle
    rear: HandbookAxle
    steering_ratio: SteeringRatio = 16.0
    driven: Driven = "rear"
    """Axles that the engine drives."""
    torque_split: Annotated[float, Range(0.01, 0.99)] | None = None
    """With `driven: all`, the front axle's share of the torque; default: all wheels slip alike."""
    aerodynamics: Aerodynamics = field(default_factory=Aerodynamics)
    gravity: Gravity = 9.81

    def check(self) -> Iterable[tuple[str, str]]:
        """Yield (key, what is wrong) for figures that no car can have together."""
        differentials = {"front": self.front.differential, "rear": self.rear.differential}
        yield from check_drive(self.driven, self.torque_split, differentials)
        if self.front_to_center_of_mass >= self.wheelbase:
            yield "front_to_center_of_mass", "the centre of mass must lie between the axles"
            return
        for name in ("front", "rear"):
            axle = self._axle(name)
            load = self._wheel_load(name)
            if self.calc_unsprung_mass(axle) >= 0.5 * load / self.gravity:
                yield f"{name}.unsprung_mass", "more than half of what stands on that wheel"
                return
            if load / self._tyre_stiffness(name) > 0.2 * axle.wheel_radius:
                yield f"{name}.tyre_stiffness", "so soft that the car stands on its rims"
                return
        for name, points in self._points.items():
            corner = Corner.of(points)
            miss = abs(roll_center_height(corner) - self._axle(name).roll_center_height)
            if miss > 1e-4 or max(abs(moved(corner, z).toe) for z in (-0.05, 0.05)) > math.radians(0.5):
                yield f"{name}.roll_center_height", "out of the template's reach for this track and wheel"
                return
        body = self._chassis([self._corner(n) for n in ("front", "rear")])
        follows = "" if self.inertia is not None else _INERTIA_FOLLOWS
        if min(body.inertia) <= 0:
            yield (
                "inertia",
                f"{follows}smaller than that of wheels and suspensions alone about the centre of mass",
            )
            return
        for _, message in body.check():
            yield "inertia", f"{follows}of what remains for the chassis: {message}"

    # -- what is known of the corners -------------------------------------------------------------------

    def _axle(self, name: str) -> HandbookAxle:
        return self.front if name == "front" else self.rear

    def _wheel_load(self, name: str, deceleration: float = 0.0) -> float:
        """Load of one wheel, N; `deceleration` in m/s²."""
        arm = self.wheelbase - self.front_to_center_of_mass
        front = self.mass * (self.gravity * arm + deceleration * self.center_of_mass_height) / self.wheelbase
        return 0.5 * (front if name == "front" else self.mass * self.gravity - front)

    def calc_unsprung_mass(self, axle: HandbookAxle) -> float:
        """Unsprung mass per wheel, given or by default, kg."""
        return 0.03 * self.mass if axle.unsprung_mass is None else axle.unsprung_mass

    def _sprung(self, name: str) -> float:
        """Mass that one wheel carries, kg."""
        return self._wheel_load(name) / self.gravity - self.calc_unsprung_mass(self._axle(name))

    def _tyre_stiffness(self, name: str) -> float:
        """Vertical stiffness of one tyre, given or by default, N/m."""
        axle = self._axle(name)
        by_load = self._wheel_load(name) / (_TYRE_DEFLECTION * axle.wheel_radius)
        given = axle.tyre_stiffness
        return max(_LEAST_TYRE_STIFFNESS, by_load) if given is None else given

    def _wheel_rate(self, name: str) -> float:
        """Wheel rate of the springs, N/m."""
        axle = self._axle(name)
        ride = 1.4 if axle.ride_frequency is None else axle.ride_frequency
        given = axle.wheel_rate
        return self._sprung(name) * (2 * math.pi * ride) ** 2 if given is None else given

    def calc_roll_stiffness(self, name: str) -> float:
        """Roll stiffness of the axle's anti-roll bar, given or by default, N·m/rad."""
        given = self._axle(name).roll_stiffness
        if given is not None:
            return given
        missing = self._calc_usual_roll_stiffness()
        loads: dict[str, float] = {}
        for n in ("front", "rear"):
            axle = self._axle(n)
            missing -= 0.5 * self._wheel_rate(n) * axle.track**2 + (axle.roll_stiffness or 0.0)
            if axle.roll_stiffness is None:
                loads[n] = self._wheel_load(n)
        return max(missing, 0.0) * loads[name] / sum(loads.values())

    def _calc_usual_roll_stiffness(self) -> float:
        """Roll stiffness of springs and bars with which the body rolls by `_ROLL_PER_G` at 1 g, N·m/rad."""
        of_body = on_tyres = 0.0
        for name in ("front", "rear"):
            axle, mass = self._axle(name), 2.0 * self._sprung(name)
            of_body -= (
                2.0 * self.calc_unsprung_mass(axle) * axle.wheel_radius + mass * axle.roll_center_height
            )
            on_tyres += 0.5 * self._tyre_stiffness(name) * axle.track**2
        # Moment of the body about its roll axis at 1 g; as the body rolls, its weight adds to the moment.
        of_car = self.mass * self.center_of_mass_height
        moment = max(of_car + of_body, 0.0) * self.gravity * (1.0 + _ROLL_PER_G)
        by_tyres = of_car * self.gravity / on_tyres
        return moment / max(_ROLL_PER_G - by_tyres, 0.5 * _ROLL_PER_G)

    @cached_property
    def _points(self) -> dict[str, HardPoints]:
        """Hard points of both axles."""
        return {name: self._find_points(name) for name in ("front", "rear")}

    def _find_points(self, name: str) -> HardPoints:
        axle, is_front = self._axle(name), name == "front"
        radius = axle.wheel_radius - self._wheel_load(name) / self._tyre_stiffness(name)
        x = 0.0 if is_front else -self.wheelbase
        return _find_points(is_front, x, 0.5 * axle.track, radius, axle.roll_center_height)

    def _corner(self, name: str) -> Axle:
        axle, points = self._axle(name), self._points[name]
        load, unsprung, sprung = self._wheel_load(name), self.calc_unsprung_mass(axle), self._sprung(name)
        corner = Corner.of(points)
        rates = calc_rates(corner)

        # The wheel rate is the sum of two parts: the spring's stiffness, and the rotation of the spring's
        # force at rest with travel.
        rate = self._wheel_rate(name)
        step = 1e-3
        turning = (
            calc_rates(moved(corner, step, steps=1)).strut - calc_rates(moved(corner, -step, steps=1)).strut
        ) / (2 * step)
        force = sprung * self.gravity / rates.strut
        stiffness = (rate - force * turning) / rates.strut**2

        ratio = 0.3 if axle.damping_ratio is None else axle.damping_ratio
        damping = 2 * ratio * math.sqrt(rate * sprung) if axle.damping is None else axle.damping
        damping /= rates.strut**2
        # The bar acts on the lower ball joints: moment = k (Δheight per roll angle)².
        lift = float(rates.lower_ball_joint[2]) * axle.track

        def link(share: float, ends: tuple[str, str]) -> BodyParameters:
            a, b = (np.array(getattr(points, e)) for e in ends)
            mass, length = share * unsprung, float(np.linalg.norm(b - a))
            along, across = 0.04 * mass * length**2, 0.10 * mass * length**2
            return BodyParameters(
                mass=mass, center_of_mass=_tuple(0.5 * (a + b)), inertia=(across, along + across, across)
            )

        radius, r = axle.wheel_radius, points.wheel_center[2]
        x, y, z = points.wheel_center
        wheel_mass = 0.5 * unsprung
        axial = wheel_mass * (0.8 * radius) ** 2 if axle.wheel_inertia is None else axle.wheel_inertia
        knuckle_mass = 0.3 * unsprung
        gyration = knuckle_mass * (0.35 * radius) ** 2
        gain = axle.brake_gain
        if gain is None:
            gain = self._wheel_load(name, self.gravity) * r / 80e5
        return Axle(
            hard_points=points,
            lower_wishbone=link(0.12, ("lower_hinge", "lower_ball_joint")),
            upper_wishbone=link(0.08, ("upper_hinge", "upper_ball_joint")),
            knuckle=BodyParameters(
                mass=knuckle_mass, center_of_mass=(x, y - 0.15 * r, z), inertia=(gyration,) * 3
            ),
            wheel=Wheel(mass=wheel_mass, axial_inertia=axial, transverse_inertia=0.6 * axial),
            spring=SuspensionSpring(stiffness=stiffness),
            # Dampers are softer in bump than in rebound: a ratio of 2 to 3 is common.
            damper=Damper(bump=0.8 * damping, rebound=1.2 * damping),
            stops=Stops(bump=axle.bump_travel * rates.strut, droop=axle.droop_travel * rates.strut),
            anti_roll_bar=self.calc_roll_stiffness(name) / lift**2,
            brake=Brake(gain=gain),
            differential=axle.differential,
            tyre=_tyre(axle, load, self._tyre_stiffness(name)),
        )

    def _chassis(self, axles: list[Axle]) -> BodyParameters:
        """The chassis: mass, centre of mass and inertia of the whole car less those of the corners."""
        rack = self._rack(axles[0])
        parts = [(rack.mass, np.array(rack.center_of_mass), np.array(rack.inertia))]
        for a in axles:
            t, wheel = a.wheel.transverse_inertia, a.wheel
            links = (a.lower_wishbone, a.upper_wishbone, a.knuckle)
            bodies = [(b.mass, b.center_of_mass, b.inertia) for b in links]
            bodies.append((wheel.mass, a.hard_points.wheel_center, (t, wheel.axial_inertia, t)))
            for m, place, moments in bodies:
                parts += [(m, np.array(place) * (1.0, side, 1.0), np.array(moments)) for side in (1.0, -1.0)]
        origin = np.array([-self.front_to_center_of_mass, 0.0, self.center_of_mass_height])
        mass = self.mass - sum(m for m, _, _ in parts)
        center = (self.mass * origin - sum(m * r for m, r, _ in parts)) / mass
        rest = np.array(self.calc_inertia()) - sum(j + m * _squares(r - origin) for m, r, j in parts)
        rest -= mass * _squares(center - origin)
        return BodyParameters(mass=mass, center_of_mass=_tuple(center), inertia=_tuple(rest))

    def calc_inertia(self) -> tuple[float, float, float]:
        """Ixx, Iyy, Izz of the whole car, given or by default, kg·m²."""
        if self.inertia is not None:
            return self.inertia
        a = self.front_to_center_of_mass
        track = 0.5 * (self.front.track + self.rear.track)
        yaw = self.mass * a * (self.wheelbase - a)
        return self.mass * (0.4 * track) ** 2, 0.95 * yaw, yaw

    def _rack(self, front: Axle) -> BodyParameters:
        x, _, z = front.hard_points.tie_rod_inner
        mass = 0.003 * self.mass
        across = mass * self.front.track**2 / 40
        return BodyParameters(mass=mass, center_of_mass=(x, 0.0, z), inertia=(across, 0.1 * across, across))

    def to_vehicle(self) -> Vehicle:
        """The car by hard points. Its design position is that at rest on level ground; x = 0 at the front axle."""
        front, rear = self._corner("front"), self._corner("rear")
        steer = -calc_rates(Corner.of(front.hard_points), travel=0.0, rack=1.0).spin_axis[0]
        return Vehicle(
            kind="hard_points",
            chassis=self._chassis([front, rear]),
            rack=self._rack(front),
            front=front,
            rear=rear,
            aerodynamics=self.aerodynamics,
            driven=self.driven,
            torque_split=self.torque_split,
            steering=SteeringParameters(ratio=float(1.0 / (steer * self.steering_ratio))),
            gravity=self.gravity,
        )


AnyVehicle = Vehicle | Handbook
"""Sections `vehicle:` of a configuration, by `kind`; both have `to_vehicle()`."""


def roll_center_height(corner: Corner) -> float:
    """Height (m) of the axle's roll centre in this position, from the path of the wheel's lowest point."""
    rates = calc_rates(corner)
    # The wheel's angular velocity about x, from its spin axis: ṡ = ω × s.
    turning = rates.spin_axis[2] / corner.spin_axis[1]
    _, y, z = corner.wheel_center
    sideways = rates.wheel_center[1] + turning * z
    return float(sideways * y)


def _tyre(axle: HandbookAxle, load: float, vertical_stiffness: float) -> TMeasyTyre:
    """TMeasy tyre with the given cornering stiffness and friction at the static load of one wheel.

    Shapes are those of ordinary tyres: at twice the load 1.6 times the stiffness and 1.9 times the force;
    sliding at 0.95 of the greatest force. The greatest force is reached at twice the slip at which the
    initial slope would reach it: then force over slip is flat at the origin, and the handbook's stiffness,
    which comes from ordinary driving and not from an infinitesimal slip, holds over ordinary slips.
    """
    peak = axle.friction * load
    length = 1.3 * axle.wheel_radius if axle.relaxation_length is None else axle.relaxation_length

    def characteristic(slope: float) -> Characteristic:
        slip = 2.0 * peak / slope
        return Characteristic(
            df0=(slope, 1.6 * slope),
            fm=(peak, 1.9 * peak),
            fs=(0.95 * peak, 0.95 * 1.9 * peak),
            sm=(slip, 1.15 * slip),
            ss=(3.5 * slip, 3.5 * 1.15 * slip),
            stiffness=slope / length,
        )

    lateral = 0.5 * axle.cornering_stiffness
    return TMeasyTyre(
        kind="tmeasy",
        radius=axle.wheel_radius,
        vertical_stiffness=vertical_stiffness,
        vertical_damping=axle.tyre_damping,
        nominal_load=load,
        longitudinal=characteristic(axle.slip_stiffness_ratio * lateral),
        lateral=characteristic(lateral),
        rolling_resistance=axle.rolling_resistance,
    )


def _squares(r: np.ndarray) -> np.ndarray:
    """Diagonal of |r|² 1 − r rᵀ."""
    squares: np.ndarray = r @ r - r * r
    return squares


def _tuple(values: np.ndarray) -> tuple[float, float, float]:
    x, y, z = map(float, values)
    return x, y, z


@lru_cache(maxsize=64)
def _find_points(is_front: bool, x: float, half: float, r: float, height: float) -> HardPoints:
    """The template at the axle's place `x`, scaled by half the track and by the loaded radius `r` (m).

    Hinges and tie rod are placed for a roll centre at `height` (m) and for a toe that does not change over travel.
    The search takes a tenth of a second.
    """
    # In front, the tie rod lies before the axle, so that the rack going left steers left; the kingpin has
    # 5° of caster there and none at the rear.
    ahead, caster = (0.42 * r, 0.04 * r) if is_front else (-0.48 * r, 0.0)
    template = HardPoints(
        lower_hinge=(x, 0.47 * half, 0.57 * r),
        lower_ball_joint=(x + caster, half - 0.20 * r, 0.58 * r),
        upper_hinge=(x, 0.55 * half, 1.35 * r),
        upper_ball_joint=(x - caster, half - 0.34 * r, 1.43 * r),
        tie_rod_inner=(x + ahead, 0.52 * half, 0.77 * r),
        tie_rod_outer=(x + ahead, half - 0.17 * r, 0.80 * r),
        spring_chassis=(x, 0.65 * half, 2.04 * r),
        spring_wishbone=(x, 0.79 * half, 0.63 * r),
        wheel_center=(x, half, r),
    )

    def adapted(raised: float, inward: float, up: float) -> HardPoints:
        lx, ly, lz = template.lower_hinge
        ux, uy, uz = template.upper_hinge
        tx, ty, tz = template.tie_rod_inner
        return replace(
            template,
            lower_hinge=(lx, ly, lz + raised * r),
            upper_hinge=(ux, uy, uz + raised * r),
            tie_rod_inner=(tx, ty - inward * r, tz + up * r),
        )

    def miss(places: np.ndarray) -> np.ndarray:
        corner = Corner.of(adapted(*places))
        toes = [moved(corner, travel * r, steps=8).toe for travel in (-0.15, 0.15)]
        return np.array([(roll_center_height(corner) - height) / r, *toes])

    # Newton's method. If it fails, `check` reports it.
    places = np.zeros(3)
    for _ in range(_ROUNDS):
        now = miss(places)
        slopes = [(miss(places + step) - now) / _DIFFERENCE for step in _DIFFERENCE * np.eye(3)]
        change = np.linalg.lstsq(np.transpose(slopes), -now)[0]
        places = places + change
        if np.abs(change).max() < _DIFFERENCE:
            break  # convergence is quadratic: the next change would be about the square of this one
    return adapted(*places.tolist())
