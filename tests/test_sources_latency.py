"""Sources whose measurements have times that are too late."""

import dataclasses

import msgspec
import numpy as np
import pytest
from estimator_rig import Run, bends, prototype, rms, steps

LATE = 0.06
"""s"""
SECONDS = 5.0
SOURCES = ("imu", "gnss", "wheel_angles", "vehicle_speed", "steering")


def configured(latency: float):
    given = prototype()
    changes = {n: dataclasses.replace(getattr(given.sensors, n), latency=latency) for n in SOURCES}
    return dataclasses.replace(given, sensors=dataclasses.replace(given.sensors, **changes))


@pytest.fixture(scope="module")
def runs() -> dict[float, Run]:
    """Runs on a log whose times are 60 ms too late, by configured latency."""
    late_ns = round(LATE * 1e9)
    measured = [
        msgspec.structs.replace(m, t=m.t + late_ns, arrival=max(m.arrival, m.t + late_ns))
        for m in bends(SECONDS).measurements(1, gnss="rtk")
    ]
    return {latency: Run(configured(latency), steps(measured)) for latency in (0.0, LATE)}


def test_observations_get_the_time_at_which_they_were_made(runs):
    late, sound = ({(i.sensor, i.step): i.t for i in runs[key].innovations} for key in (0.0, LATE))
    for sensor in ("imu.gyro", "imu.accel", "gnss.position", "vehicle.speed", "wheel.rl.angle"):
        shared = [key for key in late.keys() & sound.keys() if key[0] == sensor]
        assert len(shared) > 100, sensor
        assert {late[key] - sound[key] for key in shared} == {round(LATE * 1e9)}, sensor


def test_a_configured_latency_removes_the_lag_of_the_estimate(runs):
    truth = bends(SECONDS)
    errors = {}
    for key, run in runs.items():
        moving = (truth.truth(run.t, "vx") > 3.0) & (run.t <= SECONDS * 1e9)
        place = np.hypot(run.error(truth, "x"), run.error(truth, "y"))
        errors[key] = rms(place[moving]), np.degrees(rms(run.error(truth, "yaw")[moving]))
    assert (
        errors[LATE][0] < 0.1
    )  # at 15 m/s; a remaining latency of the receiver is only found within seconds
    assert errors[LATE][1] < 0.5
    assert errors[0.0][0] > 0.5
    assert errors[0.0][1] > 2 * errors[LATE][1]
