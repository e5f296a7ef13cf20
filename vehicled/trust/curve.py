"""CURVE keys of ZeroMQ, in files as `zmq.auth.create_certificates` writes them."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

import zmq
import zmq.utils.z85

from vehicled.errors import UsageError
from vehicled.trust.bounded_file import read_bounded

_EXPECTED = "a CURVE certificate file"
_LARGEST_FILE = 1 << 20
"""Bytes: a certificate has 500, and its metadata may be any."""
_KEY = re.compile(
    rb"""^[ \t]*(?P<name>public|secret)-key[ \t]*=[ \t]*["']?(?P<key>[^\r\n]*?)["']?[ \t]*\r?$""",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class ClientKeys:
    """What a client connects with."""

    server: bytes
    """The server's public key."""
    public: bytes
    secret: bytes

    @classmethod
    def read(cls, server: Path, own: Path | None) -> ClientKeys:
        """From the server's file `….key` and the client's `….key_secret`; without that, of a new pair.

        Raises UsageError.
        """
        key, _ = _load(server, f"--server-key {server}")
        if own is None:
            return cls(key, *zmq.curve_keypair())
        return cls(key, *read_pair(own, f"--client-key {own}"))

    def apply(self, socket: zmq.Socket[bytes]) -> None:
        """Set them before the socket is connected."""
        socket.curve_serverkey = self.server
        socket.curve_publickey, socket.curve_secretkey = self.public, self.secret


def is_key(key: str | bytes) -> bool:
    """Whether it is a key of 40 Z85 characters."""
    try:
        return len(key) == 40 and len(zmq.utils.z85.decode(key)) == 32
    except (ValueError, KeyError, OverflowError):
        return False


def read_pair(path: Path, name: str) -> tuple[bytes, bytes]:
    """(public, secret) key of a file that only its owner can read. Raises UsageError, which begins with `name`."""
    try:
        status = os.stat(path)
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}") from None
    # A credential from systemd belongs to root, and its group bits are the mask of an access list.
    if status.st_mode & stat.S_IRWXO or (status.st_mode & stat.S_IRWXG and status.st_gid != 0):
        raise UsageError(f"{name}: others can read it; expected mode 0600 (chmod 600 it)")
    public, secret = _load(path, name)
    if secret is None:
        raise UsageError(f"{name}: expected the certificate with the secret key (….key_secret)")
    if not is_key(secret):
        raise UsageError(f"{name}: expected two keys of 40 Z85 characters")
    return public, secret


def _load(path: Path, name: str) -> tuple[bytes, bytes | None]:
    try:
        data = read_bounded(path, _LARGEST_FILE, _EXPECTED)
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror or f'expected {_EXPECTED}'}") from None
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from None
    keys = {match["name"]: match["key"] for match in _KEY.finditer(data)}
    public, secret = keys.get(b"public"), keys.get(b"secret")
    if public is None:
        raise UsageError(f"{name}: expected {_EXPECTED}")
    if not is_key(public):
        raise UsageError(f"{name}: expected keys of 40 Z85 characters")
    return public, secret
