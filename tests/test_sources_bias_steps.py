"""Steps of IMU biases are detected and subtracted; motion, shocks and other faults are not taken for steps."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from vehicled.messages import Measurement
from vehicled.sources.checks.bias_steps import BiasStep, BiasSteps
from vehicled.sources.imu.imu import Imu

SPEED, BEGINS, ENDS = 15.0, 3.0, 6.0
NOISE = {"a": 0.05, "w": 0.002}
Signal = Callable[[float], float]


def slalom(t: float) -> float:
    """Yaw rate, rad/s."""
    return 0.35 * math.sin(2.2 * t)


def still(t: float) -> float:
    return 0.0


def step(by: float, begins: float = BEGINS, ends: float = ENDS) -> Signal:
    return lambda t: by if begins <= t < ends else 0.0


class Run:
    """Results of the check on IMU samples in a slalom; `more`: signals added to channels."""

    def __init__(
        self,
        more: dict[str, Signal],
        rate: float = 250.0,
        noise: float = 1.0,
        steering: Signal = slalom,
        gap: tuple[float, float] = (math.inf, math.inf),
        has_slid: bool = False,
    ):
        random, check = np.random.default_rng(5), BiasSteps(Imu())
        self.check = check
        self.present: list[tuple[float, tuple[str, ...]]] = []
        self.errors: dict[str, list[tuple[float, float]]] = {}
        self.left_out = 0
        self.sigmas: list[tuple[str, float]] = []
        self.steps: list[BiasStep] = []
        for k in range(round(8.0 * rate)):
            t = k / rate
            if gap[0] < t < gap[1]:
                continue
            true = {"wx": 0.0, "wy": 0.0, "wz": slalom(t), "ax": 0.0, "ay": SPEED * slalom(t), "az": 9.81}
            values = {
                f"imu.{c}": v
                + more.get(c, still)(t)
                + (noise if c in more else 1.0) * NOISE[c[0]] * random.standard_normal()
                for c, v in true.items()
            }
            at = round(t * 1e9)
            m = check.subtract(Measurement("imu", at, at, values))
            doubtful = check.find(m, SPEED, steering(t), has_slid)
            self.left_out += len(doubtful)
            self.present.append((t, tuple(check.present)))
            self.sigmas += [(s.channel, s.sigma) for s in check.found]
            self.steps += check.found
            check.found.clear()
            for c, v in true.items():
                if f"imu.{c}" not in doubtful:
                    self.errors.setdefault(c, []).append((t, m.values[f"imu.{c}"] - v))

    def found_at(self) -> float:
        return next((t for t, present in self.present if present), math.inf)

    def mean_error(self, channel: str, begin: float, end: float) -> float:
        return float(np.mean([e for t, e in self.errors[channel] if begin < t < end]))


@pytest.mark.parametrize(
    ("channel", "by"), [("ay", 2.0), ("ax", -1.5), ("az", 3.0), ("wz", 0.1), ("wx", -0.2)]
)
def test_a_step_is_found_within_50_ms_and_90_percent_of_it_subtracted(channel, by):
    run = Run({channel: step(by)})
    assert BEGINS < run.found_at() < BEGINS + 0.05
    assert abs(run.mean_error(channel, BEGINS + 0.1, ENDS)) < 0.1 * abs(by)
    # No wrong sample has been used before that.
    assert max(abs(e) for t, e in run.errors[channel] if BEGINS <= t < ENDS) < 0.5 * abs(by)
    assert run.sigmas[0] == (f"imu.{channel}", pytest.approx(0.05 * abs(by), rel=0.2))


@pytest.mark.parametrize(("channel", "by"), [("ax", 1.5), ("ax", -3.0), ("ay", 1.0)])
def test_a_step_of_the_acceleration_while_tyres_slide_is_not_a_bias_step(channel, by):
    """An axle that spins off the edge of ice onto snow changes the acceleration from one sample to the next."""
    run = Run({channel: step(by)}, has_slid=True)
    assert run.found_at() == math.inf
    assert run.mean_error(channel, BEGINS + 0.1, ENDS) == pytest.approx(by, rel=0.1)


def test_a_step_of_a_gyroscope_is_found_while_tyres_slide():
    assert Run({"wz": step(0.1)}, has_slid=True).found_at() < BEGINS + 0.05


def turn_in(t: float) -> float:
    """Yaw rate, rad/s, of a car that has begun to turn in 0.1 s before the step, and changes it by 0.75 rad/s²."""
    return 0.15 * (1.0 - math.cos(5.0 * max(t - BEGINS + 0.1, 0.0)))


@pytest.mark.parametrize(("channel", "by"), [("ay", 2.0), ("ax", -2.0), ("wz", 0.1), ("wx", 0.5)])
def test_a_step_and_its_end_are_found_at_100_samples_per_second(channel, by):
    run = Run({channel: step(by)}, rate=100.0)
    assert BEGINS < run.found_at() < BEGINS + 0.08
    assert next(present for t, present in run.present if t > ENDS + 0.08) == ()
    assert abs(run.mean_error(channel, ENDS + 0.1, 8.0)) < 0.01 * abs(by) + 0.001


@pytest.mark.parametrize("by", [0.1, -0.1])
def test_a_step_is_found_while_a_car_turns_in(by):
    run = Run({"wz": lambda t: step(by)(t) + turn_in(t) - slalom(t)}, rate=100.0, steering=still)
    assert BEGINS < run.found_at() < BEGINS + 0.08


def test_nothing_is_subtracted_after_the_bias_has_stepped_back():
    run = Run({"ay": step(2.0)})
    assert next(present for t, present in run.present if t > ENDS + 0.05) == ()
    assert abs(run.mean_error("ay", ENDS + 0.1, 8.0)) < 0.01


def test_after_a_gap_the_step_is_not_subtracted_and_sigma_is_its_size():
    run = Run({"ay": step(2.0, ends=4.5)}, gap=(4.0, 5.0))
    assert next(present for t, present in run.present if t > 5.0) == ()
    assert run.sigmas[-1] == ("imu.ay", pytest.approx(2.0, abs=0.3))


def test_a_step_that_ends_a_drift_is_handed_over_and_not_subtracted():
    random, check = np.random.default_rng(5), BiasSteps(Imu())
    handed_over, left_out = [], 0
    for k in range(1500):
        t = 0.004 * k
        drift = 0.4 * t if t < 5.0 else 0.0
        values = {
            f"imu.{c}": NOISE[c[0]] * random.standard_normal() for c in ("wx", "wy", "wz", "ax", "ay", "az")
        }
        values["imu.ax"] += drift
        m = check.subtract(Measurement("imu", round(t * 1e9), round(t * 1e9), values))
        left_out += len(check.find(m, SPEED, 0.0))
        for found in check.found:
            assert [found.takes_back(b) for b in (2.0, 1.5, 0.2)] == [True, True, False]
            check.hand_over(found.channel)
            handed_over.append(t)
        check.found.clear()
    assert handed_over == [pytest.approx(5.04, abs=0.01)]
    assert check.present == []
    assert left_out < 12


def test_a_step_that_others_contradict_by_its_size_is_not_subtracted_any_more():
    """It was the end of a drift that the filter had not noticed, as it had just restarted."""
    random, check, t = np.random.default_rng(5), BiasSteps(Imu()), 0.0
    while not check.present:
        values = {
            f"imu.{c}": NOISE[c[0]] * random.standard_normal() for c in ("wx", "wy", "wz", "ax", "ay", "az")
        }
        values["imu.wz"] += 0.2 * (t >= 1.0)
        check.find(Measurement("imu", round(t * 1e9), round(t * 1e9), values), SPEED, 0.0)
        t += 0.004
    check.found.clear()
    for excess in (0.2, 0.0, -0.05):
        check.take_back("imu.wz", excess)
    assert check.present == ["imu.wz"]
    check.take_back("imu.wz", -0.17)
    assert not check.present
    (found,) = check.found
    assert (found.channel, found.by) == ("imu.wz", 0.0)
    check.take_back("imu.wz", -0.17)  # once is enough
    assert len(check.found) == 1


def shock(t: float) -> float:
    """A kerb: 4 m/s² that ring at 15 Hz for a tenth of a second."""
    since = t - BEGINS
    return 4.0 * math.exp(-since / 0.03) * math.cos(2 * math.pi * 15.0 * since) if since >= 0.0 else 0.0


def braking(t: float) -> float:
    """Braking with 1.3 g, built up as fast as brakes can."""
    return -12.75 * min(max((t - BEGINS) / 0.09, 0.0), 1.0)


def swerving(t: float) -> float:
    """A step of the lateral acceleration that the steering explains."""
    return 1.6 if t >= BEGINS else 0.0


@pytest.mark.parametrize(
    ("more", "of"),
    [
        ({}, {}),
        ({"ay": shock}, {}),
        ({"ay": lambda t: 3.0 if abs(t - BEGINS) < 0.003 else 0.0}, {}),
        ({"ax": braking}, {}),
        # A step in two axes at once is a shock or another fault.
        ({"ay": step(2.0), "az": step(2.0)}, {}),
        ({"ay": swerving}, {"steering": lambda t: slalom(t) + 3.0 * min(max(t - BEGINS, 0.0), 0.1)}),
        # On a rough road, the noise is too large for such a step to be found.
        ({"ay": step(2.0)}, {"noise": 10.0}),
        # The sign becomes wrong.
        ({"wz": lambda t: -2.0 * slalom(t) if t >= BEGINS else 0.0}, {}),
    ],
    ids=["nothing", "kerb", "outlier", "braking", "two axes", "swerving", "rough road", "sign"],
)
@pytest.mark.parametrize("rate", [100.0, 250.0])
def test_motion_shocks_and_other_faults_are_not_bias_steps(more, of, rate):
    run = Run(more, rate=rate, **of)
    assert run.found_at() == math.inf
    assert run.sigmas == []


def test_in_a_slalom_no_sample_is_left_out():
    assert Run({}).left_out == 0


def test_vibration_that_is_quiet_before_a_change_is_not_a_bias_step():
    """Samples of an IMU next to the engine of a racing car: ten lie on a line, and the next ten do not."""
    before = -9.96, -10.23, -10.36, -10.34, -10.62, -10.38, -10.91, -10.75, -10.9, -11.32
    after = -9.98, -10.28, -10.88, -10.87, -10.92, -10.02, -10.67, -10.82, -11.36, -11.81
    check = BiasSteps(Imu())
    for k, value in enumerate((*before, *after, *after)):
        at = round(5e6 * k)
        check.find(Measurement("imu", at, at, {"imu.ax": value}), SPEED, 0.0)
    assert not check.found


def test_a_step_that_is_dropped_or_handed_over_before_new_samples_ends():
    check = Run({"ay": lambda t: 2.0 if t > BEGINS else 0.0}).check
    assert check.present == ["imu.ay"]
    check.drop("imu.ay")
    assert (check.present, check.found) == ([], [])
    check.hand_over("imu.ay")
    assert check.present == []


@pytest.mark.parametrize("channel", ["ay", "wz"])
def test_a_step_to_zero_is_told_from_one_of_the_bias(channel):
    true = {"ay": lambda t: SPEED * slalom(t), "wz": slalom}[channel]
    steps = Run({channel: lambda t: -true(t) if t > 2.5 else 0.0}, steering=still).steps
    assert steps[0].is_zero
    assert not Run({channel: step(0.2 if channel == "wz" else 2.0)}).steps[0].is_zero
    assert not any(s.is_zero for s in Run({"ax": step(2.0)}).steps)


def test_a_lost_axis_is_left_out_until_it_measures_something():
    check = BiasSteps(Imu())
    check.lose("imu.ay")
    left_out = []
    for k in range(1000):
        at, ay = 4_000_000 * k, 0.2 if k < 500 else 3.0
        values = {"imu.ax": 0.0, "imu.ay": ay, "imu.az": 9.81, "imu.wx": 0.0, "imu.wy": 0.0, "imu.wz": 0.0}
        left_out += [(k, c) for c in check.find_lost(Measurement("imu", at, at, values))]
    assert left_out == [(k, "imu.ay") for k in range(500)]
    assert not check.lost


def test_steps_of_other_axes_are_found_while_one_is_lost():
    check = BiasSteps(Imu())
    check.lose("imu.ay")
    for k in range(100):
        values = {f"imu.{c}": 0.0 for c in ("ax", "ay", "az", "wx", "wy")} | {"imu.wz": 0.1 * (k > 50)}
        m = check.subtract(Measurement("imu", 4_000_000 * k, 4_000_000 * k, values))
        assert check.find_lost(m) == ["imu.ay"]
        check.find(m, SPEED, 0.0)
    assert [(s.channel, s.by) for s in check.found] == [("imu.wz", pytest.approx(0.1))]


def test_a_step_to_zero_makes_the_bias_uncertain_once_the_axis_is_back():
    """It may have been one of the bias all the same."""
    check = BiasSteps(Imu())
    check.lose("imu.ay", -4.0)
    for k, ay in enumerate((0.1, 0.2, 3.0, 3.1)):
        check.find_lost(Measurement("imu", 4_000_000 * k, 4_000_000 * k, {"imu.ay": ay}))
    assert [(step.channel, step.sigma) for step in check.found] == [("imu.ay", 4.0)]
