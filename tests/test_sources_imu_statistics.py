"""A sample of the IMU processed in one compiled call gives the same results as its parts one after the other."""

import numpy as np
import pytest
from estimator_rig import SECOND, Run, bends, prototype, steps

from vehicled.filter.vehicle_filter import VehicleFilter
from vehicled.messages import Measurement
from vehicled.sources.imu.statistics import ALL_DONE, RATES_DONE, SAMPLE_DONE
from vehicled.symbolic.past_moments import Chain


def spiked(m: Measurement) -> Measurement:
    """Add an outlier every tenth of a second, on one of three axes in turn."""
    tenth, rest = divmod(m.t, SECOND // 10)
    channel, size = (("imu.wz", 0.3), ("imu.ay", 8.0), ("imu.wx", 5.0))[tenth % 3]
    if channel not in m.values or rest >= SECOND // 250:
        return m
    return with_values(m, {channel: m.values[channel] + size})


def without_an_axis(m: Measurement) -> Measurement:
    """Remove an accelerometer from every second sample."""
    if "imu.az" not in m.values or m.t // (SECOND // 250) % 2:
        return m
    return Measurement(m.source, m.t, m.arrival, {c: v for c, v in m.values.items() if c != "imu.az"})


def with_values(m: Measurement, values: dict[str, float]) -> Measurement:
    return Measurement(m.source, m.t, m.arrival, m.values | values)


@pytest.mark.parametrize(
    "change", [spiked, *(pytest.param(c, marks=pytest.mark.slow) for c in (lambda m: m, without_an_axis))]
)
def test_one_call_gives_the_same_bytes_as_its_parts(monkeypatch, change):
    given = steps(map(change, bends(3.0).measurements()))
    done: list[int] = []
    run_chain = VehicleFilter.run_chain

    def count(f: VehicleFilter, t_ns: int, chain: Chain) -> int:
        result = run_chain(f, t_ns, chain)
        if chain.links_done[-1] == ALL_DONE:
            done.append(result)
        return result

    monkeypatch.setattr(VehicleFilter, "run_chain", count)
    chained = Run(prototype(), given)
    assert done.count(ALL_DONE) > 0.8 * len(done)
    if change is spiked:
        assert {SAMPLE_DONE, RATES_DONE} <= set(done)
    monkeypatch.setattr(VehicleFilter, "can_chain", False)
    parts = Run(prototype(), given)
    assert chained.values.tobytes() == parts.values.tobytes()
    assert len(chained.innovations) == len(parts.innovations)
    for one, other in zip(chained.innovations, parts.innovations, strict=True):
        assert fields_of(one) == fields_of(other)
    if change is spiked:
        assert {"partly", "weighted"} & {i.reason for i in chained.innovations if i.sensor.startswith("imu.")}


def fields_of(innovation) -> list:
    """Fields of an innovation as texts, so that NaN equals NaN."""
    return [repr(getattr(innovation, name)) for name in innovation.__struct_fields__]


def test_samples_that_arrive_late_are_fused():
    """Every second sample arrives after later ones."""
    given = [
        Measurement(m.source, m.t, m.arrival + 12_000_000, m.values)
        if "imu.wz" in m.values and m.t // (SECOND // 250) % 2
        else m
        for m in bends().measurements()
    ]
    run = Run(prototype(), steps(given))
    late = [i for i in run.innovations if i.sensor == "imu.gyro" and i.step - i.t > 10_000_000]
    assert len(late) > 500
    assert np.mean([i.fused for i in late]) > 0.99
