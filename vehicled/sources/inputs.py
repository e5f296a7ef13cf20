"""What drives the model: steering, drive torque and brake pressure, from their measurements."""

from __future__ import annotations

import math
from collections.abc import Mapping

from vehicled.sources.settings import Sensors
from vehicled.vehicle.car import Car
from vehicled.vehicle.steering import SteeringGeometry

CHANNELS = frozenset(
    ("torque.rl", "torque.rr", "brake.pressure", "steer.fl", "steer.fr", "steer.rack", "steer.wheel")
)
HORIZON = 0.1
"""s: a steering signal is extrapolated no further; after that the last value holds."""


class Tracker:
    """Value and rate of a sampled signal between its samples: a critically damped g-h filter.

    Its memory is a time, not a number of samples, so that any rate of samples will do.
    """

    def __init__(self, memory: float):
        self._memory = memory
        self._t: float | None = None
        self.value = self.rate = 0.0

    def update(self, t: float, measured: float) -> None:
        """A sample measured at t (s). One that is not newer than the last is left out."""
        if self._t is None:
            self._t, self.value, self.rate = t, measured, 0.0
            return
        dt = t - self._t
        if dt <= 0.0:
            return
        theta = math.exp(-dt / self._memory)
        predicted = self.value + self.rate * dt
        error = measured - predicted
        self.value = predicted + (1.0 - theta * theta) * error
        self.rate += (1.0 - theta) ** 2 / dt * error
        self._t = t

    def at(self, t: float) -> tuple[float, float]:
        """Value and rate at t, extrapolated from the last sample by no more than HORIZON."""
        if self._t is None:
            return 0.0, 0.0
        ahead = t - self._t
        if ahead > HORIZON:
            return self.value + self.rate * HORIZON, 0.0
        return self.value + self.rate * ahead, self.rate


class Inputs:
    """Keeps the latest inputs and writes them into a car before each step."""

    def __init__(self, car: Car, sensors: Sensors):
        steering = sensors.steering
        self.geometry = SteeringGeometry(car.vehicle)
        self._car = car
        self._offset = steering.offset
        self._source = steering.source
        self._gain = sensors.wheel_torques.gain
        self._rods = (Tracker(steering.smoothing), Tracker(steering.smoothing))
        self.torque = [0.0, 0.0]
        """Rear left and right, N·m."""
        self.pressure = 0.0
        """Pa."""

    def take(self, t_ns: int, values: Mapping[str, float]) -> None:
        """Channels measured at a time; those that are no inputs are left alone."""
        if CHANNELS.isdisjoint(values):
            return
        t = t_ns * 1e-9
        if "torque.rl" in values:
            self.torque[0] = self._gain * values["torque.rl"]
        if "torque.rr" in values:
            self.torque[1] = self._gain * values["torque.rr"]
        if "brake.pressure" in values:
            self.pressure = max(values["brake.pressure"], 0.0)
        if self._source == "road_wheels":
            for n, channel in enumerate(("steer.fl", "steer.fr")):
                if channel in values:
                    self._rods[n].update(t, self.geometry.rod(n, values[channel] - self._offset))
        elif self._source == "rack" and "steer.rack" in values:
            self._both(t, self.geometry.sign * (values["steer.rack"] - self._offset))
        elif self._source == "wheel" and "steer.wheel" in values:
            turned = values["steer.wheel"] - self._offset
            self._both(t, self.geometry.sign * self.geometry.ratio * turned)

    def _both(self, t: float, displacement: float) -> None:
        for rod in self._rods:
            rod.update(t, displacement)

    def apply(self, t: float) -> None:
        """Write the inputs at t (s) into the car."""
        (left, left_rate), (right, right_rate) = (rod.at(t) for rod in self._rods)
        car = self._car
        car.inputs[0], car.inputs[1] = 0.5 * (left + right), 0.5 * (left_rate + right_rate)
        car.corner_inputs[0, :2] = left, right
        car.corner_inputs[1, :2] = left_rate, right_rate
        car.corner_inputs[3, 2:] = self.torque
        car.corner_inputs[4] = self.pressure
