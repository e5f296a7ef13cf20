"""VectorNav: byte strings from the manual, and binary output of every group."""

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
def test_any_output_is_skipped_over_exactly(fields, counts):
    """Whatever is configured beside it, the rate is found and the next message too."""
    d = decoder()
    message = vectornav_binary(fields, payload_of(fields, counts))
    out = []
    for i in range(0, 2 * len(message), 7):  # piecemeal, so that each prefix is judged
        out += d.feed((message + message)[i : i + 7], 0)
    assert d.counters["messages"] == 2
    assert d.counters["garbage_bytes"] == 0
    rates = [{k: v for k, v in m.values.items() if k in RATES} for m in out]
    assert rates == [RATES, RATES]


def test_headers_with_unknown_fields_or_groups_are_no_messages():
    d = decoder()
    for header in ("fa00", "fa80", "fa010080", "fa020008", "fa0300000100"):
        d.feed(bytes.fromhex(header) + bytes(4), 0)
    assert d.counters["messages"] == 0
    assert d.counters["checksum_errors"] == 0
    assert d.counters["garbage_bytes"] == d.counters["bytes"]


def test_the_device_time_is_that_of_startup_in_nanoseconds():
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


def test_values_that_are_none_are_left_out():
    d = decoder()
    (m,) = d.feed(vectornav_binary({0: 0x0020}, struct.pack("<3f", 1.0, float("nan"), float("inf"))), 0)
    assert m == Measurement("imu", 0, 0, {"imu.wx": 1.0})
    assert d.counters["out_of_range"] == 1
