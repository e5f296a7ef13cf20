"""A drifting accelerometer bias is detected by the velocity; bumps, hills and other faults are not drift."""

import cmath
import math

import numpy as np
import pytest

from vehicled.sources.imu.acceleration_drift import AccelerationDrift, CarMotion, Spread

SPEED, YAW_RATE, G, END = 15.0, 0.3, 9.81, 20.0


def run(
    bias=lambda t: 0.0,
    lean=lambda t: 0.0,
    slope=lambda t: 0.0,
    attitude=None,
    found=lambda t: 0.0,
    sigma: float = 0.05,
    direction: int = 0,
    silent=lambda t: False,
    known=lambda t: 0.0,
    uncertain: float = 0.0,
):
    """Times (s) at which drift was detected on a winding drive at changing speed, and variances added to the bias.

    `lean`: rise of the axis by the gyroscopes, less that of the filter's attitude, rad; `slope`: true slope of the
    road along the axis, rad; `attitude`: the slope estimated by the filter, rad; `found`: the filter's correction
    of the velocity, m/s, by which its σ falls to `uncertain`, m/s; `known`: the bias estimated by the filter, m/s².
    """
    random, check, times = np.random.default_rng(1), AccelerationDrift(G), []
    along = 1.0 if direction == 0 else 1j
    for k in range(round(END / 0.02)):
        t = 0.02 * k
        v = complex(SPEED + 3.0 * math.sin(0.5 * t), 0.3 * math.sin(t))
        dv = complex(1.5 * math.cos(0.5 * t), 0.3 * math.cos(t))
        wz, heading = YAW_RATE * math.sin(t), YAW_RATE * (1.0 - math.cos(t))
        estimated = slope(t) if attitude is None else attitude(t)
        force = dv + 1j * wz * v
        force += along * (bias(t) + G * (slope(t) - estimated) + 0.05 * random.standard_normal())
        normal = -along * estimated * cmath.rect(1.0, heading)
        motion = CarMotion(v + along * found(t), heading, normal, along * lean(t), along * known(t))
        of_velocity = [0.01, 0.01]
        of_velocity[direction] += uncertain + found(END) - found(t)
        if silent(t) or not check.take((t, wz, force.real, force.imag), motion):
            continue
        added = check.compare(motion, Spread((of_velocity[0] ** 2, of_velocity[1] ** 2), (sigma, sigma)))
        assert added[1 - direction] == 0.0
        if added[direction]:
            times.append((t, added[direction]))
    return times


@pytest.mark.parametrize("direction", [0, 1])
@pytest.mark.parametrize("rate", [0.5, -0.5])
def test_a_drifting_bias_is_detected_and_its_variance_raised_while_it_drifts(
    rate: float, direction: int
) -> None:
    times = run(bias=lambda t: max(t - 8.0, 0.0) * rate, direction=direction)
    first, variance = times[0]
    assert 9.0 < first < 10.0
    assert 0.2 < math.sqrt(variance) < 1.0  # about the mean of the drift
    assert times[-1][0] > 12.0


@pytest.mark.parametrize(
    ("what", "given"),
    [
        ("nothing", {}),
        ("a bias of 2 sigma", {"bias": lambda t: 0.1}),
        ("a bump", {"bias": lambda t: 4.0 if 8.0 < t < 8.05 else 0.0}),
        ("a gyroscope that makes a lean of nothing", {"lean": lambda t: -0.02 * max(t - 8.0, 0.0)}),
        ("a velocity that the filter finds", {"found": lambda t: 1.0 / (1.0 + math.exp(-3.0 * (t - 8.0)))}),
        ("fixes of a phone", {"found": lambda t: -0.8 * (t // 1.0 % 2.0), "uncertain": 0.3}),
        ("a hill", {"slope": lambda t: 0.08 / (1.0 + math.exp(-2.0 * (t - 8.0)))}),
        ("a bias that is set", {"bias": lambda t: -2.0 * (t > 8.0), "known": lambda t: -2.0 * (t > 8.0)}),
        ("gaps", {"bias": lambda t: 0.3, "silent": lambda t: t % 1.0 < 0.2}),
    ],
)
def test_other_differences_are_not_taken_for_drift(what: str, given) -> None:
    assert run(**given) == [], what


def test_drift_is_detected_even_if_the_filter_explains_half_of_it_by_a_slope() -> None:
    """The gyroscopes do not show that slope: the attitude from them is lower by as much."""

    def drift(t: float) -> float:
        return 0.5 * max(t - 8.0, 0.0)

    def explained(t: float) -> float:
        return 0.5 * drift(t) / G

    times = run(bias=drift, attitude=explained, lean=lambda t: -explained(t))
    assert 9.0 < times[0][0] < 10.5


def test_a_hill_that_the_filter_misses_is_not_taken_for_drift() -> None:
    """Gyroscopes show the hill, the filter does not: its attitude is wrong, not the accelerometer."""

    def hill(t: float) -> float:
        return 0.06 / (1.0 + math.exp(-2.0 * (t - 8.0)))

    assert run(slope=hill, attitude=lambda t: 0.0, lean=hill) == []
