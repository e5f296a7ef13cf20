"""The two ZeroMQ sockets for other programs: where they are bound, and who may use them."""

from __future__ import annotations

import contextlib
import errno
import os
import socket as sockets
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import zmq

from vehicled.errors import RunError, UsageError
from vehicled.reading.expectations import printable
from vehicled.trust.addresses import is_local
from vehicled.trust.curve import is_key, read_pair
from vehicled.units import Range

if TYPE_CHECKING:
    from zmq.auth.thread import ThreadAuthenticator


MAX_WAITING = 16
"""Requests of one client that may wait for their turn; its own system keeps further ones as long as it has
room."""
_BACKLOG = 100
"""Clients that may wait to be accepted."""
_HANDSHAKE_WITHIN_MS = 2000
"""A client whose handshake is not complete by then is disconnected."""


@dataclass(frozen=True, kw_only=True)
class PublishOptions:
    """Where results are published and commands taken, and who may connect.

    CURVE keys are those that `zmq.auth.create_certificates` writes. A client needs the server's public key,
    and with `allowed_clients` its own must be listed there.
    """

    endpoint: str = "tcp://127.0.0.1:5550"
    """ZeroMQ endpoint of the published results: `tcp://ADDRESS:PORT` or `ipc://PATH`."""
    command_endpoint: str | None = None
    """ZeroMQ endpoint of the command socket: `ipc://PATH`, which owner and group may use; with CURVE also TCP.

    Without: `commands` in the service's folder `/run/vehicled`, or in the user's, `$XDG_RUNTIME_DIR/vehicled`.
    """
    curve_secret_key_file: Path | None = None
    """The server's certificate file with its secret key; readable by nobody else. Encrypts both sockets."""
    allowed_clients: tuple[str, ...] = ()
    """Public keys (40 characters, Z85) of the clients that may connect; empty: all that have the server's."""
    insecure_public_bind: bool = False
    """Whether an address that others in the network can reach may be bound without CURVE keys."""
    high_water_mark: Annotated[int, Range(1, 1_000_000)] = 1000
    """Messages that wait for one slow subscriber before it loses some."""

    def check(self) -> Iterator[tuple[str, str]]:
        """(key, message) for every mistake; the settings loader turns them into errors with file and line."""
        for key in ("endpoint", "command_endpoint"):
            endpoint = getattr(self, key)
            if endpoint is None:
                continue
            fault = _endpoint_fault(endpoint)
            if fault:
                yield key, f"{fault}, got '{endpoint}'"
            elif not (is_local(endpoint) or self.curve_secret_key_file or self.insecure_public_bind):
                yield (
                    key,
                    f"'{endpoint}' can be reached from the network: expected a loopback address, "
                    "a curve_secret_key_file, or insecure_public_bind: true",
                )
            elif key == "command_endpoint" and not (
                endpoint.startswith("ipc:") or self.curve_secret_key_file
            ):
                yield (
                    key,
                    f"every user of this machine could send commands to '{endpoint}': expected 'ipc://PATH', "
                    "or a curve_secret_key_file",
                )
        for i, key in enumerate(self.allowed_clients):
            if not is_key(key):
                yield f"allowed_clients[{i}]", f"expected a public key of 40 Z85 characters, got '{key}'"
        if self.allowed_clients and self.curve_secret_key_file is None:
            yield "allowed_clients", "expected a curve_secret_key_file beside it: without, nobody is checked"


