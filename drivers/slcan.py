"""CAN adapters on serial ports with the ASCII protocol of LAWICEL, known as slcan.

Protocol: CANUSB manual, LAWICEL AB. A command or frame is a line of ASCII that ends with CR: `Sn` sets the bit rate,
`O` opens the channel, `C` closes it; `tiiiln…` is a data frame with a standard identifier (three hexadecimal digits,
length, data), `T` one with an extended identifier (eight digits), `r` and `R` are remote frames. Where the adapter
is set to it, four more digits follow with its time in ms, which is coarser than the time of arrival and not used. The
adapter acknowledges a command with CR, or with BEL if it rejects it.

python-can has this interface too, but reads each byte by a system call of its own and waits 2 s at each opening.
"""

import contextlib
import re
import time
from binascii import unhexlify
from collections import deque
from collections.abc import Callable

import can

from drivers.limited_port import LimitedPort
from drivers.ports import check_baud, check_port

BITRATES = {
    10_000: "S0",
    20_000: "S1",
    50_000: "S2",
    100_000: "S3",
    125_000: "S4",
    250_000: "S5",
    500_000: "S6",
    800_000: "S7",
    1_000_000: "S8",
}
"""Bits per second to the command that sets them."""

_BAUD = 115200
_REOPEN_S = 1.0
"""While nothing comes, the channel is opened this often, s: an adapter that was reset has its channel closed,
and many are reset when their port is opened."""
_BYTES_PER_S = 250_000.0
"""Limit of the rate of reading, bytes/s. A bus of 1 Mbit/s that is never idle gives at most 240 kB/s: a frame
of 131 bits with an extended identifier becomes 31 characters, including its time."""
_LONGEST_LINE = 64
_FRAME = re.compile(
    rb"(?:[tr]([0-9A-Fa-f]{3})|[TR]([01][0-9A-Fa-f]{7}))([0-8])((?:[0-9A-Fa-f]{2})*)", re.ASCII
)
_STAMP_DIGITS = 4
_ACKNOWLEDGED = frozenset((b"", b"z", b"Z"))
"""Lines that acknowledge commands and sent frames."""


def check_channel(channel: str) -> str | None:
    """What is wrong with a channel (see `SlcanPort`), in words; None if nothing is."""
    port, _, baud = channel.partition("@")
    if port.startswith("udp://") or (baud and not baud.isdecimal()):
        return f"expected a path, a path with @BAUD or socket://HOST:PORT with slcan, got {channel!r}"
    return check_port(port) or check_baud(port, int(baud or _BAUD))


class SlcanPort:
    """Frames from an adapter, with the methods of a bus of python-can that a driver needs.

    Lines that are no frames and no acknowledgements are counted as `truncated`. While nothing comes, the channel is
    opened again every second.
    """

    def __init__(
        self,
        channel: str,
        bitrate: int | None,
        counters: dict[str, int],
        discarded: Callable[[int], None],
    ) -> None:
        """Open the port and the adapter's channel. Raises OSError.

        channel: path of the port, `/dev/ttyACM0`; with `@115200` behind it also its baud rate; or
        `socket://HOST:PORT`. bitrate: of the bus, bits per second, one of `BITRATES`; None leaves the adapter's own.
        discarded: gets the number of bytes that an adapter sends beyond what any bus gives, which are not read as
        frames.
        """
        path, _, baud = channel.partition("@")
        if baud and not baud.isdecimal():
            raise OSError(f"{channel}: expected PATH@BAUD, got the baud rate {baud!r}")
        self._discarded = discarded
        self._line = LimitedPort(path, int(baud or _BAUD), _BYTES_PER_S, self._discard)
        self._setup = [] if bitrate is None else [BITRATES[bitrate]]
        self._counters = counters
        self._buffer = b""
        self._frames: deque[can.Message] = deque()
        self._received = time.monotonic()
        try:
            # An empty line ends a command that the adapter may have received in part.
            self._command("", "C", *self._setup, "O")
        except OSError:
            self._line.close()
            raise

    def recv(self, timeout: float) -> can.Message | None:
        """The next frame, stamped with the time of day (s) at which it was read; None without one in `timeout`, s."""
        if not self._frames:
            data = self._line.read(timeout)
            now = time.monotonic()
            if data:
                self._received = now
                self._buffer += data
                self._cut(time.time())
            elif now - self._received > _REOPEN_S:
                self._received = now
                self._command(*self._setup, "O")
        return self._frames.popleft() if self._frames else None

    def shutdown(self) -> None:
        """Close the adapter's channel, where it is still there, and the port."""
        try:
            with contextlib.suppress(OSError):
                self._command("C")
        finally:
            self._line.close()

    def _command(self, *commands: str) -> None:
        self._line.write("".join(f"{command}\r" for command in commands).encode("ascii"))

    def _discard(self, count: int) -> None:
        # The next bytes may begin within a line, which then does not look like a frame.
        self._buffer = b""
        self._discarded(count)

    def _cut(self, stamp: float) -> None:
        *lines, rest = self._buffer.replace(b"\a", b"\r").split(b"\r")
        for line in lines:
            if line in _ACKNOWLEDGED:
                continue
            frame = parse_frame(line, stamp)
            if frame is not None:
                self._frames.append(frame)
            else:
                self._counters["truncated"] += 1
        if len(rest) > _LONGEST_LINE:
            self._counters["truncated"] += 1
            rest = b""
        self._buffer = rest


def parse_frame(line: bytes, stamp: float) -> can.Message | None:
    """The frame of a line without its CR, stamped with a time of day, s; None if the line is none."""
    found = _FRAME.fullmatch(line)
    if found is None:
        return None
    standard, extended, length, digits = found.groups()
    remote = line.startswith((b"r", b"R"))
    wanted = 0 if remote else 2 * int(length)
    if len(digits) - wanted not in (0, _STAMP_DIGITS):
        return None
    return can.Message(
        timestamp=stamp,
        arbitration_id=int(extended if standard is None else standard, 16),
        is_extended_id=standard is None,
        is_remote_frame=remote,
        dlc=int(length),
        data=None if remote else unhexlify(digits[:wanted]),
    )
