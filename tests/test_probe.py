"""Probing of serial ports, with emulated devices on pseudo-terminals."""

import contextlib
import select
import threading
import time

import pytest
from live_rig import IMU

from drivers.can import CanOptions, CanSignal
from drivers.probe import SLCAN, ask_adapter, find_can_interfaces, find_ports, probe_port, probe_ports
from replay.emulate import PseudoTerminal, emulate
from replay.encoders import NmeaEncoder, VectorNavEncoder, XsensEncoder
from replay.ubx_encoder import UbxEncoder
from vehicled.messages import Measurement
from vehicled.reading.settings import shipped_folder

GNSS = {"gnss.lat": 47.25, "gnss.lon": 8.5, "gnss.alt": 412.5, "gnss.quality": 4.0, "gnss.h_acc": 0.014}
GNSS |= {"gnss.speed": 12.5, "gnss.course": 1.0}
NO_FIX = {"gnss.quality": 0.0}


@contextlib.contextmanager
def sending(link, messages, period_s):
    """A device that sends `messages(t_ns)` periodically."""
    port = PseudoTerminal(link)
    ended = threading.Event()

    def send():
        while not ended.wait(period_s):
            port.write(messages(time.monotonic_ns()))

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield str(link)
    finally:
        ended.set()
        thread.join()
        port.close()


def encoded(encoder, values):
    return lambda t: encoder.encode(Measurement("device", t, t, values))


def both(*parts):
    return lambda t: b"".join(part(t) for part in parts)


@pytest.mark.parametrize(
    ("messages", "period_s", "driver", "channel"),
    [
        (encoded(XsensEncoder(), IMU), 0.01, "xsens", "imu.wz"),
        (encoded(VectorNavEncoder("binary"), IMU), 0.01, "vectornav", "imu.wz"),
        (encoded(VectorNavEncoder("ascii"), IMU), 0.01, "vectornav", "imu.wz"),
        (encoded(NmeaEncoder(), GNSS), 1.0, "nmea", "gnss.lat"),
        (encoded(NmeaEncoder(), NO_FIX), 0.1, "nmea", "gnss.quality"),
        (encoded(UbxEncoder(), GNSS), 0.1, "ubx", "gnss.lat"),
        # By default, u-blox receivers send both; UBX has more data.
        (both(encoded(NmeaEncoder(), GNSS), encoded(UbxEncoder(), GNSS)), 0.1, "ubx", "gnss.lat"),
        (both(encoded(NmeaEncoder(), NO_FIX), encoded(UbxEncoder(), NO_FIX)), 0.1, "ubx", "gnss.quality"),
    ],
)
def test_the_protocol_of_a_device_is_recognised(tmp_path, monkeypatch, messages, period_s, driver, channel):
    monkeypatch.setattr("drivers.probe._SETTLE_S", 0.25)
    with sending(tmp_path / "port", messages, period_s) as port:
        found = probe_port(port)
    assert (found.driver, found.port, found.baud) == (driver, port, 115200)
    assert channel in found.channels
    assert driver in found.found
    assert not found.silent


def test_an_open_adapter_is_recognised_by_its_frames(tmp_path):
    with sending(tmp_path / "port", lambda t: b"t1304AABBCCDD\rT0000012310A\r", 0.02) as port:
        assert probe_port(port).driver == SLCAN


def test_a_silent_adapter_is_recognised_when_asked(tmp_path, monkeypatch):
    monkeypatch.setattr("drivers.probe._READ_FOR_S", 0.3)
    signal = CanSignal(message="Brake", signal="BrakePressure")
    dbc = shipped_folder() / "prototype.dbc"
    options = CanOptions(
        interface="slcan", channel=str(tmp_path / "port"), dbc=dbc, signals={"brake.pressure": signal}
    )
    adapter, ended = emulate("can", options), threading.Event()

    def reply():
        while not ended.is_set():
            if select.select([adapter.fileno()], [], [], 0.01)[0]:
                adapter.reply()

    thread = threading.Thread(target=reply)
    thread.start()
    try:
        found = probe_port(options.channel)
        assert (found.silent, found.driver) == (True, None)
        assert ask_adapter(options.channel)
        assert adapter.adapter.mode == "closed"
    finally:
        ended.set()
        thread.join()
        adapter.close()


def test_the_baud_rate_is_found(monkeypatch):
    """At a wrong rate the bytes are garbled, and the device is not taken for another one."""
    encoder = XsensEncoder()
    opened = []

    class Line:
        def __init__(self, port, baud):
            opened.append(baud)
            self.right = baud == 38400

        def read(self, wait_s):
            time.sleep(0.005)
            t = time.monotonic_ns()
            data = encoder.encode(Measurement("imu", t, t, IMU))
            return data if self.right else bytes(b * 7 + 3 & 0xFF for b in data)

        def close(self):
            pass

    monkeypatch.setattr("drivers.probe.open_port", Line)
    monkeypatch.setattr("drivers.probe._READ_FOR_S", 0.2)
    found = probe_port("/dev/ttyUSB0")
    assert (found.driver, found.baud) == ("xsens", 38400)
    assert opened == [115200, 460800, 921600, 230400, 38400]


def test_silent_unknown_and_missing_devices_are_reported(tmp_path, monkeypatch):
    monkeypatch.setattr("drivers.probe.BAUDS", (115200, 9600))
    monkeypatch.setattr("drivers.probe._READ_FOR_S", 0.3)
    silent = PseudoTerminal(tmp_path / "silent")
    try:
        with sending(
            tmp_path / "foreign", lambda t: b"temperature 21.5\r\n\xfa\xff\x36garbage", 0.02
        ) as foreign:
            ports = [str(tmp_path / "silent"), foreign, str(tmp_path / "absent")]
            begun = time.monotonic()
            found = probe_ports(ports)
            assert time.monotonic() - begun < 30
    finally:
        silent.close()
    assert [p.port for p in found] == ports
    assert [p.driver for p in found] == [None] * 3
    assert [p.silent for p in found] == [True, False, False]
    assert found[0].found == "silent"
    assert "no driver reads" in found[1].found
    assert "cannot be read" in found[2].found
    assert not ask_adapter(ports[2])


def test_probing_ends_when_it_is_stopped(tmp_path):
    with sending(tmp_path / "port", lambda t: b"unknown", 0.02) as port:
        begun = time.monotonic()
        probe_port(port, lambda: time.monotonic() - begun > 0.3)
        assert time.monotonic() - begun < 5


def test_each_port_is_listed_once_by_its_stable_name(tmp_path):
    (tmp_path / "serial" / "by-id").mkdir(parents=True)
    for name in ("ttyUSB0", "ttyUSB1", "ttyACM0", "ttyS0"):
        (tmp_path / name).touch()
    (tmp_path / "serial" / "by-id" / "usb-maker_imu-if00").symlink_to("../../ttyUSB1")
    assert find_ports(tmp_path) == [
        str(tmp_path / "serial" / "by-id" / "usb-maker_imu-if00"),
        str(tmp_path / "ttyUSB0"),
        str(tmp_path / "ttyACM0"),
    ]
    assert find_ports(tmp_path / "nothing") == []


def test_can_interfaces_are_found_by_their_type(tmp_path):
    for name, kind in (("can0", "280\n"), ("eth0", "1\n"), ("vcan1", "280\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "type").write_text(kind)
    (tmp_path / "odd").mkdir()
    assert find_can_interfaces(tmp_path) == ["can0", "vcan1"]
