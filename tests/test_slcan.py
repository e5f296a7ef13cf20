"""The slcan protocol, at both ends, against python-can's own interface for it."""

import itertools
import os
import tty
from contextlib import contextmanager

import can
import pytest
from can.interfaces.slcan import slcanBus
from hypothesis import given, settings
from hypothesis import strategies as st

from drivers.can import CanOptions
from drivers.slcan import BITRATES, SlcanPort
from replay.emulator import Emulator
from replay.slcan_adapter import SlcanAdapter
from vehicled.errors import UsageError
from vehicled.messages import Measurement
from vehicled.reading.settings import loads


@st.composite
def frames(draw):
    extended, remote = draw(st.booleans()), draw(st.booleans())
    data = draw(st.binary(max_size=8))
    return can.Message(
        arbitration_id=draw(st.integers(0, 0x1FFFFFFF if extended else 0x7FF)),
        is_extended_id=extended,
        is_remote_frame=remote,
        dlc=len(data),
        data=None if remote else data,
    )


def content(frame):
    return frame.arbitration_id, frame.is_extended_id, frame.is_remote_frame, frame.dlc, bytes(frame.data)


@contextmanager
def line():
    """(adapter's end, path of the host's end) of a serial line."""
    ours, theirs = os.openpty()
    tty.setraw(theirs)
    os.set_blocking(ours, False)
    try:
        yield ours, os.ttyname(theirs)
    finally:
        os.close(ours)
        os.close(theirs)


def read(end):
    try:
        return os.read(end, 4096)
    except BlockingIOError:
        return b""


def open_port(channel, bitrate=None, counters=None):
    return SlcanPort(channel, bitrate, {} if counters is None else counters, lambda count: None)


@contextmanager
def port(bitrate=None):
    """(adapter's end, our reader of frames, its counters)."""
    counters = {"truncated": 0}
    with line() as (end, path):
        reader = open_port(path, bitrate, counters)
        try:
            yield end, reader, counters
        finally:
            reader.shutdown()


def take(reader, count=0):
    """The next `count` frames, and any that arrive shortly after them."""
    expected = list(itertools.islice(iter(lambda: reader.recv(5.0), None), count))
    return expected + list(iter(lambda: reader.recv(0.01), None))


def test_python_can_works_with_the_emulated_adapter(tmp_path):
    """All commands of python-can, and frames of every kind in both directions."""
    dbc = tmp_path / "one.dbc"
    dbc.write_text('BO_ 2566852868 M: 2 V\n SG_ S : 0|16@1+ (0.5,0) [0|30000] "Pa" V\n')
    signals = {"brake.pressure": {"message": "M", "signal": "S"}}
    text = f"dbc: {dbc}\nsignals: {signals}\ninterface: slcan\nchannel: {tmp_path}/can\n"
    with Emulator({"can": ("can", loads(text, CanOptions))}) as emulator:
        emulator.send(
            Measurement("x", 0, 0, {"brake.pressure": 1.0})
        )  # its channel is closed: not on the line
        bus = slcanBus(str(tmp_path / "can"), bitrate=500_000, sleep_after_open=0)
        try:
            assert bus.get_version(2.0) == (10, 13)
            assert bus.get_serial_number(2.0) == "VE01"
            sent = [
                can.Message(arbitration_id=0x7F, is_extended_id=False, data=b"\x00\xff"),
                can.Message(arbitration_id=0x1ABCDEF0, is_extended_id=True, data=bytes(range(8))),
                can.Message(arbitration_id=0x123, is_extended_id=False, is_remote_frame=True, dlc=3),
                can.Message(arbitration_id=0x0, is_extended_id=True, data=b""),
            ]
            for frame in sent:
                bus.send(frame)
            emulator.send(Measurement("x", 0, 0, {"brake.pressure": 4660.0}))
            while (got := bus.recv(2.0)) is None:
                pass
            assert content(got) == (0x18FF1104, True, False, 2, bytes.fromhex("6824"))
            assert [content(f) for f in emulator.received("can")] == [content(f) for f in sent]
        finally:
            bus.shutdown()
        assert emulator.report().counters["can"]["messages"] == 1


@settings(max_examples=30)
@given(sent=st.lists(frames(), max_size=20), stamped=st.booleans())
def test_both_readers_find_the_same_frames(sent, stamped):
    adapter = SlcanAdapter()
    assert adapter.feed(b"Z%d\rO\r" % stamped) == b"\r\r"
    data = b"".join(adapter.lines(sent, now_ms=59_999))
    assert len(data) == sum(
        (6, 11)[f.is_extended_id] + 2 * len(f.data) + 4 * stamped for f in sent
    )  # lengths by the manual
    with port() as (end, reader, counters), line() as (other_end, path):
        bus = slcanBus(path, sleep_after_open=0)
        os.write(end, data)
        os.write(other_end, data)
        ours = take(reader, len(sent))
        theirs = list(itertools.islice(iter(lambda: bus.recv(5.0), None), len(sent)))
        bus.shutdown()
    assert [content(f) for f in ours] == [content(f) for f in sent]
    assert [content(f) for f in theirs] == [content(f) for f in sent]
    assert counters == {"truncated": 0}


