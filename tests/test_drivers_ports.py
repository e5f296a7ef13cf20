"""Drivers on TCP, UDP and serial ports: port names, reconnection, floods, datagrams of other senders."""

import contextlib
import os
import socket
import threading
import time

import can
import pytest
from live_rig import IMU, wait_until

from drivers.can import CanOptions
from drivers.ports import check_port, open_port
from drivers.slcan import SlcanPort
from drivers.xsens import Xsens, XsensOptions
from replay.encoders import XsensEncoder
from replay.slcan_adapter import SlcanAdapter
from vehicled.errors import UsageError
from vehicled.messages import Measurement
from vehicled.reading.settings import loads

MS = 1_000_000


def messages(count, first=0):
    encoder = XsensEncoder(counter=first)
    times = [(first + i) * 10 * MS for i in range(count)]
    return [encoder.encode(Measurement("imu", t, t, IMU)) for t in times]


@contextlib.contextmanager
def running(port):
    out: list[Measurement] = []
    driver = Xsens("imu", XsensOptions(port=port), out.append)
    driver.start()
    try:
        yield driver, out
    finally:
        driver.stop()
    assert driver.counters()["internal_errors"] == 0


def free_udp_port(family=socket.AF_INET):
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        s.bind(("", 0))
        return s.getsockname()[1]


@pytest.mark.parametrize(
    "port",
    [
        *(
            "/dev/ttyUSB0",
            "COM3",
            "socket://192.168.1.5:2101",
            "socket://receiver.local:1",
            "socket://[::1]:65535",
        ),
        *("udp://:5005", "udp://127.0.0.1:5005", "udp://239.1.2.3:5005", "udp://[ff02::1]:5005"),
    ],
)
def test_a_port_is_a_path_or_a_complete_address(port):
    assert check_port(port) is None


@pytest.mark.parametrize(
    "port",
    [
        *(
            "socket://192.168.1.5",
            "socket://:2101",
            "socket://host:0",
            "socket://host:65536",
            "socket://host:x",
        ),
        *("socket://host:1/path", "socket://user@host:1", "socket://host:1?logging=debug", "socket://[::1:5"),
        *(
            "udp://",
            "udp://:",
            "udp://receiver.local:5005",
            "tcp://host:1",
            "rfc2217://host:1",
            "http://host:80",
        ),
    ],
)
def test_an_invalid_port_is_an_error_that_says_what_was_expected(port):
    wrong = check_port(port)
    assert wrong is not None
    assert "socket://HOST:PORT" in wrong
    assert port in wrong
    with pytest.raises(UsageError, match="port: "):
        loads(f"port: '{port}'", XsensOptions)
    with pytest.raises(OSError, match="expected a path"):
        open_port(port, 115200)


def test_a_driver_reconnects_to_a_tcp_device():
    with socket.create_server(("127.0.0.1", 0)) as server:
        number = server.getsockname()[1]
        with running(f"socket://127.0.0.1:{number}") as (driver, out):
            for round_ in range(2):
                device, _ = server.accept()
                with device:
                    for message in messages(5, first=5 * round_):
                        device.sendall(message[:7])
                        device.sendall(message[7:])
                    device.sendall(b"\xfa\xff\x36\x40half")
                    wait_until(lambda round_=round_: len(out) == 5 * (round_ + 1))
                    assert driver.state == "connected"
                wait_until(lambda round_=round_: driver.counters()["disconnects"] == round_ + 1)
            assert driver.counters()["reconnects"] >= 1
            wait_until(lambda: driver.counters()["truncated"] == 2)


