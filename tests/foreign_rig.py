"""Writes measurements as files of other programs, with their own libraries or to their published formats."""

from __future__ import annotations

import math
import struct
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

import vehicled
from vehicled import DaemonConfiguration, Measurement

CAR = "hatchback"


@lru_cache
def load() -> DaemonConfiguration:
    return vehicled.load_configuration(CAR)


@lru_cache
def drive(scenario: str = "slalom", duration: float = 4.0) -> list[Measurement]:
    """A car with an RTK receiver, in order of arrival. The host's clock starts at 1000 s."""
    found = vehicled.simulate(scenario, load(), seed=5, gnss="rtk", duration=duration).measurements
    late = 1_000_000_000_000
    return [Measurement(m.source, m.t + late, m.arrival + late, m.values) for m in found]


def by_source(measurements: Iterable[Measurement]) -> dict[str, list[tuple[int, dict[str, float]]]]:
    """Channels over time, for comparison: (t, values) in order, by the first part of the channels' names."""
    found: dict[str, dict[int, dict[str, float]]] = defaultdict(dict)
    for m in measurements:
        for channel, value in m.values.items():
            found[channel.split(".")[0]].setdefault(m.t, {})[channel] = value
    return {source: sorted(samples.items()) for source, samples in found.items()}


def assert_same(
    one: Iterable[Measurement], other: Iterable[Measurement], relative: float, late_ns: int
) -> None:
    """Require the same channels at the same times (to `late_ns`); values to `relative` of each channel's largest."""
    a, b = by_source(one), by_source(other)
    assert a.keys() == b.keys()
    for source, samples in a.items():
        assert len(samples) == len(b[source]), source
        largest = defaultdict(float)
        for _, values in samples:
            for channel, value in values.items():
                largest[channel] = max(largest[channel], abs(value))
        for (t, values), (u, others) in zip(samples, b[source], strict=True):
            assert abs(t - u) <= late_ns, source
            assert values.keys() == others.keys()
            for channel, value in values.items():
                assert abs(value - others[channel]) <= relative * largest[channel], (channel, t)


# -- MDF -----------------------------------------------------------------------------------------------------


def write_mdf(
    path: Path, measurements: Iterable[Measurement], units: dict[str, tuple[str, float]] | None = None
) -> None:
    """One group for each combination of channels. `units` by channel: text, and factor that converts from SI."""
    from asammdf import MDF, Signal

    groups: dict[tuple[str, ...], list[Measurement]] = defaultdict(list)
    for m in measurements:
        groups[tuple(m.values)].append(m)
    with MDF(version="4.10") as mdf:
        for channels, samples in groups.items():
            times = np.array([m.t for m in samples]) * 1e-9
            signals = []
            for channel in channels:
                unit, factor = (units or {}).get(channel, ("", 1.0))
                values = np.array([m.values[channel] for m in samples]) * factor
                signals.append(Signal(values, times, name=channel, unit=unit))
            arrivals = np.array([m.arrival for m in samples]) * 1e-9
            if any(c.startswith("gnss.") for c in channels):
                signals.append(Signal(arrivals, times, name="gnss.arrival", unit="s"))
            mdf.append(signals)
        mdf.save(path, overwrite=True, compression=2)


# -- bags of ROS ---------------------------------------------------------------------------------------------


