"""The solution of another navigation filter is kept in logs and does not affect estimates."""

from dataclasses import replace

import numpy as np
import pytest

import vehicled
from replay.log import create_log, open_log
from vehicled.messages import CHANNELS, Measurement
from vehicled.sources.sensors import find_limits

REFERENCE = [c for c in CHANNELS if c.startswith("reference.")]


@pytest.fixture(scope="module")
def drive():
    configuration = vehicled.load_configuration("prototype")
    return vehicled.simulate("mixed_drive", configuration, duration=3.0), configuration


def with_references(drive):
    """Add to each fix grossly wrong references, from the device of the fix and from a separate one."""
    found = []
    for m in drive.measurements:
        found.append(m)
        if "gnss.lat" in m.values:
            wrong = {c: 1.0 + i for i, c in enumerate(REFERENCE)}
            found += [Measurement(source, m.t, m.arrival, wrong) for source in (m.source, "ins")]
    return replace(drive, measurements=found)


def test_no_source_reads_a_reference():
    assert REFERENCE
    assert not set(find_limits()) & set(REFERENCE)


def test_an_estimate_is_the_same_with_references_and_without(drive):
    drive, configuration = drive
    plain = vehicled.estimate(drive, configuration)
    beside = vehicled.estimate(with_references(drive), configuration)
    assert len(plain) > 500
    for column in plain.columns:
        assert np.array_equal(plain[column], beside[column], equal_nan=True), column


@pytest.mark.parametrize("suffix", [".mcap", ".csv"])
def test_logs_keep_references(drive, tmp_path, suffix):
    path = tmp_path / f"log{suffix}"
    measurement = Measurement("ins", 10**9, 10**9, {c: 0.125 * (i + 1) for i, c in enumerate(REFERENCE)})
    with create_log(path, REFERENCE) as log:
        log.write(measurement)
    (found,) = open_log(path, {}).measurements()
    assert found.values == measurement.values
