"""An NTRIP caster for tests, and a client of it. One function handles each connection and may imitate any fault."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable
from typing import Self

import pytest
from pyrtcm.rtcmhelpers import crc2bytes

from drivers import corrections as module
from drivers.corrections import CorrectionOptions, Corrections

FRAME_1005 = bytes.fromhex("d300133ed7d30202980edeef34b4bd62ac0941986f33360b98")
"""The example message of the standard (RTCM 10403): station 2003."""
STATION_1005 = (1114104.5999, -4850729.7108, 3975521.4643)
"""Position of the antenna of station 2003, m, Earth-centred."""


def make_frame(number: int, length: int = 40, fill: int = 0xD3) -> bytes:
    """A frame with pyrtcm's checksum. Its payload is filled with preamble bytes, which start no frame."""
    payload = struct.pack(">H", number << 4) + bytes([fill]) * (length - 2)
    message = b"\xd3" + struct.pack(">H", length) + payload
    return message + crc2bytes(message)


EPOCH = (FRAME_1005, make_frame(1077, 200), make_frame(1087, 150), make_frame(1230, 8))


ICY = b"ICY 200 OK\r\n\r\n"
HTTP = b"HTTP/1.1 200 OK\r\nNtrip-Version: Ntrip/2.0\r\nContent-Type: gnss/data\r\n"
CHUNKED = HTTP + b"Transfer-Encoding: chunked\r\n\r\n"


class Visit:
    """One connection, as passed to its handler function."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.head = b""

    def read_request(self) -> bytes:
        while b"\r\n\r\n" not in self.head:
            data = self.connection.recv(4096)
            self.head += data
            if not self.head.startswith(b"GET "):  # perhaps a TLS handshake
                break
        return self.head

    def send(self, data: bytes) -> None:
        self.connection.sendall(data)

    def send_chunk(self, data: bytes) -> None:
        self.send(b"%x;ignored=1\r\n%s\r\n" % (len(data), data))

    def send_slowly(self, data: bytes, sizes: tuple[int, ...]) -> None:
        """Send the data in pieces, each as its own packet. The sequence of sizes repeats."""
        at = 0
        for i in range(len(data)):
            if at >= len(data):
                break
            self.send(data[at : at + sizes[i % len(sizes)]])
            at += sizes[i % len(sizes)]
            time.sleep(0.001)

    def wait(self, seconds: float = 20.0) -> bytes:
        """Read what the client sends until it disconnects or sends nothing for so many seconds."""
        self.connection.settimeout(seconds)
        got = b""
        with contextlib.suppress(OSError):
            while data := self.connection.recv(4096):
                got += data
        return got


class TestCaster:
    """Listens on a local port. The n-th function handles the n-th connection; the last one handles all later ones."""

    __test__ = False

    def __init__(self, *handlers: Callable[[Visit], None], tls: ssl.SSLContext | None = None) -> None:
        self._handlers, self._tls = handlers, tls
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self.requests: list[bytes] = []
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._acceptor = threading.Thread(target=self._accept, daemon=True)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._acceptor.start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in (self._acceptor, *self._threads):
            thread.join(5.0)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            handler = self._handlers[min(len(self._open), len(self._handlers) - 1)]
            self._open.append(connection)
            thread = threading.Thread(target=self._handle, args=(connection, handler), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _handle(self, connection: socket.socket, handler: Callable[[Visit], None]) -> None:
        with contextlib.suppress(OSError), contextlib.ExitStack() as closing:
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_side=True)
            closing.callback(connection.close)
            visit = Visit(connection)
            self.requests.append(visit.read_request())
            handler(visit)


def quicken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the client's waits from seconds or minutes to milliseconds."""
    monkeypatch.setattr(module, "_REFUSED_NS", 50_000_000)
    monkeypatch.setattr("vehicled.backoff._FIRST_WAIT_NS", 10_000_000)
    monkeypatch.setattr(module, "_SUMMARY_NS", 10_000_000)
    monkeypatch.setattr(module, "_WAIT_S", 0.05)


@contextlib.contextmanager
def running(caster, write, **options):
    options = {"mountpoint": "BASE", "max_age": 5.0, **options}
    corrections = Corrections("gnss", CorrectionOptions(caster=caster.address, **options))
    corrections.start(write)
    try:
        yield corrections
    finally:
        corrections.stop()


def stream(head, *frames, wait=20.0):
    def handle(visit):
        visit.send(head)
        for frame in frames:
            visit.send(frame)
        visit.wait(wait)

    return handle
