"""NMEA 0183: epochs, missing fields, units and times."""

import math
from datetime import UTC, datetime

import pytest

from drivers.nmea import NmeaDecoder, NmeaOptions
from replay.encoders import NmeaEncoder, nmea_sentence
from vehicled.messages import Measurement

MS = 1_000_000
S = 1_000 * MS


def decoder(**options):
    return NmeaDecoder("gnss", NmeaOptions(port="p", **{"latency": 0.0} | options))


def lines(*bodies):
    return b"".join(map(nmea_sentence, bodies))


def one(*bodies, **options):
    """The measurement of one epoch."""
    d = decoder(**options)
    (m,) = d.feed(lines(*bodies), 10 * S) + d.feed(b"", 10 * S + 100 * MS)
    return m.values


GGA = "GPGGA,184353.07,1929.045,S,02410.506,E,1,04,2.6,100.00,M,-33.9,M,,0000"


def test_a_known_sentence_is_decoded():
    d = decoder()
    d.feed(b"$" + GGA.encode() + b"*6D\r\n", 0)  # the example of pynmea2
    (m,) = d.feed(b"", S)
    assert m.values == pytest.approx(
        {
            **{"gnss.lat": -19 - 29.045 / 60, "gnss.lon": 24 + 10.506 / 60, "gnss.alt": 66.1},
            **{"gnss.quality": 1.0, "gnss.hdop": 2.6},
        },
        abs=1e-12,
    )


@pytest.mark.parametrize(
    ("field", "hdop"), [("0.7", 0.7), ("12.5", 12.5), ("99.99", None), ("0", None), ("", None)]
)
def test_a_dilution_that_the_receiver_does_not_know_is_left_out(field, hdop):
    d = decoder()
    d.feed(nmea_sentence(GGA.replace(",2.6,", f",{field},")), 0)
    (m,) = d.feed(b"", S)
    assert m.values.get("gnss.hdop") == hdop
    assert d.counters["out_of_range"] == 0


def test_sentences_of_an_rtk_receiver_are_decoded():
    d = decoder(altitude="as sent")
    data = (
        b"$GPRMC,112525.40,A,4020.17401738,N,11637.64492453,E,16.216,171.3,011222,7.2,W,D*13\r\n"
        b"$GPGGA,112525.50,4020.17357194,N,11637.64500807,E,4,17,0.9,57.4034,M,-8.4438,M,00,0149*47\r\n"
    )
    out = d.feed(data, 0) + d.feed(b"", S)
    assert out[0].values["gnss.speed"] == pytest.approx(16.216 * 1852 / 3600)
    assert out[0].values["gnss.course"] == pytest.approx(math.radians(171.3))
    assert out[0].values["gnss.quality"] == 2.0
    assert out[1].values["gnss.lat"] == pytest.approx(40 + 20.17357194 / 60, abs=1e-12)
    assert out[1].values["gnss.alt"] == 57.4034
    assert out[1].values["gnss.quality"] == 4.0


@pytest.mark.parametrize(
    ("modes", "quality"), [("RN", 4), ("AD", 2), ("FRA", 4), ("A", 1), ("NN", 0), ("", 0)]
)
def test_gns_is_read_like_gga(modes, quality):
    """Its mode is that of each satellite system; the best one counts."""
    values = one(f"GNGNS,123519.00,4807.0380,N,01131.0000,E,{modes},12,0.7,545.4,46.9,1.0,0001")
    fix = {"gnss.lat": 48.1173, "gnss.lon": 11 + 31 / 60, "gnss.alt": 592.3, "gnss.hdop": 0.7}
    assert values == pytest.approx({"gnss.quality": quality} | (fix if quality else {}))


