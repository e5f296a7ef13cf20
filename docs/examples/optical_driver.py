"""A driver for it, which sends lines such as `$VY,0.137*2A`: the example of docs/extending.md."""

from __future__ import annotations

import re
from collections.abc import Callable

from drivers.framing import FoundFrame, FrameDecoder, parse_line, xor_checksum
from drivers.serial_port import SerialDriver, SerialOptions, nanoseconds
from vehicled.messages import Measurement

_LINE = re.compile(rb"\$(VY,(-?\d+\.\d+))\*([0-9A-F]{2})\r?\n?")


class OpticalDecoder(FrameDecoder):
    """Bytes in, measurements out; no port, no thread, no clock."""

    LONGEST = 32

    def __init__(self, name: str, options: SerialOptions) -> None:
        super().__init__(name)
        self._latency_ns = nanoseconds(options.latency)

    def _parse(self, buffer: bytearray, start: int) -> tuple[FoundFrame, int]:
        sync = buffer.find(b"$", start)
        if sync != start:
            return FoundFrame.GARBAGE, (len(buffer) if sync < 0 else sync) - start
        found, length = parse_line(buffer, start, self.LONGEST)
        if found is FoundFrame.MESSAGE:
            line = _LINE.fullmatch(buffer, start, start + length)
            if line is None or int(line[3], 16) != xor_checksum(line[1]):
                return FoundFrame.DAMAGED, length
        return found, length

    def _decode(self, message: bytes, stamp_ns: int, arrival_ns: int, out: list[Measurement]) -> None:
        line = _LINE.fullmatch(message)
        assert line is not None
        values = {"velocity.y": float(line[2])}
        out.append(Measurement(self.name, stamp_ns - self._latency_ns, arrival_ns, values))


class OpticalDriver(SerialDriver):
    """The thread with the port comes from `SerialDriver`."""

    Options = SerialOptions

    def __init__(self, name: str, options: SerialOptions, emit: Callable[[Measurement], None]) -> None:
        super().__init__(name, options, emit, OpticalDecoder(name, options))
