"""Updates with angles or speeds of all wheels in one compiled call give the same results as single updates."""

from collections.abc import Callable

import pytest
from estimator_rig import SECOND, Run, bends, prototype, steps, with_sensors

from vehicled.filter.vehicle_filter import VehicleFilter
from vehicled.messages import WHEELS, Measurement
from vehicled.simulation.sensor_settings import SimulatedSignal
from vehicled.sources.joint import JointUpdates
from vehicled.sources.speeds.wheels import WheelSpeeds

ANGLES, SPEEDS = ([f"wheel.{w}.{what}" for w in WHEELS] for what in ("angle", "speed"))


def with_outliers(m: Measurement, channels: list[str]) -> Measurement:
    """Add an outlier every tenth of a second, to each sensor in turn."""
    tenth, rest = divmod(m.t, SECOND // 10)
    channel = channels[tenth % len(channels)]
    if channel not in m.values or rest >= SECOND // 50:
        return m
    return Measurement(m.source, m.t, m.arrival, m.values | {channel: m.values[channel] + 5.0})


def without_some(m: Measurement, channels: list[str]) -> Measurement:
    """Remove two wheels from every second sample."""
    if channels[0] not in m.values or m.t // (SECOND // 50) % 2:
        return m
    left = {c: v for c, v in m.values.items() if c not in channels[1:3]}
    return Measurement(m.source, m.t, m.arrival, left)


@pytest.mark.parametrize(
    "channels", [ANGLES, pytest.param(SPEEDS, marks=pytest.mark.slow)], ids=["angles", "speeds"]
)
@pytest.mark.parametrize("change", [lambda m, _: m, with_outliers, without_some])
def test_one_call_gives_the_same_bytes_as_single_updates(
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Measurement, list[str]], Measurement],
    channels: list[str],
) -> None:
    if channels is ANGLES:
        configuration, measured = prototype(), bends(3.0).measurements()
    else:
        configuration = with_sensors(wheel_angles=None, wheel_speeds=WheelSpeeds())
        rates = SimulatedSignal(rate=50.0, noise=0.05)
        measured = bends(3.0).measurements(wheel_angles=None, wheel_speeds=rates)
    given = steps(change(m, channels) for m in measured)
    done: list[tuple[int, int]] = []
    run = JointUpdates.run

    def count(joint: JointUpdates, t_ns: int, kinds: tuple[str, ...], numbers: list[float]) -> list:
        updates = run(joint, t_ns, kinds, numbers)
        done.append((len(updates) // 3, len(kinds)))
        return updates

    monkeypatch.setattr(JointUpdates, "run", count)
    jointly = Run(configuration, given)
    assert done.count((len(channels), len(channels))) > 0.3 * len(done) > 30
    if change is with_outliers:
        assert {0, 1, 2, 3} <= {some for some, of in done if some < of}
    if change is without_some:
        assert done.count((2, 2)) > 0.3 * len(done)
    monkeypatch.setattr(VehicleFilter, "can_chain", False)
    one_by_one = Run(configuration, given)
    assert jointly.values.tobytes() == one_by_one.values.tobytes()
    assert [repr(i) for i in jointly.innovations] == [repr(i) for i in one_by_one.innovations]