def test_a_serial_port_that_cannot_be_opened_is_an_error_with_a_short_reason(tmp_path):
    missing = tmp_path / "ttyX"
    with pytest.raises(OSError, match=f"^{missing}: No such file or directory$"):
        open_port(str(missing), 115200)
    (tmp_path / "file").write_bytes(b"")
    os.mkfifo(tmp_path / "pipe")
    for other in (tmp_path / "file", tmp_path / "pipe", "/dev/zero"):
        with pytest.raises(OSError, match=f"^{other}: expected a serial port$"):
            open_port(str(other), 115200)
    leader, follower = os.openpty()
    name = os.ttyname(follower)
    first = open_port(name, 115200)
    with pytest.raises(OSError, match=f"^{name}: another program uses it$"):
        open_port(name, 115200)
    first.close()
    for descriptor in (leader, follower):
        os.close(descriptor)


def test_a_driver_waits_for_a_tcp_server_that_is_not_running(caplog):
    with socket.create_server(("127.0.0.1", 0)) as server:
        number = server.getsockname()[1]
    with running(f"socket://127.0.0.1:{number}") as (driver, out):
        wait_until(lambda: driver.counters()["open_errors"] >= 2)
        assert driver.state == "disconnected"
        with socket.create_server(("127.0.0.1", number)) as server:
            device, _ = server.accept()
            with device:
                device.sendall(b"".join(messages(3)))
                wait_until(lambda: len(out) == 3)
    assert f"imu: cannot be opened: 127.0.0.1:{number}: Connection refused" in caplog.text


@pytest.mark.parametrize(
    ("port", "baud"), [(f"socket://{'a' * 70}:5", 9600), ("socket://a..b:5", 9600), ("/dev/ptmx", 10**10)]
)
def test_an_invalid_host_name_or_baud_rate_is_an_os_error(port, baud):
    with pytest.raises(OSError, match=port.removeprefix("socket://")):
        open_port(port, baud)


def test_a_tcp_server_that_sends_without_end_is_read_at_a_limited_rate():
    ended = threading.Event()

    def flood(device):
        data = b"".join(messages(100))
        with contextlib.suppress(OSError):
            while not ended.is_set():
                device.sendall(data)

    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        running(f"socket://127.0.0.1:{server.getsockname()[1]}") as (driver, _),
    ):
        device, _ = server.accept()
        flooding = threading.Thread(target=flood, args=(device,))
        begun = time.monotonic()
        flooding.start()
        try:
            wait_until(lambda: driver.counters()["discarded_bytes"] > 0)
            assert driver.state == "flooding"
            assert driver.counters()["bytes"] <= 200_000 * (time.monotonic() - begun + 0.6)
        finally:
            ended.set()
            device.shutdown(socket.SHUT_RDWR)
            flooding.join(5.0)
            device.close()


@pytest.mark.parametrize("content", [b"", b"x"])
def test_endless_datagrams_of_at_most_one_byte_are_a_flood(content):
    ended = threading.Event()
    number = free_udp_port()

    def flood():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as device:
            device.connect(("127.0.0.1", number))
            while not ended.is_set():
                with contextlib.suppress(ConnectionRefusedError):
                    device.send(content)

    flooding = threading.Thread(target=flood)
    with running(f"udp://127.0.0.1:{number}") as (driver, _):
        flooding.start()
        try:
            wait_until(lambda: driver.state == "flooding")
        finally:
            ended.set()
            flooding.join(5.0)


@pytest.mark.parametrize("address", ["127.0.0.1", "", "[::1]"])
def test_datagrams_are_read_as_one_stream(address):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    number = free_udp_port(family)
    with (
        running(f"udp://{address}:{number}") as (driver, out),
        socket.socket(family, socket.SOCK_DGRAM) as device,
    ):
        wait_until(lambda: driver.state in ("connected", "silent"))
        data = b"".join(messages(6))
        for cut in range(0, len(data), 50):  # a message may begin in one datagram and end in the next
            device.sendto(data[cut : cut + 50], ("::1" if ":" in address else "127.0.0.1", number))
        wait_until(lambda: len(out) == 6)
        assert driver.state == "connected"
        assert driver.counters()["garbage_bytes"] == 0


