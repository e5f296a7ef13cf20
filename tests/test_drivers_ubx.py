"""u-blox receivers: every message against pyubx2, epochs and their times."""

import math
import struct
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyubx2 import GET, UBXMessage, UBXReader
from ubx_rig import MOVING_BASE, MS, S, decoder, eoe, epochs, nav, pvt

from replay.ubx_encoder import UbxEncoder, ubx_message
from vehicled.messages import Measurement


def one(*messages, **options):
    """Values of the measurement that is made from the messages of one epoch."""
    d = decoder(**options)
    (m,) = d.feed(b"".join(messages), 10 * S) + d.feed(b"", 10 * S + 100 * MS)
    return m.values


# One message, against pyubx2


signed = st.integers(-(2**31), 2**31 - 1)
unsigned = st.integers(0, 2**32 - 1)


@settings(max_examples=200)
@given(
    lon=st.integers(-1_800_000_000, 1_800_000_000),
    lat=st.integers(-900_000_000, 900_000_000),
    height=st.integers(-1_000_000, 20_000_000),
    accuracies=st.tuples(*[st.integers(1, 2**31 - 1)] * 3),
    velocity=st.tuples(*[st.integers(-900_000, 900_000)] * 3),
    course=st.integers(0, 35_999_999),
)
def test_a_decoded_solution_agrees_with_pyubx2(lon, lat, height, accuracies, velocity, course):
    h_acc, v_acc, s_acc = accuracies
    vn, ve, vd = velocity
    speed = round(math.hypot(vn, ve))
    if speed > 1_000_000:
        return
    fields = (100_000, 2026, 11, 22, 10, 5, 7, 7, 20, 0, 3, 1, 0, 12, lon, lat, height, 0, h_acc, v_acc)
    payload = struct.pack("<IH6BIi4B4i2I5i2I", *fields, vn, ve, vd, speed, course, s_acc, 100_000) + bytes(16)
    data = ubx_message(0x0107, payload)
    oracle = UBXReader.parse(data)
    assert one(data) == pytest.approx(
        {
            "gnss.quality": 1.0,
            **{"gnss.lat": oracle.lat, "gnss.lon": oracle.lon, "gnss.alt": oracle.height * 1e-3},
            **{"gnss.h_acc": oracle.hAcc * 1e-3 / math.sqrt(2), "gnss.v_acc": oracle.vAcc * 1e-3},
            **{"gnss.vn": oracle.velN * 1e-3, "gnss.ve": oracle.velE * 1e-3, "gnss.vd": oracle.velD * 1e-3},
            **{"gnss.speed": oracle.gSpeed * 1e-3, "gnss.course": math.radians(oracle.headMot)},
            "gnss.s_acc": oracle.sAcc * 1e-3,
            "gnss.utc": datetime(2026, 11, 22, 10, 5, 7, tzinfo=UTC).timestamp(),
        },
        rel=1e-12,
        abs=1e-9,
    )


@settings(max_examples=50)
@given(payload=st.binary(min_size=92, max_size=92))
def test_any_solution_payload_gives_finite_and_possible_values(payload):
    for m in (d := decoder()).feed(ubx_message(0x0107, payload), 0) + d.feed(b"", S):
        assert all(map(math.isfinite, m.values.values()))
        assert abs(m.values.get("gnss.lat", 0.0)) <= 90.0
        assert abs(m.values.get("gnss.lon", 0.0)) <= 180.0


def test_the_time_of_day_has_the_fraction_of_the_second():
    whole = datetime(2026, 11, 22, 10, 5, 7, tzinfo=UTC).timestamp()
    assert one(pvt(nano=-250_000_000))["gnss.utc"] == pytest.approx(whole - 0.25, abs=1e-6)
    assert one(pvt(nano=999_999_000))["gnss.utc"] == pytest.approx(whole + 0.999999, abs=1e-6)
    leap = datetime(2017, 1, 1, tzinfo=UTC).timestamp()
    before = pvt(year=2016, month=12, day=31, hour=23, min=59, second=60, nano=500_000_000)
    assert one(before)["gnss.utc"] == pytest.approx(leap + 0.5, abs=1e-6)  # as POSIX counts it


@pytest.mark.parametrize(
    "fields",
    [
        {"validDate": 0},
        {"validTime": 0},
        {"fullyResolved": 0},
        {"month": 13},
        {"month": 0, "day": 0},
        {"day": 31},
        {"hour": 24},
        {"fixType": 0},
    ],
)
def test_without_date_time_or_fix_there_is_no_time_of_day(fields):
    assert "gnss.utc" not in one(pvt(**fields))


