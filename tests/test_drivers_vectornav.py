"""VectorNav: byte strings from the manual, and binary output of every group."""

import itertools
import math
import struct

import pytest

from drivers.vectornav import FIELD_LENGTHS, VectorNavDecoder, VectorNavOptions
from replay.encoders import vectornav_binary, vectornav_line
from vehicled.messages import Measurement

RATES = {"imu.wx": 0.5, "imu.wy": -0.25, "imu.wz": 2.0}
ACCELERATIONS = {"imu.ax": 1.0, "imu.ay": -2.0, "imu.az": -9.5}
OTHER = (7.0, 8.0, 9.0)


def decoder(latency=0.0):
    return VectorNavDecoder("imu", VectorNavOptions(port="p", latency=latency))


def vector(values):
    return struct.pack("<3f", *values)


def test_yaw_pitch_roll_of_the_manual_is_a_good_message_without_channels():
    d = decoder()
    assert d.feed(bytes.fromhex("fa0108009350 2e42833ef13f48b504bb9288"), 0) == []  # UM001, 4.3.7, case 1
    assert d.counters["messages"] == 1
    assert d.counters["garbage_bytes"] == 0


def test_ascii_of_a_real_device():
    line = (
        b"$VNYMR,+100.949,-007.330,+000.715,-00.0049,-00.2449,+00.5397,"
        b"-01.258,-00.100,-09.701,-00.000018,+00.001122,-00.000551*69\r\n"
    )
    (m,) = decoder(latency=0.002).feed(line, 10**9)
    assert (m.t, m.arrival) == (10**9 - 2_000_000, 10**9)
    assert m.values == {
        **{"imu.ax": -1.258, "imu.ay": -0.1, "imu.az": -9.701},
        **{"imu.wx": -0.000018, "imu.wy": 0.001122, "imu.wz": -0.000551},
    }


def test_register_responses_are_good_messages_without_channels():
    d = decoder()
    assert d.feed(b"$VNRRG,08,-114.314,+000.058,-001.773*5F\r\n", 0) == []  # UM001, 3.6.1
    assert d.counters["messages"] == 1


A, W = "1.0,-2.0,-9.5", "0.5,-0.25,2.0"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (f"VNIMU,7,8,9,{A},{W},20,101", ACCELERATIONS | RATES),
        (f"VNMAR,7,8,9,{A},{W}", ACCELERATIONS | RATES),
        (f"VNQMR,0,0,0,1,7,8,9,{A},{W}", ACCELERATIONS | RATES),
        (f"VNISL,1,2,3,47,8,400,1,2,3,{A},{W}", ACCELERATIONS | RATES),
        (f"VNACC,{A}", ACCELERATIONS),
        (f"VNGYR,{W}", RATES),
        (f"VNYBA,1,2,3,0.1,0.2,0.3,{W}", RATES),
        (f"VNYMR,1,2,3,7,8,9,{A},{W},T0012345,S0017", ACCELERATIONS | RATES),  # with counters appended
    ],
)
@pytest.mark.parametrize("crc", [False, True])
def test_ascii_messages(body, expected, crc):
    (m,) = decoder().feed(vectornav_line(body, crc), 0)
    assert m.values == expected


@pytest.mark.parametrize("body", ["VNGYR,1,2", "VNGYR,1,x,3", "VNGYR,1,,3", "VNGYR,1,nan,3", "VNACC"])
def test_ascii_without_all_numbers_is_counted(body):
    d = decoder()
    assert not any("imu.wy" in m.values for m in d.feed(vectornav_line(body), 0))
    assert d.counters["out_of_range"] == 1


@pytest.mark.parametrize(
    ("fields", "payload", "expected"),
    [
        ({0: 0x0120}, vector(RATES.values()) + vector(ACCELERATIONS.values()), ACCELERATIONS | RATES),
        ({0: 0x0200}, vector(ACCELERATIONS.values()) + vector(RATES.values()), ACCELERATIONS | RATES),
        ({2: 0x0600}, vector(ACCELERATIONS.values()) + vector(RATES.values()), ACCELERATIONS | RATES),
        ({2: 0x000C}, vector(ACCELERATIONS.values()) + vector(RATES.values()), ACCELERATIONS | RATES),
        ({0: 0x0020}, vector(RATES.values()), RATES),
        # Compensated before uncompensated:
        (
            {0: 0x0320},
            vector(RATES.values()) + vector(ACCELERATIONS.values()) + vector(OTHER) * 2,
            ACCELERATIONS | RATES,
        ),
        ({2: 0x0404}, vector(ACCELERATIONS.values()) + vector(RATES.values()), ACCELERATIONS | RATES),
    ],
)
def test_binary_fields(fields, payload, expected):
    (m,) = decoder().feed(vectornav_binary(fields, payload), 5)
    assert m.values == expected
    assert m.t == 5


