"""The adapter's end of the slcan protocol (`drivers.slcan`): commands in, acknowledgements out, frames as lines."""

import re
from collections import deque
from collections.abc import Callable
from typing import Literal

import can

_LONGEST_COMMAND = 64
_MOST_RECEIVED = 1000
_OK, _ERROR = b"\r", b"\a"
_VERSION, _SERIAL_NUMBER = b"V1013\r", b"NVE01\r"
_BIT_RATE = re.compile(rb"S[0-8]|s[0-9A-Fa-f]{4}")
_FILTER = re.compile(rb"[mM][0-9A-Fa-f]{8}")
_FRAME = re.compile(rb"(?:[tr]([0-7][0-9A-F]{2})|[TR]([01][0-9A-F]{7}))([0-8])((?:[0-9A-F]{2})*)", re.I)
_MINUTE_MS = 60_000


class SlcanAdapter:
    """State of one adapter after power-on; closed, without time stamps. No port, no clock."""

    def __init__(self) -> None:
        self.mode: Literal["closed", "normal", "listening"] = "closed"
        self.received: deque[can.Message] = deque(maxlen=_MOST_RECEIVED)
        """Latest frames that the host has sent on the bus."""
        self._stamps = False
        self._buffer = bytearray()

    def feed(self, data: bytes) -> bytes:
        """Replies to commands from the host: each command ends with CR."""
        *commands, rest = (self._buffer + data).split(b"\r")
        replies = b"".join(self._execute(bytes(command)) for command in commands)
        if len(rest) > _LONGEST_COMMAND:
            rest.clear()
            replies += _ERROR
        self._buffer = rest
        return replies

    def lines(self, frames: list[can.Message], now_ms: int) -> list[bytes]:
        """Lines that the adapter sends for frames on the bus, one each; none while its channel is closed.

        now_ms: any clock, ms, for time stamps, if the host has switched them on.
        """
        if self.mode == "closed":
            return []
        stamp = b"%04X" % (now_ms % _MINUTE_MS) if self._stamps else b""
        return [_line(frame) + stamp + b"\r" for frame in frames]

    def _execute(self, command: bytes) -> bytes:
        if command[:1] in (b"t", b"T", b"r", b"R"):
            return self._transmit(command)
        if _BIT_RATE.fullmatch(command) or _FILTER.fullmatch(command):
            return _OK if self.mode == "closed" else _ERROR
        simple: dict[bytes, Callable[[], bytes]] = {
            b"": lambda: _OK,
            b"O": lambda: self._open("normal"),
            b"L": lambda: self._open("listening"),
            b"C": self._close,
            b"V": lambda: _VERSION,
            b"N": lambda: _SERIAL_NUMBER,
            b"F": lambda: _ERROR if self.mode == "closed" else b"F00\r",
            b"Z0": lambda: self._set_stamps(False),
            b"Z1": lambda: self._set_stamps(True),
        }
        return simple.get(command, lambda: _ERROR)()

    def _open(self, mode: Literal["normal", "listening"]) -> bytes:
        if self.mode != "closed":
            return _ERROR
        self.mode = mode
        return _OK

    def _close(self) -> bytes:
        if self.mode == "closed":
            return _ERROR
        self.mode = "closed"
        return _OK

    def _set_stamps(self, on: bool) -> bytes:
        if self.mode != "closed":
            return _ERROR
        self._stamps = on
        return _OK

    def _transmit(self, command: bytes) -> bytes:
        found = _FRAME.fullmatch(command)
        if found is None or self.mode != "normal":
            return _ERROR
        standard, extended, length, digits = found.groups()
        remote = command[:1] in (b"r", b"R")
        if len(digits) != (0 if remote else 2 * int(length)):
            return _ERROR
        self.received.append(
            can.Message(
                arbitration_id=int(extended if standard is None else standard, 16),
                is_extended_id=standard is None,
                is_remote_frame=remote,
                dlc=int(length),
                data=None if remote else bytes.fromhex(digits.decode("ascii")),
            )
        )
        return b"Z\r" if standard is None else b"z\r"


def _line(frame: can.Message) -> bytes:
    kind, number = "R" if frame.is_remote_frame else "T", frame.arbitration_id
    head = f"{kind}{number:08X}" if frame.is_extended_id else f"{kind.lower()}{number:03X}"
    data = "" if frame.is_remote_frame else frame.data.hex().upper()
    return f"{head}{frame.dlc}{data}".encode("ascii")
