"""A car simple enough to check by hand: a dynamic single-track model with saturating tyres and rolling wheels."""

import math

import numpy as np

from vehicled.messages import ESTIMATE_COLUMNS, ESTIMATE_INDEX, WHEELS
from vehicled.simulation.driver import Controls, Handling
from vehicled.simulation.manoeuvres import InitialMotion
from vehicled.simulation.scenario import Ground
from vehicled.simulation.sensors import SensorPlaces

G = 9.81


class SingleTrack:
    """1500 kg, evenly loaded axles of equal cornering stiffness, so neutral steering; friction as given."""

    def __init__(
        self, friction: float = 0.81, errors: float = 1.0, mounting: SensorPlaces | None = None
    ) -> None:
        self.mass, self.inertia = 1500.0 * errors, 2200.0 * errors
        self.a = self.b = 1.35
        self.stiffness = 100e3
        self.friction = friction
        self.gravity = G
        self.mounting = mounting or SensorPlaces()
        self.handling = Handling(
            wheelbase=self.a + self.b,
            width=1.8,
            mass=1500.0,
            wheel_radius=0.3,
            rack_per_steer=0.12,
            brake_torque_per_pressure=3e-4,
        )

    def reset(self, initial: InitialMotion, ground: Ground) -> None:
        self.x, self.y, self.yaw = initial.x, initial.y, initial.yaw
        self.vx, self.vy, self.r = initial.speed, 0.0, 0.0
        self.wheel = 0.0
        self.steer = 0.0

    def step(self, t: float, dt: float, controls: Controls) -> None:
        rack, rear_torque, brake_pressure, front_torque = controls
        self.steer = rack / self.handling.rack_per_steer
        v = max(self.vx, 2.0)
        front = self._lateral(self.steer - (self.vy + self.a * self.r) / v)
        rear = self._lateral(-(self.vy - self.b * self.r) / v)
        drive = (rear_torque + front_torque) / self.handling.wheel_radius - 0.4 * self.vx**2
        brake = self.handling.brake_torque_per_pressure * brake_pressure / self.handling.wheel_radius
        brake = min(brake, self.friction * self.mass * G)
        force = drive - front * math.sin(self.steer)
        if self.vx > 0 or force > brake:
            self.vx = max(self.vx + dt * ((force - brake) / self.mass + self.r * self.vy), 0.0)
        self.vy += dt * ((front + rear) / self.mass - self.r * self.vx)
        self.r += dt * (self.a * front - self.b * rear) / self.inertia
        if self.vx < 0.1:
            self.vy *= 0.9
            self.r *= 0.9
        self.yaw += dt * self.r
        self.x += dt * (self.vx * math.cos(self.yaw) - self.vy * math.sin(self.yaw))
        self.y += dt * (self.vx * math.sin(self.yaw) + self.vy * math.cos(self.yaw))
        self.wheel += dt * self.vx / self.handling.wheel_radius

    def _lateral(self, slip: float) -> float:
        limit = self.friction * self.mass * G / 2
        return limit * math.tanh(self.stiffness * slip / limit)

    def truth(self) -> np.ndarray:
        row = np.full(len(ESTIMATE_COLUMNS), np.nan)
        values = {"x": self.x, "y": self.y, "z": 0.5, "roll": 0.0, "pitch": 0.0, "yaw": self.yaw}
        values |= {"vx": self.vx, "vy": self.vy, "vz": 0.0, "wx": 0.0, "wy": 0.0, "wz": self.r}
        values["sideslip"] = math.atan2(self.vy, self.vx)
        for w in WHEELS:
            values[f"wheel.{w}.angle"] = self.wheel
            values[f"wheel.{w}.speed"] = self.vx / self.handling.wheel_radius
        for name, value in values.items():
            row[ESTIMATE_INDEX[name]] = value
        return row

    def road_wheel_angles(self) -> tuple[float, float]:
        return self.steer, self.steer

    def wheel_torques(self, controls: Controls) -> np.ndarray:
        front, rear = 0.5 * controls.front_torque, 0.5 * controls.rear_torque
        return np.array([front, front, rear, rear])
