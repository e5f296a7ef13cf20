"""Corrections: whole RTCM 3 frames from a caster, and nothing else, reach the receiver's port in order."""

from __future__ import annotations

import base64
import contextlib
import logging
import os
import random
import socket
import ssl
import time
import tty
from datetime import datetime

import pytest
from caster import (
    CHUNKED,
    EPOCH,
    FRAME_1005,
    HTTP,
    ICY,
    TestCaster,
    make_frame,
    quicken,
    running,
    stream,
)
from live_rig import wait_until

from drivers import corrections as module
from drivers.corrections import CorrectionOptions, Corrections
from drivers.nmea import Nmea, NmeaOptions
from drivers.ntrip import make_gga
from drivers.ubx import Ubx, UbxOptions
from vehicled.errors import SettingsError
from vehicled.reading import settings


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    quicken(monkeypatch)


class Receiver:
    """A driver on a pseudo-terminal, whose other end stands for the receiver."""

    def __init__(self):
        self._ours, self._theirs = os.openpty()
        tty.setraw(self._theirs)
        tty.setraw(self._ours)
        os.set_blocking(self._ours, False)
        self.got = bytearray()
        self.measured = []
        self.driver = Nmea("gnss", NmeaOptions(port=os.ttyname(self._theirs)), self.measured.append)

    def __enter__(self):
        self.driver.start()
        wait_until(lambda: self.driver.state == "connected")
        return self

    def __exit__(self, *_):
        self.driver.stop()
        os.close(self._ours)
        os.close(self._theirs)

    def read(self):
        with contextlib.suppress(BlockingIOError):
            self.got += os.read(self._ours, 65536)
        return bytes(self.got)

    def send(self, data):
        os.write(self._ours, data)


@pytest.fixture
def receiver():
    with Receiver() as receiver:
        yield receiver


@pytest.mark.parametrize("version", [1, 2])
def test_frames_reach_the_port_of_the_receiver(receiver, version):
    noise = b"\r\nServer: some text\r\n", b"\xd3\x00", b"$GPGGA,nonsense*00\r\n", b"\xd3\x03\xff"
    damaged = bytearray(make_frame(1097))
    damaged[10] ^= 1
    mixed = b"".join(a + b for a, b in zip(EPOCH, noise, strict=True)) + bytes(damaged) + b"".join(EPOCH) * 8
    with (
        TestCaster(stream(ICY if version == 1 else HTTP + b"\r\n", mixed)) as caster,
        running(caster, receiver.driver.write, version=version) as corrections,
    ):
        expected = b"".join(EPOCH) * 9
        wait_until(lambda: len(receiver.read()) >= len(expected))
        time.sleep(0.05)
        assert receiver.read() == expected
        status = corrections.status()
    assert status["state"] == "connected"
    assert status["frames"] == status["forwarded"] == 9 * len(EPOCH)
    assert status["age"] < 5.0
    assert corrections.status()["state"] == "stopped"
    request = caster.requests[0]
    if version == 1:
        assert request.startswith(b"GET /BASE HTTP/1.0\r\nUser-Agent: NTRIP vehicled/")
        assert b"Host" not in request
    else:
        assert request.startswith(b"GET /BASE HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n" % caster.port)
        assert b"Ntrip-Version: Ntrip/2.0\r\n" in request


def test_chunks_and_packets_may_have_any_size(receiver):
    data = b"".join(EPOCH) * 5
    rng = random.Random(3)

    def handle(visit):
        at, whole = 0, b""
        while at < len(data):
            size = rng.choice((1, 2, 3, 17, 300))
            whole += b"%X%s\r\n%s\r\n" % (
                len(data[at : at + size]),
                rng.choice((b"", b";a=b", b" ")),
                data[at : at + size],
            )
            at += size
        visit.send_slowly(CHUNKED + whole, (1, 7, 2, 100, 31))
        visit.wait()

    with TestCaster(handle) as caster, running(caster, receiver.driver.write):
        wait_until(lambda: len(receiver.read()) >= len(data))
    assert receiver.read() == data


def test_the_receiver_is_read_while_it_is_written_to(receiver):
    line = make_gga(38.805, -77.065, 110.0, 1, datetime(2026, 1, 1, 12))
    with TestCaster(stream(ICY, *EPOCH * 20)) as caster, running(caster, receiver.driver.write):
        for _ in range(5):
            receiver.send(line)
            time.sleep(0.1)
            receiver.read()
        wait_until(lambda: receiver.measured)
        wait_until(lambda: len(receiver.read()) >= 20 * len(b"".join(EPOCH)))
    assert receiver.read() == b"".join(EPOCH) * 20


