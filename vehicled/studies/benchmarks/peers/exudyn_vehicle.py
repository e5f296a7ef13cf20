"""The reference vehicle in Exudyn: redundant coordinates, joints as algebraic constraints, implicit steps.

18 rigid bodies with rotation vectors (Lie group nodes, the fastest of its rotation parameters here), 108
coordinates; revolute, prismatic and spherical joints and tie rods of constant length, 94 equations less one: the
rack follows its course by a very stiff spring-damper, because with constraints on velocity level Exudyn has no
moving constraint between bodies. Implicit trapezoidal rule with index reduction, 4 ms; its faster build without
range checks, one thread, sparse LU with its pattern kept, modified Newton whose Jacobian is renewed when an
iteration shrinks the residual by less than to a third, and the loosest tolerance that leaves the path as it is.

All of that is built in. The tyre alone is a callback, as Exudyn's connectors know no such law: plain Python (as an
expression of Exudyn's own symbolic module it was several times slower), called some 37 times per step. The law
takes a tenth of a step, and the calls another tenth (measured with empty callbacks in addition).

With `own_contact`, Exudyn's own rolling discs take the tyres' place, on planes that move up and down with the road.
They are as stiff and as damped as the tyre; their friction is proportional to load and sliding speed up to the limit
of friction, and at the wheel's static load as stiff as the tyre's lateral slip at `CONTACT_SPEED`.
"""

from __future__ import annotations

import contextlib
import io
import sys
import time
from collections.abc import Callable, Iterable
from math import cos, sin
from typing import Any

import numpy as np

from vehicled.messages import WHEELS
from vehicled.studies.benchmarks.peers.record import Record
from vehicled.studies.benchmarks.peers.tyre import Wrench, make_tyre
from vehicled.studies.benchmarks.peers.wheels import Wheels
from vehicled.studies.benchmarks.peers.wishbones import get_axle
from vehicled.studies.benchmarks.published import SPEED, STEP, rack
from vehicled.vehicle.parameters import LEFT_RIGHT, BodyParameters, LinearTyre, Vehicle

_RACK_STIFFNESS = 1e9
"""N/m: so stiff that a tie rod's force moves the rack by micrometres."""
_RACK_DAMPING = 2e6
CONTACT_SPEED = 15.0
"""m/s: speed at which the friction of Exudyn's discs is as stiff as the tyre."""
_TOLERANCE = 1e-5
_CONTRACTIVITY = 0.35

# Rotations of a joint's own axis (z of a revolute, x of a prismatic joint) to another one.
_Z_ALONG_X = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
_Z_ALONG_Y = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, -1.0, 0.0]])
_X_ALONG_Y = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])


def _exudyn() -> Any:
    """The package in its faster build; messages printed by its import are suppressed."""
    vars(sys)["exudynFast"] = True
    with contextlib.redirect_stdout(io.StringIO()):
        import exudyn
    return exudyn


def version() -> str:
    """Version of the installed package."""
    number: str = _exudyn().__version__
    return number


def drive(vehicle: Vehicle, steps: int, turn: Callable[[int], None]) -> Record:
    """Run the published drive. `turn(n)` is called before step n, outside the recorded times.

    Exudyn's loop cannot be stepped from outside without restarting its Newton iteration, which nearly doubles
    its times: therefore the other engines are stepped from within Exudyn's loop.
    """
    return ExudynVehicle(vehicle).solve(steps, turn)


