"""What `tests/fuzz.py` feeds: everything that takes bytes from outside, with a source of bytes that are nearly right.

Half of the damaged messages get a checksum that holds: otherwise hardly any damage would get beyond the checksum.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import pickle
import random
import re
import struct
import tempfile
import tty
from binascii import crc_hqx
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from unittest import mock

import can
import zmq
from recording_rig import write_recording

from drivers.can import CanDecoder, CanOptions, load_dbc
from drivers.framing import FrameDecoder, xor_checksum
from drivers.nmea import NmeaDecoder, NmeaOptions
from drivers.slcan import SlcanPort
from drivers.vectornav import VectorNavDecoder, VectorNavOptions
from drivers.xsens import FLOAT64, FP1632, XsensDecoder, XsensOptions
from replay.encoders import NmeaEncoder, VectorNavEncoder, XsensEncoder, xbus_message
from replay.mcap_log import McapLog
from replay.mcap_recovery import recover
from vehicled.configuration import File, configure
from vehicled.daemon import commands
from vehicled.daemon.configuration import load_daemon_configuration
from vehicled.daemon.endpoints import Endpoints, PublishOptions
from vehicled.errors import VehicledError
from vehicled.messages import Measurement
from vehicled.settings import config_path, loads

MS = 1_000_000
Rng = random.Random


class Frame(NamedTuple):
    """Bytes that arrive together."""

    gap_ns: int
    """Since the ones before."""
    data: bytes


Feed = Callable[[Frame], bool]
"""Takes a frame; whether something in it was valid. What it raises is a failure."""


class Target(Protocol):
    name: str
    limit_ms: float
    """Processor time that a frame may take."""

    def open(self) -> contextlib.AbstractContextManager[Feed]:
        """As after a start of the program."""

    def frames(self, rng: Rng) -> Iterator[Frame]:
        """Without end."""


def damage(rng: Rng, data: bytes, before: bytes, syncs: bytes) -> bytes:
    """Bits flipped; bytes lost, doubled, inserted, overwritten; the end cut off; spliced with what came before."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        at = rng.randrange(len(out) + 1)
        end = min(at + rng.choice((1, 1, 2, 4, 40)), len(out))
        match rng.randrange(8):
            case 0 if at < len(out):
                out[at] ^= 1 << rng.randrange(8)
            case 1:
                del out[at:end]
            case 2:
                out[at:at] = out[at:end] * rng.choice((1, 1, 5))
            case 3:
                out[at:at] = rng.randbytes(rng.randint(1, 9))
            case 4:
                out[at:end] = rng.choice((b"\0", b"\xff", b"\x7f", b"\x80")) * (end - at)
            case 5:
                del out[at:]
            case 6:
                out[at:] = before[rng.randrange(len(before) + 1) :]
            case 7:
                out[at:end] = bytes(rng.choices(syncs, k=rng.randint(1, 6)))
    return bytes(out)


# Serial devices

_IMU = {"imu.ax": 0.5, "imu.ay": -1.25, "imu.az": 9.75, "imu.wx": 0.125, "imu.wy": -0.5, "imu.wz": 0.75}
_GNSS = {
    **{"gnss.lat": 47.376886, "gnss.lon": -8.541694, "gnss.alt": 412.5, "gnss.quality": 4.0},
    **{"gnss.h_acc": 0.014, "gnss.v_acc": 0.021, "gnss.speed": 12.5, "gnss.course": 3.0},
}


DECODER_BYTES = 100_000
"""Of a decoder's state, with the longest begun message, whose bytes have arrived one by one."""