def test_a_second_receiver_gives_no_time_of_day():
    d = decoder(channels="gnss2")
    (m,) = d.feed(pvt(), 0) + d.feed(b"", S)
    assert "gnss2.lat" in m.values
    assert not any(channel.endswith("utc") for channel in m.values)


def test_the_emulated_receiver_sends_date_and_time_of_week_of_its_time_of_day():
    """2026-11-22 is a Sunday, the first day of a GPS week; GPS time is 18 s ahead of UTC."""
    utc = datetime(2026, 11, 22, 10, 5, 7, 999_600, tzinfo=UTC).timestamp()
    values = {"gnss.lat": 47.0, "gnss.lon": 8.0, "gnss.quality": 4.0, "gnss.speed": 5.0, "gnss.utc": utc}
    data = UbxEncoder().encode(Measurement("s", 5, 5, values))
    solution = UBXReader.parse(data[: 8 + int.from_bytes(data[4:6], "little")])
    assert solution.iTOW == ((10 * 60 + 5) * 60 + 7 + 18) * 1000 + 1000
    assert (solution.year, solution.month, solution.day) == (2026, 11, 22)
    assert (solution.hour, solution.min, solution.second, solution.nano) == (10, 5, 7, 999_600_000)
    assert (solution.validDate, solution.validTime, solution.fullyResolved) == (1, 1, 1)
    assert one(data)["gnss.utc"] == pytest.approx(utc, abs=1e-6)


def test_messages_of_the_emulated_receiver_agree_with_pyubx2():
    values = {
        **{"gnss.lat": -47.1234567891, "gnss.lon": 8.9999999999, "gnss.alt": 412.3456, "gnss.quality": 4.0},
        **{"gnss.h_acc": 0.0141, "gnss.v_acc": 0.02, "gnss.speed": 5.0, "gnss.course": 1.0},
        **{"gnss.vn": 2.702, "gnss.ve": 4.207, "gnss.vd": -0.125, "gnss.s_acc": 0.03},
        **{"gnss.heading": 2.0, "gnss.heading_acc": 0.01},
    }
    data, found = UbxEncoder().encode(Measurement("s", 1_234_567_890, 0, values)), {}
    while data:
        length = 8 + int.from_bytes(data[4:6], "little")
        message = UBXReader.parse(data[:length])
        found[message.identity] = message
        data = data[length:]
    assert set(found) == {"NAV-PVT", "NAV-HPPOSLLH", "NAV-RELPOSNED", "NAV-EOE"}
    assert {m.iTOW for m in found.values()} == {1235}
    solution, precise, baseline = found["NAV-PVT"], found["NAV-HPPOSLLH"], found["NAV-RELPOSNED"]
    assert (solution.fixType, solution.gnssFixOk, solution.carrSoln) == (3, 1, 2)
    assert (solution.velN, solution.velE, solution.velD, solution.sAcc) == (2702, 4207, -125, 30)
    assert solution.nano == 234_567_890
    assert precise.lat == pytest.approx(-47.1234567891, abs=6e-10)
    assert precise.lon == pytest.approx(8.9999999999, abs=6e-10)
    assert precise.height * 1e-3 == pytest.approx(412.3456, abs=6e-5)
    assert precise.hAcc == pytest.approx(14.1 * math.sqrt(2), abs=0.06)
    assert math.radians(baseline.relPosHeading) == pytest.approx(2.0, abs=1e-7)
    assert (baseline.isMoving, baseline.relPosHeadingValid, baseline.accHeading) == (
        1,
        1,
        pytest.approx(0.57296),
    )


@pytest.mark.parametrize(
    ("fields", "quality"),
    [
        ({"fixType": 0}, 0),
        ({"fixType": 5}, 0),
        ({"gnssFixOk": 0}, 0),
        ({"fixType": 1, "gnssFixOk": 0}, 6),
        ({"fixType": 1, "carrSoln": 2}, 6),
        ({"fixType": 2}, 1),
        ({}, 1),
        ({"fixType": 4}, 1),
        ({"diffSoln": 1}, 2),
        ({"diffSoln": 1, "carrSoln": 1}, 5),
        ({"diffSoln": 1, "carrSoln": 2}, 4),
        ({"carrSoln": 3}, 1),
    ],
)
def test_fix_type_and_carrier_solution_give_the_nmea_quality(fields, quality):
    values = one(pvt(**fields), eoe())
    assert values["gnss.quality"] == quality
    assert quality or values == {"gnss.quality": 0.0}  # without a fix nothing is measured


