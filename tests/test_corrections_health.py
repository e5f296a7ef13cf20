"""Corrections: state and faults, unplugged receivers, slow lines, and positions for virtual stations."""

from __future__ import annotations

import math
import time

import pynmea2
import pytest
from caster import (
    EPOCH,
    FRAME_1005,
    HTTP,
    ICY,
    STATION_1005,
    TestCaster,
    make_frame,
    quicken,
    running,
    stream,
)
from live_rig import wait_until
from pyrtcm import RTCMReader

from drivers import corrections as module
from drivers.nmea import Nmea, NmeaOptions
from vehicled.messages import Measurement

FIX = {"gnss.lat": 38.805, "gnss.lon": -77.065, "gnss.alt": 110.0, "gnss.quality": 4.0}


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    quicken(monkeypatch)


def test_position_of_the_base_station_and_distance_to_it():
    """pyrtcm decodes the same antenna position. The distance is that between Earth-centred positions."""
    read = RTCMReader.parse(FRAME_1005)
    assert pytest.approx(STATION_1005, abs=1e-6) == [read.DF025, read.DF026, read.DF027]
    latitude, longitude, height = (
        math.radians(FIX["gnss.lat"]),
        math.radians(FIX["gnss.lon"]),
        FIX["gnss.alt"],
    )
    e2 = 0.00669437999014
    n = 6378137.0 / math.sqrt(1 - e2 * math.sin(latitude) ** 2)
    rover = (
        (n + height) * math.cos(latitude) * math.cos(longitude),
        (n + height) * math.cos(latitude) * math.sin(longitude),
        (n * (1 - e2) + height) * math.sin(latitude),
    )
    with TestCaster(stream(ICY, *EPOCH)) as caster, running(caster, lambda _: None) as corrections:
        corrections.observe(Measurement("gnss", 0, 0, FIX))
        wait_until(lambda: corrections.status()["distance"] is not None)
        status = corrections.status()
    assert status["base"]["station"] == read.DF003 == 2003
    assert status["distance"] == pytest.approx(math.dist(STATION_1005, rover), abs=1e-3)


def test_messages_per_minute_are_counted_by_number():
    frames = [*EPOCH, make_frame(1077), make_frame(1077)]
    with TestCaster(stream(ICY, *frames)) as caster, running(caster, lambda _: None) as corrections:
        wait_until(lambda: sum(corrections.status()["per_minute"].values()) == 6)
        assert corrections.status()["per_minute"] == {"1005": 1, "1077": 3, "1087": 1, "1230": 1}


def test_descriptions_of_the_base_station_do_not_count_as_corrections():
    with (
        TestCaster(stream(ICY, FRAME_1005, make_frame(1230))) as caster,
        running(caster, lambda _: None, max_age=1.0) as corrections,
    ):
        wait_until(lambda: corrections.status()["forwarded"] == 2)
        assert corrections.status()["age"] is None
        assert corrections.fault is None
        wait_until(lambda: corrections.fault)


def test_an_unplugged_receiver_misses_frames_and_gets_later_ones():
    got, broken = [], [True]

    def write(data):
        if broken:
            raise OSError("/dev/gnss is not open")
        got.append(data)

    def handle(visit):
        visit.send(ICY + make_frame(1077))
        for _ in range(4):
            time.sleep(0.3)
            visit.send(FRAME_1005)
        time.sleep(0.3)
        broken.clear()
        visit.send(make_frame(1087))
        visit.wait()

    with TestCaster(handle) as caster, running(caster, write, max_age=1.0) as corrections:
        wait_until(lambda: corrections.fault)
        assert corrections.fault == "no corrections: the receiver does not take them: /dev/gnss is not open"
        wait_until(lambda: got)
        assert corrections.fault is None
        assert corrections.status()["unsent"] == 5
        assert corrections.status()["last_error"] is not None
    assert got == [make_frame(1087)]


