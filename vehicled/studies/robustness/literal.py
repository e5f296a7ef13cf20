"""The errorEKF on the car as its source states it, to measure what our kinds of filter add to it.

Sanjurjo, *State observers based on detailed multibody models applied to an automobile*: 20 states, the errors of all
degrees of freedom but the suspensions', and of their rates; f_x = [[I, I Δt], [0, I]]; x̂⁻ = 0; corrections Δz, Δż
moved to q, q̇; sensor models in q, q̇ with h_z = h_q ∂q/∂z + h_q̇ ∂q̇/∂z and h_ż = h_q̇ ∂q̇/∂ż. There are no states of
sensors, of tyres or of what the model lacks, and no gates.

The source leaves open the plant noise, which is here white on the accelerations alone, as in the same author's
benchmark on linkages, and the road, which is here the plane z = 0. Accelerometers are not read: of their model
the source shows no equation, and it names acceleration sensors as future work.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from vehicled.configuration import Configuration
from vehicled.filter.error_state import LinearObservation, Transition
from vehicled.maths.angles import wrap
from vehicled.messages import WHEELS
from vehicled.sources.gnss.gnss import Gnss
from vehicled.sources.imu.imu import Imu
from vehicled.symbolic.function import CompiledFunction, Output
from vehicled.symbolic.graph import Atom, Graph
from vehicled.symbolic.vector import Vector
from vehicled.vehicle.arrays import CHART, CHART_SIZE, YAW
from vehicled.vehicle.car import Car
from vehicled.vehicle.chart import angular_velocity, axes

COORDINATES = ("r1x", "r1y", "r1z", "psi", "v1z", "v2z", "theta1", "theta2", "theta3", "theta4")
"""The source's names of z, in m and rad. The 20 states are their errors, then the errors of their rates in
this order."""
OUTPUTS = (
    *("x", "y", "yaw", "vx", "vy", "wz", "sideslip"),
    *("sigma.x", "sigma.y", "sigma.yaw", "sigma.vx", "sigma.vy", "sigma.sideslip"),
)
"""Columns of the estimates, m, rad and s."""
ReadingKind = Literal["position", "velocity", "gyroscopes", "course", "wheels"]

_N, _PAIRS = len(CHART), len(COORDINATES)
_WHEELS, _RATES = slice(_N, _PAIRS), slice(_PAIRS, _PAIRS + _N)
"""Indices of the wheels' angles, and of the chassis' rates, among the states."""
_WHEEL_RATES = slice(_PAIRS + _N, 2 * _PAIRS)
_ACCELERATIONS = np.array([0.5, 0.5, 1e-4, 0.02, 1e-4, 1e-4, 2.0, 2.0, 2.0, 2.0])
"""Plant noise on z̈: square roots of spectral densities, m/s²/√Hz and rad/s²/√Hz. Chosen for the least errors
in `mixed_drive` with seed 0: the transition does not include the springs, and with more noise on the slopes
corrections tilt the car."""
_START = np.array(
    [5.0, 5.0, 1e-3, 0.1, 1e-3, 1e-3, *4 * [np.pi], 0.1, 0.1, 1e-3, 0.01, 1e-3, 1e-3, *4 * [0.1]]
)
"""σ of the states at the start: for a car on the road, with unknown wheel angles."""
_SLOWEST = 1.0
"""m/s: below it, σ of the sideslip is calculated for this speed."""


@dataclass(frozen=True)
class Reading:
    """A measurement of one sensor."""

    kind: ReadingKind
    value: np.ndarray
    """Position of the antenna (3,) m, its horizontal velocity (2,) m/s, world axes; angular velocity (3,) rad/s, IMU
    axes; course over ground (1,) rad from east, counter-clockwise; angles of the wheels (4,) rad."""
    sigma: np.ndarray
    """1 σ of each component."""


class LiteralErrors:
    """The simulated car and the errors of its coordinates (see `ErrorStateModel`)."""

    def __init__(self, configuration: Configuration) -> None:
        """Start at rest on the road."""
        self.car = Car(configuration.vehicle)
        sensors = configuration.sensors
        imu, gnss = sensors.imu or Imu(), sensors.gnss or Gnss()
        self._antenna, self._rotation = np.array(gnss.antenna), imu.R_imu_vehicle.ravel()
        self._calc_readings = _compile_sensors()
        self.start_covariance = np.diag(_START**2)
        """(20, 20) of the errors after `place`."""

    def place(self, east: float, north: float, heading: float, speed: float) -> None:
        """Place the car at a position (m) with `heading` (rad) and `speed` (m/s), its wheels rolling."""
        self.car.rest()
        change, wheels = np.zeros(CHART_SIZE), np.zeros((2, len(WHEELS)))
        change[[0, 1, YAW]] = np.array([east, north, heading]) - self.state[[0, 1, YAW]]
        change[[_N, _N + 1]] = speed * np.cos(heading), speed * np.sin(heading)
        wheels[1] = speed / self.car.rolling_radius
        self.car.correct(change, wheels)

    @property
    def state(self) -> np.ndarray:
        """(20,) z and ż of the simulation, those of the chassis from its natural coordinates r1, v1, v2."""
        r1, v1, v2, _ = self.car.view("q")[:12].reshape(4, 3)
        r1_rate, v1_rate, v2_rate, _ = self.car.view("qd")[:12].reshape(4, 3)
        turning = (v1[0] * v1_rate[1] - v1[1] * v1_rate[0]) / (v1[0] ** 2 + v1[1] ** 2)
        self.car.report()
        return np.concatenate(
            [
                [*r1, np.arctan2(v1[1], v1[0]), v1[2], v2[2]],
                self.car.corner_output("wheel.angle"),
                [*r1_rate, turning, v1_rate[2], v2_rate[2]],
                self.car.corner_output("wheel.speed"),
            ]
        )

    def simulate(self, h: float) -> None:
        """Make one step of h (s). As in our filters, the next step continues even if this one has not converged."""
        self.car.step(h)

    def calc_transition(self, h: float) -> Transition:
        """f_x = [[I, I h], [0, I]], and the covariance that white accelerations add over h (s)."""
        grown = np.array([[h**3 / 3, h**2 / 2], [h**2 / 2, h]])
        return Transition(
            np.kron([[1.0, h], [0.0, 1.0]], np.eye(_PAIRS)), np.kron(grown, np.diag(_ACCELERATIONS**2))
        )

    def observe(self, reading: Reading) -> LinearObservation:
        """Linearise a reading at the present state."""
        predicted, jacobian = self.predict_reading(reading.kind)
        innovation = reading.value - predicted
        if reading.kind == "course":
            innovation = wrap(innovation)
        return LinearObservation(innovation, jacobian, np.diag(reading.sigma**2))

    def predict_reading(self, kind: ReadingKind) -> tuple[np.ndarray, np.ndarray]:
        """h (m,) and its derivatives by z and ż (m, 20)."""
        state = self.state
        if kind in ("course", "wheels"):  # the heading is used as the course
            place = slice(YAW, YAW + 1) if kind == "course" else _WHEELS
            return state[place], np.eye(2 * _PAIRS)[place]
        results = self._calc_readings(state[:_N], state[_RATES], self._antenna, self._rotation)
        first = 2 * ("position", "velocity", "gyroscopes").index(kind)
        value, by_chassis = results[first : first + 2]
        jacobian = np.zeros((len(value), 2 * _PAIRS))
        jacobian[:, :_N], jacobian[:, _RATES] = by_chassis[:, :_N], by_chassis[:, _N:]
        return value, jacobian

    def apply(self, correction: np.ndarray) -> None:
        """Apply Δz, Δż (20,) to the car; the suspensions do not change."""
        wheels = np.stack([correction[_WHEELS], correction[_WHEEL_RATES]])
        self.car.correct(np.concatenate([correction[:_N], correction[_RATES]]), wheels)

    def calc_outputs(self, covariance: np.ndarray) -> np.ndarray:
        """(13,) OUTPUTS at the present state, with the covariance (20, 20) of its errors."""
        state = self.state
        yaw, east, north = state[YAW], state[_PAIRS], state[_PAIRS + 1]
        cos, sin = np.cos(yaw), np.sin(yaw)
        vx, vy = cos * east + sin * north, cos * north - sin * east
        rows = np.zeros((6, 2 * _PAIRS))
        rows[[0, 1, 2], [0, 1, YAW]] = 1.0
        rows[3, [_PAIRS, _PAIRS + 1, YAW]] = cos, sin, vy
        rows[4, [_PAIRS, _PAIRS + 1, YAW]] = -sin, cos, -vx
        rows[5] = (vx * rows[4] - vy * rows[3]) / max(vx * vx + vy * vy, _SLOWEST**2)
        sigmas = np.sqrt(np.einsum("ij,jk,ik->i", rows, covariance, rows))
        values = [*state[:2], yaw, vx, vy, state[_PAIRS + YAW], np.arctan2(vy, vx)]
        return np.concatenate([values, sigmas])


@lru_cache
def _compile_sensors() -> CompiledFunction:
    """Sensor models of the chassis: position and horizontal velocity of the antenna, and angular velocity.

    Each value (m,) is followed by its derivatives (m, 12) by (r1, ψ, v1z, v2z) and their rates. Inputs are these, the
    place of the antenna (3,), and the rotation from vehicle axes to the IMU's by rows (9,).
    """
    g = Graph()
    z, zd, antenna, rotation = (
        [g.symbol(f"{name}{i}") for i in range(count)]
        for name, count in (("z", _N), ("zd", _N), ("antenna", 3), ("rotation", 9))
    )
    chassis = axes(g, *z[YAW:])
    w_world = angular_velocity(chassis, Vector.of(zd[YAW:]))
    w_body, arm_world = chassis.to_body(w_world), chassis.to_world(Vector.of(antenna))
    models: tuple[list[Atom], ...] = (
        list(Vector.of(z[:YAW]) + arm_world),
        list(Vector.of(zd[:YAW]) + w_world.cross(arm_world))[:2],
        [Vector.of(rotation[k : k + 3]).dot(w_body) for k in (0, 3, 6)],
    )
    outputs: list[Output] = []
    for model in models:
        outputs += [model, [[g.derivative(value, s) for s in (*z, *zd)] for value in model]]
    return CompiledFunction([z, zd, antenna, rotation], outputs)
