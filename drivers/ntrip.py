"""NTRIP: requests to a caster, its responses, the connection; versions 1 (ICY) and 2 (HTTP/1.1), also over TLS.

RTCM 10410.1 describes both. The response shows the version: casters of version 1 accept requests of version
2.
"""

from __future__ import annotations

import base64
import contextlib
import re
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from drivers.framing import xor_checksum
from vehicled.errors import RunError
from vehicled.reading.expectations import printable
from vehicled.version import __version__

DEFAULT_PORT = 2101
"""Registered for NTRIP."""

_CONNECT_WITHIN_S = 5.0
_WRITE_WITHIN_S = 0.5
_CHUNK = 4096
LONGEST_HEAD = 8192
_LONGEST_SIZE_LINE = 256
_CASTER = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9._-]+)(?::(\d{1,5}))?")
_HTTP = re.compile(r"HTTP/1\.[01] (\d{3})\b *(.*)")
_SIZE = re.compile(rb"[ \t]*([0-9A-Fa-f]{1,8})[ \t]*(;.*)?")


class NtripError(RunError):
    """A caster cannot be reached, ends the connection, or sends data that is not NTRIP."""


class ClosedError(NtripError):
    """A caster has closed the connection."""


class RefusedError(NtripError):
    """A caster refuses the request: another attempt soon would have the same result."""


@dataclass(frozen=True)
class Caster:
    """Where a caster is and how it is accessed."""

    host: str
    port: int = DEFAULT_PORT
    user: str = ""
    password: str = field(default="", repr=False)
    tls: bool = False
    ca_file: Path | None = None
    """Certificates of the authorities that may have signed the caster's; None: those of the system."""
    version: int = 2
    """Version of the protocol in requests."""

    def __str__(self) -> str:
        return f"{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    def make_request(self, mountpoint: str, position: bytes = b"") -> bytes:
        """The request for a stream, or with an empty name for the source table; `position`: a GGA sentence."""
        if self.version == 1:
            lines = [f"GET /{mountpoint} HTTP/1.0", f"User-Agent: NTRIP vehicled/{__version__}"]
        else:
            lines = [
                f"GET /{mountpoint} HTTP/1.1",
                f"Host: {self}",
                f"User-Agent: NTRIP vehicled/{__version__}",
                "Ntrip-Version: Ntrip/2.0",
                "Connection: close",
            ]
            if position:
                lines.append(f"Ntrip-GGA: {position.decode('ascii').rstrip()}")
        if self.user:
            lines.append(f"Authorization: Basic {self._token()}")
        return "\r\n".join([*lines, "", ""]).encode()

    def hide(self, text: str) -> str:
        """The caster's text with the password removed, in case the caster repeats it."""
        for secret in filter(None, (self.password, self.user and self._token())):
            text = text.replace(secret, "***")
        return text

    def _token(self) -> str:
        return base64.b64encode(f"{self.user}:{self.password}".encode()).decode("ascii")


def split_caster(text: str) -> tuple[str, int] | None:
    """Host and port of `HOST` or `HOST:PORT`, IPv6 addresses in brackets; None if it is neither."""
    parts = _CASTER.fullmatch(text)
    if parts is None or not 0 < int(parts[2] or DEFAULT_PORT) < 65536:
        return None
    return parts[1].strip("[]"), int(parts[2] or DEFAULT_PORT)


def is_mountpoint(text: str) -> bool:
    """Whether a name can stand in a request."""
    return re.fullmatch(r"[!-~]{1,100}", text) is not None


