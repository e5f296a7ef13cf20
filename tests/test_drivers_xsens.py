"""Xsens MTData2: captured messages of an MTi-300, and details of the protocol."""

import math
import struct
from datetime import UTC, datetime

import pytest

from drivers.xsens import MTDATA2, XsensDecoder, XsensOptions
from drivers.xsens_packets import FP1220, FP1632, Packet, read_numbers
from replay.encoders import XsensEncoder, xbus_message
from vehicled.messages import Measurement

AT_REST = bytes.fromhex(
    "faff3692 102002918d 10600401363fa6 2010103f35e0423f31cd15bd9f49dbbda938cf 40200cbd635a90411d08d43e5faa50"
    "40100cb91168003cc901003a0f7d00 40300cbc3b29803c35fc003ca46e00 80200c3caea241bb56d800bad5ac01"
    "8030103f80000037df8801b6898000b608c000 c0200cbefbfbf23f33c485bfa0a2c1 08100442168000 301004000186e1"
    "e0200400400003 dd"
)
SHAKEN = bytes.fromhex(
    "faff368b 102002fb85 10600401a498de 2010103f2a1463bed7efa73cdee5083f1dcec9 40200cc1f246c3c1ece076c28f853f"
    "40100cbd932cccbd920a16be3a6eec 40300c42519464c27b5a5ac1ccc0ae 80200c40854d6dc125559ec0908e1f"
    "8030103f7ff8983baa9ee5bc539ec0bbb9060c c0200c3edc7439be752b483faf9a3f 301004000186de e0200400481401 8e"
)


def decoder():
    return XsensDecoder("imu", XsensOptions(port="p"))


def test_a_captured_message_at_rest():
    d = decoder()
    (m,) = d.feed(AT_REST, 10**9)
    assert m.source == "imu"
    assert m.t == m.arrival == 10**9
    assert m.values == pytest.approx(
        {
            **{"imu.ax": -0.05550629, "imu.ay": 9.81465530, "imu.az": 0.21842313},
            **{"imu.wx": 0.02131760, "imu.wy": -0.00327826, "imu.wz": -0.00163019},
        },
        abs=6e-9,
    )


def test_clipped_axes_are_no_measurements():
    """The status word of this capture says that acc z and gyro y were at the end of their range."""
    d = decoder()
    (m,) = d.feed(SHAKEN, 0)
    assert m.values == pytest.approx(
        {"imu.ax": -30.28455162, "imu.ay": -29.60960007, "imu.wx": 4.16570139, "imu.wz": -4.51734877}
    )
    assert d.counters["clipped"] == 2


def test_fixed_point_with_32_bits_of_fraction_as_captured():
    captured = bytes.fromhex("000000010001 ffe3e0c4ffff ffec2595ffff")
    expected = (1.000000000233, -0.000429107808, -0.000302935718)
    assert read_numbers(Packet(FP1632, 0, captured), 3) == pytest.approx(expected, abs=5e-13)


def test_fixed_point_with_20_bits_of_fraction_as_captured():
    assert read_numbers(Packet(FP1220, 0, bytes.fromhex("fff04735 fffdc886 073b35c8")), 3) == pytest.approx(
        (-0.9826155, -0.1385441, 115.7006302), abs=1e-6
    )


def test_messages_of_other_kinds_or_without_data_are_counted_and_skipped():
    d = decoder()
    goto_config_ack, output_configuration = (
        bytes.fromhex("faff3100d0"),
        bytes.fromhex("faffc10810 20ffff1060ffff9c"),
    )
    assert d.feed(goto_config_ack + output_configuration + AT_REST, 0)[0].values
    assert d.counters["messages"] == 3
    assert d.counters["garbage_bytes"] == 0


def test_extended_length():
    raw = bytes.fromhex("40200c 3f800000 40000000 40400000")
    padding = b"".join(bytes.fromhex("c0200c") + bytes(12) for _ in range(20))
    message = xbus_message(MTDATA2, padding + raw)
    assert message[3] == 0xFF
    (m,) = decoder().feed(message, 0)
    assert m.values == {"imu.ax": 1.0, "imu.ay": 2.0, "imu.az": 3.0}


@pytest.mark.parametrize(
    "data",
    [
        "40200b" + "00" * 11,  # the size does not fit the format
        "40200c" + "7fc00000" * 3,  # NaN
        "40200c" + "7f800000" * 3,  # infinite
    ],
)
def test_values_of_wrong_size_or_not_finite_are_counted(data):
    d = decoder()
    assert d.feed(xbus_message(MTDATA2, bytes.fromhex(data)), 0) == []
    assert d.counters["out_of_range"] == 1


def test_a_packet_longer_than_its_message_is_left_out():
    data = bytes.fromhex("80200c 3f800000 40000000 40400000 40200c 3f80")
    (m,) = decoder().feed(xbus_message(MTDATA2, data), 0)
    assert m.values == {"imu.wx": 1.0, "imu.wy": 2.0, "imu.wz": 3.0}


def test_gaps_of_the_packet_counter_are_counted():
    d, e = decoder(), XsensEncoder(counter=65530)  # so that it rolls over on the way
    sent = [e.encode(Measurement("s", i * 10**7, i * 10**7, {"imu.ax": 0.0})) for i in range(15)]
    for i, message in enumerate(sent):
        if i not in (3, 4, 9):
            d.feed(message, i * 10**7)
    assert d.counters["missed"] == 3
    assert d.counters["messages"] == 12