def test_a_fix_in_two_dimensions_has_no_height():
    values = one(pvt(fixType=2), eoe())
    assert not {"gnss.alt", "gnss.v_acc", "gnss.vd"} & values.keys()
    assert {"gnss.lat", "gnss.vn"} <= values.keys()
    precise = nav("HPPOSLLH", iTOW=100_000, lon=8.5, lat=47.25, height=412_500, hAcc=140, vAcc=210)
    assert not {"gnss.alt", "gnss.v_acc"} & one(pvt(fixType=2), precise, eoe()).keys()


@pytest.mark.parametrize(
    ("fields", "absent"),
    [
        ({"invalidLlh": 1}, {"gnss.lat", "gnss.lon", "gnss.alt", "gnss.h_acc", "gnss.v_acc"}),
        ({"hAcc": 0}, {"gnss.h_acc"}),
        ({"hAcc": 0xFFFFFFFF, "vAcc": 0xFFFFFFFF}, {"gnss.h_acc", "gnss.v_acc"}),
        ({"sAcc": 0xFFFFFFFF}, {"gnss.vn", "gnss.ve", "gnss.vd", "gnss.s_acc"}),
        ({"headAcc": 180.0}, {"gnss.course"}),
    ],
)
def test_unknown_quantities_are_absent(fields, absent):
    everything = one(pvt(), eoe()).keys()
    assert one(pvt(**fields), eoe()).keys() == everything - absent


@pytest.mark.parametrize(
    "fields", [{"lat": 91.0}, {"lon": -181.0}, {"height": 30_000_000}, {"velN": 2_000_000}, {"gSpeed": -1}]
)
def test_an_impossible_solution_is_counted(fields):
    d = decoder()
    assert d.feed(pvt(**fields) + eoe(), 0) == []
    assert d.counters["out_of_range"] == 1


def test_a_precise_position_and_covariances_replace_those_of_the_solution():
    precise = nav(
        "HPPOSLLH",
        **{"iTOW": 100_000, "lon": 8.5, "lat": 47.25, "height": 412_500, "hAcc": 30, "vAcc": 21},
        **{"_HPlon": 57e-9, "_HPlat": -23e-9, "_HPheight": -0.4},
    )
    oracle = UBXReader.parse(precise)
    assert (oracle.lon, oracle.lat) == (pytest.approx(8.500000057), pytest.approx(47.249999977))
    values = one(pvt(), precise, eoe())
    assert values["gnss.lon"] == pytest.approx(oracle.lon, abs=1e-11)
    assert values["gnss.lat"] == pytest.approx(oracle.lat, abs=1e-11)
    assert values["gnss.alt"] == pytest.approx(412.4996, abs=1e-9)
    assert values["gnss.h_acc"] == pytest.approx(0.03 / math.sqrt(2))
    covariance = {"posCovValid": 1, "posCovNN": 4e-4, "posCovEE": 2e-4, "posCovDD": 9e-4}
    covariance |= {"velCovValid": 1, "velCovNN": 1e-4, "velCovEE": 3e-4, "velCovDD": 1e-2}
    values = one(pvt(), precise, nav("COV", iTOW=100_000, **covariance), eoe())
    assert values["gnss.h_acc"] == pytest.approx(math.sqrt(3e-4), rel=1e-6)
    assert values["gnss.v_acc"] == pytest.approx(0.03, rel=1e-6)
    assert values["gnss.s_acc"] == pytest.approx(math.sqrt(2e-4), rel=1e-6)
    without = one(pvt(), nav("COV", iTOW=100_000, **covariance | {"posCovValid": 0, "velCovValid": 0}), eoe())
    assert without == one(pvt(), eoe())
    invalid = nav("HPPOSLLH", iTOW=100_000, invalidLlh=1, lon=1.0, lat=2.0, hAcc=300)
    assert one(pvt(), invalid, eoe()) == one(pvt(), eoe())


def test_invalid_covariances_are_counted():
    d = decoder()
    d.feed(pvt() + nav("COV", iTOW=100_000, posCovValid=1, posCovNN=math.nan) + eoe(), 0)
    assert d.counters["out_of_range"] == 1
    assert d.counters["measurements"] == 1


