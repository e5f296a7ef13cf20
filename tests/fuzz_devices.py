"""Targets of `tests/fuzz.py`: the decoders of devices.

Half of the damaged messages get a correct checksum: otherwise the checksum would reject nearly all damage.
"""

from __future__ import annotations

import contextlib
import math
import os
import pickle
import random
import re
import struct
import tty
from binascii import crc_hqx
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import can
from fuzz_frames import MS, Feed, Frame, Rng, Target, damage, in_pieces
from live_rig import IMU

from drivers.can import CanDecoder, CanOptions, load_dbc
from drivers.framing import FrameDecoder, xor_checksum
from drivers.nmea import NmeaDecoder, NmeaOptions
from drivers.receiver import ubx_checksum
from drivers.slcan import SlcanPort
from drivers.ubx import UbxDecoder, UbxOptions
from drivers.vectornav import VectorNavDecoder, VectorNavOptions
from drivers.xsens import XsensDecoder, XsensOptions
from drivers.xsens_packets import FLOAT64, FP1632
from replay.encoders import NmeaEncoder, VectorNavEncoder, XsensEncoder, vectornav_binary, xbus_message
from replay.ubx_encoder import UbxEncoder, ubx_message
from vehicled.daemon.configuration import load_daemon_configuration
from vehicled.messages import Measurement
from vehicled.reading.settings import config_path

_GNSS = {
    **{"gnss.lat": 47.376886, "gnss.lon": -8.541694, "gnss.alt": 412.5, "gnss.quality": 4.0},
    **{"gnss.h_acc": 0.014, "gnss.v_acc": 0.021, "gnss.speed": 12.5, "gnss.course": 3.0},
    **{"gnss.vn": -12.375, "gnss.ve": 1.764, "gnss.vd": 0.25, "gnss.s_acc": 0.05},
    **{"gnss.heading": 3.1, "gnss.heading_acc": 0.004},
}


DECODER_BYTES = 100_000
"""Limit of a decoder's pickled state, which may hold the longest incomplete message, received byte by byte."""


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
            yield from in_pieces(rng, data)


def _seal_nmea(data: bytes) -> bytes:
    def seal(found: re.Match[bytes]) -> bytes:
        return b"$%s*%02X\r\n" % (found[1], xor_checksum(found[1]))

    return re.sub(rb"\$([^$*\r\n]*)(?:\*[^\r\n$]*)?[\r\n]*", seal, data)


def _seal_ubx(data: bytes) -> bytes:
    """Correct the checksum of a UBX message at the beginning and keep the rest, or those of all NMEA sentences."""
    if not data.startswith(b"\xb5\x62"):
        return _seal_nmea(data)
    end = min(6 + int.from_bytes(data[4:6], "little"), len(data) - 2)
    return data[:end] + ubx_checksum(data[2:end]) + data[end + 2 :]


