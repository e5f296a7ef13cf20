"""Settings of noise that may be found from innovations: of the sensors, and of what the model gets wrong.

All are positive. What a receiver says of its own accuracy is left to it, and what a standing car shows (the lateral
acceleration at standstill) to the file: only moving is counted.
"""

from __future__ import annotations

from vehicled.configuration import File
from vehicled.identification.vehicle.names import Parameter, Path, at, get_at, put_at

_SIGMA = 1.0
"""Prior of a logarithm: within a factor of three either way."""

_SENSORS: tuple[tuple[str, str, str, Path], ...] = (
    ("gyro.noise", "gyroscopes, one sample", "rad/s", ("imu", "gyroscopes", "noise")),
    ("accel.noise", "accelerometers, one sample", "m/s²", ("imu", "accelerometers", "noise")),
    *(
        (f"accel.model_error.{a}", f"slow error of the model's acceleration, {a}", "m/s²", path)
        for n, a in enumerate("xyz")
        for path in [("imu", "accelerometers", "model_error", n)]
    ),
    ("wheel_angles.noise", "wheel angles beside their resolution", "rad", ("wheel_angles", "noise")),
    ("wheel_speeds.noise", "wheel speeds, one sample", "rad/s", ("wheel_speeds", "noise")),
    ("vehicle_speed.noise", "the car's own speed, one sample", "m/s", ("vehicle_speed", "noise")),
)
_PLANT: tuple[tuple[str, str, str, Path], ...] = (
    ("plant.longitudinal", "acceleration along the car", "m/s²/√Hz", ("rate_noise", "longitudinal")),
    (
        "plant.lateral_per_speed",
        "acceleration across, by speed",
        "1/s/√Hz",
        ("rate_noise", "lateral_per_speed"),
    ),
    ("plant.z", "vertical acceleration", "m/s²/√Hz", ("rate_noise", "z")),
    ("plant.yaw", "yaw acceleration", "rad/s²/√Hz", ("rate_noise", "yaw")),
    ("plant.pitch", "pitch acceleration", "1/s²/√Hz", ("rate_noise", "v1z")),
    ("plant.roll", "roll acceleration", "1/s²/√Hz", ("rate_noise", "v2z")),
    ("plant.wheel", "slip of the wheels", "rad/s²/√Hz", ("rate_noise", "wheel")),
    ("plant.height", "height of the road", "m/√s", ("position_noise", "z")),
    ("drive_force.noise", "unknown drive force", "m/s²/√s", ("drive_force", "noise")),
)

NOISE = {
    name: Parameter(name, meaning, unit, *at(section, *path), _SIGMA)
    for section, rows in (("sensors", _SENSORS), ("filter", _PLANT))
    for name, meaning, unit, path in rows
}
"""By name, in the order in which they are told."""

_OF_MODEL: tuple[Path, ...] = (
    ("filter", "rate_noise", "lateral"),
    *(("filter", "position_noise", name) for name in ("x", "yaw", "wheel")),
    *(("filter", *path) for name, _, _, path in _PLANT if name != "drive_force.noise"),
    ("filter", "ground_slope"),
    *(("sensors", *path) for name, _, _, path in _SENSORS if name.startswith("accel.model_error")),
)


def scale_plant(file: File, factor: float) -> File:
    """The configuration that trusts its model more or less: standard deviations of all that the model gets wrong,
    but for what drives the car where nothing measures it."""
    for path in _OF_MODEL:
        value = get_at(file, path)
        if value is not None:
            file = put_at(file, path, value * factor)
    return file