class Response:
    """Parser of a caster's response, fed with bytes as they come: first the head, then the body."""

    def __init__(self, mountpoint: str) -> None:
        """`mountpoint`: the stream requested; empty for the source table."""
        self._mountpoint = mountpoint
        self._buffer = bytearray()
        self._in_head = True
        self._chunked = False
        self._after_chunk = False
        self._left: int | None = None
        """Bytes of the body, or of its present chunk, still to come; None if the length is not given."""
        self.complete = False
        """Whether the body has ended."""

    @property
    def accepted(self) -> bool:
        """Whether the head is complete, and grants the request."""
        return not self._in_head

    def feed(self, data: bytes) -> bytes:
        """The part of the body in `data`. Raises NtripError if the response is invalid or a refusal."""
        self._buffer += data
        if self._in_head and not self._read_head():
            return b""
        return b"".join(self._read_chunks() if self._chunked else self._read_rest())

    # Head

    def _read_head(self) -> bool:
        """Whether the head is complete; it is then taken from the buffer."""
        begun = bytes(self._buffer[:LONGEST_HEAD])
        line, end, rest = begun.partition(b"\n")
        status = line.decode("utf-8", "replace").strip()
        if end and status.startswith(("ICY 200", "SOURCETABLE 200")):
            # Version 1: some casters end the head with this line, others with an empty one. Further lines are neither
            # frames nor rows of a table, and so are skipped there.
            blank = 2 if rest.startswith(b"\r\n") else 0
            self._begin_body(len(line) + 1 + blank, {}, "table" if status.startswith("S") else "stream")
            return True
        http = _HTTP.fullmatch(status)
        if end and http is None:
            what = "refused:" if status.startswith("ERROR") else "expected a response of a caster, got"
            raise RefusedError(f"{what} {printable(status, 60)!r}")
        found = re.search(rb"\n\r?\n", begun)
        if http is None or found is None:
            if len(begun) >= LONGEST_HEAD:
                raise RefusedError(
                    f"expected a response of a caster, got {LONGEST_HEAD} bytes without its end"
                )
            return False
        headers = {}
        for header in begun[: found.start()].decode("utf-8", "replace").splitlines()[1:]:
            name, _, value = header.partition(":")
            headers[name.strip().lower()] = value.strip()
        self._check_status(int(http[1]), printable(http[2], 60))
        self._begin_body(found.end(), headers, headers.get("content-type", ""))
        return True

    def _check_status(self, status: int, reason: str) -> None:
        if status == 200:
            return
        what = f"{status} {reason}".rstrip()
        match status:
            case 401 | 403:
                raise RefusedError(f"{what}: user or password")
            case 404:
                raise RefusedError(f"{what}: mountpoint {self._mountpoint!r}")
        raise (NtripError if status >= 500 else RefusedError)(what)

    def _begin_body(self, length: int, headers: dict[str, str], content: str) -> None:
        content = content.lower()
        if "html" in content:
            raise RefusedError("expected a response of a caster, got a web page")
        if self._mountpoint and "table" in content:
            raise RefusedError(f"no mountpoint {self._mountpoint!r}: the caster sends its source table")
        if not self._mountpoint and content == "stream":
            raise RefusedError("expected a source table, got a stream")
        del self._buffer[:length]
        self._in_head = False
        self._chunked = headers.get("transfer-encoding", "").lower() == "chunked"
        given = headers.get("content-length", "")
        if self._chunked:
            self._left = 0
        elif re.fullmatch(r"[0-9]{1,12}", given) and not self._mountpoint:
            self._left = int(given)

    # Body

    def _read_rest(self) -> Iterator[bytes]:
        yield self._take(len(self._buffer))
        self.complete = self._left == 0

    def _read_chunks(self) -> Iterator[bytes]:
        while self._buffer and not self.complete:
            if self._left:
                yield self._take(len(self._buffer))
                self._after_chunk = self._left == 0
                continue
            end = self._buffer.find(b"\n", 0, _LONGEST_SIZE_LINE)
            if end < 0:
                if len(self._buffer) >= _LONGEST_SIZE_LINE:
                    raise NtripError("the size of a chunk was expected")
                return
            line = bytes(self._buffer[:end]).rstrip(b"\r")
            del self._buffer[: end + 1]
            if self._after_chunk and not line:
                self._after_chunk = False
                continue
            size = _SIZE.fullmatch(line)
            if size is None or self._after_chunk:
                raise NtripError("the size of a chunk was expected")
            self._left = int(size[1], 16)
            self.complete = self._left == 0

    def _take(self, count: int) -> bytes:
        if self._left is not None:
            count = min(count, self._left)
            self._left -= count
        data = bytes(self._buffer[:count])
        del self._buffer[:count]
        return data


