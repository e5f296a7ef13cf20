"""Time of day from a receiver's time stamps, correct and faulty, and from pulses per second."""

import json
import os
import time
import tty
from datetime import UTC, datetime

import numpy as np
import pytest
import zmq
from daemon_fakes import FakeEstimator
from live_rig import wait_until
from ubx_rig import pvt

from replay.encoders import nmea_sentence
from vehicled.daemon.daemon import Daemon, DaemonOptions
from vehicled.daemon.pulses import PulseReader
from vehicled.daemon.utc import UtcClock
from vehicled.errors import SettingsError
from vehicled.reading import settings

SECOND = 1_000_000_000
HOST = 1_790_000_000 * SECOND
OFFSET = HOST + 2_345_678_000
"""The true offset, which the receiver gives. The host's clock is wrong by seconds."""


def run(stamps, clock=None, begin=0, period=100_000_000):
    """Give the clock stamps with these errors, s; None stands for a stamp of zero."""
    clock = clock or UtcClock(lambda: HOST)
    for k, error in enumerate(stamps):
        t = begin + k * period
        clock.take(t, 0.0 if error is None else (t + OFFSET) * 1e-9 + error)
    return clock


def test_without_stamps_the_offset_is_that_of_the_host():
    clock = UtcClock(lambda: HOST)
    assert clock.find_offset(0) == HOST
    assert clock.describe(0)["source"] == "host"
    assert clock.describe(0)["sigma"] is None


def test_stamps_with_jitter_give_the_offset_within_its_sigma():
    jitter = 0.004 * np.random.default_rng(61).standard_normal(200)
    clock = run(jitter.tolist())
    found = clock.describe(20 * SECOND)
    assert found["source"] == "gnss"
    assert abs(clock.find_offset(20 * SECOND) - OFFSET) < 1_500_000
    assert 0.01 <= found["sigma"] < 0.011
    assert clock.describe(1000 * SECOND)["sigma"] > 0.015  # the clocks drift apart


def test_the_clock_of_the_host_is_used_again_long_after_the_last_stamp():
    clock = run([0.0] * 30)
    assert clock.find_offset(4000 * SECOND) == HOST


def test_zero_and_repeated_stamps_are_counted_and_not_used():
    clock = run([None] * 5 + [0.0] * 20)
    for k in range(7):
        clock.take(10 * SECOND + k, (OFFSET + 2.4 * SECOND) * 1e-9)
    found = clock.describe(10 * SECOND)
    assert (found["zero"], found["stale"]) == (5, 7)
    assert clock.find_offset(10 * SECOND) == pytest.approx(OFFSET, abs=1000)


def test_brief_jumps_of_stamps_are_ignored_and_lasting_ones_followed():
    clock = run([0.0] * 20 + [18.0] * 5 + [0.0] * 5 + [-1.0, 3.0] * 10)
    assert clock.find_offset(6 * SECOND) == pytest.approx(OFFSET, abs=1000)
    assert clock.describe(6 * SECOND)["stepping"] == 25
    run([18.0] * 11, clock, begin=10 * SECOND)
    assert clock.find_offset(12 * SECOND) == pytest.approx(OFFSET + 18 * SECOND, abs=1000)


