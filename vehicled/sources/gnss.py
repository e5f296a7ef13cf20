"""The GNSS receiver: fixes, speed and course over ground; and through them, where in the world the car is."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

import numpy as np

from vehicled.filter.covariance import UNSEEN
from vehicled.filter.settings import Start, World
from vehicled.filter.vehicle_errors import YAW
from vehicled.filter.vehicle_filter import VehicleFilter
from vehicled.geodesy import WorldOrigin
from vehicled.messages import Measurement
from vehicled.sources.fusion import Fusion
from vehicled.sources.settings import FixNoise, Gnss

CHANNELS = frozenset(("gnss.lat", "gnss.speed", "gnss.course", "gnss.quality"))
UNKNOWN_YAW = 1e-4
"""rad²: an unknown heading is not estimated before the car is turned, as a wide variance would be linearised
over far too wide a range."""
_SIDESLIP = 0.01
"""rad: difference of heading and course that the model may leave when the car is first turned."""
_LEAST_SPEED = 0.3
"""m/s: next to standstill the speed of a noisy velocity is no longer Gaussian."""
_LEAST_ACCURACY = 2e-3
"""m: no receiver is better, whatever it says."""
_FARTHEST = 1e5
"""m: a given origin farther away than this is not meant for this drive; a tangent plane is no map of a country."""

Fix = tuple[float, float, float]
"""Latitude and longitude (degrees) and height (m; NaN where a fix has none)."""


class Place:
    """What is known of where in the world the estimates are, and which way is east."""

    def __init__(self, given: World | None):
        self._given = None if given is None else WorldOrigin.of(given)
        self.forget()

    def forget(self) -> None:
        """Back to what the configuration gives."""
        self.origin = self._given
        self.known = False
        """Whether the estimates are about `origin`, and not in a frame of their own."""
        self.aligned = False
        """Whether the heading is known."""

    def find_origin(self, fix: Fix) -> None:
        """The first fix, unless an origin is given that is not on the other side of the country."""
        latitude, longitude, height = fix
        height = 0.0 if math.isnan(height) else height
        self.known = True
        if self.origin is not None:
            away = self.origin.to_world(latitude, longitude, height)
            if float(np.hypot(away[0], away[1])) <= _FARTHEST:
                return
        self.origin = WorldOrigin(latitude, longitude, height)

    def of(self, fix: Fix) -> np.ndarray:
        """(3,) where a fix is, m; without height, in the height of the origin."""
        assert self.origin is not None
        return self.origin.to_world(fix[0], fix[1], self.origin.height if math.isnan(fix[2]) else fix[2])


class GnssAiding:
    """Hands a receiver's measurements to the filter."""

    def __init__(self, filter: VehicleFilter, fusion: Fusion, place: Place, counters: Counter[str]):
        self._filter, self._fusion, self._place, self._counters = filter, fusion, place, counters

    def configure(self, settings: Gnss, start: Start) -> None:
        """Noise and gates."""
        self._settings, self._start = settings, start
        self._fusion.add("gnss.position", settings.gate, self._believe)
        for name in ("gnss.speed", "gnss.course"):
            self._fusion.add(name, settings.gate)
        s = settings
        self._kinds = {1: s.single, 2: s.dgnss, 4: s.rtk_fixed, 5: s.rtk_float}

    def find_fix(self, v: Mapping[str, float]) -> Fix | None:
        """The fix in a measurement, if it has a position that is worth something."""
        if "gnss.lat" not in v or "gnss.lon" not in v or v.get("gnss.quality", 1.0) < 1.0:
            return None
        return v["gnss.lat"], v["gnss.lon"], v.get("gnss.alt", math.nan)

    def offset(self, fix: Fix) -> np.ndarray:
        """(3,) from where the antenna is to where a fix says it is; vertical 0 without height."""
        offset = self._place.of(fix) - self._filter.antenna()
        if math.isnan(fix[2]):
            offset[2] = 0.0
        return offset

    def observe(self, m: Measurement) -> None:
        """Position, speed and course in a measurement."""
        s, v, fusion = self._settings, m.values, self._fusion
        fix = self.find_fix(v)
        if fix is None and ("gnss.lat" in v or v.get("gnss.quality", 1.0) < 1.0):
            fusion.refuse(m, "gnss.position", [], "no fix")
        moving = v.get("gnss.speed", 0.0) > s.least_speed
        if fix is not None and not self._place.known:
            self._join_world(fix)
        if "gnss.course" in v and moving and not self._place.aligned:
            self._align(m, fix)
        if fix is not None:
            self._observe_position(m, fix)
        velocity = self._kind(v).velocity
        if "gnss.speed" in v:
            if v["gnss.speed"] < _LEAST_SPEED:
                fusion.refuse(m, "gnss.speed", [v["gnss.speed"]], "not moving")
            else:
                fusion.fuse(m, "gnss.speed", [v["gnss.speed"]], [velocity**2])
        if "gnss.course" in v:
            if not moving:  # nor without a speed beside it, which its noise depends on
                fusion.refuse(m, "gnss.course", [v["gnss.course"]], "not moving")
            else:
                noise = (velocity / v["gnss.speed"]) ** 2 + s.sideslip_error**2
                fusion.fuse(m, "gnss.course", [v["gnss.course"]], [noise])

    def _kind(self, v: Mapping[str, float]) -> FixNoise:
        return self._kinds.get(int(v.get("gnss.quality", 1.0)), self._kinds[1])

    def _observe_position(self, m: Measurement, fix: Fix) -> None:
        s, v = self._settings, m.values
        kind = self._kind(v)
        horizontal, vertical, wander = kind.horizontal, kind.vertical, kind.wander
        if s.trust_reported_accuracy and "gnss.h_acc" in v:
            reported = max(v["gnss.h_acc"], _LEAST_ACCURACY)
            horizontal, wander = reported, wander * reported / horizontal
        if s.trust_reported_accuracy and "gnss.v_acc" in v:
            vertical = max(v["gnss.v_acc"], _LEAST_ACCURACY)
        self._filter.begin_wander(wander, kind.wander_time)
        place, level = self._place.of(fix).tolist(), horizontal**2 - wander**2
        if math.isnan(fix[2]):
            self._fusion.fuse(m, "gnss.position", place, [level, level, UNSEEN], (0, 1))
        else:
            # Heights wander twice as far.
            upright = max(vertical**2 - 4 * wander**2, 0.25 * vertical**2)
            self._fusion.fuse(m, "gnss.position", place, [level, level, upright])

    def _join_world(self, fix: Fix) -> None:
        """The first fix of a filter that began without one: from now on it knows where in the world it is."""
        self._place.find_origin(fix)
        self._place.aligned = False
        f = self._filter
        f.correct()
        f.move(self.offset(fix))
        for i in range(3):
            f.ekf.set_variance(i, self._start.position_sigma**2)
        f.ekf.set_variance(YAW, UNKNOWN_YAW)
        f.remember(self._fusion.step_ns)
        self._counters["position_sets"] += 1

    def _align(self, m: Measurement, fix: Fix | None) -> None:
        """The first course over ground turns a car whose heading was unknown."""
        f, v = self._filter, m.values
        f.correct()
        if f.judge("gnss.course", m.t, [v["gnss.course"]], [1.0]) is None:
            return
        f.turn(-float(f.ekf.innovation[0]))
        f.ekf.set_variance(YAW, (self._kind(v).velocity / v["gnss.speed"]) ** 2 + _SIDESLIP**2)
        if fix is not None:
            f.move(self.offset(fix))
            for i in (0, 1):
                f.ekf.set_variance(i, self._start.position_sigma**2)
        f.remember(self._fusion.step_ns)
        self._counters["alignments"] += 1
        self._place.aligned = True

    def _believe(self, innovation: np.ndarray, noise: np.ndarray) -> None:
        """The car is where the receiver keeps saying."""
        f, seen = self._filter, noise < UNSEEN
        f.correct()
        offset = np.where(seen, innovation, 0.0)
        f.move(offset)
        for k in map(int, np.flatnonzero(seen)):
            f.note(k, float(offset[k]))
            f.ekf.set_variance(k, float(noise[k]))