class Connection:
    """A caster's stream, or its source table."""

    def __init__(self, caster: Caster, mountpoint: str, position: bytes = b"") -> None:
        """Connect and send the request. Raises NtripError."""
        self._caster = caster
        self._where = f"{caster}/{mountpoint}"
        self._response = Response(mountpoint)
        with self._failures(), contextlib.ExitStack() as opened:
            self._socket = socket.create_connection((caster.host, caster.port), _CONNECT_WITHIN_S)
            opened.callback(lambda: self._socket.close())
            if caster.tls:
                self._socket = _encrypt(self._socket, caster)
            self._socket.sendall(caster.make_request(mountpoint, position))
            opened.pop_all()

    @property
    def accepted(self) -> bool:
        """Whether the caster has accepted the request."""
        return self._response.accepted

    @property
    def complete(self) -> bool:
        """Whether the caster has sent everything."""
        return self._response.complete

    def read(self, timeout: float) -> bytes:
        """What has come, or comes first within `timeout`, s; empty if nothing does. Raises NtripError."""
        with self._failures():
            self._socket.settimeout(timeout)
            try:
                data = self._socket.recv(_CHUNK)
            except TimeoutError:
                return b""
            if not data:
                raise ClosedError("closed by the caster")
            return self._response.feed(data)

    def write(self, sentence: bytes) -> None:
        """Send a GGA sentence, or drop it if the network accepts nothing for 0.5 s. Raises NtripError."""
        with self._failures():
            self._socket.settimeout(_WRITE_WITHIN_S)
            self._socket.sendall(sentence)

    def close(self) -> None:
        """Close it."""
        self._socket.close()

    @contextlib.contextmanager
    def _failures(self) -> Iterator[None]:
        """Every failure as one line with the place, and without the password."""
        try:
            yield
        except NtripError as error:
            raise type(error)(f"{self._where}: {self._caster.hide(str(error))}") from None
        except (OSError, UnicodeError) as error:  # Unicode: a name that cannot be one of a host
            invalid = getattr(error, "verify_message", "")  # of a certificate: another attempt gives the same
            kind = RefusedError if invalid else NtripError
            reason = f"certificate: {invalid}" if invalid else getattr(error, "strerror", None) or str(error)
            raise kind(f"{self._where}: {printable(reason)}") from None


def _encrypt(plain: socket.socket, caster: Caster) -> socket.socket:
    """Over TLS, the caster's certificate and name verified. Raises OSError."""
    try:
        context = ssl.create_default_context(cafile=caster.ca_file)
    except OSError as error:  # without a file name, unlike other files that cannot be read
        raise OSError(f"{caster.ca_file}: {error.strerror or error}") from None
    return context.wrap_socket(plain, server_hostname=caster.host)


def make_gga(latitude: float, longitude: float, height: float, quality: int, utc: datetime) -> bytes:
    """A position for a caster, as NMEA 0183 GGA.

    Degrees; height above the ellipsoid, m, with no geoid separation; quality as in GGA. The number of satellites and
    their dilution are those of a good fix, as casters refuse others and use neither.
    """

    def angle(value: float, digits: int, sides: str) -> str:
        ten_thousandths = round(abs(value) * 600_000)  # of a minute
        degrees, rest = divmod(ten_thousandths, 600_000)
        return f"{degrees:0{digits}d}{rest / 10_000:07.4f},{sides[value < 0]}"

    text = (
        f"GPGGA,{utc:%H%M%S}.00,{angle(latitude, 2, 'NS')},{angle(longitude, 3, 'EW')},"
        f"{quality},12,1.0,{height:.2f},M,0.0,M,,"
    )
    return f"${text}*{xor_checksum(text.encode()):02X}\r\n".encode()
