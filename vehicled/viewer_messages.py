"""Messages that Foxglove draws itself, with the names and units of its published schemas (docs.foxglove.dev).

They are JSON, as are this program's own messages. Only the fields that are used here are declared.
"""

from __future__ import annotations

import msgspec


class Time(msgspec.Struct, gc=False):
    """Since 1970-01-01 UTC."""

    sec: int
    nsec: int


class Vector3(msgspec.Struct, gc=False):
    """A vector, or a point."""

    x: float
    y: float
    z: float


class Quaternion(msgspec.Struct, gc=False):
    """A rotation; w is its real part."""

    x: float
    y: float
    z: float
    w: float


class Pose(msgspec.Struct, gc=False):
    """Place (m) and orientation of an object in its frame."""

    position: Vector3
    orientation: Quaternion


class Color(msgspec.Struct, gc=False):
    """Red, green, blue and opacity, 0 to 1."""

    r: float
    g: float
    b: float
    a: float


class LocationFix(msgspec.Struct, gc=False):
    """Where the car is on the earth."""

    timestamp: Time
    frame_id: str
    latitude: float
    """deg"""
    longitude: float
    """deg"""
    altitude: float
    """m"""
    position_covariance: tuple[float, ...]
    """m², rows of the (3, 3) matrix; east, north, up."""
    position_covariance_type: int


class FrameTransform(msgspec.Struct, gc=False):
    """Where a frame is in its parent: a point there is rotation · point + translation."""

    timestamp: Time
    parent_frame_id: str
    child_frame_id: str
    translation: Vector3
    rotation: Quaternion


class FrameTransforms(msgspec.Struct, gc=False):
    """Several of them."""

    transforms: list[FrameTransform]


class Arrow(msgspec.Struct, gc=False):
    """From its place along its x axis; m."""

    pose: Pose
    shaft_length: float
    shaft_diameter: float
    head_length: float
    head_diameter: float
    color: Color


class Cube(msgspec.Struct, gc=False):
    """A cuboid around its place."""

    pose: Pose
    size: Vector3
    color: Color


class Cylinder(msgspec.Struct, gc=False):
    """Around its place, its axis along z."""

    pose: Pose
    size: Vector3
    bottom_scale: float
    top_scale: float
    color: Color


class SceneEntity(msgspec.Struct, gc=False):
    """An object that replaces the one with the same identifier."""

    timestamp: Time
    frame_id: str
    id: str
    lifetime: Time
    """Zero: until the object is replaced."""
    frame_locked: bool
    """Whether the object moves with its frame."""
    arrows: list[Arrow]
    cubes: list[Cube]
    cylinders: list[Cylinder]


class SceneUpdate(msgspec.Struct, gc=False):
    """Objects that are new or have changed."""

    entities: list[SceneEntity]


VIEWER_TOPICS: dict[str, type[msgspec.Struct]] = {
    "location": LocationFix,
    "transforms": FrameTransforms,
    "scene": SceneUpdate,
}
"""Topics of recordings in addition to those of `schemas.TOPICS`."""