def test_rtk_precision_survives_the_round_trip():
    values = {
        "gnss.lat": 47.37688612345,
        "gnss.lon": -0.00000000123,
        "gnss.alt": 412.3456,
        "gnss.quality": 5.0,
    }
    d = decoder()
    (m,) = d.feed(NmeaEncoder().encode(Measurement("s", 0, 0, values)), 0) + d.feed(b"", S)
    assert m.values["gnss.lat"] == pytest.approx(values["gnss.lat"], abs=1e-10)
    assert m.values["gnss.lon"] == pytest.approx(values["gnss.lon"], abs=1e-10)
    assert m.values["gnss.alt"] == pytest.approx(values["gnss.alt"], abs=5e-5)
    assert m.values["gnss.quality"] == 5.0
    assert set(m.values) == set(values)


@pytest.mark.parametrize("degrees", [59.99999999999, 0.0, 7.0, 89.9999999999])
def test_minutes_are_never_sixty(degrees):
    (m,) = (d := decoder()).feed(
        NmeaEncoder().encode(Measurement("s", 0, 0, {"gnss.lat": degrees, "gnss.lon": degrees})), 0
    ) + d.feed(b"", S)
    assert m.values["gnss.lat"] == pytest.approx(degrees, abs=2e-10)


@pytest.mark.parametrize(
    ("decimals", "claimed", "expected"),
    [(2, 1.0, 5.438), (3, 1.0, 1.134), (8, 1.0, 1.0), (2, None, 5.346), (3, None, None), (8, None, None)],
)
def test_a_position_is_no_more_accurate_than_its_last_digit(decimals, claimed, expected):
    """The rounding is uniform within a digit, 18.5 m with two decimals of a minute. That of GGA counts."""
    gga = f"GNGGA,120000.25,4700.{'1' * decimals},N,00800.{'1' * decimals},E,1,05,1.0,10.0,M,45.0,M,,"
    gst = [] if claimed is None else [f"GNGST,120000.25,,,,,{claimed},{claimed},2.0"]
    values = one(rmc(), gga, *gst)
    assert values.get("gnss.h_acc") == (None if expected is None else pytest.approx(expected, abs=1e-3))


# Time of day


def rmc(time="120000.25", date="290224", status="A"):
    return f"GNRMC,{time},{status},4700.0,N,00800.0,E,1.0,2.0,{date},,,A"


def test_time_of_day_is_taken_from_rmc():
    at = datetime(2024, 2, 29, 12, 0, 0, 250_000, tzinfo=UTC).timestamp()
    assert one(rmc())["gnss.utc"] == pytest.approx(at, abs=1e-6)
    both = one(rmc(), "GNGGA,120000.25,4700.0,N,00800.0,E,4,05,1.0,10.0,M,45.0,M,,")
    assert (both["gnss.utc"], both["gnss.quality"]) == (pytest.approx(at, abs=1e-6), 4.0)
    # A receiver that does not know the date starts at the first day of GPS time.
    assert one(rmc(date="060180"))["gnss.utc"] == pytest.approx(315_964_800 + 43_200.25)


@pytest.mark.parametrize("date", ["", "300224", "000000", "29022", "2902241", "abcdef", "291324"])
def test_an_invalid_date_gives_no_time_of_day(date):
    values = one(rmc(date=date))
    assert "gnss.lat" in values
    assert "gnss.utc" not in values


def test_without_time_or_fix_there_is_no_time_of_day():
    assert "gnss.utc" not in one(rmc(time=""))
    assert "gnss.utc" not in one(rmc(status="V"), GGA)


def test_the_emulated_receiver_has_the_date_of_its_time_of_day():
    utc = datetime(2026, 12, 31, 23, 59, 59, 900_000, tzinfo=UTC).timestamp()
    encoder, d, found = NmeaEncoder(), decoder(), []
    for i in range(3):
        values = {"gnss.lat": 47.0, "gnss.lon": 8.0, "gnss.quality": 4.0, "gnss.utc": utc + 0.1 * i}
        data = encoder.encode(Measurement("s", i * 100 * MS, i * 100 * MS, values))
        out = d.feed(data, i * 100 * MS) + d.feed(b"", i * 100 * MS + 50 * MS)
        found += [(m.t, m.values["gnss.utc"]) for m in out]
    assert found == [(i * 100 * MS, pytest.approx(utc + 0.1 * i, abs=1e-6)) for i in range(3)]