def test_a_network_receiver_gets_frames_over_its_connection():
    with socket.create_server(("127.0.0.1", 0)) as server, contextlib.ExitStack() as closing:
        driver = Ubx("gnss", UbxOptions(port=f"socket://127.0.0.1:{server.getsockname()[1]}"), print)
        driver.start()
        closing.callback(driver.stop)
        connection = closing.enter_context(server.accept()[0])
        connection.settimeout(10.0)
        wait_until(lambda: driver.state == "connected")
        got = b""
        with TestCaster(stream(ICY, *EPOCH)) as caster, running(caster, driver.write):
            while len(got) < len(b"".join(EPOCH)):
                got += connection.recv(4096)
    assert got == b"".join(EPOCH)


@pytest.mark.parametrize(
    ("response", "error"),
    [
        (b"HTTP/1.1 401 Unauthorized\r\n\r\n", "401 Unauthorized: user or password"),
        (b"HTTP/1.0 404 Not Found\r\n\r\n", "404 Not Found: mountpoint 'BASE'"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://elsewhere/\r\n\r\n", "302 Found"),
        (b"HTTP/1.1 503 Busy\r\n\r\n", "503 Busy"),
        (b"ERROR - Bad Password\r\n", "refused: 'ERROR - Bad Password'"),
        (b"SOURCETABLE 200 OK\r\nServer: x\r\n\r\nENDSOURCETABLE\r\n", "no mountpoint 'BASE'"),
        (b"HTTP/1.1 200 OK\r\nContent-Type: gnss/sourcetable\r\n\r\n", "no mountpoint 'BASE'"),
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html>Please log in</html>", "web page"),
        (b"<html>\n<body>hotel</body></html>", "expected a response of a caster, got '<html>'"),
        (b"\x16\x03\x01\0\0\n", "expected a response of a caster"),
        (b"a" * 20_000, "expected a response of a caster"),
        (b"HTTP/1.1 200 OK\r\n" + b"X-Header: y\r\n" * 2000, "8192 bytes without its end"),
        (CHUNKED + b"nonsense\r\n", "the size of a chunk was expected"),
        (CHUNKED + b"3\r\nabcd\r\n", "the size of a chunk was expected"),
        (CHUNKED + b"0" * 5000, "the size of a chunk was expected"),
        (CHUNKED + b"0\r\n\r\n", "ended by the caster"),
        (b"", "closed by the caster"),
    ],
)
def test_an_error_of_the_caster_is_reported_and_the_next_attempt_succeeds(response, error):
    got = []
    with (
        TestCaster(lambda visit: visit.send(response), stream(ICY, FRAME_1005)) as caster,
        running(caster, got.append) as corrections,
    ):
        wait_until(lambda: got)
        assert error in corrections.status()["last_error"]
        assert f"{caster.address}/BASE: " in corrections.status()["last_error"]
        assert corrections.status()["internal_errors"] == 0
    assert got == [FRAME_1005]


def test_a_stalled_connection_is_replaced(monkeypatch):
    got = []
    with (
        TestCaster(stream(ICY, FRAME_1005[:10]), stream(CHUNKED), stream(ICY, *EPOCH)) as caster,
        running(caster, got.append, max_age=1.0) as corrections,
    ):
        wait_until(lambda: corrections.status()["last_error"])
        assert corrections.status()["last_error"].endswith("/BASE: no RTCM 3 for 1 s")
        assert "no RTCM 3" in corrections.fault
        wait_until(lambda: len(got) == 4)
        assert corrections.fault is None
    assert got == list(EPOCH)


def test_a_connection_lost_in_mid_frame_loses_only_that_frame():
    """Bytes of the next connection do not complete the frame."""
    long = make_frame(1077, 300)

    def die(visit):
        visit.send(ICY + EPOCH[0] + long[:200])

    got = []
    with TestCaster(die, die, stream(ICY, *EPOCH)) as caster, running(caster, got.append) as corrections:
        wait_until(lambda: len(got) == 6)
        assert corrections.status()["connections"] == 3
    assert got == [EPOCH[0], EPOCH[0], *EPOCH]


def test_a_stream_that_is_not_rtcm_is_refused_early():
    """The decoder computes a checksum for each false preamble, which takes time."""
    with (
        TestCaster(stream(ICY, b"\xd3\x03\xff\x43\x50" * 10_000)) as caster,
        running(caster, print) as corrections,
    ):
        wait_until(lambda: corrections.status()["last_error"])
        assert corrections.status()["last_error"].endswith("is not RTCM 3")
        assert corrections.status()["checksum_errors"] < 3000


def test_the_client_keeps_trying_to_reach_an_absent_caster():
    with TestCaster(stream(ICY)) as caster:
        pass
    with running(caster, print) as corrections:
        wait_until(lambda: "refused" in (corrections.status()["last_error"] or ""))
        assert corrections.status()["state"] in ("disconnected", "connecting")


def test_an_invalid_host_name_causes_no_internal_error():
    corrections = Corrections("gnss", CorrectionOptions(caster=f"a..b{'c' * 70}.invalid", mountpoint="M"))
    corrections.start(print)
    wait_until(lambda: corrections.status()["last_error"])
    corrections.stop()
    assert corrections.status()["internal_errors"] == 0


def test_a_refused_request_is_not_repeated_at_once(monkeypatch):
    monkeypatch.setattr(module, "_REFUSED_NS", 60_000_000_000)
    with (
        TestCaster(lambda visit: visit.send(b"HTTP/1.1 401 No\r\n\r\n")) as caster,
        running(caster, print) as corrections,
    ):
        wait_until(lambda: corrections.status()["last_error"])
        time.sleep(0.3)
    assert len(caster.requests) == 1


# The password


def test_a_password_is_sent_but_never_shown(tmp_path, caplog, monkeypatch):
    caplog.set_level(logging.DEBUG)
    secret = "correct:horse ü"
    file = tmp_path / "password"
    file.write_text(secret + "\n")
    token = base64.b64encode(f"me:{secret}".encode())

    def repeat(visit):
        visit.send(b"HTTP/1.1 403 " + secret.encode() + b" " + token + b"\r\n\r\n")

    monkeypatch.setenv("CASTER_PASSWORD", secret)
    for given in ({"password_file": file}, {"password_variable": "CASTER_PASSWORD"}):
        with TestCaster(repeat) as caster, running(caster, print, user="me", **given) as corrections:
            wait_until(lambda: corrections.status()["last_error"])
        assert b"Authorization: Basic " + token + b"\r\n" in caster.requests[0]
        shown = f"{corrections.status()} {corrections._options} {caplog.text}"
        assert "403" in shown
        assert secret not in shown
        assert token.decode() not in shown
        assert repr(secret) not in repr(corrections._options.find_caster())


def test_the_client_waits_for_a_missing_password_file(tmp_path):
    got = []
    file = tmp_path / "password"
    with (
        TestCaster(stream(ICY, FRAME_1005)) as caster,
        running(caster, got.append, user="me", password_file=file) as corrections,
    ):
        wait_until(lambda: corrections.status()["last_error"])
        assert corrections.status()["last_error"] == f"password file {file}: No such file or directory"
        file.write_text("x")
        wait_until(lambda: got)


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("caster: me:hunter2@host:2101", "expected HOST or HOST:PORT"),
        ("caster: http://host/M", "expected HOST or HOST:PORT"),
        ("caster: host:99999", "expected HOST or HOST:PORT"),
        ('mountpoint: "A B"', "without spaces"),
        ('mountpoint: "A\\r\\nX: hunter2"', "without spaces"),
        ("user: me:hunter2", "without a colon"),
        ("password: hunter2", "password"),
        ("ca_file: ca.pem", "expected tls"),
    ],
)
def test_errors_in_options_do_not_show_a_password(line, error):
    given = {"caster": "caster: host", "mountpoint": "mountpoint: M"} | {line.partition(":")[0]: line}
    with pytest.raises(SettingsError) as raised:
        settings.loads("\n".join(given.values()), CorrectionOptions)
    assert error in str(raised.value)
    assert "hunter2" not in str(raised.value)