def test_older_messages_are_combined_into_a_solution():
    status = nav("STATUS", iTOW=100_000, gpsFix=3, gpsFixOk=1, diffSoln=1, carrSoln=2)
    velocity = nav(
        "VELNED",
        **{"iTOW": 100_000, "velN": 300, "velE": -400, "velD": 10, "speed": 500, "gSpeed": 500},
        **{"heading": 306.8699, "sAcc": 5, "cAcc": 1.0},
    )
    precise = nav("HPPOSLLH", iTOW=100_000, lon=8.5, lat=47.25, height=412_500, hAcc=140, vAcc=210)
    values = one(status, velocity, precise, eoe())
    assert values["gnss.quality"] == 4.0
    assert values["gnss.lat"] == pytest.approx(47.25)
    assert (values["gnss.vn"], values["gnss.ve"], values["gnss.vd"]) == pytest.approx((3.0, -4.0, 0.1))
    assert (values["gnss.speed"], values["gnss.s_acc"]) == pytest.approx((5.0, 0.05))
    assert one(status, precise, nav("STATUS", iTOW=100_000), eoe())["gnss.quality"] == 4.0
    assert one(nav("STATUS", iTOW=100_000, gpsFix=0), velocity, precise, eoe()) == {"gnss.quality": 0.0}


def test_a_moving_base_gives_the_heading_of_its_baseline():
    values = one(pvt(), nav("RELPOSNED", **MOVING_BASE), eoe())
    assert values["gnss.heading"] == pytest.approx(math.radians(91.5))
    assert values["gnss.heading_acc"] == pytest.approx(math.radians(0.25), rel=1e-4)


@pytest.mark.parametrize("flag", ["isMoving", "relPosHeadingValid", "relPosValid", "gnssFixOK"])
def test_a_baseline_without_a_moving_base_or_valid_flags_is_no_heading(flag):
    assert one(pvt(), nav("RELPOSNED", **MOVING_BASE | {flag: 0}), eoe()) == one(pvt(), eoe())


# Epochs and their times


def test_an_epoch_becomes_a_measurement_when_its_last_message_arrives():
    d = decoder()
    for at, (*most, last) in epochs(5, "PVT", "HP", "EOE"):
        assert d.feed(b"".join(most), at * MS) == []
        (m,) = d.feed(last, (at + 5) * MS)
        assert (m.t, m.arrival) == (at * MS, (at + 5) * MS)
        assert {"gnss.lat", "gnss.vn"} <= m.values.keys()


def test_without_end_messages_the_last_message_of_an_epoch_is_known_after_two_epochs():
    d = decoder()
    for at, messages in epochs(2, "PVT", "HP"):
        assert len(d.feed(b"".join(messages), at * MS)) == (at > 0)
    for at, (first, last) in epochs(8, "PVT", "HP")[2:]:
        assert len(d.feed(first, at * MS)) == (at == 200)  # the previous epoch
        (m,) = d.feed(last, at * MS)
        assert m.t == at * MS


def test_a_pause_ends_an_epoch():
    d = decoder(pause=0.03)
    assert d.feed(pvt(), 0) == []
    assert d.feed(b"", 20 * MS) == []
    assert len(d.feed(b"", 31 * MS)) == 1
    assert d.feed(b"", 100 * MS) == []


def test_a_lost_message_loses_only_its_own_channels():
    d = decoder()
    out = []
    for at, messages in epochs(6, "PVT", "HP", "EOE"):
        if at == 300:
            messages[0] = messages[0][:50] + b"\x00" + messages[0][51:]
            messages[0] = messages[0][:-1] + bytes([messages[0][-1] ^ 1])
        out += d.feed(b"".join(messages), at * MS)
    assert [m.t for m in out] == [i * 100 * MS for i in range(6)]
    assert [("gnss.vn" in m.values, "gnss.lat" in m.values) for m in out] == [
        (i != 3, True) for i in range(6)
    ]
    assert d.counters["checksum_errors"] == 1


def test_a_less_frequent_message_is_not_lost_and_delays_no_other():
    d = decoder()
    out = []
    for (at, messages), (_, rare) in zip(epochs(12, "PVT", "HP"), epochs(12, "REL"), strict=True):
        extra = rare if at % 500 == 0 else []
        out += d.feed(b"".join(messages + extra), at * MS)
        out += d.feed(b"", at * MS + 40 * MS)
    assert [m.t for m in out if "gnss.lat" in m.values] == [i * 100 * MS for i in range(12)]
    assert [m.t for m in out if "gnss.heading" in m.values] == [0, 500 * MS, 1000 * MS]
    assert max(m.arrival - m.t for m in out) <= 40 * MS