class _OtherUbxEncoder:
    """Messages that the emulated receiver does not send, with random content."""

    _LENGTHS = (
        (0x0112, 36),
        (0x0136, 64),
        (0x013C, 64),
        (0x013C, 40),
        (0x1002, 40),
        (0x0103, 16),
        (0x0121, 20),
    )

    def __init__(self) -> None:
        self._number = 0

    def encode(self, m: Measurement) -> bytes:
        self._number += 1
        kind, length = self._LENGTHS[self._number % len(self._LENGTHS)]
        itow = (m.t // MS % 604_800_000).to_bytes(4, "little")
        before = b"\x01\0\0\0" if kind == 0x013C else b""
        payload = before + itow + random.Random(self._number).randbytes(length - len(before) - 4)
        return ubx_message(kind, payload)


_GNSS_FIELDS, _INS_FIELDS = 0x06B2, 0x0013
"""VectorNav: Tow, Fix, PosLla, VelNed, PosU, VelU; InsStatus, PosLla, VelNed."""


class _OtherVectorNavEncoder:
    """A fix and the solution of the navigation filter, with random content."""

    def encode(self, m: Measurement) -> bytes:
        rng = random.Random(m.t)
        fix = struct.pack("<QB", rng.getrandbits(64), rng.choice((0, 2, 3, 8, 200)))
        place = struct.pack("<3d", rng.uniform(-91, 91), rng.uniform(-181, 181), rng.uniform(-1e3, 2e4))
        status = struct.pack("<H", rng.choice((1, 2, 3)))
        payload = struct.pack("<QQ", m.t, m.t + 10**18) + fix + place + rng.randbytes(28)
        return vectornav_binary(
            {0: 0x0003, 3: _GNSS_FIELDS, 4: 0x0002, 5: _INS_FIELDS},
            payload + rng.randbytes(12) + status + place + rng.randbytes(12),
        )


class _OtherXsensEncoder:
    """A fix and the solution of the navigation filter, with random content."""

    def encode(self, m: Measurement) -> bytes:
        rng = random.Random(m.t)
        pvt = bytearray(rng.randbytes(94))
        pvt[20] = rng.choice((0, 1, 2, 3, 5))
        utc = struct.pack(">IH6B", rng.getrandbits(30), 2026, rng.randrange(15), 3, 4, 5, 6, 7)
        packets = {0x1010: utc, 0x7010: pvt, 0xE020: b"\0\0\0\2", 0x5022: rng.randbytes(6)}
        packets |= {0x5043: struct.pack(">2d", rng.uniform(-91, 91), rng.uniform(-181, 181))}
        packets |= {rng.choice((0x2030, 0x2034, 0x2038)): rng.randbytes(12), 0xD014: rng.randbytes(12)}
        data = b"".join(i.to_bytes(2) + bytes((len(v),)) + v for i, v in packets.items())
        return xbus_message(0x36, data)


def _seal_xsens(data: bytes) -> bytes:
    return xbus_message(data[2] if len(data) > 2 else 0x36, data[4:-1])


def _seal_vectornav(data: bytes) -> bytes:
    if data.startswith(b"$"):
        return _seal_nmea(data)
    return data[:-2] + crc_hqx(data[1:-2], 0).to_bytes(2)


_DBC = config_path("prototype").parent / "prototype.dbc"


class CanTarget:
    """CAN messages. A frame holds identifier, kind and data."""

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
    """Lines of an SLCAN adapter on a pseudo-terminal."""

    name = "slcan"
    limit_ms = 20.0  # mostly spent in the kernel

    @contextlib.contextmanager
    def open(self) -> Iterator[Feed]:
        ours, theirs = os.openpty()
        tty.setraw(theirs)
        os.set_blocking(ours, False)
        counters = {"truncated": 0}
        port = SlcanPort(os.ttyname(theirs), None, counters, lambda count: None)

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
            yield from in_pieces(rng, data)


def make_devices() -> list[Target]:
    xsens = (XsensEncoder, lambda: XsensEncoder(FP1632), lambda: XsensEncoder(FLOAT64), _OtherXsensEncoder)
    return [
        SerialTarget(
            "nmea",
            lambda: NmeaDecoder("d", NmeaOptions(port="p")),
            (NmeaEncoder,),
            _GNSS,
            b"$*,\r\nGPA019.NE\x80",
            _seal_nmea,
        ),
        SerialTarget(
            "ubx",
            lambda: UbxDecoder("d", UbxOptions(port="p", imu=True)),
            (UbxEncoder, UbxEncoder, _OtherUbxEncoder, NmeaEncoder),
            _GNSS,
            b"\xb5\x62\x01\x07\x5c\x00\xd3\x13\x3e$GNGGA,*\r\n",
            _seal_ubx,
        ),
        SerialTarget(
            "xsens",
            lambda: XsensDecoder("d", XsensOptions(port="p")),
            xsens,
            IMU,
            b"\xfa\xff\x36\x00\x08\x10\x20\x40",
            _seal_xsens,
        ),
        SerialTarget(
            "vectornav",
            lambda: VectorNavDecoder("d", VectorNavOptions(port="p")),
            (VectorNavEncoder, lambda: VectorNavEncoder("ascii"), _OtherVectorNavEncoder),
            IMU,
            b"\xfa\x01\x7f\x08\x36$VN,*\r\n",
            _seal_vectornav,
        ),
        CanTarget(),
        SlcanTarget(),
    ]