class SerialTarget:
    limit_ms = 2.0

    def __init__(
        self,
        name: str,
        make_decoder: Callable[[], FrameDecoder],
        encoders: Sequence[Callable[[], Any]],
        values: dict[str, float],
        syncs: bytes,
        seal: Callable[[bytes], bytes],
    ) -> None:
        self.name = name
        self._make_decoder, self._encoders, self._values = make_decoder, encoders, values
        self._syncs, self._seal = syncs, seal

    @contextlib.contextmanager
    def open(self) -> Iterator[Feed]:
        decoder = self._make_decoder()
        now = 0

        def feed(frame: Frame) -> bool:
            nonlocal now
            now += frame.gap_ns
            found = decoder.feed(frame.data, now)
            c = decoder.counters
            assert decoder.waiting < decoder.LONGEST
            assert min(c.values()) >= 0
            assert c["garbage_bytes"] + decoder.waiting <= c["bytes"]
            for m in found:
                assert m.values
                assert all(map(math.isfinite, m.values.values())), m
                assert m.t <= m.arrival <= now, m
            return bool(found)

        yield feed
        assert len(pickle.dumps(decoder)) < DECODER_BYTES, "the decoder grows"

    def frames(self, rng: Rng) -> Iterator[Frame]:
        encoder = rng.choice(self._encoders)()
        before, t = b"", 0
        while True:
            t += rng.choice((1, 10, 10, 10, 100, 5000)) * MS
            values = {c: v * rng.choice((1.0, 1.0, 0.0, rng.random())) for c, v in self._values.items()}
            data = encoder.encode(Measurement("d", t, t, values))
            kind = rng.random()
            if kind < 0.7:
                whole, data = data, damage(rng, data, before, self._syncs)
                before = whole
                if kind < 0.35:
                    data = self._seal(data)
            elif kind < 0.75:
                data = rng.randbytes(rng.randint(1, 300))
            elif kind < 0.8:
                data = bytes(rng.choices(self._syncs, k=rng.randint(1, 300)))
            yield from _in_pieces(rng, data)


def _in_pieces(rng: Rng, data: bytes) -> Iterator[Frame]:
    kind = rng.random()
    if kind < 0.02:
        cuts = list(range(1, len(data)))
    else:
        cuts = sorted(rng.randrange(len(data) + 1) for _ in range(0 if kind < 0.6 else rng.randint(1, 3)))
    gap = rng.choice((1, 5, 10, 10, 10, 40, 300)) * MS if rng.random() < 0.999 else rng.randrange(10**14)
    for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        yield Frame(gap, data[begin:end])
        gap = rng.randrange(2 * MS)


def _seal_nmea(data: bytes) -> bytes:
    def seal(found: re.Match[bytes]) -> bytes:
        return b"$%s*%02X\r\n" % (found[1], xor_checksum(found[1]))

    return re.sub(rb"\$([^$*\r\n]*)(?:\*[^\r\n$]*)?[\r\n]*", seal, data)


def _seal_xsens(data: bytes) -> bytes:
    return xbus_message(data[2] if len(data) > 2 else 0x36, data[4:-1])


def _seal_vectornav(data: bytes) -> bytes:
    if data.startswith(b"$"):
        return _seal_nmea(data)
    return data[:-2] + crc_hqx(data[1:-2], 0).to_bytes(2)


# CAN

_DBC = config_path("prototype").parent / "prototype.dbc"


class CanTarget:
    """Frames as python-can has them: identifier and kind, then the data."""

    name = "can"
    limit_ms = 2.0

    def __init__(self) -> None:
        daemon = load_daemon_configuration("prototype").daemon
        self._options = daemon.devices["can"].options.to(CanOptions)
        self._messages = load_dbc(_DBC).messages

    @contextlib.contextmanager
    def open(self) -> Iterator[Feed]:
        decoder = CanDecoder("can", self._options)
        now = 0

        def feed(frame: Frame) -> bool:
            nonlocal now
            now += frame.gap_ns
            number, kind = struct.unpack_from(">IB", frame.data)
            message = can.Message(
                arbitration_id=number,
                is_extended_id=bool(kind & 1),
                is_remote_frame=bool(kind & 2),
                is_error_frame=bool(kind & 4),
                data=None if kind & 2 else frame.data[5:],
            )
            found = decoder.feed(message, now)
            assert all(math.isfinite(v) for m in found for v in m.values.values())
            return bool(found)

        yield feed

    def frames(self, rng: Rng) -> Iterator[Frame]:
        while True:
            known = rng.choice(self._messages)
            number, kind = known.frame_id, int(known.is_extended_frame)
            if rng.random() < 0.1:
                kind = rng.randrange(8)
                number = rng.getrandbits(29 if kind & 1 else 11)
            length = known.length if rng.random() < 0.9 else rng.randint(0, 64)
            yield Frame(rng.randrange(20 * MS), struct.pack(">IB", number, kind) + rng.randbytes(length))