def satellites(number, count):
    return {
        14: bytes((count, 0)) + bytes(8 * count),
        15: bytes(10) + bytes((count, 0)) + bytes(28 * count),
    }[number]


def payload_of(fields, counts):
    """Payload with rates in the common group, and lists of satellites of the given lengths."""
    payload = b""
    counts = iter(counts)
    for group, word in sorted(fields.items()):
        for number in range(16):
            if word >> number & 1:
                if group in (3, 6) and number >= 14:
                    payload += satellites(number, next(counts))
                elif (group, number) == (0, 5):
                    payload += vector(RATES.values())
                else:
                    payload += bytes(FIELD_LENGTHS[group][number])
    return payload


ALL = {g: sum(1 << n for n, length in enumerate(FIELD_LENGTHS[g]) if length) for g in range(7)}


@pytest.mark.parametrize(
    ("fields", "counts"),
    [
        *[({0: 0x0020, g: ALL[g] | (0x20 if g == 0 else 0)}, [3, 2]) for g in (0, 1, 2, 4, 5)],
        ({0: 0x0020, 3: ALL[3]}, [12, 9]),
        ({0: 0x0020, 3: 0x4001}, [5]),
        ({0: 0x0020, 3: 0x8000, 4: 0x0002}, [0]),
        ({0: 0x0020, 3: 0x4000, 6: 0xC004}, [31, 0, 20]),
        (ALL, [4, 3, 2, 1]),
    ],
)
def test_other_binary_fields_are_skipped_by_their_exact_length(fields, counts):
    """With any other fields in the message the rates are found, and the next message too."""
    d = decoder()
    message = vectornav_binary(fields, payload_of(fields, counts))
    out = []
    for i in range(0, 2 * len(message), 7):  # in pieces, so that incomplete messages are checked
        out += d.feed((message + message)[i : i + 7], 0)
    assert d.counters["messages"] == 2
    assert d.counters["garbage_bytes"] == 0
    rates = [found for m in out if (found := {k: v for k, v in m.values.items() if k in RATES})]
    assert rates == [RATES, RATES]


def test_headers_with_unknown_fields_or_groups_are_no_messages():
    d = decoder()
    for header in ("fa00", "fa80", "fa010080", "fa020008", "fa0300000100"):
        d.feed(bytes.fromhex(header) + bytes(4), 0)
    assert d.counters["messages"] == 0
    assert d.counters["checksum_errors"] == 0
    assert d.counters["garbage_bytes"] == d.counters["bytes"]


def test_the_device_time_is_time_startup_in_nanoseconds():
    d = decoder(latency=0.001)
    out = []
    for i, late in enumerate([0, 3, 1, 2, 0]):
        payload = struct.pack("<Q", 77 + i * 2_500_000) + vector(RATES.values())
        out += d.feed(vectornav_binary({0: 0x0021}, payload), 10**9 + i * 2_500_000 + late * 100_000)
    assert [m.t for m in out] == [10**9 - 1_000_000 + i * 2_500_000 for i in range(5)]


def test_ascii_and_binary_may_be_mixed():
    d = decoder()
    payload = struct.pack("<6f", *RATES.values(), *ACCELERATIONS.values())
    line = vectornav_line("VNGYR,0.5,-0.25,2.0")
    out = d.feed(line + vectornav_binary({0: 0x0120}, payload) + line, 0)
    assert [m.values for m in out] == [RATES, ACCELERATIONS | RATES, RATES]


def test_values_that_are_not_finite_are_left_out():
    d = decoder()
    (m,) = d.feed(vectornav_binary({0: 0x0020}, struct.pack("<3f", 1.0, float("nan"), float("inf"))), 0)
    assert m == Measurement("imu", 0, 0, {"imu.wx": 1.0})
    assert d.counters["out_of_range"] == 1


# Receivers and navigation filter

WEEK = 604_800_000_000_000
FIX = 1 << 1 | 1 << 4 | 1 << 5 | 1 << 7 | 1 << 9 | 1 << 10  # Tow, Fix, PosLla, VelNed, PosU, VelU