def test_datagrams_of_a_second_sender_are_ignored():
    number = free_udp_port()
    with (
        running(f"udp://127.0.0.1:{number}") as (driver, out),
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as device,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other,
    ):
        wait_until(lambda: driver.state in ("connected", "silent"))
        first, *rest = messages(20)
        device.sendto(first, ("127.0.0.1", number))
        wait_until(lambda: len(out) == 1)
        for message in rest:
            other.sendto(b"\xfa\xff\x36\xff\x07\xff", ("127.0.0.1", number))
            device.sendto(message, ("127.0.0.1", number))
        wait_until(lambda: len(out) == 20)
        assert driver.counters()["garbage_bytes"] == 0


def test_another_udp_device_is_read_after_the_first_has_stopped(monkeypatch):
    monkeypatch.setattr("drivers.ports._LOST_S", 0.2)
    number = free_udp_port()
    with running(f"udp://127.0.0.1:{number}") as (driver, out):
        for round_ in range(2):
            wait_until(lambda: driver.state in ("connected", "silent"))
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as device:
                for message in messages(3):
                    device.sendto(message, ("127.0.0.1", number))
                wait_until(lambda round_=round_: len(out) == 3 * (round_ + 1))
            wait_until(lambda round_=round_: driver.counters()["disconnects"] == round_ + 1)


def test_a_udp_port_in_use_is_an_error_that_names_it():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind(("127.0.0.1", 0))
        number = s.getsockname()[1]
        with pytest.raises(OSError, match=f"UDP port {number} of 127.0.0.1: Address already in use"):
            open_port(f"udp://127.0.0.1:{number}", 115200)


def test_a_multicast_group_is_joined():
    number = free_udp_port()
    try:
        port = open_port(f"udp://239.255.77.77:{number}", 115200)
    except OSError as error:  # a machine without any network
        pytest.skip(str(error))
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as device:
            device.sendto(b"hello", ("239.255.77.77", number))
        assert port.read(2.0) == b"hello"
    except OSError as error:
        pytest.skip(str(error))
    finally:
        port.close()


def test_a_port_writes_to_its_device_over_tcp_and_udp():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = open_port(f"socket://127.0.0.1:{server.getsockname()[1]}", 115200)
        device, _ = server.accept()
        with device:
            port.write(b"\xd3\x00\x00")
            assert device.recv(10) == b"\xd3\x00\x00"
        port.close()
    number = free_udp_port()
    port = open_port(f"udp://127.0.0.1:{number}", 115200)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as device:
        with pytest.raises(OSError, match="no device has sent anything yet"):
            port.write(b"x")
        device.sendto(b"a", ("127.0.0.1", number))
        assert port.read(2.0) == b"a"
        port.write(b"b")
        assert device.recv(10) == b"b"
    port.close()


def test_a_can_adapter_behind_a_tcp_server_is_read():
    adapter = SlcanAdapter()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = SlcanPort(
            f"socket://127.0.0.1:{server.getsockname()[1]}", 500_000, {"truncated": 0}, lambda count: None
        )
        device, _ = server.accept()
        with device:
            device.sendall(adapter.feed(device.recv(100)))
            frame = can.Message(arbitration_id=0x123, data=b"\x01\x02", is_extended_id=False)
            device.sendall(b"".join(adapter.lines([frame], 0)))
            found = port.recv(2.0) or port.recv(2.0)
        assert found is not None
        assert (found.arbitration_id, bytes(found.data)) == (0x123, b"\x01\x02")
        port.shutdown()


@pytest.mark.parametrize("channel", ["udp://:5005", "socket://host", "/dev/ttyACM0@fast"])
def test_a_can_adapter_on_an_unsuitable_port_is_rejected(channel):
    with pytest.raises(UsageError, match=r"channel: .*socket://HOST:PORT"):
        loads(f"dbc: x.dbc\nsignals: {{}}\ninterface: slcan\nchannel: '{channel}'\n", CanOptions)