class SlcanTarget:
    """Lines of an adapter, on a pseudo-terminal."""

    name = "slcan"
    limit_ms = 20.0  # most of it is the kernel's

    @contextlib.contextmanager
    def open(self) -> Iterator[Feed]:
        ours, theirs = os.openpty()
        tty.setraw(theirs)
        os.set_blocking(ours, False)
        counters = {"truncated": 0}
        port = SlcanPort(os.ttyname(theirs), None, counters)

        def feed(frame: Frame) -> bool:
            os.write(ours, frame.data)
            found = 0
            while (message := port.recv(0.0)) is not None:
                found += 1
                assert message.dlc <= 8
            with contextlib.suppress(BlockingIOError):
                os.read(ours, 4096)
            return found > 0

        try:
            yield feed
        finally:
            port.shutdown()
            os.close(ours)
            os.close(theirs)

    def frames(self, rng: Rng) -> Iterator[Frame]:
        syncs, before = b"tTrRzZ\r\a\n0F", b""
        while True:
            length = rng.randint(0, 8)
            data = b"t%03X%d%s\r" % (rng.getrandbits(11), length, rng.randbytes(length).hex().encode())
            if rng.random() < 0.5:
                data = b"T%08X%d%s\r" % (rng.getrandbits(29), length, rng.randbytes(length).hex().encode())
            if rng.random() < 0.7:
                data, before = damage(rng, data, before, syncs), data
            yield from _in_pieces(rng, data)


# Recordings

STEPS = 40


class McapTarget:
    """A recording with damage: read, recovered, read again."""

    name = "mcap"
    limit_ms = 2000.0

    @functools.cached_property
    def _whole(self) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            return write_recording(Path(folder) / "whole.mcap", STEPS)

    @contextlib.contextmanager
    def open(self) -> Iterator[Feed]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "damaged.mcap"

            def feed(frame: Frame) -> bool:
                path.write_bytes(frame.data)
                read = _read(path)
                with _one_line():
                    recover(path)
                assert _read(path) >= 0
                return read > 0

            yield feed

    def frames(self, rng: Rng) -> Iterator[Frame]:
        while True:
            yield Frame(0, damage(rng, self._whole, self._whole, b"\x89MCAP\x05\x06\x01\x0f"))


def _read(path: Path) -> int:
    with _one_line():
        log = McapLog(path)
        run, steps = log.read_run(), list(log.recorded_steps())
        return len(run.measurements) + len(steps)
    return 0


@contextlib.contextmanager
def _one_line() -> Iterator[None]:
    """An error that the user gets is no failure."""
    try:
        yield
    except VehicledError as error:
        if "\n" in str(error):
            raise AssertionError("more than a line") from error


# Commands

_REQUESTS: tuple[dict[str, Any], ...] = (
    {"command": "status"},
    {"command": "reset"},
    {"command": "set_position", "lat": 48.1, "lon": 11.5, "yaw": 0.1},
    {"command": "set_position", "x": 1.0, "y": -2.0},
    {"command": "reload_noise"},
)
_TOKENS = (
    *(b"null", b"true", b"1e999", b"-0", b"NaN", b'""', b"[]", b"{}", b"[" * 500, b"9" * 400),
    *(b'"\\ud800"', b'"\\u0000"', b"{", b"}", b",", b'"command":', b'"lat":', b'"x":'),
)


class CommandsTarget:
    """Requests through ZeroMQ to the server's thread."""

    name = "commands"
    limit_ms = 50.0

    @contextlib.contextmanager
    def open(self) -> Iterator[Feed]:
        with contextlib.ExitStack() as opened:
            for bound in ("_REQUESTS_PER_S", "_REQUESTS_AT_ONCE", "_CHANGES_PER_S", "_CHANGES_AT_ONCE"):
                opened.enter_context(mock.patch.object(commands, bound, 1e9))
            folder = opened.enter_context(tempfile.TemporaryDirectory())
            options = PublishOptions(command_endpoint=f"ipc://{folder}/commands")
            endpoints = Endpoints(options)
            opened.callback(endpoints.close)
            server = commands.CommandServer(endpoints, options, _execute, lambda: None, dict)
            server.start()
            opened.callback(server.close)
            context = opened.enter_context(zmq.Context())
            socket = opened.enter_context(context.socket(zmq.REQ))
            socket.linger = 0
            socket.connect(server.endpoint)

            def feed(frame: Frame) -> bool:
                socket.send(frame.data)
                assert socket.poll(5000), "no reply within 5 s"
                reply = json.loads(socket.recv())
                assert isinstance(reply["ok"], bool)
                assert reply["ok"] or "\n" not in reply["error"]
                return reply["ok"]

            yield feed

    def frames(self, rng: Rng) -> Iterator[Frame]:
        before = b"{}"
        while True:
            data = json.dumps(rng.choice(_REQUESTS)).encode()
            kind = rng.random()
            if kind < 0.4:
                at = rng.randrange(len(data))
                data = data[:at] + rng.choice(_TOKENS) + data[at + rng.choice((0, 1, 4)) :]
            elif kind < 0.8:
                data, before = damage(rng, data, before, b'{}[]",:\\0'), data
            yield Frame(0, data)


