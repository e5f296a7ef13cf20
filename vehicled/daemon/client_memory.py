"""Limits the memory that clients occupy with messages that they begin but do not end.

ZeroMQ limits the size of a frame and the number of messages, but not the number of frames of a message, and
delivers none of them before the last has come. The kernel counts the bytes that a TCP connection has
received; those that are in no complete message are in memory. It does not count them for ipc, where only the
memory of the whole process can be checked.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import socket
import struct
import termios

_BYTES_RECEIVED = struct.Struct("128xQ")
"""Field of the kernel's `struct tcp_info`, since Linux 4.1."""
_INT = struct.Struct("i")
_FREE_BYTES = 65536
"""Bytes allowed per connection in addition to waiting messages: handshake and data in transit."""
_FREE_BYTES_PER_S = 100.0
"""Bytes per second allowed for heartbeats, which are no messages."""
_MOST_GROWTH = 64 << 20
"""Bytes by which the process may grow while there are clients: ten times what 64 connections may have
waiting."""
_SETTLED_NS = 100_000_000
"""Time after which ZeroMQ has freed the memory of connections that were cut off."""
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Received:
    """Counts the data of one connection, by its file descriptor, which ZeroMQ may have closed."""

    def __init__(self, descriptor: int, now_ns: int) -> None:
        self._descriptor = descriptor
        self._begun = now_ns
        self.in_messages = 0
        """Bytes of complete messages, with their framing."""

    def waiting(self) -> int:
        """Bytes that the kernel still holds; 0 for a connection that has ended."""
        size = bytearray(_INT.size)
        with contextlib.suppress(OSError):
            fcntl.ioctl(self._descriptor, termios.FIONREAD, size)
        return int(_INT.unpack(size)[0])

    def is_incomplete(self, most: int, now_ns: int) -> bool:
        """Whether incomplete messages have more than `most` bytes plus those allowed. Always False for ipc."""
        try:
            connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0, fileno=self._descriptor)
        except OSError:
            return False
        try:
            info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _BYTES_RECEIVED.size)
        except OSError:
            return False
        finally:
            connection.detach()
        if len(info) < _BYTES_RECEIVED.size:
            return False
        (received,) = _BYTES_RECEIVED.unpack(info)
        free = _FREE_BYTES + 1e-9 * (now_ns - self._begun) * _FREE_BYTES_PER_S
        return bool(received - self.waiting() - self.in_messages > most + free)


class MemoryGuard:
    """Finds whether clients have made the process grow too much, and which connections to cut off."""

    def __init__(self) -> None:
        self._usual = find_resident()
        self._trim_at: int | None = None

    @property
    def is_pending(self) -> bool:
        """Whether memory of connections that were cut off is still to be returned."""
        return self._trim_at is not None

    def find_guilty(self, clients: dict[int, Received], now_ns: int) -> list[int]:
        """Descriptors of the connections to cut off.

        First those that send faster than ZeroMQ reads; if that does not help, all: honest clients reconnect.
        """
        is_trimmed = self._trim_at is not None and now_ns >= self._trim_at
        if is_trimmed:
            self._trim_at = None
            return_free_memory()
        resident = find_resident()
        if resident < self._usual or not (clients or self._trim_at):
            self._usual = resident
        if resident - self._usual <= _MOST_GROWTH:
            return []
        if self._trim_at is None:
            self._trim_at = now_ns + _SETTLED_NS
        if is_trimmed:
            self._usual = resident  # what remains after cutting off all clients is not theirs
            return list(clients)
        return [descriptor for descriptor, client in clients.items() if client.waiting()]


def find_resident() -> int:
    """Resident memory of the process, bytes."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * _PAGE


def return_free_memory() -> None:
    """Have the C library return free memory to the system; libraries without this function are left alone."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
