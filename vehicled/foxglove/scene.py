"""The car as Foxglove draws it, from one estimate: on the map, and body, wheels and tyre forces in their frames."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import msgspec
import numpy as np

from vehicled.messages import ESTIMATE_INDEX, WHEELS, Estimate
from vehicled.vehicle.model_parameters import corner_parameters
from vehicled.vehicle.parameters import Vehicle
from vehicled.viewer_messages import (
    Arrow,
    Color,
    Cube,
    Cylinder,
    FrameTransform,
    FrameTransforms,
    LocationFix,
    Pose,
    Quaternion,
    SceneEntity,
    SceneUpdate,
    Time,
    Vector3,
)

WORLD, CAR = "world", "vehicle"
"""Frames: east-north-up, and that of the vehicle; of the wheels: `wheel.fl` and so on, x forward, y left."""
_METRES_PER_NEWTON = 2.5e-4
"""Length of an arrow: 1 m for 4 kN."""
_LEAST_LENGTH = 0.02
"""m: shorter arrows are not drawn."""
_SHAFT, _HEAD = 0.05, 0.1
"""m: diameters of an arrow."""
_LEAST_SPEED = 1.0
"""m/s: of a wheel, below which its direction does not follow from its slip angle."""
_STILL_EVERY_NS = 1_000_000_000
"""Between repetitions of what moves only with its frame, for those who begin to watch in the middle."""
_BODY = Color(0.25, 0.45, 0.75, 0.6)
_TYRE = Color(0.15, 0.15, 0.15, 1.0)
_ALONG, _ACROSS, _LOAD = Color(0.9, 0.3, 0.2, 1.0), Color(0.2, 0.7, 0.3, 1.0), Color(0.4, 0.4, 0.9, 0.5)
"""Of the forces along x, y and z of a wheel."""
_DIAGONAL_KNOWN, _APPROXIMATED = 2, 1
"""Of `position_covariance_type`."""
_FOR_EVER = Time(0, 0)
_IDENTITY = Quaternion(0.0, 0.0, 0.0, 1.0)

_encode = msgspec.json.Encoder().encode


class Scene:
    """Draws one car."""

    def __init__(self, vehicle: Vehicle) -> None:
        """`vehicle`: for the places and radii of its wheels."""
        corners = [corner_parameters(vehicle, w) for w in WHEELS]
        self._centres = np.array([[c[f"wheel.centre.{a}"] for a in "xyz"] for c in corners]).round(4)
        self._radii = [c["tyre.radius"] for c in corners]
        self._still_ns: int | None = None

    def draw(self, estimate: Estimate, utc_ns: int) -> Iterator[tuple[str, bytes]]:
        """Topics (of `VIEWER_TOPICS`) and messages, as UTF-8 JSON; `utc_ns`: their time, since 1970 UTC."""
        values: list[float] = estimate.values.tolist()

        def get(column: str) -> float:
            return values[ESTIMATE_INDEX[column]]

        time = _to_time(utc_ns)
        if math.isfinite(get("lat")):
            yield "location", _encode(_locate(get, estimate.correlation, time))
        yield "transforms", _encode(self._place_frames(get, time))
        entities = list(self._draw_forces(get, time))
        if self._still_ns is None or not 0 <= utc_ns - self._still_ns < _STILL_EVERY_NS:
            self._still_ns = utc_ns
            entities += self._draw_still(time)
        yield "scene", _encode(SceneUpdate(entities))

    def _place_frames(self, get: Callable[[str], float], time: Time) -> FrameTransforms:
        place = Vector3(*(round(get(a), 4) for a in "xyz"))
        transforms = [FrameTransform(time, WORLD, CAR, place, turn(get("roll"), get("pitch"), get("yaw")))]
        for w, (x, y, z) in zip(WHEELS, self._centres.tolist(), strict=True):
            place = Vector3(x, y, round(z + get(f"suspension.{w}.deflection"), 4))
            direction = turn(0.0, 0.0, _find_direction(get, w, x, y))
            transforms.append(FrameTransform(time, CAR, f"wheel.{w}", place, direction))
        return FrameTransforms(transforms)

    def _draw_forces(self, get: Callable[[str], float], time: Time) -> Iterator[SceneEntity]:
        """Per wheel the forces at its contact with the ground."""
        for w, radius in zip(WHEELS, self._radii, strict=True):
            contact = Vector3(0.0, 0.0, -radius)
            arrows = []
            for axis, color in (("x", _ALONG), ("y", _ACROSS), ("z", _LOAD)):
                force = get(f"tyre.{w}.f{axis}")
                length = round(abs(force) * _METRES_PER_NEWTON, 3)
                if length > _LEAST_LENGTH:
                    pose = Pose(contact, _ARROWS[axis, force > 0.0])
                    head = round(0.2 * length, 4)
                    arrows.append(Arrow(pose, round(length - head, 4), _SHAFT, head, _HEAD, color))
            yield SceneEntity(time, f"wheel.{w}", f"forces.{w}", _FOR_EVER, True, arrows, [], [])

    def _draw_still(self, time: Time) -> Iterator[SceneEntity]:
        """Body and wheels, which move with their frames."""
        centres = self._centres
        ahead, behind = centres[0, 0], centres[2, 0]
        width = float(centres[0, 1] - centres[1, 1])
        # Overhangs and roof after ordinary cars; the data sheet of a car that moves has neither.
        size = Vector3(float(ahead - behind) + 1.6, width + 0.1, 0.9)
        pose = Pose(Vector3(float(ahead + behind) / 2, 0.0, 0.25), _IDENTITY)
        yield SceneEntity(time, CAR, "body", _FOR_EVER, True, [], [Cube(pose, size, _BODY)], [])
        for w, radius in zip(WHEELS, self._radii, strict=True):
            pose = Pose(Vector3(0.0, 0.0, 0.0), _ACROSS_AXIS)
            wheel = Cylinder(pose, Vector3(2 * radius, 2 * radius, 0.2), 1.0, 1.0, _TYRE)
            yield SceneEntity(time, f"wheel.{w}", f"wheel.{w}", _FOR_EVER, True, [], [], [wheel])


def turn(roll: float, pitch: float, yaw: float) -> Quaternion:
    """The rotation z-y-x by these angles, rad; to a microradian, as more digits would only take room."""
    (cr, cp, cy), (sr, sp, sy) = ([f(0.5 * a) for a in (roll, pitch, yaw)] for f in (math.cos, math.sin))
    parts = (
        sr * cp * cy - cr * sp * sy,
        cr * sp * cy + sr * cp * sy,
        cr * cp * sy - sr * sp * cy,
        cr * cp * cy + sr * sp * sy,
    )
    return Quaternion(*(round(part, 6) for part in parts))


_ACROSS_AXIS = turn(math.pi / 2, 0.0, 0.0)
"""From a cylinder's axis to that of a wheel."""
_ARROWS = {
    ("x", True): _IDENTITY,
    ("x", False): turn(0.0, 0.0, math.pi),
    ("y", True): turn(0.0, 0.0, math.pi / 2),
    ("y", False): turn(0.0, 0.0, -math.pi / 2),
    ("z", True): turn(0.0, -math.pi / 2, 0.0),
    ("z", False): turn(0.0, math.pi / 2, 0.0),
}
"""Directions of arrows by axis of the force, and whether it is positive."""


def _locate(get: Callable[[str], float], correlation: float, time: Time) -> LocationFix:
    x, y, z = map(get, ("sigma.x", "sigma.y", "sigma.z"))
    kind, xy = _DIAGONAL_KNOWN, 0.0
    if math.isfinite(correlation):  # those with the height are not
        kind, xy = _APPROXIMATED, correlation * x * y
    covariance = x * x, xy, 0.0, xy, y * y, 0.0, 0.0, 0.0, z * z
    place = get("lat"), get("lon"), get("alt")
    return LocationFix(time, CAR, *place, covariance, kind)


def _find_direction(get: Callable[[str], float], wheel: str, x: float, y: float) -> float:
    """Angle by which a wheel is steered, rad: that of its hub's velocity less the slip angle (ISO 8855)."""
    ahead, left = get("vx") - get("wz") * y, get("vy") + get("wz") * x
    if math.hypot(ahead, left) < _LEAST_SPEED:
        return 0.0
    angle = math.atan2(left, ahead) if ahead > 0.0 else math.atan2(-left, -ahead)
    return angle - get(f"slip.{wheel}.angle")


def _to_time(utc_ns: int) -> Time:
    return Time(*divmod(max(utc_ns, 0), 1_000_000_000))