# Missing and invalid fields


@pytest.mark.parametrize(
    ("body", "absent"),
    [
        ("GNGGA,120000.00,,,,,1,05,1.0,10.0,M,45.0,M,,", {"gnss.lat", "gnss.lon"}),
        ("GNGGA,120000.00,4700.0,,00800.0,E,1,05,1.0,10.0,M,45.0,M,,", {"gnss.lat", "gnss.lon"}),
        ("GNGGA,120000.00,4700.0,N,,,1,05,1.0,10.0,M,45.0,M,,", {"gnss.lat", "gnss.lon"}),
        ("GNGGA,120000.00,4700.0,N,00800.0,E,1,05,1.0,,M,45.0,M,,", {"gnss.alt"}),
        ("GNGGA,120000.00,4700.0,N,00800.0,E,1,05,1.0,10.0,M,,,,", {"gnss.alt"}),
        ("GNRMC,120000.00,A,4700.0,N,00800.0,E,,,010124,,,A", {"gnss.speed", "gnss.course"}),
    ],
)
def test_empty_fields_are_absent(body, absent):
    values = one(body)
    assert values
    assert not absent & set(values)
    assert 0.0 not in values.values()


@pytest.mark.parametrize(
    "body",
    [
        "GNGGA,,,,,,,,,,,,,,",
        "GNRMC,120000.00,V,4700.0,N,00800.0,E,1.0,2.0,010124,,,N",
        "GNRMC,120000.00,A,4700.0,N,00800.0,E,1.0,2.0,010124,,,N",
        "GNVTG,1.0,T,,M,1.0,N,1.8,K,N",
        "GNVTG,,T,,M,,N,,K,A",
        "GNGST,120000.00,,,,,,,",
        "GNZDA,120000.00,01,01,2024,00,00",
        "GNGSA,A,3,01,02,,,,,,,,,,,1.0,1.0,1.0",
        "GNRMC",
        "GNGGA,1",
    ],
)
def test_sentences_without_data_make_no_measurement(body):
    d = decoder()
    assert d.feed(lines(body), 0) + d.feed(b"", S) == []


def test_without_a_fix_only_the_quality_is_reported():
    values = one(
        "GNGGA,120000.00,4700.0,N,00800.0,E,0,00,99,10.0,M,45.0,M,,", "GNGST,120000.00,,,,,9.0,9.0,9.0"
    )
    assert values == {"gnss.quality": 0.0}


@pytest.mark.parametrize(
    "body",
    [
        "GNGGA,120000.00,9100.0,N,00800.0,E,1,05,1.0,10.0,M,45.0,M,,",
        "GNGGA,120000.00,4760.0,N,00800.0,E,1,05,1.0,10.0,M,45.0,M,,",
        "GNGGA,120000.00,4700.0,X,00800.0,E,1,05,1.0,10.0,M,45.0,M,,",
        "GNGGA,120000.00,four,N,00800.0,E,1,05,1.0,10.0,M,45.0,M,,",
        "GNRMC,120000.00,A,4700.0,N,18100.0,E,,,010124,,,A",
    ],
)
def test_impossible_positions_are_counted_and_dropped(body):
    d = decoder()
    out = d.feed(lines(body), 0) + d.feed(b"", S)
    assert not any("gnss.lat" in m.values for m in out)
    assert d.counters["out_of_range"] == 1