def fix_payload(tow, kind=8, place=(47.25, 8.5, 412.5)):
    return (
        struct.pack("<QB3d", tow, kind, *place)
        + struct.pack("<3f", 3.0, -4.0, 0.5)
        + struct.pack("<4f", 0.25, 0.5, 0.75, 0.125)
    )


def with_fix(startup, gps, tow, group=3, **other):
    """TimeStartup, TimeGps and AngularRate, and the fix of a receiver."""
    payload = struct.pack("<QQ3f", startup, gps, *RATES.values()) + fix_payload(tow, **other)
    return vectornav_binary({0: 0x0023, group: FIX}, payload)


EXPECTED_FIX = {
    **{"gnss.quality": 4.0, "gnss.lat": 47.25, "gnss.lon": 8.5, "gnss.alt": 412.5},
    **{"gnss.h_acc": math.sqrt((0.25**2 + 0.5**2) / 2), "gnss.v_acc": 0.75},
    **{"gnss.vn": 3.0, "gnss.ve": -4.0, "gnss.vd": 0.5, "gnss.s_acc": 0.125},
    **{"gnss.speed": 5.0, "gnss.course": 2 * math.pi - math.atan2(4.0, 3.0)},
}


def test_a_fix_is_given_once_and_its_age_follows_from_its_time_of_week():
    d = decoder()
    out = []
    for i in range(40):  # 100 Hz, with fixes of 5 Hz that are 80 ms old; over the end of a week
        startup = 10**9 + i * 10**7
        gps = 3 * WEEK - 10**8 + i * 10**7
        tow = (gps - 80 * 10**6) // (2 * 10**8) * (2 * 10**8) % WEEK
        out += d.feed(with_fix(startup, gps, tow), 5 * 10**9 + i * 10**7)
    rates = [m for m in out if "imu.wx" in m.values]
    fixes = [m for m in out if "gnss.lat" in m.values]
    assert len(rates) == 40
    assert all(m.values == RATES for m in rates)
    assert all(m.values == pytest.approx(EXPECTED_FIX) for m in fixes)
    assert [b.t - a.t for a, b in itertools.pairwise(fixes)] == [2 * 10**8] * (len(fixes) - 1)
    newest = fixes[1:]  # the fix in the first message may be older
    assert all(80 * 10**6 <= m.arrival - m.t < 90 * 10**6 for m in newest)


def test_time_startup_and_time_gps_are_mapped_to_the_same_clock():
    """TimeStartup with the rates, TimeGps with the fixes, each stamped 5 to 9 ms before it arrives."""
    d = decoder()
    out = []
    for i in range(200):
        delay = (5 + i % 5) * 10**6
        at = 20 * 10**9 + i * 10**7
        rates = struct.pack("<Q3f", 10**9 + i * 10**7, *RATES.values())
        out += d.feed(vectornav_binary({0: 0x0021}, rates), at + delay)
        if i % 20 == 0:
            gps = 3 * WEEK + i * 10**7
            fix = struct.pack("<Q", gps) + fix_payload(gps % WEEK)
            out += d.feed(vectornav_binary({0: 0x0002, 3: FIX}, fix), at + delay)
    assert d.counters["clock_restarts"] == 0
    settled = [m for m in out if m.t > 21 * 10**9]
    assert {next(iter(m.values))[:4] for m in settled} == {"imu.", "gnss"}
    assert all((m.t - 5 * 10**6) % 10**7 == 0 for m in settled)


def test_a_fix_in_ascii_output_is_given_once():
    d = decoder()
    out = []
    for i in range(80):  # 40 Hz, with fixes of 5 Hz
        place = "+47.25000000,+08.50000000,+00412.500,+003.000,-004.000,+000.500"
        fix = (
            f"VNGPS,{333733 + i // 8 * 0.2:.6f},1694,3,05,{place},+000.250,+000.500,+000.750,+000.125,2.1E-08"
        )
        out += d.feed(vectornav_line(fix) + vectornav_line("VNGYR,0.5,-0.25,2.0"), i * 25_000_000)
    assert [m.t for m in out if "gnss.lat" in m.values] == [i * 200_000_000 for i in range(10)]
    assert len([m for m in out if "imu.wx" in m.values]) == 80


def test_a_fix_in_a_message_without_time_has_the_time_of_the_rates():
    d = decoder(latency=0.002)
    message = vectornav_binary(
        {0: 0x0020, 3: FIX}, struct.pack("<3f", *RATES.values()) + fix_payload(5 * 10**9)
    )
    rate, fix = d.feed(message, 10**9)
    assert (rate.t, fix.t) == (10**9 - 2_000_000, 10**9 - 2_000_000)


