"""A bias of an accelerometer that drifts is found beside the velocity; bumps and faults of others are not."""

import math

import numpy as np
import pytest

from vehicled.configuration import load_configuration
from vehicled.messages import ESTIMATE_INDEX
from vehicled.sources.acceleration_drift import AccelerationDrift, Motion, Spread
from vehicled.studies.faults.drives import make_drive
from vehicled.studies.faults.offline import run_offline
from vehicled.studies.faults.rows import BY_NAME
from vehicled.studies.faults.runs import CAR

SPEED, YAW_RATE, G = 15.0, 0.3, 9.81


def run(
    bias=lambda t: 0.0,
    lean=lambda t: 0.0,
    explained=lambda t: 0.0,
    found=lambda t: 0.0,
    sigma: float = 0.05,
    direction: int = 0,
    silent=lambda t: False,
):
    """Times (s) and variances at which the bias was made less certain, in a winding drive at changing speed.

    `lean`: what gyroscopes show beside the filter's attitude, rad; `explained`: what the filter's attitude makes of
    the bias, m/s²; `found`: what the filter corrects its velocity by, m/s, and what its σ falls by.
    """
    random, check, times = np.random.default_rng(1), AccelerationDrift(G), []
    for k in range(round(20.0 / 0.02)):
        t = 0.02 * k
        vx, vy = SPEED + 3.0 * math.sin(0.5 * t), 0.3 * math.sin(t)
        dvx, dvy = 1.5 * math.cos(0.5 * t), 0.3 * math.cos(t)
        wz = YAW_RATE * math.sin(t)
        forces = [dvx - wz * vy, dvy + wz * vx]
        forces[direction] += bias(t) - explained(t) + 0.05 * random.standard_normal()
        leans, velocity, of_velocity = [0.0, 0.0], [vx, vy], [0.01, 0.01]
        leans[direction], velocity[direction] = lean(t), velocity[direction] + found(t)
        of_velocity[direction] += 1.0 - found(t)
        motion = Motion((velocity[0], velocity[1]), (leans[0], leans[1]), (0.0, 0.0))
        if silent(t) or not check.take((t, wz, *forces), motion):
            continue
        added = check.compare(motion, Spread((of_velocity[0] ** 2, of_velocity[1] ** 2), (sigma, sigma)))
        assert added[1 - direction] == 0.0
        if added[direction]:
            times.append((t, added[direction]))
    return times


@pytest.mark.parametrize("direction", [0, 1])
@pytest.mark.parametrize("rate", [0.5, -0.5])
def test_drift_is_found_and_the_bias_then_follows_it(rate: float, direction: int) -> None:
    times = run(bias=lambda t: max(t - 8.0, 0.0) * rate, direction=direction)
    first, variance = times[0]
    assert 9.0 < first < 10.0
    assert 0.2 < math.sqrt(variance) < 1.0  # a mean of what it has drifted by
    assert times[-1][0] > 12.0


@pytest.mark.parametrize(
    ("what", "given"),
    [
        ("nothing", {}),
        ("a bias of 2 sigma", {"bias": lambda t: 0.1}),
        ("a bump", {"bias": lambda t: 4.0 if 8.0 < t < 8.05 else 0.0}),
        ("a gyroscope that makes a lean of nothing", {"lean": lambda t: -0.02 * max(t - 8.0, 0.0)}),
        ("a velocity that the filter finds", {"found": lambda t: 1.0 / (1.0 + math.exp(-3.0 * (t - 8.0)))}),
        ("gaps", {"bias": lambda t: 0.3, "silent": lambda t: t % 1.0 < 0.2}),
    ],
)
def test_other_differences_are_no_drift(what: str, given) -> None:
    assert run(**given) == [], what


def test_drift_is_found_though_the_filter_explains_half_of_it() -> None:
    """By a slope that gyroscopes do not show: they add up to an attitude that is lower by as much."""

    def drift(t: float) -> float:
        return 0.5 * max(t - 8.0, 0.0)

    times = run(bias=drift, explained=lambda t: 0.5 * drift(t), lean=lambda t: -0.5 * drift(t) / G)
    assert 9.0 < times[0][0] < 11.0


@pytest.mark.parametrize("drive", ["corner", "slalom"])
def test_drifting_accelerometer_is_named_and_the_estimate_stays_near(drive: str) -> None:
    row, car = BY_NAME["accelerometer drifts by 0.5 m/s³"], load_configuration(CAR)
    made = make_drive(car, drive, row.receiver, 7)
    outputs = run_offline(car, made.measurements, row.faults)
    begin = made.measurements[0].arrival + round(row.begin * 1e9)
    named = [
        (condition.since - begin) * 1e-9
        for condition in outputs.conditions
        if condition.since is not None and any(f.source == "imu.accel" for f in condition.faults)
    ]
    assert 0.0 < min(named) < 3.0
    yaw = ESTIMATE_INDEX["yaw"]
    apart = np.exp(1j * outputs.values[:, yaw]) / np.interp(
        outputs.t, made.t, np.exp(1j * made.truth[:, yaw])
    )
    during = outputs.t > begin
    assert np.degrees(np.abs(np.angle(apart[during]))).max() < 2.0  # 10 where it was not found