@pytest.mark.parametrize("period", [SECOND // 5, SECOND])
def test_a_leap_second_is_followed_after_two_stamps(period):
    """At 1 Hz, the first stamp of the leap second repeats the stamp before it."""
    clock = run([0.0] * 30 + [-1.0], period=period)
    assert clock.find_offset(30 * period) == pytest.approx(OFFSET, abs=1000)
    run([0.0, -1.0, -1.0, -1.0], clock, begin=31 * period, period=period)
    assert clock.find_offset(34 * period) == pytest.approx(OFFSET - SECOND, abs=1000)


@pytest.mark.parametrize("eras", [1, 2])
def test_a_date_of_another_era_of_gps_is_set_right(eras):
    """Of a receiver whose firmware is older than 1024 weeks; earlier ones are from before 2001, and not used."""
    era = 1024 * 7 * 86_400.0
    now = OFFSET + 2 * era * SECOND
    clock = UtcClock(lambda: round(now) - 3 * 3600 * SECOND)
    for k in range(20):
        clock.take(k * SECOND, (now + k * SECOND) * 1e-9 - eras * era)
    assert clock.find_offset(20 * SECOND) == pytest.approx(now, abs=1000)


@pytest.mark.parametrize("host", [0, HOST + 400 * 86_400 * SECOND])
def test_a_date_stays_where_the_hosts_clock_does_not_say_that_it_is_of_another_era(host):
    """The clock of the host was never set, or its date does not fit any era."""
    clock = UtcClock(lambda: host)
    run([0.0] * 20, clock)
    assert clock.find_offset(2 * SECOND) == pytest.approx(OFFSET, abs=1000)


@pytest.mark.parametrize("stamp", [float("nan"), float("inf"), -1.0, 315964800.0])
def test_an_invalid_time_of_day_counts_as_zero(stamp):
    clock = UtcClock(lambda: HOST)
    for k in range(20):
        clock.take(k, stamp)
    assert clock.describe(0)["zero"] == 20
    assert clock.find_offset(0) == HOST


TEXT = """\
devices:
  gnss: {{driver: {driver}, options: {{port: "{port}"}}}}
loop: {{realtime_priority: 0}}
publish: {{endpoint: "tcp://127.0.0.1:*", command_endpoint: "ipc://{folder}/commands"}}
"""


def make_rmc(utc):
    return nmea_sentence(f"GNRMC,{utc:%H%M%S.%f},A,4700.0,N,00800.0,E,1.0,2.0,{utc:%d%m%y},,,A")


def make_pvt(utc):
    itow = round(((utc.isoweekday() % 7 * 24 + utc.hour) * 60 + utc.minute) * 60e3)
    itow += round((utc.second + 18) * 1e3 + utc.microsecond / 1e3)
    fields = {"year": utc.year, "month": utc.month, "day": utc.day, "hour": utc.hour, "min": utc.minute}
    return pvt(iTOW=itow % 604_800_000, **fields, second=utc.second, nano=utc.microsecond * 1000)


@pytest.mark.parametrize(("driver", "make"), [("nmea", make_rmc), ("ubx", make_pvt)])
def test_messages_have_the_time_of_day_of_the_receiver(driver, make, socket_folder):
    """The receiver's time is 400 days ahead of the host's."""
    ours, theirs = os.openpty()
    for end in (ours, theirs):
        tty.setraw(end)
    text = TEXT.format(driver=driver, port=os.ttyname(theirs), folder=socket_folder)
    daemon = Daemon(settings.loads(text, DaemonOptions), FakeEstimator(), text, dict)
    ahead = 400 * 86_400.0
    try:
        with daemon, zmq.Context.instance().socket(zmq.SUB) as subscriber:
            subscriber.rcvtimeo = 5000
            subscriber.linger = 0
            subscriber.connect(daemon.endpoint)
            subscriber.subscribe("status")

            def is_by_receiver():
                os.write(ours, make(datetime.fromtimestamp(time.time() + ahead, UTC)))
                time.sleep(0.05)
                return daemon.status.counters["time"]["source"] == "gnss"

            wait_until(is_by_receiver)
            published = [json.loads(subscriber.recv_multipart()[1])]
            while published[-1]["counters"]["time"]["source"] != "gnss":
                published.append(json.loads(subscriber.recv_multipart()[1]))
            now = time.time()
            # The status is of an earlier step; the receiver's latency is 30 ms.
            assert now - 5.0 < published[-1]["timestamp"] - ahead < now + 0.1
    finally:
        os.close(ours)
        os.close(theirs)


def test_pulses_give_the_exact_time_and_stamps_only_number_the_seconds():
    random = np.random.default_rng(62)
    clock = UtcClock(lambda: HOST)
    for k in range(300):
        t = k * SECOND // 10
        clock.take(t, (t + OFFSET) * 1e-9 + 0.08 + 0.01 * random.standard_normal())  # 80 ms late
        if k % 10 == 0:
            begin = (t + OFFSET) // SECOND * SECOND + SECOND - OFFSET
            clock.take_pulse(begin + round(2e4 * random.standard_normal()))
    found = clock.describe(30 * SECOND)
    assert found["source"] == "pps"
    assert abs(clock.find_offset(30 * SECOND) - OFFSET) < 50_000
    assert found["sigma"] < 1e-4
    assert clock.describe(45 * SECOND)["source"] == "gnss"  # pulses are missing
    assert abs(clock.find_offset(45 * SECOND) - OFFSET) > 70_000_000


def test_pulses_are_used_only_if_stamps_determine_the_second():
    clock = UtcClock(lambda: HOST)
    for k in range(20):
        clock.take_pulse(k * SECOND)
    assert clock.describe(20 * SECOND)["source"] == "host"
    run([0.4] * 20, clock)
    for k in range(20):
        clock.take_pulse((OFFSET // SECOND + 5 + k) * SECOND - OFFSET)
    assert clock.describe(10 * SECOND)["pulses"] == 0


def test_pulses_follow_stamps_to_another_second():
    clock = run([0.0] * 200)
    clock_error = [18.0] * 300
    for k in range(20):
        clock.take_pulse((OFFSET // SECOND + 1 + k) * SECOND - OFFSET)
    assert clock.find_offset(20 * SECOND) == OFFSET
    run(clock_error, clock, begin=20 * SECOND)
    assert clock.describe(21 * SECOND)["source"] == "gnss"
    for k in range(20, 40):
        clock.take_pulse((OFFSET // SECOND + 1 + k) * SECOND - OFFSET)
    assert clock.describe(40 * SECOND)["source"] == "pps"
    assert clock.find_offset(40 * SECOND) == OFFSET + 18 * SECOND
    run([17.0] * 20, clock, begin=50 * SECOND)
    for k in range(40, 42):
        clock.take_pulse((OFFSET // SECOND + 12 + k) * SECOND - OFFSET)
    assert clock.describe(54 * SECOND)["source"] == "pps"
    assert clock.find_offset(54 * SECOND) == OFFSET + 17 * SECOND


def test_each_pulse_of_the_kernel_is_passed_on_once(tmp_path, caplog):
    taken = []
    reader = PulseReader("pps0", taken.append, tmp_path)
    reader.read()
    reader.read()
    assert [r.getMessage() for r in caplog.records] == [
        f"no pulses per second: {tmp_path}/pps0/assert: No such file or directory"
    ]
    file = tmp_path / "pps0" / "assert"
    file.parent.mkdir()

    def write(number):
        now = time.time_ns()
        file.write_text(f"{now // SECOND}.{now % SECOND:09d}#{number}\n")
        return time.monotonic_ns()

    write(7)
    reader.read()
    assert taken == []  # the first pulse may be of any age
    at = write(8)
    reader.read()
    reader.read()
    assert len(taken) == 1
    assert abs(taken[0] - at) < 50_000_000
    for bad in (b"", b"0.0", b"x" * 100_000, b"1.123456789#"):
        file.write_bytes(bad)
        reader.read()
    assert len(taken) == 1
    assert "expected seconds.nanoseconds#number" in caplog.records[-1].getMessage()


@pytest.mark.parametrize("name", ["/dev/pps0", "../../etc", "pps"])
def test_a_pulse_source_must_have_a_name_of_the_kernel(name):
    with pytest.raises(SettingsError, match="pps"):
        settings.loads(f"devices: {{}}\npps: {name}\n", DaemonOptions)