def _execute(name: str, arguments: dict[str, Any]) -> Future[dict[str, Any]]:
    del arguments
    done: Future[dict[str, Any]] = Future()
    done.set_result({"executed": name})
    return done


# Configurations

_WORDS = (
    *(
        "nan",
        ".inf",
        "1e999",
        "-1",
        "0",
        "~",
        "yes",
        "3 furlongs",
        "5 km/h",
        "''",
        "[]",
        "{}",
        "&a",
        "*a",
        "<<: *a",
    ),
    *(
        "!!python/object/apply:os.system [x]",
        "!!binary a",
        "? ",
        "- ",
        "|",
        ">",
        "%YAML 9",
        "---",
        "\t",
        "\x00",
        "\ufeff",
    ),
    *("[" * 300, "{a: " * 300, "&a [*a, *a]", "1_000", "0x1F", "2001-01-01", "é" * 50, "9" * 400),
)


class ConfigurationTarget:
    """A shipped configuration with words exchanged, and lines moved."""

    name = "configuration"
    limit_ms = 3000.0

    @functools.cached_property
    def _texts(self) -> list[str]:
        return [config_path(name).read_text(encoding="utf-8") for name in ("prototype", "hatchback")]

    @contextlib.contextmanager
    def open(self) -> Iterator[Feed]:
        def feed(frame: Frame) -> bool:
            text = frame.data.decode("utf-8", "surrogatepass")
            with _one_line():
                configure(loads(text, File), text)
                return True
            return False

        yield feed

    def frames(self, rng: Rng) -> Iterator[Frame]:
        while True:
            lines = rng.choice(self._texts).splitlines()
            for _ in range(rng.choice((1, 1, 2, 5))):
                at = rng.randrange(len(lines))
                words = lines[at].split(" ")
                match rng.randrange(6):
                    case 0 | 1 | 2:
                        words[rng.randrange(len(words))] = rng.choice(_WORDS)
                        lines[at] = " ".join(words)
                    case 3:
                        lines[at] = damage(rng, lines[at].encode(), b"a: 1", b": -{}[],'\"#&*!|>%@`").decode(
                            "utf-8", "replace"
                        )
                    case 4:
                        lines.insert(rng.randrange(len(lines) + 1), lines[at])
                    case 5:
                        lines[at] = rng.choice(lines)
            yield Frame(0, "\n".join(lines).encode("utf-8", "surrogatepass"))


def make_targets() -> dict[str, Target]:
    """All of them, by name."""
    xsens = (XsensEncoder, lambda: XsensEncoder(FP1632), lambda: XsensEncoder(FLOAT64))
    targets: list[Target] = [
        SerialTarget(
            "nmea",
            lambda: NmeaDecoder("d", NmeaOptions(port="p")),
            (NmeaEncoder,),
            _GNSS,
            b"$*,\r\nGPA019.NE\x80",
            _seal_nmea,
        ),
        SerialTarget(
            "xsens",
            lambda: XsensDecoder("d", XsensOptions(port="p")),
            xsens,
            _IMU,
            b"\xfa\xff\x36\x00\x08\x10\x20\x40",
            _seal_xsens,
        ),
        SerialTarget(
            "vectornav",
            lambda: VectorNavDecoder("d", VectorNavOptions(port="p")),
            (VectorNavEncoder, lambda: VectorNavEncoder("ascii")),
            _IMU,
            b"\xfa\x01\x7f\x08\x36$VN,*\r\n",
            _seal_vectornav,
        ),
        CanTarget(),
        SlcanTarget(),
        McapTarget(),
        CommandsTarget(),
        ConfigurationTarget(),
    ]
    return {target.name: target for target in targets}