@pytest.mark.parametrize("number", ["nan", "inf", "-1", "1e9", "a"])
def test_impossible_numbers_are_counted_and_dropped(number):
    d = decoder()
    assert d.feed(lines(f"GNVTG,10.0,T,,M,{number},N,,K,A"), 0) == []
    (m,) = d.feed(b"", S)
    assert m.values == {"gnss.course": pytest.approx(math.radians(10))}
    assert d.counters["out_of_range"] == 1


def test_accuracy_per_axis_from_gst():
    values = one("GNGST,120000.00,,0.1,0.1,0,0.03,0.04,0.05")
    assert values == {"gnss.h_acc": pytest.approx(math.sqrt((0.03**2 + 0.04**2) / 2)), "gnss.v_acc": 0.05}


def test_an_accuracy_of_zero_is_ignored():
    assert one("GNGST,120000.00,,,,,0.0,0.0,0.05") == {"gnss.v_acc": 0.05}


def test_speed_in_kilometres_per_hour_is_used_if_knots_are_missing():
    assert one("GNVTG,,T,,M,,N,36.0,K,A") == {"gnss.speed": pytest.approx(10.0)}


def test_the_position_of_gga_takes_precedence_over_rmc():
    values = one(
        "GNRMC,120000.00,A,4700.01,N,00800.01,E,1.0,,010124,,,A",
        "GNGGA,120000.00,4700.0123456,N,00800.0123456,E,4,05,1.0,10.0,M,45.0,M,,",
    )
    assert values["gnss.lat"] == pytest.approx(47 + 0.0123456 / 60, abs=1e-12)
    assert values["gnss.quality"] == 4.0


# Epochs


def epoch(i, *, gst=True, period_ms=100):
    seconds, ms = divmod(i * period_ms, 1000)
    time = f"1200{seconds:02d}.{ms:03d}"
    return [
        nmea_sentence(body)
        for body in (
            f"GNRMC,{time},A,4700.00000,N,00800.00000,E,1.{i},2.0,010124,,,R",
            f"GNVTG,2.0,T,,M,1.{i},N,1.8,K,R",
            f"GNGGA,{time},4700.00000,N,00800.00000,E,4,12,0.8,367.0,M,45.0,M,,",
            "GNGSA,A,3,01,02,,,,,,,,,,,1.0,1.0,1.0",
            "GNGSA,A,3,65,66,,,,,,,,,,,1.0,1.0,1.0",
            *([f"GNGST,{time},,0.02,0.02,,0.02,0.02,0.03"] if gst else []),
        )
    ]


ALL = set(NmeaEncoder().channels) - {"gnss.heading"}


def test_an_epoch_is_emitted_with_its_last_sentence_once_the_cycle_is_known():
    d = decoder()
    d.feed(b"".join(epoch(0)), 0)
    d.feed(b"".join(epoch(1)), 100 * MS)
    for i in range(2, 5):
        at = i * 100 * MS
        *most, last = epoch(i)
        assert d.feed(b"".join(most), at) == []
        (m,) = d.feed(last, at + 5 * MS)
        assert (m.t, m.arrival) == (at, at + 5 * MS)
        assert set(m.values) == ALL


def test_a_pause_ends_an_epoch_whose_cycle_is_not_known():
    d = decoder(pause=0.03)
    assert d.feed(b"".join(epoch(0)), 0) == []
    assert d.feed(b"", 20 * MS) == []
    (m,) = d.feed(b"", 31 * MS)
    assert set(m.values) == ALL
    assert d.feed(b"", 100 * MS) == []


def test_a_lost_sentence_loses_only_its_own_channels():
    d = decoder()
    out = []
    for i in range(6):
        sentences = epoch(i)
        if i == 3:
            sentences[2] = sentences[2].replace(b"4700.0", b"4700.1")  # GGA, its checksum now wrong
        out += d.feed(b"".join(sentences), i * 100 * MS)
        out += d.feed(b"", i * 100 * MS + 50 * MS)
    assert [m.t for m in out] == [i * 100 * MS for i in range(6)]
    assert [set(m.values) for m in out] == [ALL] * 3 + [ALL - {"gnss.alt", "gnss.hdop"}] + [ALL] * 2
    assert d.counters["checksum_errors"] == 1


