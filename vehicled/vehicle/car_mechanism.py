"""The same car as a mechanism, brought to the state of a running car, so that every operator applies."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.spatial.transform import Rotation

from vehicled.errors import RunError
from vehicled.messages import WHEELS
from vehicled.multibody import problems
from vehicled.multibody.body_operators import Forces, calc_center_place
from vehicled.multibody.compiled import CompiledMechanism
from vehicled.multibody.forms import Form
from vehicled.multibody.mechanism import Mechanism
from vehicled.vehicle.arrays import DRIVE_TORQUE
from vehicled.vehicle.car import Car
from vehicled.vehicle.car_copy import CarCopy
from vehicled.vehicle.mechanism import AXES, ORIGIN, describe_car, name_on
from vehicled.vehicle.wheel_wrenches import WHEEL_WRENCHES

_STRIDE = 0.5
"""rad: largest turn of the chassis at a time; from there Newton's method converges."""
_LIMIT = 20
"""Largest number of iterations of Newton's method."""
_SETTLED = 1e-9
"""m, and per unit of a direction: change of the last iteration, below which it ends."""


class CarMechanism:
    """Follows a car on request."""

    def __init__(self, car: Car, form: Form = "natural") -> None:
        """Code is compiled on first use, which takes ten seconds."""
        description = replace(describe_car(car), coordinates=form)
        self.mechanism = m = Mechanism(CompiledMechanism(description, optimisation=0))
        self._copy = CarCopy(car, WHEEL_WRENCHES)
        self._wrenches = self._copy.view("wheel_wrenches")
        self._rest_travel = car.get_corner_parameter("rest.travel")
        self._scalars = [m.index(f"{name}_{w}") for name in ("travel", "spin") for w in WHEELS]

    def follow(self) -> Forces:
        """Bring the mechanism to the car's present position and rates, with all forces on it.

        Writes q, q̇, q̈, λ, inputs, applied forces and the choice of independent coordinates. Wheels keep
        their angle, as they are axisymmetric. Returns the forces that the description does not contain, for
        `reactions.calc_reactions`. Raises RunError if the mechanism cannot be brought there.
        """
        m, copy = self.mechanism, self._copy
        copy.update()
        copy.call(copy.added.wrenches)
        copy.report()
        torques = np.concatenate([copy.corner_inputs[DRIVE_TORQUE], self._wrenches[6]])
        m.inputs[0], m.inputs[1:, 0] = copy.inputs, torques
        self._place()
        self._move()
        forces = self._collect()
        m.applied[:] = forces.generalised
        problems.solve_dynamics(m)
        return forces

    def _place(self) -> None:
        m = self.mechanism
        start = self._get_chassis()
        end = self._copy.view("q")[:12].reshape(4, 3)
        turn = Rotation.from_matrix(end[1:].T @ start[1:])
        strides = 1 + int(turn.magnitude() / _STRIDE)
        for k in range(1, strides + 1):
            part = Rotation.from_rotvec(turn.as_rotvec() * (k / strides)).as_matrix()
            axes = end[1:] if k == strides else (part @ start[1:].T).T
            self._approach(np.vstack([end[:1], axes]))
        m.set_independent(problems.choose_independent(problems.nullspace(m.calc_jacobian())))
        problems.solve_position(m, m.z).require("the position of the car as a mechanism")

    def _approach(self, chassis: np.ndarray) -> None:
        """Newton's method to a chassis position (4, 3): its origin and axes."""
        m, copy = self.mechanism, self._copy
        travel = copy.corner_output("suspension.deflection") + self._rest_travel
        scalars = np.concatenate([travel, m.q[self._scalars[4:]]])
        step = np.inf
        for _ in range(_LIMIT):
            missing = [m.q[self._scalars] - scalars, (self._get_chassis() - chassis).ravel()]
            change = problems.least_squares(
                self._get_rows(), np.concatenate([m.calc_constraints(), *missing])
            )
            m.q -= change
            step = float(np.abs(change).max())
            if step < _SETTLED:
                return
        raise RunError(f"the car as a mechanism cannot be brought to its position: last step {step:.3g}")

    def _move(self) -> None:
        """Bring the mechanism to the car's rates."""
        m, copy = self.mechanism, self._copy
        scalars = [copy.corner_output("suspension.rate"), copy.get_state("wheel.rate")]
        rates = np.concatenate([-m.calc_drift(), *scalars, copy.view("qd")[:12]])
        m.qd[:] = problems.least_squares(self._get_rows(), rates)
        problems.solve_velocity(m, m.zd)

    def _get_rows(self) -> np.ndarray:
        """(k, n) derivatives of the constraints, travels, angles of the wheels, and place of the chassis."""
        m = self.mechanism
        places = m.placement
        chassis = [places.points[ORIGIN], *(places.vectors[axis] for axis in AXES)]
        return np.vstack([m.calc_jacobian(), np.eye(len(m.q))[self._scalars], *chassis])

    def _get_chassis(self) -> np.ndarray:
        """(4, 3) origin and axes of the mechanism's chassis."""
        m = self.mechanism
        return np.array([m.calc_point_positions()[ORIGIN], *(m.placement.vector(axis, m.q) for axis in AXES)])

    def _collect(self) -> Forces:
        """Forces of tyres, torques of differentials, and forces added by a filter."""
        m, copy = self.mechanism, self._copy
        forces = Forces(m)
        ahead, left, yawing, pitching = copy.view("external_force")
        v1, v2, v3 = copy.view("q")[3:12].reshape(3, 3)
        forces.add_point_force(ORIGIN, v1 * ahead + v2 * left)
        forces.add_torque("chassis", v3 * yawing + v2 * pitching)
        for k, w in enumerate(WHEELS):
            wheel, force, torque = f"wheel_{w}", self._wrenches[:3, k], self._wrenches[3:6, k]
            axis = m.placement.vector(name_on(f"wheel_bearing_{w}_axis", wheel), m.q)
            forces.add_force(wheel, calc_center_place(m, wheel), force)
            forces.add_torque(wheel, torque + axis * copy.get_state("differential.torque")[k])
        return forces
