"""`open_log` for every kind of log; raw logs are decoded by the live drivers."""

from dataclasses import replace
from functools import reduce
from itertools import pairwise
from operator import xor
from pathlib import Path

import can
import cantools
import pytest

from drivers.can import CanOptions, CanSignal
from drivers.nmea import NmeaOptions
from drivers.ubx import UbxOptions
from replay.can_log import CanLog
from replay.csv_log import CsvLog
from replay.encoders import nmea_sentence
from replay.log import create_log, open_log, read_steps
from replay.mcap_log import McapLog
from replay.nmea_log import NmeaLog
from replay.ubx_encoder import UbxEncoder
from replay.ubx_log import UbxLog
from vehicled.daemon.recorder import Recorder
from vehicled.errors import UsageError
from vehicled.messages import Measurement

DBC = """VERSION ""
BU_: Car
BO_ 291 Speed: 4 Car
 SG_ Speed : 0|32@1+ (0.01,0) [0|1000] "km/h" Vector__XXX
"""
EPOCH = 1_700_000_000


@pytest.fixture
def car(tmp_path: Path) -> dict[str, CanOptions]:
    dbc = tmp_path / "car.dbc"
    dbc.write_text(DBC)
    return {"car": CanOptions(dbc=dbc, signals={"vehicle.speed": CanSignal(message="Speed", signal="Speed")})}


def write_can(path: Path, options: CanOptions, count: int = 50) -> None:
    message = cantools.database.load_file(options.dbc).get_message_by_name("Speed")
    with can.Logger(path) as log:
        for i in range(count):
            data = message.encode({"Speed": i % 2000 * 0.36})
            stamp = EPOCH + i * 0.01
            log.on_message_received(
                can.Message(timestamp=stamp, arbitration_id=291, data=data, is_extended_id=False, channel=0)
            )


@pytest.mark.parametrize("kind", ["asc", "blf", "log"])
def test_can_logs_of_every_kind_give_the_same_measurements(
    tmp_path: Path, car: dict[str, CanOptions], kind: str
) -> None:
    path = tmp_path / f"drive.{kind}"
    write_can(path, car["car"])
    log = open_log(path, car)
    assert isinstance(log, CanLog)
    assert not log.recorded
    samples = list(log.measurements())
    assert [m.values["vehicle.speed"] for m in samples] == pytest.approx([i * 0.1 for i in range(50)])
    assert [m.t - samples[0].t for m in samples] == pytest.approx(
        [i * 10_000_000 for i in range(50)], abs=2000
    )
    assert {m.source for m in samples} == {"car"}
    assert not log.problems