@pytest.mark.parametrize("place", ["after its epoch", "within the next"])
def test_a_late_heading_is_a_separate_measurement_with_its_own_time(place):
    d = decoder()
    d.feed(b"".join(epochs(1, "PVT", "EOE")[0][1]), 0)
    late = epochs(1, "REL")[0][1][0]
    if place == "within the next":
        assert d.feed(pvt(iTOW=100_100), 100 * MS) == []
    (m,) = d.feed(late, 101 * MS)
    assert (m.t, m.arrival) == (0, 101 * MS)
    assert set(m.values) == {"gnss.heading", "gnss.heading_acc"}
    (m,) = d.feed(pvt(iTOW=100_100) * (place == "after its epoch") + eoe(100_100), 110 * MS)
    assert "gnss.lat" in m.values
    assert m.t == 100 * MS if place == "within the next" else m.t <= 110 * MS


def test_times_continue_over_the_end_of_the_gps_week():
    d = decoder(latency=0.02)
    out = []
    for i in range(40):
        itow = (604_800_000 - 2000 + i * 100) % 604_800_000
        out += d.feed(
            pvt(iTOW=itow) + eoe(itow), S + i * 100 * MS + (i % 7) * MS
        )  # the jitter of a busy line
    assert [m.t for m in out] == [S - 20 * MS + i * 100 * MS for i in range(40)]
    assert d.counters["clock_restarts"] == 0


def test_the_time_of_an_epoch_is_more_exact_than_its_rounded_millisecond():
    """iTOW is rounded. UTC has the exact fraction, because it differs from GPS time by whole seconds."""
    d, unresolved = decoder(), decoder()
    for i, fraction in enumerate((0, 250_000, -400_000, 499_000)):
        itow, at = 100_000 + i * 100, S + i * 100 * MS + fraction
        nano = (i * 100 * MS + fraction) % S
        (m,) = d.feed(pvt(iTOW=itow, nano=nano) + eoe(itow), at + i * MS)
        assert m.t == at
        (m,) = unresolved.feed(pvt(iTOW=itow, nano=nano, fullyResolved=0) + eoe(itow), at + i * MS)
        assert m.t == pytest.approx(S + i * 100 * MS, abs=1)


def test_times_continue_after_the_clock_of_the_receiver_is_set():
    d = decoder()
    out = []
    for i in range(20):
        itow = 5_000 + i * 100 if i < 10 else 300_000_000 + i * 100
        out += d.feed(pvt(iTOW=itow) + eoe(itow), i * 100 * MS)
    assert [m.t for m in out] == [i * 100 * MS for i in range(20)]
    assert d.counters["clock_restarts"] == 1


def test_a_lost_connection_ends_the_epoch():
    d = decoder()
    d.feed(pvt(), 0)
    d.reset()
    assert d.feed(b"", S) == []
    assert len(d.feed(pvt(iTOW=200_000) + eoe(200_000), 2 * S)) == 1


# Other content


def test_other_messages_are_counted():
    d = decoder()
    d.feed(UBXMessage("ACK", "ACK-ACK", GET, clsID=6, msgID=1).serialize(), 0)
    d.feed(ubx_message(0x0107, bytes(20)), 0)  # too short
    d.feed(nav("RELPOSNED", version=0), 0)
    d.feed(pvt(iTOW=0xFFFFFFFF), 0)
    assert (d.counters["other_messages"], d.counters["out_of_range"]) == (1, 3)
    assert d.counters["ubx_messages"] == 4


ESF = {14: 1.5, 13: -2.25, 5: 90.0}


def esf(types, tag, scale):
    words = [(kind << 24) | (round(value * 2**scale) & 0xFFFFFF) for kind, value in types.items()]
    payload = struct.pack("<IHH", tag, len(words) << 11, 0) + struct.pack(f"<{len(words)}I", *words)
    return ubx_message(0x1002, payload)


def test_inertial_sensors_of_the_receiver_are_read():
    gyro, acceleration = esf(ESF | {12: 1.0}, 500, 12), esf({16: 0.5, 17: -1.25, 18: 9.75}, 503, 10)
    oracle = UBXReader.parse(gyro)
    assert (oracle.numMeas, oracle.dataType_01, oracle.dataField_01) == (4, 14, 1.5 * 2**12)
    d = decoder(imu=True)
    a, b = d.feed(gyro + acceleration, 10 * MS)
    assert a.values == pytest.approx(
        {f"imu.w{x}": math.radians(v) for x, v in zip("xyz", ESF.values(), strict=True)}
    )
    assert b.values == {"imu.ax": 0.5, "imu.ay": -1.25, "imu.az": 9.75}
    (c,) = d.feed(esf(ESF, 523, 12), 35 * MS)
    assert c.t - b.t == 20 * MS  # from the time tags, not from the arrivals
    assert decoder().feed(gyro, 0) == []