def test_the_sample_time_removes_the_jitter_of_arrivals():
    d, e = decoder(), XsensEncoder()
    values = {"imu.ax": 0.0, "imu.ay": 0.0, "imu.az": 9.81}
    arrivals = [i * 10_000_000 + (4_000_000 if i % 3 else 0) for i in range(30)]
    out = [
        d.feed(e.encode(Measurement("s", i * 10_000_000, a, values)), a)[0] for i, a in enumerate(arrivals)
    ]
    assert [m.t for m in out] == [i * 10_000_000 for i in range(30)]
    assert [m.arrival for m in out] == arrivals


# Receiver and navigation filter


def packet(identifier, form, *numbers):
    value = struct.pack(f">{form}", *numbers)
    return identifier.to_bytes(2) + bytes((len(value),)) + value


def gnss(nano=0, second=7, fix=3, flags=1 | 2 << 6, valid=7, latitude=472_500_000):
    date = (2026, 11, 22, 10, 5, second)
    place = (85_000_000, latitude, 412_500, 365_000, 14, 21)
    rest = (3000, -4000, 500, 5000, 30_686_990, 50, 100_000, 0, 150, 140, 80, 120, 90, 60, 60)
    fields = (100_000, *date, valid, 20, nano, fix, flags, 12, 0, *place, *rest)
    return packet(0x7010, "IH6BIi4B4i2I5i2Ii7H", *fields)


def utc(nano, second=7, flags=7):
    return packet(0x1010, "IH6B", nano, 2026, 11, 22, 10, 5, second, flags)


def fed(*packets, arrival=10**9):
    d = decoder()
    return d, d.feed(xbus_message(MTDATA2, b"".join(packets)), arrival)


FIX = {
    **{"gnss.quality": 4.0, "gnss.lat": 47.25, "gnss.lon": 8.5, "gnss.alt": 412.5},
    **{"gnss.h_acc": 0.014 / math.sqrt(2), "gnss.v_acc": 0.021, "gnss.s_acc": 0.05},
    **{"gnss.vn": 3.0, "gnss.ve": -4.0, "gnss.vd": 0.5},
    **{"gnss.speed": 5.0, "gnss.course": math.radians(306.8699)},
}


def test_the_age_of_a_fix_is_the_difference_of_the_two_times_of_day():
    _, (m,) = fed(utc(350_000_000), gnss(nano=200_000_000))
    at = datetime(2026, 11, 22, 10, 5, 7, 200_000, tzinfo=UTC).timestamp()
    assert m.values == pytest.approx({**FIX, "gnss.utc": at})
    assert m.arrival - m.t == 150_000_000
    _, (m,) = fed(utc(50_000_000, second=8), gnss(nano=-100_000_000, second=8))
    assert m.arrival - m.t == 150_000_000


@pytest.mark.parametrize(
    "packets",
    [
        (gnss(),),
        (utc(0, flags=3), gnss()),
        (utc(350_000_000), gnss(valid=3)),
        (utc(0, second=20), gnss()),
        (utc(0, second=6), gnss()),
        (packet(0x1010, "IH6B", 0, 2026, 13, 22, 10, 5, 7, 7), gnss()),
    ],
)
def test_a_fix_of_unknown_age_has_the_time_of_its_message(packets):
    _, (m,) = fed(*packets)
    assert m.t == m.arrival


def test_without_a_possible_fix_no_position_is_measured():
    _, (m,) = fed(gnss(fix=0, flags=0))
    assert m.values == {"gnss.quality": 0.0}
    for bad in (gnss(latitude=910_000_000), gnss()[:2] + b"\x20" + gnss()[3:35]):
        d, out = fed(bad)
        assert out == []
        assert d.counters["out_of_range"] == 1


VALID = packet(0xE020, "I", 0b110)
PLACE = packet(0x5040, "2f", 47.25, 8.5) + packet(0x5020, "f", 412.5)
SYSTEMS = {  # one motion: heading 30° from north, nose 2° up, rolled 1° to the left; 3 north, -4 east, 0.5 down
    "ENU": packet(0x2030, "3f", -1.0, -2.0, 60.0) + packet(0xD010, "3f", -4.0, 3.0, -0.5),
    "NED": packet(0x2034, "3f", -1.0, 2.0, 30.0) + packet(0xD014, "3f", 3.0, -4.0, 0.5),
    "NWU": packet(0x2038, "3f", -1.0, -2.0, -30.0) + packet(0xD018, "3f", 3.0, 4.0, -0.5),
}
REFERENCE = {
    **{
        "reference.yaw": math.radians(60),
        "reference.pitch": math.radians(-2),
        "reference.roll": math.radians(-1),
    },
    **{"reference.lat": 47.25, "reference.lon": 8.5, "reference.alt": 412.5},
    **{"reference.vn": 3.0, "reference.ve": -4.0, "reference.vd": 0.5},
}


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_solution_of_the_navigation_filter_is_a_reference(system):
    _, (m,) = fed(SYSTEMS[system], PLACE, VALID)
    assert m.values == pytest.approx(REFERENCE)


@pytest.mark.parametrize(
    "packets", [(PLACE, SYSTEMS["ENU"]), (PLACE, packet(0xE020, "I", 0b100)), (SYSTEMS["ENU"][:15], VALID)]
)
def test_a_solution_with_invalid_status_or_with_attitude_alone_is_no_reference(packets):
    assert fed(*packets)[1] == []