def test_the_second_receiver_has_its_own_channels():
    (_, m) = decoder().feed(with_fix(10**9, WEEK, 0, group=6), 10**9)
    assert m.values == pytest.approx({c.replace("gnss", "gnss2"): v for c, v in EXPECTED_FIX.items()})


@pytest.mark.parametrize(
    ("kind", "quality"), [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2), (7, 5), (8, 4), (5, None), (200, None)]
)
def test_the_kind_of_fix_gives_the_nmea_quality(kind, quality):
    d = decoder()
    out = d.feed(with_fix(10**9, WEEK, 0, kind=kind), 10**9)
    if quality is None:
        assert len(out) == 1
        assert d.counters["out_of_range"] == 1
    else:
        assert out[1].values["gnss.quality"] == quality
        assert quality or out[1].values == {"gnss.quality": 0.0}
        assert ("gnss.alt" in out[1].values) == (quality > 0 and kind != 2)


@pytest.mark.parametrize(
    "place", [(91.0, 8.5, 1.0), (math.nan, 8.5, 1.0), (47.0, 181.0, 1.0), (47.0, 8.5, math.inf)]
)
def test_an_impossible_fix_is_counted(place):
    d = decoder()
    assert len(d.feed(with_fix(10**9, WEEK, 0, place=place), 10**9)) == 1
    assert d.counters["out_of_range"] == 1


def ins(mode, status=True):
    """YawPitchRoll, AngularRate, Position, Velocity and InsStatus of the common group."""
    payload = struct.pack("<3f", 30.0, 2.0, -1.0) + struct.pack("<3f", *RATES.values())
    payload += struct.pack("<3d", 47.25, 8.5, 412.5) + struct.pack("<3f", 3.0, -4.0, 0.5)
    payload += struct.pack("<H", mode | 0x0304) if status else b""
    return vectornav_binary({0: 1 << 3 | 1 << 5 | 1 << 6 | 1 << 7 | (1 << 12 if status else 0)}, payload)


REFERENCE = {
    # The device gives yaw clockwise from north, and pitch positive upwards; the channels have yaw
    # counter-clockwise from east, and pitch positive downwards.
    **{
        "reference.yaw": math.radians(60),
        "reference.pitch": math.radians(-2),
        "reference.roll": math.radians(-1),
    },
    **{"reference.lat": 47.25, "reference.lon": 8.5, "reference.alt": 412.5},
    **{"reference.vn": 3.0, "reference.ve": -4.0, "reference.vd": 0.5},
}


def test_the_solution_of_the_navigation_filter_is_a_reference():
    rate, m = decoder().feed(ins(2), 10**9)
    assert rate.values == RATES
    assert m.values == pytest.approx(REFERENCE)
    attitude = {"reference.yaw", "reference.pitch", "reference.roll"}
    assert set(decoder().feed(ins(3), 10**9)[1].values) == attitude
    for not_aligned in (ins(0), ins(1), ins(2, status=False)):
        assert [m.values for m in decoder().feed(not_aligned, 10**9)] == [RATES]


def test_ascii_of_receiver_and_navigation_filter():
    solution = "333811.902862,1694,0006,+030.000,+002.000,-001.000,+47.25000000,+008.50000000,+00412.500"
    (m,) = decoder().feed(vectornav_line(f"VNINS,{solution},+003.000,-004.000,+000.500,07.8,01.6,0.23"), 0)
    assert m.values == pytest.approx(REFERENCE)
    assert decoder().feed(vectornav_line(f"VNINS,{solution.replace('0006', '0004')},0,0,0,1,1,1"), 0) == []
    fix = "VNGPS,333733.000159,1694,{},05,+47.25000000,+008.50000000,+00412.500,+003.000,-004.000,+000.500"
    line = vectornav_line(fix.format(3) + ",+000.250,+000.500,+000.750,+000.125,2.10E-08")
    (m,) = decoder().feed(line, 0)
    assert m.values == pytest.approx(EXPECTED_FIX | {"gnss.quality": 1.0})
    (m,) = decoder().feed(vectornav_line(fix.format(0) + ",0,0,0,0,0"), 0)
    assert m.values == {"gnss.quality": 0.0}
    for damaged in ("VNINS,1,2,zz", "VNGPS,1,2,3", fix.format("x"), "VNINS"):
        d = decoder()
        assert d.feed(vectornav_line(damaged), 0) == []
        assert d.counters["out_of_range"] == 1
