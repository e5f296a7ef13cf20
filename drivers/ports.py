"""Where a device is: a serial port, a TCP server or a UDP port of this machine, each as a stream of bytes.

- A path such as `/dev/vehicled-imu`: a serial port with 8 data bits, no parity, 1 stop bit.
- `socket://HOST:PORT`: a TCP server, such as a receiver, or ser2net before a serial port; as pyserial names it.
- `udp://[ADDRESS]:PORT`: datagrams that a device sends to this port of this machine. ADDRESS is one of this machine,
  or a multicast group; without it, any of this machine.

pyserial's own `socket://` reads one byte per system call, waits 5 s for a connection and notices no device that has
lost its power.
"""

import contextlib
import errno
import ipaddress
import os
import select
import socket
import struct
import termios
import time
from collections.abc import Iterable, Iterator
from typing import Any, Protocol
from urllib.parse import SplitResult, urlsplit

import serial

TCP, UDP = "socket", "udp"
EXPECTED = "a path, socket://HOST:PORT or udp://[ADDRESS]:PORT"

_CONNECT_S = 2.0
_WRITE_S = 0.5
_CHUNK = 4096
"""Bytes that are read at once."""
_FURTHER_RATES = 128_000, 250_000, 256_000
"""Baud rates that Linux has no constant for but accepts, and that some devices have: 128000 of VectorNav, for
example."""
_LONGEST_DATAGRAM = 65536
_MOST_DATAGRAMS = 64
"""Largest number of datagrams in one read, as datagrams may be empty."""
_LOST_S = 5.0
"""Silence after which a sender of datagrams is lost, s: there is no connection whose end would show it."""
_PROBE = ((socket.TCP_KEEPIDLE, 2), (socket.TCP_KEEPINTVL, 1), (socket.TCP_KEEPCNT, 3))
"""TCP keep-alive: a device that does not respond for 5 s is lost. Without power or cable it cannot end the
connection."""


class Port(Protocol):
    """A stream of bytes from a device, and to it."""

    datagrams: int
    """Number of datagrams that the last `read` returned; 0 for ports without datagrams."""

    def read(self, wait_s: float) -> bytes:
        """What has come, up to 4 KiB or one datagram more; empty if nothing comes within `wait_s`.

        Raises OSError if the device is gone.
        """

    def write(self, data: bytes) -> None:
        """Send to the device. Raises OSError, also if it takes nothing for half a second."""

    def close(self) -> None:
        """Close it. Raises OSError if the device is gone."""