# TLS


@pytest.fixture(scope="module")
def authority():
    return pytest.importorskip("trustme").CA()


def server_context(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    return context


def test_tls_works_with_a_private_certificate_authority(receiver, authority, tmp_path):
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    with (
        TestCaster(
            stream(CHUNKED, b"19\r\n" + FRAME_1005 + b"\r\n"),
            tls=server_context(authority.issue_cert("127.0.0.1")),
        ) as caster,
        running(caster, receiver.driver.write, tls=True, ca_file=tmp_path / "ca.pem"),
    ):
        wait_until(lambda: len(receiver.read()) >= len(FRAME_1005))
    assert receiver.read() == FRAME_1005


@pytest.mark.parametrize(
    ("name", "own", "error"),
    [
        ("127.0.0.1", False, "certificate: "),
        ("elsewhere.example", True, "certificate: IP address mismatch"),
    ],
)
def test_no_request_is_sent_if_the_certificate_is_invalid(authority, tmp_path, name, own, error):
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    file = tmp_path / "password"
    file.write_text("secret")
    options = {"ca_file": tmp_path / "ca.pem"} if own else {}
    with (
        TestCaster(stream(ICY), tls=server_context(authority.issue_cert(name))) as caster,
        running(caster, print, tls=True, user="me", password_file=file, **options) as corrections,
    ):
        wait_until(lambda: corrections.status()["last_error"])
        assert error in corrections.status()["last_error"]
    assert caster.requests == []


def test_a_caster_without_tls_and_an_invalid_ca_file_are_errors(tmp_path):
    with (
        TestCaster(lambda visit: visit.send(ICY)) as caster,
        running(caster, print, tls=True) as corrections,
    ):
        wait_until(lambda: corrections.status()["last_error"])
    (tmp_path / "ca.pem").write_text("nothing")
    with (
        TestCaster(stream(ICY)) as caster,
        running(caster, print, tls=True, ca_file=tmp_path / "ca.pem") as corrections,
    ):
        wait_until(lambda: corrections.status()["last_error"])
        assert "ca.pem" in corrections.status()["last_error"]
        assert corrections.status()["internal_errors"] == 0