def test_writing_to_a_receiver_that_is_not_open_is_an_error(tmp_path):
    driver = Nmea("gnss", NmeaOptions(port=str(tmp_path / "gnss")), print)
    with pytest.raises(OSError, match="gnss is not open"):
        driver.write(FRAME_1005)


def test_an_invalid_position_is_not_used():
    got = []
    with (
        TestCaster(stream(ICY, FRAME_1005)) as caster,
        running(caster, got.append, send_position=1.0) as corrections,
    ):
        for change in ({"gnss.lat": math.nan}, {"gnss.lon": math.inf}):
            corrections.observe(Measurement("gnss", 0, 0, FIX | change))
        corrections.observe(Measurement("gnss", 0, 0, {"gnss.lat": 1.0}))
        corrections.observe(Measurement("gnss", 0, 0, {"gnss.quality": 0.0}))
        time.sleep(0.2)
        assert corrections.status()["state"] == "waiting"
        corrections.observe(Measurement("gnss", 0, 0, FIX | {"gnss.quality": math.nan}))
        wait_until(lambda: got)
        assert corrections.status()["internal_errors"] == 0


def test_late_frames_are_dropped_on_a_slow_line(monkeypatch):
    """Frames do not age in buffers: those that the line has not taken in time are dropped."""
    monkeypatch.setattr(module, "_LATE_NS", 100_000_000)
    frames = [make_frame(1077, 100 + i) for i in range(60)]
    sent, written = {}, []

    def handle(visit):
        visit.send(ICY)
        for frame in frames:
            sent[frame] = time.monotonic()
            visit.send(frame)
            time.sleep(0.003)
        visit.wait()

    def write(data):
        written.append((data, time.monotonic()))
        time.sleep(0.04)

    with TestCaster(handle) as caster, running(caster, write) as corrections:
        wait_until(lambda: corrections.status()["forwarded"] + corrections.status()["late"] == len(frames))
    assert corrections.status()["late"] > 20
    order = [frames.index(frame) for frame, _ in written]
    assert order == sorted(order)
    assert max(at - sent[frame] for frame, at in written) < 2.0


# Virtual stations


@pytest.mark.parametrize(("response", "version"), [(ICY, 1), (ICY[:-2], 1), (HTTP + b"\r\n", 2)])
def test_a_virtual_station_gets_the_position_of_the_receiver(response, version):
    sentences = []

    def handle(visit):
        visit.send(response)
        got = b""
        while got.count(b"\r\n") < 2:
            got += visit.connection.recv(4096)
        sentences.extend(got.decode().splitlines())
        visit.send(FRAME_1005)
        visit.wait()

    got = []
    with (
        TestCaster(handle) as caster,
        running(caster, got.append, version=version, send_position=0.2) as corrections,
    ):
        wait_until(lambda: corrections.status()["state"] == "waiting")
        time.sleep(0.1)
        assert caster.requests == []  # such casters disconnect without a position
        corrections.observe(Measurement("gnss", 0, 0, FIX))
        wait_until(lambda: got)
        assert corrections.status()["positions"] >= 2
    if version == 2:
        header = next(h for h in caster.requests[0].decode().split("\r\n") if h.startswith("Ntrip-GGA: "))
        sentences.append(header.removeprefix("Ntrip-GGA: "))
    for sentence in sentences:
        read = pynmea2.parse(sentence, check=True)
        assert read.sentence_type == "GGA"
        assert read.latitude == pytest.approx(FIX["gnss.lat"], abs=1e-6)
        assert read.longitude == pytest.approx(FIX["gnss.lon"], abs=1e-6)
        assert (read.altitude, read.gps_qual) == (110.0, 4)


def test_no_position_is_sent_unless_configured():
    got = []

    def handle(visit):
        visit.send(ICY + FRAME_1005)
        got.append(visit.wait(0.2))
        visit.wait()

    with TestCaster(handle) as caster, running(caster, lambda _: None) as corrections:
        corrections.observe(Measurement("gnss", 0, 0, FIX))
        wait_until(lambda: got)
    assert got == [b""]
    assert b"GGA" not in caster.requests[0]