class ExudynVehicle:
    """Builds the car part by part."""

    def __init__(
        self, vehicle: Vehicle, speed: float = SPEED, driven: bool = False, own_contact: bool = False
    ) -> None:
        """`speed` at the start, m/s, straight ahead in design position; `driven`: with torques on its wheels."""
        exu = _exudyn()
        import exudyn.itemInterface as items
        from exudyn.utilities import RigidBodyInertia

        self._exu, self._items = exu, items
        self._inertia: Any = RigidBodyInertia
        self._vehicle, self._speed = vehicle, speed
        self._system = exu.SystemContainer().AddSystem()
        self._places: dict[Any, tuple[np.ndarray, np.ndarray]] = {}
        """For each body: its centre of mass in design position, and the axes of its frame as columns."""
        self._wheels: list[Any] = []
        self._hubs: list[tuple[Any, Any]] = []
        """For each wheel: knuckle and wheel."""
        self._wrenches: list[Callable[..., Wrench]] = []
        """For each wheel: its tyre."""
        self._roads: list[tuple[float, float]] = [(0.0, 0.0)] * len(WHEELS)
        self._discs: list[tuple[Any, Any]] | None = [] if own_contact else None
        """For each wheel with a contact of Exudyn's own: the plane under it, and the contact."""
        self._joints: list[dict[str, Any]] = []
        """Joints of each corner, by name."""
        self._chassis, self._rack = self._body(vehicle.chassis), self._body(vehicle.rack)
        self._ground = self._marker(self._system.CreateGround(), np.zeros(3))
        self._guide_rack()
        for w in WHEELS:
            self._corner(w)
        self._torques = self._drive_hubs() if driven else []
        self._system.Assemble()

    def _body(self, body: BodyParameters, mirror: np.ndarray | float = 1.0) -> Any:
        return self._moving(body.mass, np.diag(body.inertia), mirror * np.array(body.center_of_mass))

    def _moving(
        self,
        mass: float,
        inertia: np.ndarray,
        place: np.ndarray,
        axes: np.ndarray | None = None,
        spin: float = 0.0,
    ) -> Any:
        """A rigid body with initial velocity; `inertia` in its own axes, `spin` about y."""
        axes = np.eye(3) if axes is None else axes
        body = self._system.CreateRigidBody(
            inertia=self._inertia(mass=mass, inertiaTensor=inertia),
            referencePosition=list(place),
            referenceRotationMatrix=axes,
            initialVelocity=[self._speed, 0.0, 0.0],
            initialAngularVelocity=[0.0, spin, 0.0],
            gravity=[0.0, 0.0, -self._vehicle.gravity],
            nodeType=self._exu.NodeType.RotationRotationVector,
        )
        self._places[body] = (place, axes)
        return body

    def _marker(self, body: Any, place: np.ndarray, axes: np.ndarray | None = None) -> Any:
        """A frame on a body: its place and axes in design position."""
        origin, turned = self._places.get(body, (np.zeros(3), np.eye(3)))
        frame = np.eye(4)
        frame[:3, :3] = turned.T @ (turned if axes is None else axes)
        frame[:3, 3] = turned.T @ (place - origin)
        return self._system.AddMarker(self._items.MarkerBodyRigid(bodyNumber=body, localHT=frame))

    def _join(
        self, joint: Any, one: Any, other: Any, place: np.ndarray, axes: np.ndarray | None = None, **more: Any
    ) -> Any:
        """A connector of two bodies that meet at a place."""
        markers = [self._marker(body, place, axes) for body in (one, other)]
        return self._system.AddObject(joint(markerNumbers=markers, **more))

    def _guide_rack(self) -> None:
        items, place = self._items, np.array(self._vehicle.rack.center_of_mass)
        self._join(items.ObjectJointPrismaticX, self._chassis, self._rack, place, _X_ALONG_Y)
        self._drive = self._join(
            items.ObjectConnectorLinearSpringDamper,
            *(self._chassis, self._rack, place),
            axisMarker0=[0.0, 1.0, 0.0],
            stiffness=_RACK_STIFFNESS,
            damping=_RACK_DAMPING,
        )

    def _corner(self, w: str) -> None:
        items, system, chassis = self._items, self._system, self._chassis
        axle, mirror = get_axle(self._vehicle, w), np.array([1.0, LEFT_RIGHT[w], 1.0])
        p = {name: mirror * place for name, place in vars(axle.hard_points).items() if np.size(place) == 3}
        lower, upper, knuckle = (
            self._body(b, mirror) for b in (axle.lower_wishbone, axle.upper_wishbone, axle.knuckle)
        )
        centre, wheel = p["wheel_center"], axle.wheel
        moments = np.diag([wheel.transverse_inertia, wheel.transverse_inertia, wheel.axial_inertia])
        spun = self._moving(wheel.mass, moments, centre, _Z_ALONG_Y, self._speed / axle.tyre.radius)
        self._wheels.append(spun)
        self._hubs.append((knuckle, spun))
        revolute, spherical = items.ObjectJointRevoluteZ, items.ObjectJointSpherical
        joints = {
            "lower_hinge": self._join(revolute, chassis, lower, p["lower_hinge"], _Z_ALONG_X),
            "upper_hinge": self._join(revolute, chassis, upper, p["upper_hinge"], _Z_ALONG_X),
            "lower_ball_joint": self._join(spherical, lower, knuckle, p["lower_ball_joint"]),
            "upper_ball_joint": self._join(spherical, upper, knuckle, p["upper_ball_joint"]),
        }
        self._join(revolute, knuckle, spun, centre, _Z_ALONG_Y)
        inner, outer = p["tie_rod_inner"], p["tie_rod_outer"]
        ends = [self._marker(self._rack if w[0] == "f" else chassis, inner), self._marker(knuckle, outer)]
        length = float(np.linalg.norm(outer - inner))
        joints["tie_rod"] = system.AddObject(
            items.ObjectConnectorDistance(markerNumbers=ends, distance=length)
        )
        self._joints.append(joints)
        top, foot = p["spring_chassis"], p["spring_wishbone"]
        spring = axle.spring
        system.AddObject(
            items.ObjectConnectorSpringDamper(
                markerNumbers=[self._marker(chassis, top), self._marker(lower, foot)],
                referenceLength=float(np.linalg.norm(top - foot))
                + (spring.preload or 0.0) / spring.stiffness,
                stiffness=spring.stiffness,
                damping=axle.damper.bump,
            )
        )
        if self._discs is not None:
            self._discs.append(self._add_disc(w, spun))
            return
        wrench, k = make_tyre(axle), len(self._wrenches)
        self._wrenches.append(wrench)

        def tyre(
            mbs: Any, t: float, item: int, place: Any, angles: Any, velocity: Any, turning: Any, *_: Any
        ) -> list[float]:
            """Force and moment of the wheel on the ground, from its motion relative to the ground."""
            # The wheel's z axis, from its Tait–Bryan angles (Rxyz).
            a, b = angles[0], angles[1]
            level = cos(b)
            height, rate = self._roads[k]
            vx, vy, vz = velocity
            fx, fy, fz, mx, my, mz = wrench(
                place[2] - height, sin(b), -sin(a) * level, cos(a) * level, vx, vy, vz - rate, *turning
            )
            return [-fx, -fy, -fz, -mx, -my, -mz]

        system.AddObject(
            items.ObjectConnectorRigidBodySpringDamper(
                markerNumbers=[self._ground, self._marker(spun, centre)], springForceTorqueUserFunction=tyre
            )
        )

    def _add_disc(self, w: str, wheel: Any) -> tuple[Any, Any]:
        items, system, tyre = self._items, self._system, self._vehicle.axle(w).tyre
        assert isinstance(tyre, LinearTyre)
        plane = system.CreateGround()
        viscous = tyre.slip_stiffness_y / CONTACT_SPEED
        data = items.NodeGenericData(initialCoordinates=[0.0] * 3, numberOfDataCoordinates=3)
        contact = system.AddObject(
            items.ObjectConnectorRollingDiscPenalty(
                markerNumbers=[self._marker(plane, np.zeros(3)), self._marker(wheel, self._places[wheel][0])],
                nodeNumber=system.AddNode(data),
                discRadius=tyre.radius,
                discAxis=[0.0, 0.0, 1.0],
                contactStiffness=tyre.vertical_stiffness,
                contactDamping=tyre.vertical_damping,
                dryFriction=[tyre.friction] * 2,
                dryFrictionProportionalZone=tyre.friction * self._calc_load(w) / viscous,
                useLinearProportionalZone=True,
            )
        )
        return plane, contact

    def _calc_load(self, w: str) -> float:
        """Load of a wheel at rest by the lever rule, N."""
        v = self._vehicle
        other = v.axle("rl" if w[0] == "f" else "fl").hard_points.wheel_center[0]
        share = abs(float(v.center_of_mass()[0]) - other) / v.wheelbase
        return 0.5 * share * v.mass * v.gravity

    def _drive_hubs(self) -> list[tuple[Any, Any]]:
        """For each wheel: the torques on its knuckle and on itself, about its axis."""
        return [
            tuple(
                self._system.AddLoad(
                    self._items.LoadTorqueVector(
                        markerNumber=self._marker(body, self._places[wheel][0], _Z_ALONG_Y),
                        bodyFixed=True,
                    )
                )
                for body in (knuckle, wheel)
            )
            for knuckle, wheel in self._hubs
        ]

    def set_torques(self, torques: Iterable[float]) -> None:
        """Set drive and brake torques for the next step, N·m, about the wheels' axes, against the knuckles."""
        for loads, torque in zip(self._torques, torques, strict=True):
            for load, sign in zip(loads, (-1.0, 1.0), strict=True):
                self._system.SetLoadParameter(load, "loadVector", [0.0, 0.0, sign * torque])

    def read(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Chassis: centre of mass (3,), R_world_chassis (3, 3), velocity (3,) in world axes, body rates (3,).

        And the wheels' rates relative to it (4,). SI.
        """
        kinds, node = self._exu.OutputVariableType, self._node(self._chassis)
        get = self._system.GetNodeOutput
        place, velocity = get(node, kinds.Position), get(node, kinds.Velocity)
        R, rates = get(node, kinds.RotationMatrix).reshape(3, 3), get(node, kinds.AngularVelocityLocal)
        spins = np.array([get(self._node(wheel), kinds.AngularVelocityLocal)[2] for wheel in self._wheels])
        return place, R, velocity, rates, spins - rates[1]

    def read_wheels(self) -> Wheels:
        """The present state of the wheels."""
        kinds, get = self._exu.OutputVariableType, self._system.GetNodeOutput
        nodes = [self._node(wheel) for wheel in self._wheels]
        places, velocities, rates, turned = (
            np.array([get(node, kind) for node in nodes])
            for kind in (kinds.Position, kinds.Velocity, kinds.AngularVelocity, kinds.RotationMatrix)
        )
        axes = turned.reshape(-1, 3, 3)[:, :, 2]
        heights, road_rates = np.array(self._roads).T
        over = places[:, 2] - heights
        relative = velocities - np.outer(road_rates, (0.0, 0.0, 1.0))
        motions = np.column_stack((over, axes, relative, rates)).tolist()
        if self._discs is None:
            forces = [wrench(*motion)[:3] for wrench, motion in zip(self._wrenches, motions, strict=True)]
        else:
            read = self._system.GetObjectOutput
            forces = [
                read(disc, kinds.RotationMatrix).reshape(3, 3) @ read(disc, kinds.ForceLocal)
                for _, disc in self._discs
            ]
        radii = np.array([self._vehicle.axle(w).tyre.radius for w in WHEELS])
        return Wheels(places, axes, velocities, rates, np.array(forces), radii)

    def read_reactions(self) -> list[dict[str, np.ndarray]]:
        """For each corner by joint, N in chassis axes: ball joints (3,) on the knuckle, the tie rod's tension (1,).

        Hinges (4,): force on the wishbone, and magnitude of the moment (N·m), as Exudyn gives its components
        in axes that rotate with the wishbone. Its multipliers act on the first body of a joint.
        """
        kinds = self._exu.OutputVariableType
        R_world_chassis = self._system.GetNodeOutput(self._node(self._chassis), kinds.RotationMatrix)
        R_chassis_world = R_world_chassis.reshape(3, 3).T

        def read(joint: Any, kind: Any) -> np.ndarray:
            return np.atleast_1d(self._system.GetObjectOutput(joint, kind))

        found: list[dict[str, np.ndarray]] = []
        for joints in self._joints:
            reactions = {"tie_rod": read(joints["tie_rod"], kinds.Force)}
            for side in ("lower", "upper"):
                ball, hinge = f"{side}_ball_joint", f"{side}_hinge"
                reactions[ball] = -R_chassis_world @ read(joints[ball], kinds.Force)
                force = -_Z_ALONG_X @ read(joints[hinge], kinds.ForceLocal)
                reactions[hinge] = np.append(force, np.linalg.norm(read(joints[hinge], kinds.TorqueLocal)))
            found.append(reactions)
        return found

    def set_rack(self, displacement: float, rate: float) -> None:
        """Set the position and rate of the rack at the end of the next step: m, m/s."""
        self._system.SetObjectParameter(self._drive, "offset", displacement)
        self._system.SetObjectParameter(self._drive, "velocityOffset", rate)

    def set_roads(self, heights: np.ndarray, rates: np.ndarray) -> None:
        """Set (4,) heights (m) and rates (m/s) of the road under each wheel at the end of the next step."""
        self._roads = list(zip(heights.tolist(), rates.tolist(), strict=True))
        for (plane, _), height in zip(self._discs or (), heights, strict=False):
            self._system.SetObjectParameter(plane, "referencePosition", [0.0, 0.0, float(height)])

    def _node(self, body: Any) -> Any:
        return self._system.GetObject(body)["nodeNumber"]

    def solve(self, steps: int, turn: Callable[[int], None]) -> Record:
        """Run the published drive; see `drive`."""
        record, clock = Record(), time.perf_counter_ns
        node = self._node(self._chassis)
        begun = 0

        def place() -> np.ndarray:
            position: np.ndarray = self._system.GetNodeOutput(node, self._exu.OutputVariableType.Position)
            return position

        def between(t: float) -> bool:
            nonlocal begun
            if record.path:
                record.times_ns.append(clock() - begun)
            record.path.append(place())
            self.set_rack(*rack(t)[:2])
            turn(len(record.path) - 1)
            begun = clock()
            return True

        self.simulate(steps, STEP, between)
        # The last step's time includes the end of the run: omitted.
        record.path.append(place())
        return record

    def simulate(
        self, steps: int, step: float, between: Callable[[float], bool], radius: float | None = None
    ) -> None:
        """Steps of `step` s. `between` is called at the beginning of each with the time of its end; False ends it.

        The trapezoidal rule does not damp oscillations of reactions from step to step. With `radius`, 0 to 1, the
        integrator is the generalised α method of that spectral radius, which does.
        """
        exu, system = self._exu, self._system
        system.SetPreStepUserFunction(lambda mbs, t: between(t))
        settings = exu.SimulationSettings()
        settings.solution.file.write = False
        settings.parallel.numberOfThreads = 1
        settings.linearSolver.solverType = exu.LinearSolverType.EigenSparse
        settings.linearSolver.reuseAnalyzedPattern = True
        integration = settings.timeIntegration
        integration.numberOfSteps, integration.endTime = steps, steps * step
        integration.adaptiveStep = False
        integration.verboseMode = 0
        newton = integration.newton
        newton.useModifiedNewton = True
        newton.modifiedNewtonContractivity = _CONTRACTIVITY
        newton.relativeTolerance = newton.absoluteTolerance = _TOLERANCE
        method = exu.DynamicSolverType.TrapezoidalIndex2
        if radius is not None:
            method = exu.DynamicSolverType.GeneralizedAlpha
            integration.generalizedAlpha.spectralRadius = radius
        system.SolveDynamic(settings, solverType=method)