@pytest.mark.parametrize("bitrate", BITRATES)
def test_the_adapter_is_set_up_in_order(bitrate):
    with port(bitrate) as (end, *_):
        commands = read(end)
        adapter = SlcanAdapter()
        # The adapter rejects the command to close, as it is closed, and accepts the rest.
        assert adapter.feed(commands) == b"\r\a\r\r"
        assert adapter.mode == "normal"
    if bitrate != 800_000:  # python-can has 750,000 for the manual's S7
        assert slcanBus._BITRATES[bitrate].encode() in commands.split(b"\r")


def test_an_adapter_that_was_reset_is_opened_again(monkeypatch):
    monkeypatch.setattr("drivers.slcan._REOPEN_S", 0.0)
    with port(250_000) as (end, reader, _):
        read(end)
        assert reader.recv(0.01) is None
        adapter = SlcanAdapter()
        assert adapter.feed(read(end)) == b"\r\r"
        assert adapter.mode == "normal"


def test_the_adapter_is_closed_and_the_port_freed():
    with line() as (end, path):
        reader = open_port(path)
        with pytest.raises(OSError, match="another program uses it"):
            open_port(path)
        read(end)
        reader.shutdown()
        assert read(end) == b"C\r"
        open_port(path).shutdown()


def test_a_line_that_hangs_up_is_an_error():
    with line() as (end, path):
        reader = open_port(path)
        gone = os.open("/dev/null", os.O_RDWR)
        os.dup2(gone, end)
        os.close(gone)
        with pytest.raises(OSError, match=r"."):
            reader.recv(1.0)
        reader.shutdown()


@settings(max_examples=30)
@given(st.lists(st.one_of(st.binary(max_size=80), frames()), max_size=12))
def test_valid_frames_are_found_between_arbitrary_bytes(parts):
    """Line ends separate frames from other bytes."""
    adapter = SlcanAdapter()
    adapter.feed(b"O\r")
    good = [part for part in parts if isinstance(part, can.Message)]
    data = b"".join(
        b"\r" + p.replace(b"t", b"").replace(b"T", b"").replace(b"r", b"").replace(b"R", b"") + b"\r"
        if isinstance(p, bytes)
        else adapter.lines([p], 0)[0]
        for p in parts
    )
    with port() as (end, reader, counters):
        got = []
        for k in range(0, len(data), 100):
            os.write(end, data[k : k + 100])
            got += take(reader)
        got += take(reader, max(len(good) - len(got), 0))
    assert [content(f) for f in got] == [content(f) for f in good]
    assert counters["truncated"] <= len(data)


@pytest.mark.parametrize(
    "text", [b"t1231", b"t1231000", b"t12390", b"t123z", b"T1234567", b"T2000000000", b"t8001 0", b"x" * 30]
)
def test_an_invalid_frame_is_counted(text):
    with port() as (end, reader, counters):
        os.write(end, text + b"\rt1000\r")
        assert [f.arbitration_id for f in take(reader, 1)] == [0x100]
        assert counters == {"truncated": 1}


def test_a_line_without_end_is_bounded():
    with port() as (end, reader, counters):
        os.write(end, b"t" * 1000)
        assert take(reader) == []
        os.write(end, b"\rt1000\r")
        assert [f.arbitration_id for f in take(reader, 1)] == [0x100]
        assert counters["truncated"] >= 1


@given(st.lists(st.binary(max_size=90)))
def test_the_adapter_accepts_any_bytes_and_replies_to_each_line(parts):
    adapter = SlcanAdapter()
    replies = b"".join(adapter.feed(part) for part in parts)
    assert replies.count(b"\r") + replies.count(b"\a") >= b"".join(parts).count(b"\r")
    assert len(adapter.received) <= 1000


def test_only_an_open_adapter_sends_and_only_a_closed_one_is_configured():
    adapter, frame = SlcanAdapter(), can.Message(arbitration_id=1, is_extended_id=False, data=b"\x2a")
    assert adapter.lines([frame], 0) == []
    assert adapter.feed(b"t0010\r") == b"\a"
    assert adapter.feed(b"S6\rs031C\rM00000000\rO\r") == b"\r" * 4
    assert adapter.feed(b"S6\rs031C\rZ1\rO\r") == b"\a" * 4
    assert adapter.lines([frame], 0) == [b"t00112A\r"]
    assert adapter.feed(b"F\rC\rC\r") == b"F00\r\r\a"
    assert adapter.feed(b"L\rt0010\r") == b"\r\a"  # listen-only


def test_a_bit_rate_that_slcan_does_not_have_is_an_error(tmp_path):
    text = "dbc: x.dbc\nsignals: {}\ninterface: slcan\nbitrate: 123456\n"
    with pytest.raises(UsageError, match="bitrate: expected one of 10000, 20000"):
        loads(text, CanOptions)


@pytest.mark.parametrize("channel", ["/dev/nowhere", "/dev/null@fast", "/dev/null"])
def test_a_channel_that_cannot_be_opened_is_an_os_error(channel):
    with pytest.raises(OSError, match=r"."):
        open_port(channel)
