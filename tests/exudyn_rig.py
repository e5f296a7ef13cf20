"""A car of any suspension in Exudyn, built from the car's description as a mechanism with Exudyn's bodies and joints.

Springs, dampers and tyres are formulas of this rig, with the plain tyre law. There are no anti-roll bars, bump stops
or aerodynamics. A very stiff spring-damper moves the rack, as Exudyn has no moving constraint between bodies.
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from math import cos, sin
from typing import Any

import numpy as np

from vehicled.messages import WHEELS
from vehicled.multibody.elements import ConstantDistance, PointOnLine, Prismatic, Revolute, Rigid, Spherical
from vehicled.studies.benchmarks.peers.tyre import make_tyre
from vehicled.vehicle.car import Car
from vehicled.vehicle.mechanism import describe_car
from vehicled.vehicle.parameters import Aerodynamics, Stops, Vehicle

_STIFFNESS, _DAMPING = 1e9, 2e6
"""N/m and N·s/m of the spring-damper that moves the rack."""
_RADIUS = 0.8
"""Spectral radius of the generalised α method."""


def simplify(v: Vehicle) -> Vehicle:
    """The car as this rig models it: without anti-roll bars and aerodynamics, with stops out of reach."""

    def plain(axle):
        return replace(axle, anti_roll_bar=0.0, stops=Stops(bump=0.5, droop=0.5))

    return replace(v, front=plain(v.front), rear=plain(v.rear), aerodynamics=Aerodynamics())


class ExudynCar:
    """A car that starts in design position on the ground, straight ahead at a given speed."""

    def __init__(self, car: Car, speed: float) -> None:
        vars(sys)["exudynFast"] = True
        with contextlib.redirect_stdout(io.StringIO()):
            import exudyn
        import exudyn.itemInterface as items
        from exudyn.utilities import RigidBodyInertia

        self._exu, self._items, self._car = exudyn, items, car
        self._d, self._speed = describe_car(car), speed
        self._system = exudyn.SystemContainer().AddSystem()
        self._ground = self._system.AddMarker(items.MarkerBodyRigid(bodyNumber=self._system.CreateGround()))
        self._height = np.array([0.0, 0.0, car.design_height])
        self._owner: dict[str, str] = {}
        self._places: dict[str, np.ndarray] = {}
        self._axes: dict[str, np.ndarray] = {}
        self._bodies: dict[str, Any] = {}
        self.roads = np.zeros((4, 2))
        """Height of the road under each wheel and its rate, m and m/s."""
        for name, body in self._d.bodies.items():
            assert isinstance(body, Rigid)
            self._add_body(name, body, RigidBodyInertia)
        self._joints = {name: self._add_joint(name, joint) for name, joint in self._d.joints.items()}
        for w in WHEELS:
            self._add_strut(w)
            self._add_tyre(w)
        self._torques = {name: self._add_torque(name) for name in self._bodies}
        self._system.Assemble()

    def _add_body(self, name: str, body: Rigid, inertia: Any) -> None:
        (xx, yy, zz), (xy, yz, zx) = body.inertia, body.products
        center = np.array(body.center_of_mass)
        turning = np.zeros(3)
        if name.startswith("wheel_"):
            spin = np.array(body.directions[f"wheel_bearing_{name[-2:]}_axis_on_wheel"])
            turning = spin * self._speed / self._car.vehicle.axle(name[-2:]).tyre.radius
        self._bodies[name] = self._system.CreateRigidBody(
            inertia=inertia(
                mass=body.mass, inertiaTensor=np.array([[xx, xy, zx], [xy, yy, yz], [zx, yz, zz]])
            ),
            referencePosition=list(center + self._height),
            initialVelocity=[self._speed, 0.0, 0.0],
            initialAngularVelocity=list(turning),
            gravity=[0.0, 0.0, -self._car.vehicle.gravity],
            nodeType=self._exu.NodeType.RotationRotationVector,
        )
        for point, at in {f"{name}_center": center, **body.markers}.items():
            self._owner[point], self._places[point] = name, np.array(at)
        for direction, along in body.directions.items():
            self._axes[direction] = np.array(along) / np.linalg.norm(along)

    def _mark(self, point: str, axes: np.ndarray | None = None) -> Any:
        """A marker at a point of its body, with these axes in design position."""
        body = self._owner[point]
        frame = np.eye(4)
        frame[:3, :3] = np.eye(3) if axes is None else axes
        frame[:3, 3] = self._places[point] - self._places[f"{body}_center"]
        return self._system.AddMarker(
            self._items.MarkerBodyRigid(bodyNumber=self._bodies[body], localHT=frame)
        )

    def _add_joint(self, name: str, joint: Any) -> Any:
        items, add = self._items, self._system.AddObject
        if isinstance(joint, ConstantDistance):
            ends = [self._mark(p) for p in joint.points]
            return add(items.ObjectConnectorDistance(markerNumbers=ends, distance=joint.length))
        if isinstance(joint, Spherical):
            return add(items.ObjectJointSpherical(markerNumbers=[self._mark(p) for p in joint.points]))
        axis = self._axes[joint.axis if isinstance(joint, PointOnLine) else joint.axes[0]]
        ends = [self._mark(p, _turn(axis, 2 if isinstance(joint, Revolute) else 0)) for p in joint.points]
        if isinstance(joint, Revolute):
            return add(items.ObjectJointRevoluteZ(markerNumbers=ends))
        if isinstance(joint, PointOnLine):
            return add(items.ObjectJointGeneric(markerNumbers=ends, constrainedAxes=[0, 1, 1, 0, 0, 0]))
        assert isinstance(joint, Prismatic)
        self._drive = add(
            items.ObjectConnectorLinearSpringDamper(
                markerNumbers=[self._mark(p) for p in joint.points],
                axisMarker0=[0.0, 1.0, 0.0],
                stiffness=_STIFFNESS,
                damping=_DAMPING,
            )
        )
        return add(items.ObjectJointPrismaticX(markerNumbers=ends))

    def _add_strut(self, w: str) -> None:
        points = self._d.forces[f"spring_{w}"].points
        axle, k = self._car.vehicle.axle(w), WHEELS.index(w)
        length = float(np.linalg.norm(self._places[points[1]] - self._places[points[0]]))
        preload = float(self._car.get_corner_parameter("spring.preload")[k])
        stiffness, bump, rebound = axle.spring.stiffness, axle.damper.bump, axle.damper.rebound

        def pull(mbs: Any, t: float, item: int, change: float, rate: float, *_: Any) -> float:
            return -preload + stiffness * change + (rebound if rate > 0.0 else bump) * rate

        self._system.AddObject(
            self._items.ObjectConnectorSpringDamper(
                markerNumbers=[self._mark(p) for p in points],
                referenceLength=length,
                springForceUserFunction=pull,
            )
        )

    def _add_tyre(self, w: str) -> None:
        wrench, k = make_tyre(self._car.vehicle.axle(w)), WHEELS.index(w)
        axes = _turn(self._axes[f"wheel_bearing_{w}_axis_on_wheel"], 2)

        def tyre(
            mbs: Any, t: float, item: int, place: Any, angles: Any, velocity: Any, turning: Any, *_: Any
        ) -> list[float]:
            # The wheel's z axis, from its Tait–Bryan angles (Rxyz). The result acts on the ground, hence the sign.
            a, b = angles[0], angles[1]
            axis = (sin(b), -sin(a) * cos(b), cos(a) * cos(b))
            height, rate = self.roads[k]
            vx, vy, vz = velocity
            return [-x for x in wrench(place[2] - height, *axis, vx, vy, vz - rate, *turning)]

        self._system.AddObject(
            self._items.ObjectConnectorRigidBodySpringDamper(
                markerNumbers=[self._ground, self._mark(f"wheel_{w}_center", axes)],
                springForceTorqueUserFunction=tyre,
            )
        )

    def _add_torque(self, body: str) -> Any:
        marker = self._mark(f"{body}_center")
        return self._system.AddLoad(self._items.LoadTorqueVector(markerNumber=marker, bodyFixed=True))

    def axis(self, w: str) -> np.ndarray:
        """(3,) spin axis of a wheel, in the axes of both the wheel and its carrier."""
        return self._axes[f"wheel_bearing_{w}_axis_on_wheel"]

    def carrier(self, w: str) -> str:
        """Name of the body that carries a wheel's bearing."""
        return self._owner[self._d.joints[f"wheel_bearing_{w}"].points[0]]

    def turn(self, torques: dict[str, np.ndarray]) -> None:
        """Torques (3,) on bodies in their own axes, N·m, from the next step on."""
        for body, torque in torques.items():
            self._system.SetLoadParameter(self._torques[body], "loadVector", list(torque))

    def steer(self, displacement: float, rate: float) -> None:
        """Set position and rate of the rack at the end of the next step: m, m/s."""
        self._system.SetObjectParameter(self._drive, "offset", displacement)
        self._system.SetObjectParameter(self._drive, "velocityOffset", rate)

    def read_chassis(self) -> np.ndarray:
        """(3,) position of the chassis's centre of mass, m."""
        place: np.ndarray = self._system.GetNodeOutput(
            self._node("chassis"), self._exu.OutputVariableType.Position
        )
        return place

    def read_travels(self) -> np.ndarray:
        """(4,) heights of the wheel centres relative to the chassis, from design position, m."""
        kinds, get, chassis = self._exu.OutputVariableType, self._system.GetNodeOutput, self._node("chassis")
        up, origin = get(chassis, kinds.RotationMatrix).reshape(3, 3)[:, 2], self.read_chassis()
        design = self._places["chassis_center"][2]
        return np.array(
            [
                up @ (get(self._node(f"wheel_{w}"), kinds.Position) - origin)
                - (self._places[f"wheel_{w}_center"][2] - design)
                for w in WHEELS
            ]
        )

    def read_forces(self, joints: Iterable[str]) -> dict[str, np.ndarray]:
        """Magnitude of the force in each of these joints, N; for a rod, its tension."""
        kinds, found = self._exu.OutputVariableType, {}
        for name in joints:
            # For hinges, components in axes that turn with them.
            kind = kinds.ForceLocal if isinstance(self._d.joints[name], Revolute) else kinds.Force
            force = np.atleast_1d(self._system.GetObjectOutput(self._joints[name], kind))
            found[name] = force[0] if len(force) == 1 else float(np.linalg.norm(force))
        return found

    def _node(self, body: str) -> Any:
        return self._system.GetObject(self._bodies[body])["nodeNumber"]

    def simulate(self, steps: int, step: float, between: Callable[[float], None]) -> None:
        """Simulate with steps of `step` s. `between` is called before each step with the time of its end."""
        exu, system = self._exu, self._system

        def call(mbs: Any, t: float) -> bool:
            between(t)
            return True

        system.SetPreStepUserFunction(call)
        settings = exu.SimulationSettings()
        settings.solution.file.write = False
        settings.linearSolver.solverType = exu.LinearSolverType.EigenSparse
        integration = settings.timeIntegration
        integration.numberOfSteps, integration.endTime = steps, steps * step
        integration.verboseMode = 0
        integration.newton.useModifiedNewton = True
        integration.newton.relativeTolerance = integration.newton.absoluteTolerance = 1e-6
        # With the trapezoidal rule, reactions would oscillate from step to step.
        integration.generalizedAlpha.spectralRadius = _RADIUS
        system.SolveDynamic(settings, solverType=exu.DynamicSolverType.GeneralizedAlpha)


def _turn(axis: np.ndarray, place: int) -> np.ndarray:
    """(3, 3) axes, of which the one at this place lies along a given direction."""
    helper = np.eye(3)[np.argmin(np.abs(axis))]
    across = np.cross(axis, helper) / np.linalg.norm(np.cross(axis, helper))
    columns = [axis, across, np.cross(axis, across)]
    return np.column_stack(columns[-place:] + columns[:-place] if place else columns)
