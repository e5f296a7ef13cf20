"""What must be known before the filter can start: where the car is, how fast, and which way it goes."""

from __future__ import annotations

from vehicled.messages import Measurement
from vehicled.sources.gnss import CHANNELS, Fix, GnssAiding
from vehicled.sources.onboard import WHEEL_ANGLES, WHEEL_SPEEDS
from vehicled.sources.settings import Sensors

_TURNING_NS = 100_000_000
"""Time over which the turning of wheels tells the speed."""
_TELLING = frozenset((*CHANNELS, "vehicle.speed", *WHEEL_ANGLES, *WHEEL_SPEEDS))


class FirstWords:
    """The latest that measurements say of it."""

    def __init__(self, sensors: Sensors, gnss: GnssAiding | None, rear_radius: float):
        self.configure(sensors, gnss)
        self._rear_radius = rear_radius
        self.fix: tuple[int, Fix] | None = None
        """With the time when it was measured, ns."""
        self.speed: float | None = None
        """m/s."""
        self.course: float | None = None
        """rad, while moving."""
        self._turned: tuple[int, float] | None = None

    def configure(self, sensors: Sensors, gnss: GnssAiding | None) -> None:
        """Which sensors there are."""
        self._sensors, self._gnss = sensors, gnss

    def take(self, m: Measurement) -> None:
        """Speed from the best source that the measurement has: the car's bus, the receiver, the wheels."""
        v, s = m.values, self._sensors
        if _TELLING.isdisjoint(v):
            return
        fix = None if self._gnss is None else self._gnss.find_fix(v)
        if fix is not None:
            self.fix = m.t, fix
        if "vehicle.speed" in v and s.vehicle_speed is not None:
            self.speed = v["vehicle.speed"]
        elif "gnss.speed" in v and s.gnss is not None:
            self.speed = v["gnss.speed"]
        elif "wheel.rl.speed" in v and "wheel.rr.speed" in v and s.wheel_speeds is not None:
            self.speed = 0.5 * (v["wheel.rl.speed"] + v["wheel.rr.speed"]) * self._rear_radius
        elif "wheel.rl.angle" in v and "wheel.rr.angle" in v and s.wheel_angles is not None:
            self._take_turning(m.t, 0.5 * (v["wheel.rl.angle"] + v["wheel.rr.angle"]))
        if "gnss.course" in v and s.gnss is not None and (self.speed or 0.0) > s.gnss.least_speed:
            self.course = v["gnss.course"]

    def _take_turning(self, t_ns: int, angle: float) -> None:
        """Speed from how far the rear wheels have turned in a while."""
        if self._turned is None or t_ns < self._turned[0]:
            self._turned = (t_ns, angle)
        elif t_ns - self._turned[0] >= _TURNING_NS:
            seconds = (t_ns - self._turned[0]) * 1e-9
            self.speed = self._rear_radius * (angle - self._turned[1]) / seconds
            self._turned = (t_ns, angle)
