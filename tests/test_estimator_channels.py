"""Unknown channels, and values that are not finite, are reported in the condition and do not reach the filter."""

import math
from collections.abc import Callable

import pytest
from estimator_rig import cruise, steps

import vehicled
from vehicled.estimator import Estimator
from vehicled.messages import Condition, Measurement

Values = dict[str, float]
SECONDS = 3.0


def run(spoil: Callable[[float, Values], Values]) -> tuple[list[Condition], list[bytes]]:
    """Conditions in order, and estimates, of a drive. `spoil` changes the values, given their time in s."""
    estimator = Estimator(vehicled.load_configuration("prototype"))
    conditions, estimates = [], []
    for t, measurements, _ in steps(cruise(SECONDS).measurements()):
        changed = [Measurement(m.source, m.t, m.arrival, spoil(m.t * 1e-9, m.values)) for m in measurements]
        estimate = estimator.step(t, changed)
        if not conditions or estimator.condition is not conditions[-1]:
            conditions.append(estimator.condition)
        if estimate is not None:
            estimates.append(estimate.values.tobytes())
    return conditions, estimates


@pytest.fixture(scope="module")
def sound() -> list[bytes]:
    return run(lambda t, values: values)[1]


def test_an_unknown_channel_is_a_fault_and_does_not_change_the_estimates(sound: list[bytes]) -> None:
    """The fault is reported before the filter starts, too: it may be the reason why the filter does not start."""
    more = {"imu.wq": 0.1, "battery.voltage": math.nan}
    conditions, estimates = run(lambda t, values: values | (more if "imu.wz" in values else {}))
    assert estimates == sound
    waiting = next(c for c in conditions if c.state == "waiting" and c.faults)
    for condition in (waiting, conditions[-1]):
        reasons = {f.source: f.reason for f in condition.faults}
        assert reasons["imu.wq"].startswith(
            "there is no such channel, and it is not used; did you mean imu.w"
        )
        assert "battery.voltage" in reasons
    assert len(conditions) < 10


def test_of_many_unknown_channels_at_most_eight_are_reported() -> None:
    conditions, _ = run(lambda t, values: values | {f"a.{round(1e3 * t)}": 0.0})
    assert 1 <= len([f for f in conditions[-1].faults if f.source.startswith("a.")]) <= 8


@pytest.mark.parametrize("channel", ["imu.wz", "steer.rack", "wheel.fl.angle", "gnss.lat"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_values_that_are_not_finite_are_reported_as_impossible(channel: str, value: float) -> None:
    conditions, estimates = run(
        lambda t, values: values | ({channel: value} if channel in values and t > 1.5 else {})
    )
    assert any("beyond what any sensor" in f.reason for c in conditions for f in c.faults)
    assert all(c.state != "failed" for c in conditions)
    assert len(estimates) > 100