def find_shared(ports: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield (device, fault) for each device with the port of an earlier one; `ports`: names with their ports.

    Several names in /dev may be links to one device.
    """
    taken: dict[str, str] = {}
    for name, port in ports:
        other = taken.setdefault(os.path.realpath(port), name)
        if other != name:
            yield name, f"{port} is also the port of {other!r}"


def check_port(port: str) -> str | None:
    """What is wrong with a port's name, in words; None if nothing is."""
    if not port:
        return f"expected {EXPECTED}, got {port!r}"
    try:
        url = _split(port)
        if url is None:
            return None
        number = url.port
        if url.scheme == UDP and url.hostname:
            ipaddress.ip_address(url.hostname)
    except ValueError as error:
        return f"{error}; expected {EXPECTED}, got {port!r}"
    extra = url.path or url.query or url.fragment or url.username is not None
    if url.scheme not in (TCP, UDP) or not number or (url.scheme == TCP and not url.hostname) or extra:
        return f"expected {EXPECTED}, got {port!r}"
    return None


def find_place_fault(port: str) -> str | None:
    """What a path names instead of a port, in words; None for ports, addresses and missing paths."""
    if is_network(port) or not (os.path.isdir(port) or os.path.isfile(port)):
        return None
    return f"expected a serial port, but {port} is a {'folder' if os.path.isdir(port) else 'file'}"


def check_baud(port: str, baud: int) -> str | None:
    """What is wrong with the baud rate of a port, in words; None if nothing is, and for network addresses."""
    rates = sorted([*serial.Serial.BAUDRATES, *_FURTHER_RATES])
    if is_network(port) or baud in rates:
        return None
    usual = ", ".join(str(rate) for rate in rates if rate >= 4800)
    return f"expected a rate of serial ports ({usual}), got {baud}"


def open_port(port: str, baud: int) -> Port:
    """Open a port. Raises OSError, also for a name or a baud rate that is not possible."""
    if wrong := check_port(port):
        raise OSError(wrong)
    url = _split(port)
    if url is None:
        return _Serial(port, baud)
    assert url.port is not None  # see `check_port`
    if url.scheme == TCP:
        return _Tcp(url.hostname or "", url.port)
    return _Udp(url.hostname or "", url.port)


def is_network(port: str) -> bool:
    """Whether a port is not one of this machine's serial ports."""
    return "://" in port


def _split(port: str) -> SplitResult | None:
    """The parts of a URL; None for a path. Raises ValueError."""
    return urlsplit(port) if is_network(port) else None


class _Serial:
    datagrams = 0

    def __init__(self, path: str, baud: int) -> None:
        # The path is looked up afresh each time, so a device that comes back under its stable name is found.
        try:
            self._port = serial.Serial(path, baud, timeout=0, write_timeout=_WRITE_S, exclusive=True)
        except serial.SerialException as error:  # its own text repeats port and reason
            if error.errno is None:
                code = getattr(error.__context__, "args", (None,))[0]
                why = "expected a serial port" if code == errno.ENOTTY else str(error)
                raise OSError(f"{path}: {why}") from None
            is_used = error.errno == errno.EAGAIN  # its lock
            why = "another program uses it" if is_used else os.strerror(error.errno)
            raise OSError(f"{path}: {why}") from None
        except (
            ValueError,
            OverflowError,
            termios.error,
        ) as error:  # an impossible baud rate; a port just lost
            raise OSError(f"{path}: {error}") from None
        with contextlib.suppress(OSError, ValueError, NotImplementedError):  # not every port can
            self._port.set_low_latency_mode(True)  # USB adapters otherwise hold bytes back for 16 ms

    def read(self, wait_s: float) -> bytes:
        return _read(self._port.fileno(), wait_s, f"{self._port.port}: hung up")

    def write(self, data: bytes) -> None:
        self._port.write(data)

    def close(self) -> None:
        self._port.close()


class _Tcp:
    datagrams = 0

    def __init__(self, host: str, number: int) -> None:
        self._peer = f"{host}:{number}"
        try:
            self._socket = socket.create_connection((host, number), timeout=_CONNECT_S)
        except (OSError, UnicodeError) as error:  # Unicode: a name that cannot be one of a host
            raise OSError(f"{self._peer}: {getattr(error, 'strerror', None) or error}") from error
        self._socket.settimeout(_WRITE_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _PROBE:
            self._socket.setsockopt(socket.IPPROTO_TCP, option, value)

    def read(self, wait_s: float) -> bytes:
        return _read(self._socket.fileno(), wait_s, f"{self._peer}: the device has closed the connection")

    def write(self, data: bytes) -> None:
        self._socket.sendall(data)

    def close(self) -> None:
        self._socket.close()


class _Udp:
    """Datagrams of one sender: those of two senders mixed would not be a stream of messages.

    The first one that sends is the device, and the kernel leaves out all others, at no cost to this process.
    A device of which nothing comes for 5 s is lost; opened again, the port takes the next sender.
    """

    def __init__(self, address: str, number: int) -> None:
        self._name = f"UDP port {number}" + (f" of {address}" if address else "")
        self.datagrams = 0
        self._sender: Any = None
        self._received = 0.0
        ip = ipaddress.ip_address(address) if address else None
        family = socket.AF_INET6 if ip is not None and ip.version == 6 else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_DGRAM)
        try:
            self._socket.settimeout(_WRITE_S)
            if ip is not None and ip.is_multicast:
                self._socket.setsockopt(
                    socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
                )  # other programs may take part
            self._socket.bind((address, number))
            if ip is not None and ip.is_multicast:
                _join(self._socket, ip)
        except OSError as error:
            self._socket.close()
            raise OSError(f"{self._name}: {error.strerror or error}") from error

    def read(self, wait_s: float) -> bytes:
        data, wait, count = bytearray(), wait_s, 0
        while len(data) < _CHUNK and count < _MOST_DATAGRAMS and _is_ready(self._socket.fileno(), wait):
            wait = 0.0
            count += 1
            datagram, sender = self._socket.recvfrom(_LONGEST_DATAGRAM)
            if self._sender is None:
                self._sender = sender
                self._socket.connect(sender)
            if sender != self._sender:  # it came before the socket was connected
                continue
            self._received = time.monotonic()
            data += datagram
        self.datagrams = count
        if not data and self._sender is not None and time.monotonic() - self._received > _LOST_S:
            raise OSError(f"{self._name}: nothing from {self._sender[0]} for {_LOST_S:g} s")
        return bytes(data)

    def write(self, data: bytes) -> None:
        if self._sender is None:
            raise OSError(f"{self._name}: no device has sent anything yet")
        self._socket.send(data)

    def close(self) -> None:
        self._socket.close()


def _read(descriptor: int, wait_s: float, at_end: str) -> bytes:
    """What comes first within `wait_s`, up to `_CHUNK`. OSError with the text `at_end` if there will be no more."""
    if not _is_ready(descriptor, wait_s):
        return b""
    data = os.read(descriptor, _CHUNK)
    if not data:
        raise OSError(at_end)
    return data


def _is_ready(descriptor: int, wait_s: float) -> bool:
    return bool(select.select([descriptor], [], [], wait_s)[0])


def _join(udp: socket.socket, group: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    if group.version == 4:
        member = group.packed + socket.inet_aton("0.0.0.0")
        udp.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)
    else:
        udp.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, group.packed + struct.pack("@I", 0))