def test_a_less_frequent_sentence_is_not_lost_and_delays_no_others():
    d = decoder()
    out = []
    for i in range(10):
        out += d.feed(b"".join(epoch(i, gst=i % 5 == 0)), i * 100 * MS)
        out += d.feed(b"", i * 100 * MS + 40 * MS)
    at: dict[int, set[str]] = {}
    for m in out:
        at.setdefault(m.t, set()).update(m.values)
    assert list(at) == [i * 100 * MS for i in range(10)]
    assert [("gnss.h_acc" in channels) for channels in at.values()] == [i % 5 == 0 for i in range(10)]
    assert all(m.arrival - m.t <= 40 * MS for m in out)


def test_a_leading_sentence_without_a_time_starts_the_next_epoch():
    d = decoder()
    out = []
    for i in range(5):
        vtg, gga = epoch(i)[1], epoch(i)[2]
        out += d.feed(vtg + gga, i * 100 * MS)
    assert [m.t for m in out[1:]] == [i * 100 * MS for i in range(1, 5)]
    assert [m.values["gnss.speed"] for m in out[1:]] == [
        pytest.approx((1 + i / 10) * 1852 / 3600) for i in range(1, 5)
    ]


def test_sentences_sent_twice_count_once():
    d = decoder()
    out = d.feed(b"".join(2 * epoch(0)), 0) + d.feed(b"", S)
    assert [set(m.values) for m in out] == [ALL]
    assert d.counters["repeated"] == 4


def test_a_pause_within_an_epoch_splits_it_but_loses_nothing():
    d = decoder(pause=0.03)
    first, *rest = epoch(0)
    out = d.feed(first, 0) + d.feed(b"", 50 * MS) + d.feed(b"".join(rest), 60 * MS) + d.feed(b"", S)
    assert [m.t for m in out] == [0, 0]
    assert set.union(*(set(m.values) for m in out)) == ALL
    assert "gnss.alt" in out[1].values


@pytest.mark.parametrize("order", [(0, 1, 2, 5), (2, 5, 0, 1), (2, 5, 1, 0)])
@pytest.mark.parametrize("lost", [0, 1, 2, 5])
def test_after_a_lost_sentence_no_channel_is_given_twice(order, lost):
    d = decoder()
    out = []
    for i in range(8):
        sentences = [epoch(i)[k] for k in order if (i, k) != (3, lost)]
        for k, sentence in enumerate(sentences):
            out += d.feed(sentence, i * 100 * MS + k * MS)
        out += d.feed(b"", i * 100 * MS + 50 * MS)
    given = [(m.t, channel) for m in out for channel in m.values if channel != "gnss.quality"]
    assert len(set(given)) == len(given)
    assert {channel for _, channel in given} == ALL - {"gnss.quality"}


# Time


def test_latency_and_jitter_are_removed_across_midnight():
    d = decoder(latency=0.08)
    out = []
    for i in range(20):
        time = f"{'235959' if i < 10 else '000000'}.{i % 10}"
        at = 50 * S + i * 100 * MS + 80 * MS + (i * 7 % 5) * MS
        out += d.feed(lines(f"GNGGA,{time},4700.0,N,00800.0,E,4,12,0.8,367.0,M,45.0,M,,"), at)
        out += d.feed(b"", at + 40 * MS)
    assert [m.t for m in out] == [50 * S + i * 100 * MS for i in range(20)]
    assert d.counters["clock_restarts"] == 0


