"""The inputs that the model follows, from their measurements."""

from __future__ import annotations

from collections.abc import Mapping

from vehicled.sources import brakes
from vehicled.sources.brakes import Brakes
from vehicled.sources.drive_health import DriveHealth
from vehicled.sources.steering import Steering, SteeringInput
from vehicled.sources.torques import Torques, WheelTorques
from vehicled.vehicle.arrays import BRAKE_PRESSURE, DRIVE_TORQUE
from vehicled.vehicle.car import Car

LIMITS: Mapping[str, float] = {**SteeringInput.LIMITS, **WheelTorques.LIMITS, **brakes.LIMITS}
"""By channel: the largest magnitude that can be a measurement."""
CHANNELS = frozenset(LIMITS)


class Inputs:
    """Keeps the latest inputs and writes them into a car before each step."""

    def __init__(self, car: Car, steering: SteeringInput, torques: WheelTorques) -> None:
        self._car, self._settings = car, (steering, torques)
        self.reset()

    def reset(self) -> None:
        """Nothing is known any more."""
        steering, torques = self._settings
        self.steering, self.torques = Steering(steering, self._car), Torques(torques, self._car)
        self.brakes = Brakes(self._car)
        self._drive_health = DriveHealth(self._car.vehicle)

    def reconfigure(self, steering: SteeringInput, torques: WheelTorques) -> None:
        """Take other settings while running; the memory of the steering's tracker only from the next reset on."""
        self._settings = steering, torques
        self.steering.settings, self.torques.gain = steering, torques.gain

    def take(self, t_ns: int, values: Mapping[str, float]) -> None:
        """Channels measured at a time; those that are no inputs are left alone."""
        t = t_ns * 1e-9
        self.torques.take(t, values)
        self.brakes.take(t, values)
        self.steering.take(t, values)

    def find_latest(self) -> dict[str, float]:
        """Times (s) of the last samples by input, −∞ without one."""
        return {
            "steering": self.steering.health.seen,
            "torques": self.torques.measured_at,
            "brakes": self.brakes.measured_at,
        }

    @property
    def wrong_drive(self) -> str | None:
        """Which of `torques` and `brakes` contradicts the accelerometer."""
        return None if self._drive_health.is_healthy else self._drive_health.suspect

    def is_drive_known(self, t: float) -> bool:
        """Whether both drive torque and brake pressure are measured at t, s, and healthy."""
        return self._drive_health.is_healthy and self.torques.is_measured(t) and self.brakes.is_measured(t)

    def check_drive(self, t: float, ahead: float, measured: float | None) -> None:
        """Find whether torques and pressure at t (s) agree with the accelerometer; if not, they count as zero.

        `ahead`: speed, m/s; `measured`: specific force along the car, m/s², None where it is not measured.
        """
        if self.torques.is_measured(t) or self.brakes.is_measured(t):
            self._drive_health.check(t, self.torques.find_sum(t), self.brakes.find(t), ahead, measured)

    def apply(self, t: float) -> None:
        """Write the inputs at t (s) into the car."""
        self.steering.apply(t)
        self.torques.apply(t)
        self.brakes.apply(t)
        if not self._drive_health.is_healthy:
            for row in (DRIVE_TORQUE, BRAKE_PRESSURE):
                self._car.corner_inputs[row] = 0.0