def write_bag(path: Path, measurements: Sequence[Measurement], version: int) -> None:
    """IMU, fixes, wheel speeds (as joints) and speed (as a twist) of a drive, in a bag of ROS 1 or 2."""
    from rosbags.rosbag1 import Writer as Writer1
    from rosbags.rosbag2 import Writer as Writer2
    from rosbags.typesys import Stores, get_typestore

    store = get_typestore(Stores.ROS1_NOETIC if version == 1 else Stores.ROS2_HUMBLE)
    types = store.types
    vector, covariance = types["geometry_msgs/msg/Vector3"], np.zeros(9)

    def header(m: Measurement):
        stamp = types["builtin_interfaces/msg/Time"](m.t // 10**9, m.t % 10**9)
        extra = {"seq": 0} if version == 1 else {}
        return types["std_msgs/msg/Header"](stamp=stamp, frame_id="car", **extra)

    def imu(m: Measurement):
        v = m.values
        rates = vector(*(v[f"imu.w{a}"] for a in "xyz"))
        forces = vector(*(v[f"imu.a{a}"] for a in "xyz"))
        nowhere = types["geometry_msgs/msg/Quaternion"](0.0, 0.0, 0.0, 1.0)
        unknown = np.array([-1.0, *[0.0] * 8])
        return types["sensor_msgs/msg/Imu"](
            header(m), nowhere, unknown, rates, covariance, forces, covariance
        )

    def fix(m: Measurement):
        v = m.values
        status = types["sensor_msgs/msg/NavSatStatus"](0, 1)
        variances = np.diag([0.04, 0.04, 0.09]).ravel()
        place = v["gnss.lat"], v["gnss.lon"], v["gnss.alt"]
        return types["sensor_msgs/msg/NavSatFix"](header(m), status, *place, variances, 2)

    def wheels(m: Measurement):
        speeds = np.array([m.values[f"wheel.{w}.speed"] for w in ("fl", "fr", "rl", "rr")])
        return types["sensor_msgs/msg/JointState"](
            header(m), ["fl", "fr", "rl", "rr"], np.zeros(4), speeds, np.zeros(4)
        )

    def twist(m: Measurement):
        parts = vector(m.values["vehicle.speed"], 0.0, 0.0), vector(0.0, 0.0, 0.0)
        return types["geometry_msgs/msg/TwistStamped"](header(m), types["geometry_msgs/msg/Twist"](*parts))

    kinds = {
        "imu.ax": ("/imu/data", "sensor_msgs/msg/Imu", imu),
        "gnss.lat": ("/gps/fix", "sensor_msgs/msg/NavSatFix", fix),
        "wheel.fl.speed": ("/wheels", "sensor_msgs/msg/JointState", wheels),
        "vehicle.speed": ("/car/twist", "geometry_msgs/msg/TwistStamped", twist),
    }
    with Writer1(path) if version == 1 else Writer2(path, version=9) as writer:
        topics = {
            topic: writer.add_connection(topic, kind, typestore=store) for topic, kind, _ in kinds.values()
        }
        serialise = store.serialize_ros1 if version == 1 else store.serialize_cdr
        for m in measurements:
            for channel, (topic, kind, make) in kinds.items():
                if channel in m.values:
                    writer.write(topics[topic], m.arrival, serialise(make(m), kind))


# -- VBOX ----------------------------------------------------------------------------------------------------

VBO_HEAD = """File created on 15/04/2004 @ 08:21

[header]
satellites
time
latitude
longitude
velocity {velocity}
heading
height
Vertical velocity {climb}
{titles}
[channel units]
{units}

[comments]
(c) 2001 2003 Racelogic
Log Rate (Hz) : 20.00

[column names]
sats time lat long velocity heading height vert-vel{columns}

[data]
"""


def vbo_head(velocity: str = "kmh", climb: str = "kmh", extra: Sequence[tuple[str, str]] = ()) -> str:
    return VBO_HEAD.format(
        velocity=velocity,
        climb=climb,
        titles="".join(f"{name}\n" for name, _ in extra),
        units="\n".join(unit for _, unit in extra),
        columns="".join(f" {name}" for name, _ in extra),
    )


# -- NCOM ----------------------------------------------------------------------------------------------------


def ncom_packet(
    ms: int,
    *,
    acceleration: Sequence[float] = (0.0, 0.0, -9.81),
    rate: Sequence[float] = (0.0, 0.0, 0.0),
    place: Sequence[float] = (0.7, -1.2, 100.0),
    velocity: Sequence[float] = (0.0, 0.0, 0.0),
    angles: Sequence[float] = (0.0, 0.0, 0.0),
    navigation: int = 4,
    channel: int = 1,
    status: bytes = bytes(8),
) -> bytes:
    """A packet in the NCOM manual's layout: m/s²; rad/s; rad, rad, m; m/s north-east-down; heading, pitch, roll."""
    head = bytes([0xE7]) + struct.pack("<H", ms)
    a = b"".join(round(x / 1e-4).to_bytes(3, "little", signed=True) for x in acceleration)
    w = b"".join(round(x / 1e-5).to_bytes(3, "little", signed=True) for x in rate)
    one = head + a + w + bytes([navigation])
    one += bytes([sum(one[1:]) & 0xFF])
    v = b"".join(round(x / 1e-4).to_bytes(3, "little", signed=True) for x in velocity)
    e = b"".join(round(x / 1e-6).to_bytes(3, "little", signed=True) for x in angles)
    two = one + struct.pack("<ddf", *place) + v + e
    two += bytes([sum(two[1:]) & 0xFF])
    three = two + bytes([channel]) + status
    packet = three + bytes([sum(three[1:]) & 0xFF])
    assert len(packet) == 72
    return packet


def ncom_time(minutes: int, satellites: int = 9, mode: int = 6) -> bytes:
    """Content of status channel 0."""
    return struct.pack("<iBBBB", minutes, satellites, mode, mode, mode)


def write_ncom(path: Path, seconds: float = 10.0, minutes: int = 23_000_000, first_ms: int = 55_000) -> None:
    """A left-hand circle at 10 m/s and 0.2 rad/s, which starts northwards, at 100 Hz."""
    packets = []
    speed, turn = 10.0, 0.2
    lat, lon = math.radians(48.0), math.radians(11.0)
    for i in range(round(seconds * 100)):
        ms = first_ms + 10 * i
        heading = -turn * i * 0.01
        at_zero = i % 50 == 7
        packets.append(
            ncom_packet(
                ms % 60_000,
                acceleration=(0.0, -speed * turn, -9.81),
                rate=(0.0, 0.0, -turn),
                place=(lat + speed / turn * math.sin(turn * i * 0.01) / 6.37e6, lon, 500.0),
                velocity=(speed * math.cos(heading), speed * math.sin(heading), 0.0),
                angles=((heading + math.pi) % math.tau - math.pi, 0.02, -0.01),
                channel=0 if at_zero else 3 if i % 50 == 9 else 1,
                status=ncom_time(minutes + ms // 60_000)
                if at_zero
                else struct.pack("<HHHBB", 20, 20, 35, 1, 0)
                if i % 50 == 9
                else bytes(8),
            )
        )
    path.write_bytes(b"".join(packets))