@pytest.mark.parametrize("period", [200 * MS, S])
def test_fixes_keep_correct_times_through_a_leap_second(period):
    d = decoder()
    out = []
    for i in range(10 * S // period):
        at = 50 * S + i * period
        # The leap second begins 4 s after the first fix.
        second, fraction = divmod(i * period, S)
        clock = (
            ["235956", "235957", "235958", "235959", "235960"][second] if second < 5 else f"00000{second - 5}"
        )
        out += d.feed(
            lines(f"GNGGA,{clock}.{fraction // 1_000_000:03},4700.0,N,00800.0,E,4,12,0.8,367.0,M,45.0,M,,"),
            at,
        )
        out += d.feed(b"", at + 40 * MS)
    assert [m.t for m in out] == [50 * S + i * period for i in range(10 * S // period)]
    assert d.counters["clock_restarts"] == 1


def test_without_utc_the_time_is_the_arrival_minus_latency():
    d = decoder(latency=0.08)
    d.feed(lines("GNGGA,,4700.0,N,00800.0,E,1,12,0.8,367.0,M,45.0,M,,"), 5 * S)
    (m,) = d.feed(b"", 6 * S)
    assert m.t == 5 * S - 80 * MS


@pytest.mark.parametrize(
    "time", ["250000.00", "126000.00", "120061.00", "12000", "hhmmss.ss", "120000.0000000000"]
)
def test_an_invalid_time_is_ignored(time):
    d = decoder(latency=0.0)
    d.feed(lines(f"GNGGA,{time},4700.0,N,00800.0,E,1,12,0.8,367.0,M,45.0,M,,"), 5 * S)
    (m,) = d.feed(b"", 6 * S)
    assert m.t == 5 * S


# Lines


def test_lines_longer_than_the_standard_and_all_line_ends_are_accepted():
    d = decoder()
    body = "GNGGA,120000.00,4700.000000000000,N,00800.000000000000,E,4,12,0.80,367.000,M,45.000,M,1.0,0001"
    line = nmea_sentence(body)
    assert len(line) > 84
    for end in (b"\r\n", b"\n", b"\r"):
        d.feed(line.rstrip() + end, 0)
    d.feed(b"$", 0)
    assert d.counters["messages"] == 3
    assert d.counters["garbage_bytes"] == 0


def test_an_endless_line_is_discarded():
    d = decoder()
    d.feed(b"$GNGGA," + b"1" * 5000, 0)
    d.feed(lines(GGA), 0)
    assert d.counters["messages"] == 1
    assert d.counters["garbage_bytes"] == 5007


@pytest.mark.parametrize(
    ("line", "counter"),
    [
        (b"$GNGGA,12*00\r\n", "checksum_errors"),
        (b"$GNGGA,12\xff3*00\r\n", "checksum_errors"),
        (b"$GNGGA,123\r\n", "truncated"),
        (b"$GNGGA,12$GNGGA,12", "truncated"),
        (b"$GNGGA,12*4\r\n", "truncated"),
    ],
)
def test_damaged_lines_are_counted(line, counter):
    d = decoder()
    assert d.feed(line + lines(GGA), 0) + d.feed(b"", S) != []
    assert d.counters[counter] >= 1
    assert d.counters["messages"] == 1
    assert d.counters["garbage_bytes"] == len(line)


def test_unknown_sentences_are_counted():
    d = decoder()
    d.feed(lines("GNXYZ,1,2", "PUBX,00,1", "GPGLL,4700.0,N,00800.0,E,120000,A", "GPGGAQ,1"), 0)
    assert d.counters["other_sentences"] == 4
    assert d.counters["garbage_bytes"] == 0


@pytest.mark.parametrize("body", ["CCGPQ,GGA", "EIGNQ,RMC", "EIGNQ,VTG", "EIGNQ,GST", "EIGNQ,HDT"])
def test_queries_of_other_programs_are_not_taken_for_data(body):
    d = decoder()
    d.feed(lines(body, GGA), 0)
    (m,) = d.feed(b"", S)
    assert "gnss.lat" in m.values
    assert d.counters["other_sentences"] == 1
