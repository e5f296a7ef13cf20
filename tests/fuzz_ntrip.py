"""Targets of `tests/fuzz.py`: data from an NTRIP caster."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Iterator

from caster import EPOCH, make_frame
from fuzz_frames import MS, Feed, Frame, Rng, Target, damage, in_pieces
from pyrtcm.rtcmhelpers import calc_crc24q, crc2bytes

from drivers.ntrip import LONGEST_HEAD, NtripError, Response
from drivers.rtcm import RtcmDecoder, message_number, read_base
from drivers.source_table import parse_table

_FRAMES = (*EPOCH, make_frame(1006, 21), make_frame(4072, 1023), make_frame(1001, 2))
_ROW = (
    b"STR;NEAR;A Coru\xc3\xb1a;RTCM 3.3;1006(10);2;GPS;Example;ESP;43.37;351.60;0;0;base;none;B;N;9600;\r\n"
)


class RtcmTarget:
    """RTCM frames. Half of the damaged ones get a correct checksum."""

    name = "rtcm"
    limit_ms = 120.0
    """Allows for a burst of preamble bytes, each of which needs a checksum. The client leaves such casters."""

    @contextlib.contextmanager
    def open(self) -> Iterator[Feed]:
        decoder = RtcmDecoder()
        now = 0

        def feed(frame: Frame) -> bool:
            nonlocal now
            now += frame.gap_ns
            found = decoder.take(frame.data, now)
            c = decoder.counters
            assert decoder.waiting < decoder.LONGEST
            assert c["garbage_bytes"] + decoder.waiting <= c["bytes"]
            for whole in found:
                assert calc_crc24q(whole) == 0
                assert len(whole) == 6 + int.from_bytes(whole[1:3])
                assert 0 <= message_number(whole) < 4096
                base = read_base(whole)
                assert base is None or abs(base.latitude) <= 90.0
            return bool(found)

        yield feed
        assert len(pickle.dumps(decoder)) < 100_000, "the decoder grows"

    def frames(self, rng: Rng) -> Iterator[Frame]:
        before = b""
        while True:
            data = rng.choice(_FRAMES)
            kind = rng.random()
            if kind < 0.7:
                whole, data = data, damage(rng, data, before, b"\xd3\0\x13\x03\xff\x3e")
                before = whole
                if kind < 0.35 and 6 < len(data) <= 1029:
                    body = data[3:-3]
                    data = b"\xd3" + len(body).to_bytes(2) + body
                    data += crc2bytes(data)
            elif kind < 0.8:
                data = rng.randbytes(rng.randint(1, 300))
            yield from in_pieces(rng, data)


class ResponseTarget:
    """Headers, chunks and source tables. After a refused response, a new response starts."""

    name = "ntrip"
    limit_ms = 20.0
    _HEADS = (
        b"ICY 200 OK\r\n\r\n",
        b"SOURCETABLE 200 OK\r\nContent-Length: 300\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: gnss/data\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: gnss/sourcetable\r\nContent-Length: 300\r\n\r\n",
        b"HTTP/1.1 401 Unauthorized\r\nServer: x\r\n\r\n",
        b"ERROR - Bad Password\r\n",
        b"<html><body>" + b"x" * 9000,
    )

    @contextlib.contextmanager
    def open(self) -> Iterator[Feed]:
        response = Response("NEAR")
        count = 0

        def feed(frame: Frame) -> bool:
            nonlocal response, count
            body, message = b"", ""
            try:
                body = response.feed(frame.data)
            except NtripError as error:
                message = str(error)
                count += 1
                response = Response("" if count % 2 else "NEAR")
            assert len(message) < 300
            assert message.isprintable()
            if response.complete:
                response = Response("NEAR")
            assert len(body) <= len(frame.data) + LONGEST_HEAD
            assert len(pickle.dumps(response)) < 40_000, "the response grows"
            table = parse_table(body)
            for m in table.mountpoints:
                assert m.mountpoint.isprintable()
                assert m.latitude is None or abs(m.latitude) <= 90.0
                assert m.longitude is None or abs(m.longitude) <= 180.0
            return bool(body)

        yield feed

    def frames(self, rng: Rng) -> Iterator[Frame]:
        before = b""
        while True:
            data = rng.choice(self._HEADS)
            for _ in range(rng.randint(0, 5)):
                part = rng.choice((*_FRAMES, _ROW, b"ENDSOURCETABLE\r\n"))
                data += rng.choice((part, b"%x\r\n%s\r\n" % (len(part), part)))
            data += rng.choice((b"", b"0\r\n\r\n"))
            if rng.random() < 0.7:
                data, before = damage(rng, data, before, b"\r\n:;0aF HTTP/1.1 200ICY"), data
            yield from in_pieces(rng, data)
            if rng.random() < 0.3:  # long enough to end any chunk whose length was damaged
                yield Frame(MS, b"\r\n" * 10 + rng.randbytes(20_000))


def make_ntrip() -> list[Target]:
    return [RtcmTarget(), ResponseTarget()]