class Endpoints:
    """A ZeroMQ context whose sockets are bound and protected according to the options."""

    def __init__(self, options: PublishOptions) -> None:
        """Raises UsageError for what cannot be bound safely."""
        for key, message in options.check():
            raise UsageError(f"publish.{key}: {message}")
        self._options = options
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._authenticator: ThreadAuthenticator | None = None
        self._keys: tuple[bytes, bytes] | None = None
        self._files: list[tuple[str, tuple[int, int]]] = []
        """Sockets of this process: path, device and inode."""
        if options.curve_secret_key_file is not None:
            file = options.curve_secret_key_file
            self._keys = read_pair(file, f"publish.curve_secret_key_file: {file}")
        if options.allowed_clients:
            # Late, as it imports asyncio and ssl, which nothing else in the daemon needs.
            from zmq.auth.thread import ThreadAuthenticator

            self._authenticator = ThreadAuthenticator(self._context)
            self._authenticator.start()
            self._authenticator.configure_curve_callback("*", _AllowedClients(options.allowed_clients))

    def bind(self, kind: int, endpoint: str, max_message: int) -> zmq.Socket[bytes]:
        """Bind a socket of the ZeroMQ type `kind` that takes no message larger than `max_message` bytes.

        Raises UsageError; RunError if another program listens there, as that may end.
        """
        try:
            listener = _listen(endpoint)
        except (OSError, ValueError) as error:  # ValueError: no name of a host or file, Unicode's included
            reason = getattr(error, "strerror", None) or " ".join(str(error).split())
            is_taken = getattr(error, "errno", None) == errno.EADDRINUSE
            failure = RunError if is_taken else UsageError
            raise failure(f"{printable(endpoint)}: cannot be bound: {reason}") from None
        socket = self._context.socket(kind)
        socket.linger = 200
        socket.sndhwm = self._options.high_water_mark
        socket.rcvhwm = MAX_WAITING
        socket.setsockopt(zmq.MAXMSGSIZE, max_message)
        socket.setsockopt(zmq.HANDSHAKE_IVL, _HANDSHAKE_WITHIN_MS)
        if self._keys is not None:
            socket.curve_server = True
            socket.curve_publickey, socket.curve_secretkey = self._keys
        if endpoint.startswith("ipc:"):
            path = endpoint.removeprefix("ipc://")
            self._files.append((path, _identify(path)))
        socket.setsockopt(zmq.USE_FD, listener.detach())
        socket.bind(endpoint)
        return socket

    def close(self) -> None:
        """Wait for the last messages to be sent, and end; call after all sockets have been closed."""
        if self._authenticator is not None:
            self._authenticator.stop()
        self._context.term()
        for path, own in self._files:
            with contextlib.suppress(OSError):  # it has been removed
                if _identify(path) == own:  # not that of another daemon started since
                    os.unlink(path)


def _identify(path: str) -> tuple[int, int]:
    """Device and inode of a file. Raises OSError."""
    status = os.lstat(path)
    return status.st_dev, status.st_ino


def endpoint_of(socket: zmq.Socket[bytes]) -> str:
    """Endpoint that a socket is bound to."""
    return socket.getsockopt_string(zmq.LAST_ENDPOINT).rstrip("\0")


def _listen(endpoint: str) -> sockets.socket:
    """A socket that listens at an endpoint. Raises OSError.

    ZeroMQ itself would first list the network's interfaces, give an ipc socket the permissions of the
    process's umask, and take over its path even from a program that listens there.
    """
    transport, _, address = endpoint.partition("://")
    if transport == "ipc":
        listener = sockets.socket(sockets.AF_UNIX)
        place: Any = address
        _remove_left_behind(address)
    else:
        host, _, port = address.rpartition(":")
        host = "0.0.0.0" if host == "*" else host.strip("[]")
        number = 0 if port == "*" else int(port)
        family, kind, _, _, place = sockets.getaddrinfo(host, number, type=sockets.SOCK_STREAM)[0]
        listener = sockets.socket(family, kind)
        listener.setsockopt(sockets.SOL_SOCKET, sockets.SO_REUSEADDR, 1)
    try:
        listener.setblocking(False)
        listener.bind(place)
        if transport == "ipc":
            os.chmod(address, 0o660)  # nobody can connect yet
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def _remove_left_behind(path: str) -> None:
    """Remove the file of an ipc socket if no program listens there any more.

    Raises OSError if one does, or if the file is no socket: connections to such a file are refused as well.
    """
    if os.path.exists(path) and not stat.S_ISSOCK(os.stat(path).st_mode):
        raise OSError(errno.EEXIST, "there is a file that is no socket")
    with sockets.socket(sockets.AF_UNIX) as probe:
        probe.setblocking(False)  # do not wait for a program that hangs
        try:
            probe.connect(path)
        except FileNotFoundError:
            return
        except ConnectionRefusedError:
            os.unlink(path)
            return
    raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))


class _AllowedClients:
    """Decides which clients may connect; called by the authenticator for each client."""

    def __init__(self, keys: tuple[str, ...]) -> None:
        self._keys = {key.encode() for key in keys}

    def callback(self, domain: str, key: bytes) -> bool:
        return key in self._keys


def _endpoint_fault(endpoint: str) -> str | None:
    """Fault of an endpoint to bind; None if there is none."""
    expected = "expected 'tcp://ADDRESS:PORT' or 'ipc://PATH'"
    transport, _, address = endpoint.partition("://")
    if transport == "ipc":
        return None if address else expected
    host, _, port = address.rpartition(":")
    port_fits = port == "*" or (port.isdecimal() and int(port) < 65536)
    return None if transport == "tcp" and host and port_fits else expected
