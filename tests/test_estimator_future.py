"""Samples with times in the future, as in logs and from devices with other clocks: left out and reported."""

import msgspec
import numpy as np
import pytest
from estimator_rig import Run, cruise, prototype, steps

from vehicled.messages import Measurement

SOURCES = ("imu", "wheel.angle", "steer", "brake", "torque", "vehicle", "gnss")


@pytest.fixture(scope="module")
def clean() -> Run:
    return Run(prototype(), steps(cruise().measurements(1)))


def ahead(measurements: list[Measurement], seconds: float) -> list[Measurement]:
    return [msgspec.structs.replace(m, t=m.t + round(seconds * 1e9)) for m in measurements]


@pytest.mark.parametrize("seconds", [0.3, 5.0, 1e6])
def test_one_future_sample_of_each_device_does_no_harm(clean: Run, seconds: float) -> None:
    """If its time were accepted, all later samples would seem older than it."""
    given = cruise().measurements(1)
    for source in SOURCES:
        n = next(n for n, m in enumerate(given) if m.source == source and m.arrival > 2_500_000_000)
        given[n : n + 1] = ahead(given[n : n + 1], seconds)
    run = Run(prototype(), steps(given))
    left_out = [i for i in run.innovations if i.reason == "future"]
    assert {i.source for i in left_out} == set(SOURCES)
    assert run.estimator.status()["future"] == len(left_out)
    assert not any(i.fused for i in left_out)
    for kind, found in clean.sensors.items():
        assert run.sensors[kind]["fused"] >= found["fused"] - 1
    assert run.estimator.condition.state == "running"
    for column in ("x", "y", "yaw", "sideslip"):
        assert np.abs(run[column] - clean[column]).max() < 0.02


@pytest.mark.parametrize(
    ("source", "named"), [("steer", "steering"), ("gnss", "gnss.position"), ("imu", "imu.gyro")]
)
def test_a_device_whose_clock_is_ahead_is_named_and_not_used(source: str, named: str) -> None:
    given = cruise().measurements(1)
    others = [m for m in given if m.source != source]
    wrong = [ahead([m], 5.0)[0] if m.source == source else m for m in given]
    run, without = Run(prototype(), steps(wrong)), Run(prototype(), steps(others))
    assert {f.source: f.reason for f in run.estimator.condition.faults}[
        named
    ] == "its samples have times in the future"
    n = min(len(run.t), len(without.t))
    assert np.abs(run["vx"][-n:] - without["vx"][-n:]).max() < 0.05


def test_samples_a_little_ahead_of_their_step_are_used() -> None:
    run = Run(prototype(), steps(ahead(cruise().measurements(1), 0.05)))
    assert run.estimator.status()["future"] == 0
    assert run.fused("imu.gyro") > 1900