def test_a_frame_belongs_to_the_bus_that_the_log_names(tmp_path: Path, car: dict[str, CanOptions]) -> None:
    first = car["car"]
    second = replace(first, channel="can1")
    path = tmp_path / "drive.log"
    path.write_text("(1.0) can0 123#10270000\n(1.1) can1 123#20270000\n(1.2) vcan7 123#30270000\n")
    log = open_log(path, {"first": first, "second": second})
    assert [(m.source, m.t // 100_000_000) for m in log.measurements()] == [("first", 10), ("second", 11)]
    assert not log.problems


def write_buses(path: Path, frames: list[tuple[int, int]]) -> None:
    """Write a frame every 10 ms, given by the number of the bus and the identifier."""
    with can.Logger(path) as log:
        for i, (bus, number) in enumerate(frames):
            log.on_message_received(
                can.Message(
                    timestamp=EPOCH + i * 0.01,
                    arbitration_id=number,
                    data=bytes((i % 256, 0, 0, 0)),
                    is_extended_id=False,
                    channel=bus,
                )
            )


@pytest.mark.parametrize("kind", ["asc", "blf"])
@pytest.mark.parametrize(("channel", "read"), [("can0", 0), ("can1", 1), ("powertrain", 2)])
def test_the_same_message_on_another_bus_is_left_out_and_reported(
    tmp_path: Path, car: dict[str, CanOptions], kind: str, channel: str, read: int
) -> None:
    """If no bus has that number, the bus with most of the messages, 0x123 and 0x124, is read."""
    dbc = tmp_path / "two.dbc"
    more = 'BO_ 292 Brake: 4 Car\n SG_ Pressure : 0|32@1+ (0.1,0) [0|1000] "bar" Vector__XXX\n'
    dbc.write_text(DBC + more)
    signals = car["car"].signals | {"brake.pressure": CanSignal(message="Brake", signal="Pressure")}
    path = tmp_path / f"drive.{kind}"
    write_buses(path, [(0, 291), (1, 291), (2, 291), (2, 292), (3, 7)] * 20)
    log = open_log(path, {"car": CanOptions(dbc=dbc, signals=signals, channel=channel)})
    found = list(log.measurements())
    speeds = [round(m.values["vehicle.speed"] * 3.6 / 0.01) for m in found if "vehicle.speed" in m.values]
    assert speeds == list(range(read, 100, 5))
    assert len(found) == (40 if read == 2 else 20)
    left_out = {0: 60, 1: 60, 2: 40}[read]
    assert log.problems.counts == {"CAN other bus": left_out}
    assert f"{channel} was taken for bus {read}" in log.problems.details[0]


def test_a_bus_of_any_number_is_read_if_it_alone_has_the_messages(
    tmp_path: Path, car: dict[str, CanOptions]
) -> None:
    path = tmp_path / "drive.blf"
    write_buses(path, [(0, 7), (3, 291)] * 1000)  # 20 s
    log = open_log(path, car)
    assert len(list(log.measurements())) == 1000
    assert not log.problems


def test_a_second_bus_with_the_same_messages_is_left_out_if_both_begin_late(
    tmp_path: Path, car: dict[str, CanOptions]
) -> None:
    path = tmp_path / "drive.blf"
    write_buses(path, [(5, 7)] * 1500 + [(5, 291), (6, 291)] * 30)
    log = open_log(path, car)
    assert len(list(log.measurements())) == 30
    assert log.problems.counts == {"CAN other bus": 30}


def test_damaged_lines_of_a_candump_are_counted_and_skipped(
    tmp_path: Path, car: dict[str, CanOptions]
) -> None:
    path = tmp_path / "drive.log"
    write_can(path, car["car"])
    lines = path.read_text().splitlines()
    lines[10] = lines[10][:-3]
    lines.insert(20, "\x00\xff nonsense # #")
    lines.insert(30, "(17")
    path.write_text("\n".join(lines))
    log = open_log(path, car)
    assert len(list(log.measurements())) == 49
    assert log.problems.counts == {"bad line": 3}
    assert log.problems.details[0].startswith("line 11: bad line")


@pytest.mark.parametrize("kind", ["asc", "blf"])
def test_a_can_log_that_was_cut_off_is_read_up_to_there(
    tmp_path: Path, car: dict[str, CanOptions], kind: str
) -> None:
    path = tmp_path / f"drive.{kind}"
    write_can(path, car["car"], 3000)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) * 2 // 3])
    log = open_log(path, car)
    samples = list(log.measurements())
    assert all(
        m.values["vehicle.speed"] == pytest.approx(i % 2000 * 0.1, abs=1e-9)
        for i, m in enumerate(samples[:-1])
    )
    assert 1900 < len(samples) < 2100
    if kind == "blf":  # a line of an ASC log may also end where the log was cut off
        assert log.problems.counts == {"truncated": 1}


def test_a_damaged_blf_log_is_read_up_to_the_damage(tmp_path: Path, car: dict[str, CanOptions]) -> None:
    path = tmp_path / "drive.blf"
    write_can(path, car["car"], 20_000)
    data = bytearray(path.read_bytes())
    at = data.rfind(b"LOBJ", 0, len(data) * 3 // 4)  # the head of a container
    data[at + 40 : at + 140] = bytes(100)
    path.write_bytes(data)
    log = open_log(path, car)
    assert len(list(log.measurements())) > 1000
    assert log.problems.counts == {"unreadable": 1}


def test_a_frame_that_is_too_short_is_counted(tmp_path: Path, car: dict[str, CanOptions]) -> None:
    path = tmp_path / "drive.log"
    path.write_text("(1.0) can0 123#10\n(1.1) can0 123#10270000\n")
    log = open_log(path, car)
    assert [m.values["vehicle.speed"] for m in log.measurements()] == [pytest.approx(100 / 3.6 * 1.0)]
    assert log.problems.counts == {"CAN truncated": 1}


def test_a_can_log_without_a_configured_can_device_is_refused(tmp_path: Path) -> None:
    (tmp_path / "drive.log").write_text("(1.0) can0 123#10\n")
    with pytest.raises(UsageError, match="configuration with a CAN device"):
        open_log(tmp_path / "drive.log")


def sentence(body: str) -> str:
    return f"${body}*{reduce(xor, body.encode()):02X}\r\n"


def epoch(clock: str, north: float) -> str:
    gga = f"GPGGA,{clock},48{north:010.7f},N,01130.0000000,E,4,12,0.7,500.0,M,47.0,M,,"
    return sentence(gga) + sentence(f"GPRMC,{clock},A,48{north:010.7f},N,01130.0,E,10.0,90.0,010124,,,R")


def test_nmea_text_gives_a_fix_per_epoch_over_midnight(tmp_path: Path) -> None:
    path = tmp_path / "drive.nmea"
    clocks = ["235959.60", "235959.80", "000000.00", "000000.20", "000000.40"]
    path.write_text("".join(epoch(clock, 7.0 + i) for i, clock in enumerate(clocks)))
    log = open_log(path, {"receiver": NmeaOptions(port="-", latency=0.08)})
    assert isinstance(log, NmeaLog)
    samples = list(log.measurements())
    assert [m.values["gnss.lat"] for m in samples] == pytest.approx([48 + (7 + i) / 60 for i in range(5)])
    assert [m.t - samples[0].t for m in samples] == pytest.approx(
        [i * 200_000_000 for i in range(5)], abs=1000
    )
    assert all(m.values["gnss.quality"] == 4 and m.source == "receiver" for m in samples)
    assert all(m.arrival - m.t >= 80_000_000 for m in samples)
    assert not log.problems


@pytest.mark.parametrize("rate", [1, 5, 10])
def test_a_day_with_a_leap_second_is_a_second_longer(tmp_path: Path, rate: int) -> None:
    path = tmp_path / "drive.nmea"
    seconds = ["235958", "235959", "235960", "000000", "000001", "000002"]
    clocks = [f"{s}.{100 * k // rate:02d}" for s in seconds for k in range(rate)]
    path.write_text("".join(epoch(clock, 7.0) for clock in clocks))
    log = open_log(path)
    samples = list(log.measurements())
    expected = [i * 1_000_000_000 // rate for i in range(6 * rate)]
    assert [m.t - samples[0].t for m in samples] == pytest.approx(expected, abs=1000)
    assert not log.problems


def test_fixes_continue_after_a_receiver_set_its_clock_back(tmp_path: Path) -> None:
    """Before its first fix, a receiver's time may be 18 s before midnight or that of a clock without power."""
    before, after = [f"235942.{i}0" for i in range(5)], [f"140000.{i}0" for i in range(10)]
    (tmp_path / "x.nmea").write_text("".join(epoch(clock, 7.0) for clock in before + after))
    encoder = UbxEncoder()
    itows = [*range(300_000_000, 300_000_500, 100), *range(200_000_000, 200_001_000, 100)]
    messages = [
        encoder.encode(Measurement("", t, t, {"gnss.lat": 48.0, "gnss.lon": 11.5}))
        for t in (itow * 1_000_000 for itow in itows)
    ]
    (tmp_path / "x.ubx").write_bytes(b"".join(messages))
    for name in ("x.nmea", "x.ubx"):
        log = open_log(tmp_path / name)
        for _ in range(2):
            samples = list(log.measurements())
            assert len(samples) == 15
            intervals = [b.t - a.t for a, b in pairwise(samples)]
            assert intervals[:4] + intervals[5:] == pytest.approx([100_000_000] * 13, abs=1000)
            assert 0 <= intervals[4] <= 100_000_000
            assert log.problems.counts == {"clock set back": 1}


def test_a_message_out_of_order_does_not_move_the_clock(tmp_path: Path) -> None:
    path = tmp_path / "drive.nmea"
    epochs = [epoch(f"120000.{i}0", 7.0) for i in range(10)]
    late = sentence("GPGST,120000.20,,,,,0.5,0.5,1.0")
    path.write_text("".join(epochs[:6]) + late + "".join(epochs[6:]))
    log = open_log(path)
    samples = [m for m in log.measurements() if "gnss.lat" in m.values]
    assert [m.t - samples[0].t for m in samples] == pytest.approx(
        [i * 100_000_000 for i in range(10)], abs=1000
    )
    assert not log.problems


def test_damaged_nmea_is_counted_and_skipped(tmp_path: Path) -> None:
    path = tmp_path / "drive.txt"
    text = "".join(epoch(f"120000.{i}0", 7.0) for i in range(10))
    path.write_bytes(b"\xff\x00 boot\r\n" + text.replace("48", "49", 1).encode() + b"$GPGGA,12")
    log = open_log(path)
    assert len(list(log.measurements())) == 10
    assert log.problems.counts["NMEA checksum errors"] == 1
    assert log.problems.counts["NMEA truncated"] == 1


def test_a_damaged_time_does_not_move_the_clock(tmp_path: Path) -> None:
    path = tmp_path / "drive.nmea"
    epochs = [epoch(f"120000.{i}0", 7.0) for i in range(10)]
    epochs[4] = epochs[4].replace("RMC,12", "RMC,16")
    path.write_text("".join(epochs))
    log = open_log(path)
    samples = [m for m in log.measurements() if "gnss.lat" in m.values]
    assert [m.t - samples[0].t for m in samples] == pytest.approx(
        [i * 100_000_000 for i in range(10)], abs=1000
    )
    assert log.problems.counts["NMEA checksum errors"] == 1


def test_a_text_without_nmea_sentences_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("Dear diary,\n")
    with pytest.raises(UsageError, match="no GGA, GNS or RMC"):
        open_log(tmp_path / "notes.txt")
    (tmp_path / "speeds.txt").write_bytes(nmea_sentence("GPVTG,90.0,T,,M,10.0,N,18.5,K,A"))
    with pytest.raises(UsageError, match="only VTG: set the receiver"):
        open_log(tmp_path / "speeds.txt")


WEEK_END = 604_799_700
"""Time of week 0.3 s before the end of a GPS week, ms."""


def ubx_epochs(count: int) -> list[bytes]:
    """NAV-PVT and NAV-EOE of fixes 0.1 s apart, beginning 0.3 s before the end of a week."""
    encoder = UbxEncoder()
    fix = {
        "gnss.lon": 11.5,
        "gnss.alt": 500.0,
        "gnss.quality": 4.0,
        "gnss.vn": 3.0,
        "gnss.ve": 4.0,
        "gnss.vd": 0.0,
    }
    times = [(WEEK_END + 100 * i) * 1_000_000 for i in range(count)]
    return [encoder.encode(Measurement("", t, t, fix | {"gnss.lat": 48.0 + i})) for i, t in enumerate(times)]


def test_ubx_bytes_give_a_fix_per_epoch_over_the_end_of_the_week(tmp_path: Path) -> None:
    path = tmp_path / "drive.ubx"
    path.write_bytes(b"\x07" * 300 + b"".join(ubx_epochs(20)))
    log = open_log(path, {"receiver": UbxOptions(port="-", latency=0.06)})
    assert isinstance(log, UbxLog)
    for _ in range(2):
        samples = list(log.measurements())
        assert [m.values["gnss.lat"] for m in samples] == pytest.approx([48 + i for i in range(20)])
        assert [m.t - samples[0].t for m in samples] == pytest.approx(
            [i * 100_000_000 for i in range(20)], abs=1000
        )
        assert all(m.values["gnss.ve"] == 4.0 and m.source == "receiver" for m in samples)
        assert all(m.arrival - m.t == pytest.approx(60_000_000, abs=1000) for m in samples)


def test_damaged_ubx_is_counted_and_skipped(tmp_path: Path) -> None:
    epochs = ubx_epochs(10)
    epochs[4] = epochs[4][:20] + b"\xff" + epochs[4][21:]
    path = tmp_path / "renamed"
    path.write_bytes(b"".join(epochs)[:-3])
    log = open_log(path)
    found = [m.values.get("gnss.lat") for m in log.measurements()]
    assert [x for x in found if x is not None and x != 52.0] == pytest.approx(
        [48 + i for i in range(10) if i != 4]
    )
    assert log.problems.counts["UBX checksum errors"] == 1
    assert log.problems.counts["UBX truncated"] == 1


def test_a_file_without_ubx_messages_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.ubx").write_bytes(b"\xb5\x62" * 1000)
    with pytest.raises(UsageError, match="no UBX message with a time of week in its first 2000 bytes"):
        open_log(tmp_path / "x.ubx")


def test_the_kind_of_a_log_follows_from_content_and_extension(tmp_path: Path) -> None:
    with create_log(tmp_path / "a.mcap") as mcap, create_log(tmp_path / "a.csv", ["imu.ax"]) as csv:
        for log in (mcap, csv):
            log.write(Measurement("imu", 0, 0, {"imu.ax": 1.0}))
    (tmp_path / "a.mcap").rename(tmp_path / "renamed")
    assert isinstance(open_log(tmp_path / "renamed"), McapLog)
    assert isinstance(open_log(tmp_path / "a.csv"), CsvLog)
    for name in ("a.xyz", "nothing"):
        (tmp_path / name).write_text("x")
        with pytest.raises(UsageError, match="unknown kind of log"):
            open_log(tmp_path / name)
    with pytest.raises(UsageError, match=r"expected \.csv, \.mcap, "):
        create_log(tmp_path / "a.blf")
    with pytest.raises(UsageError, match=r"missing\.csv: No such file"):
        open_log(tmp_path / "missing.csv")


def test_steps_are_those_of_a_recording_or_else_a_regular_grid(tmp_path: Path) -> None:
    samples = [Measurement("imu", i * 10_000_000, i * 10_000_000, {"imu.ax": 1.0}) for i in range(10)]
    with create_log(tmp_path / "log.mcap") as log:
        for m in samples:
            log.write(m)
    grid = list(read_steps(open_log(tmp_path / "log.mcap"), 4_000_000))
    assert [s.t for s in grid] == list(range(0, 92_000_001, 4_000_000))
    with Recorder(tmp_path / "run.mcap", "", 0, 0) as recorder:
        recorder.record_step(7, samples[1::-1], None, [])
        recorder.record_step(9, [], None, [])
    recorded = list(read_steps(open_log(tmp_path / "run.mcap"), 4_000_000))
    assert [(s.t, s.measurements) for s in recorded] == [(7, samples[1::-1]), (9, [])]
