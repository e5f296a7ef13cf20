"""Receivers whose line carries several protocols, or changes from one to another."""

import itertools
import logging
import sys
import time

import pytest
from caster import FRAME_1005
from live_rig import wait_until
from ubx_rig import MS, S, decoder, eoe, epochs, pvt

from drivers.nmea import Nmea, NmeaDecoder, NmeaOptions
from drivers.rtcm import rtcm_checksum
from drivers.ubx import Ubx, UbxOptions
from replay.emulator import Emulator
from replay.encoders import NmeaEncoder, nmea_sentence
from vehicled.messages import Measurement


def nmea_epochs(count, begin=0):
    encoder = NmeaEncoder()
    values = {"gnss.lat": 47.0, "gnss.lon": 8.0, "gnss.alt": 400.0, "gnss.quality": 1.0, "gnss.speed": 5.0}
    times = [(begin + i) * 100 * MS for i in range(count)]
    return [(t // MS, [encoder.encode(Measurement("s", t, t, values))]) for t in times]


def test_ubx_is_preferred_to_nmea_on_the_same_line():
    d = decoder()
    out = []
    for (at, ubx), (_, text) in zip(epochs(20, "PVT", "HP", "RAW", "EOE"), nmea_epochs(20), strict=True):
        out += d.feed(b"".join([*text, FRAME_1005, *ubx]), at * MS)
        out += d.feed(b"", at * MS + 50 * MS)
    assert [m.t for m in out] == [i * 100 * MS for i in range(20)]
    assert all("gnss.vn" in m.values for m in out)
    assert d.protocols == ("UBX", "NMEA", "RTCM3")
    assert d.in_use == "UBX"
    c = d.counters
    assert c["garbage_bytes"] == 0
    assert (c["nmea_messages"], c["ubx_messages"], c["rtcm3_messages"]) == (60, 80, 20)


def test_a_receiver_that_changes_its_protocol_is_still_read():
    d = decoder()
    out = []
    parts = [nmea_epochs(30), epochs(30, "PVT", "EOE"), nmea_epochs(30, begin=60)]
    for part, stretch in enumerate(parts):
        for i, (_, messages) in enumerate(stretch):
            at = (part * 30 + i) * 100 * MS
            out += d.feed(b"".join(messages), at) + d.feed(b"", at + 50 * MS)
    times = [m.t for m in out]
    assert times == sorted(times)
    assert sum(m.arrival < 3 * S for m in out) == 30
    assert sum(3 * S <= m.arrival < 6 * S for m in out) == 30
    assert sum(m.arrival >= 6 * S for m in out) >= 18  # NMEA is read after 1.2 s without UBX
    assert ["gnss.vn" in m.values for m in out] == [3 * S <= m.arrival < 6 * S for m in out]
    assert d.counters["garbage_bytes"] == 0
    assert d.in_use == "NMEA"
    assert d.protocols == ("UBX", "NMEA")


def test_heading_from_ubx_and_position_from_nmea():
    """The receiver sends only its baseline in UBX."""
    d = decoder()
    out = []
    for (at, ubx), (_, text) in zip(epochs(10, "REL", "EOE"), nmea_epochs(10), strict=True):
        out += d.feed(b"".join([*text, *ubx]), at * MS) + d.feed(b"", at * MS + 50 * MS)
    assert sum("gnss.lat" in m.values for m in out) == 10
    assert sum("gnss.heading" in m.values for m in out) == 10


def test_the_nmea_driver_skips_messages_of_other_protocols():
    d = NmeaDecoder("gnss", NmeaOptions(port="p", latency=0.0))
    out = []
    for (at, ubx), (_, text) in zip(epochs(10, "PVT", "RAW", "EOE"), nmea_epochs(10), strict=True):
        out += d.feed(b"".join([*ubx, *text, FRAME_1005]), at * MS) + d.feed(b"", at * MS + 50 * MS)
    assert len(out) == 10
    assert d.counters["garbage_bytes"] == 0


def test_rtcm_messages_have_the_checksum_of_the_standard():
    assert rtcm_checksum(FRAME_1005[:-3]) == int.from_bytes(FRAME_1005[-3:])
    d = decoder()
    d.feed(FRAME_1005[:-1] + b"\x99" + FRAME_1005, 0)
    assert (d.counters["rtcm3_messages"], d.counters["checksum_errors"]) == (1, 1)


@pytest.mark.parametrize(
    "start",
    [
        b"\xd3\x03\xff\x3e\xd0",
        b"\xd3\x02\x00\x3e\xd0",
        b"\xb5\x62\x01\x07\xf0\x0f",
        b"\xb5\x62\x01\x07\x00\x02",
    ],
)
def test_a_stream_of_false_starts_costs_little_time_per_byte(start):
    """The cost is the number of bytes whose checksum is computed. Good messages are read again afterwards."""
    d = decoder()
    stream, checked = start * 10_000, 0

    def count(frame, event, _):
        nonlocal checked
        if event == "call" and frame.f_code.co_name in ("ubx_checksum", "rtcm_checksum"):
            checked += len(frame.f_locals["body"])

    sys.setprofile(count)
    try:
        for at in range(0, len(stream), 1000):
            d.feed(stream[at : at + 1000], at)
    finally:
        sys.setprofile(None)
    assert checked < 4 * len(stream)
    d.feed(b"", len(stream) + S)
    assert d.waiting == 0
    assert len(d.feed(bytes(10_000) + pvt() + eoe(), len(stream) + 2 * S)) == 1


FIX = {"gnss.lat": 47.25, "gnss.lon": 8.5, "gnss.alt": 400.0, "gnss.quality": 4.0, "gnss.speed": 5.0}


@pytest.fixture
def soon(monkeypatch):
    """Shortens the driver's waits of about a second to 0.2 s."""
    monkeypatch.setattr("drivers.receiver._SETTLED_NS", 200 * MS)
    monkeypatch.setattr("drivers.ubx._NMEA_AFTER_NS", 200 * MS)


def send_until(condition, send):
    """Send messages, stamped 0.1 s apart, every 0.02 s: ten at least, then more until the condition holds."""
    for i in range(10):
        send(i)
        time.sleep(0.02)
    numbers = itertools.count(10)

    def is_met():
        if condition():
            return True
        send(next(numbers))
        time.sleep(0.02)
        return False

    wait_until(is_met)


def test_a_driver_reports_what_its_receiver_sends(tmp_path, caplog, soon):
    caplog.set_level(logging.INFO)
    options = UbxOptions(port=str(tmp_path / "gnss"))
    out: list[Measurement] = []
    driver = Ubx("gnss", options, out.append)
    assert driver.describe()["protocol"] is None
    with Emulator({"gnss": ("ubx", options)}) as emulator:
        driver.start()
        try:
            wait_until(lambda: driver.state in ("connected", "silent"))
            send_until(
                lambda: "sends UBX; UBX is read" in caplog.text,
                lambda i: emulator.send(Measurement("gnss", i * 100 * MS, 0, FIX)),
            )
            assert {"state": "connected", "protocol": "UBX"}.items() <= driver.describe().items()
            assert driver.describe()["protocols"] == ["UBX"]
            send_until(
                lambda: "NMEA is read, before UBX" in caplog.text,
                lambda i: emulator.write("gnss", _make_gga(i)),
            )
            assert out[-1].values["gnss.quality"] == 1.0
        finally:
            driver.stop()
    assert out[0].values["gnss.quality"] == 4.0
    assert abs(out[0].values["gnss.utc"] - time.time()) < 60  # the time of the emulation, not of the log


def _make_gga(i):
    return nmea_sentence(f"GNGGA,1000{i // 10:02d}.{i % 10}0,4700.0,N,00800.0,E,1,9,1.0,1.0,M,45.0,M,,")


def test_the_nmea_driver_reports_that_its_receiver_sends_ubx(tmp_path, caplog, soon):
    port = str(tmp_path / "gnss")
    driver = Nmea("gnss", NmeaOptions(port=port), print)
    with Emulator({"gnss": ("ubx", UbxOptions(port=port))}) as emulator:
        driver.start()
        try:
            wait_until(lambda: driver.state in ("connected", "silent"))
            send_until(
                lambda: "the receiver sends UBX, expected NMEA" in caplog.text,
                lambda i: emulator.send(Measurement("gnss", i * 100 * MS, 0, FIX)),
            )
            assert driver.describe()["protocols"] == ["UBX"]
            assert driver.describe()["protocol"] is None
        finally:
            driver.stop()
