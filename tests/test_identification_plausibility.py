"""Faults of logs that are reported before identification."""

import dataclasses
from functools import lru_cache

import pytest
from drives_rig import drive, mixed, prototype_file

from vehicled.identification.vehicle.names import PARAMETERS
from vehicled.identification.vehicle.plausibility import Channels, find_faults
from vehicled.messages import Measurement, Step


@lru_cache
def sound() -> list[Step]:
    return drive(prototype_file(), mixed(14.0))


def altered(**factors: float | None) -> list[Step]:
    """The drive with channels in other units, or without them; `_` stands for a dot."""
    by_channel = {c.replace("_", ".", 1).replace("_", "."): f for c, f in factors.items()}

    def measurement(m: Measurement) -> Measurement:
        kept = {c: v for c, v in m.values.items() if by_channel.get(c, 1.0) is not None}
        return Measurement(m.source, m.t, m.arrival, {c: v * by_channel.get(c, 1.0) for c, v in kept.items()})

    return [s._replace(measurements=[measurement(m) for m in s.measurements]) for s in sound()]


def faults(steps, file=None, names=()):
    return list(find_faults(Channels(steps), file or prototype_file(), [PARAMETERS[n] for n in names]))


def test_a_sound_log_has_no_faults():
    assert faults(sound(), names=["mass", "brake_gain", "antenna.x", "gyro_offset.z"]) == []


@pytest.mark.parametrize(
    ("channel", "factor", "words"),
    [
        ("vehicle_speed", 3.6, ["vehicle.speed", "km/h", "m/s"]),
        ("imu_wz", 57.2958, ["imu.wz", "deg/s", "rad/s"]),
        ("imu_az", 1 / 9.81, ["imu.az", "in g"]),
        ("steer_rack", 1000.0, ["steer.rack", "mm"]),
        ("brake_pressure", 1e-5, ["brake.pressure", "bar"]),
        ("gnss_course", 57.2958, ["gnss.course", "deg"]),
    ],
)
def test_wrong_units_are_named(channel, factor, words):
    reported = "; ".join(faults(altered(**{channel: factor})))
    for word in words:
        assert word in reported


@pytest.mark.parametrize(
    ("channels", "names", "word"),
    [
        (("steer_rack",), (), "steer.rack is missing"),
        (("torque_rl",), (), "both rear wheels, or none"),
        (("torque_rl", "torque_rr"), ("torque_gain",), "torque_gain needs"),
        (("brake_pressure",), ("front.brake_gain",), "front.brake_gain needs"),
        (("imu_wx",), ("gyro_offset.x",), "gyro_offset.x needs"),
        (("imu_wz", "imu_ay", "gnss_course"), (), "how the car turns"),
    ],
)
def test_missing_channels_are_named(channels, names, word):
    assert word in "; ".join(faults(altered(**dict.fromkeys(channels)), names=names))


def test_a_log_that_is_too_short_is_rejected():
    (reported,) = faults(sound()[:500])
    assert "2 s long" in reported
    assert "10 s" in reported


def test_missing_gravity_is_found():
    file = prototype_file()
    imu = file.sensors.imu
    removed = dataclasses.replace(imu.accelerometers, gravity_removed=True)
    sensors = dataclasses.replace(file.sensors, imu=dataclasses.replace(imu, accelerometers=removed))
    assert "gravity_removed" in "; ".join(faults(sound(), dataclasses.replace(file, sensors=sensors)))
