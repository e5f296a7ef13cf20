"""CSV logs: what is written reads back, and damage of any kind is reported, counted and skipped."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.csv_log import (
    CsvLog,
    CsvLogWriter,
    EstimatesWriter,
    read_estimates,
)
from replay.times import LONGEST_NS, format_seconds, parse_seconds
from vehicled.errors import UsageError
from vehicled.messages import CHANNELS, ESTIMATE_COLUMNS, Estimate, Measurement

SECOND = 1_000_000_000


def read(tmp_path: Path, text: str | bytes) -> tuple[list[Measurement], dict[str, int]]:
    path = tmp_path / "log.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    log = CsvLog(path)
    return list(log.measurements()), dict(log.problems.counts)


@given(st.integers(-LONGEST_NS, LONGEST_NS))
def test_seconds_keep_every_nanosecond(t: int) -> None:
    assert parse_seconds(format_seconds(t)) == t


@pytest.mark.parametrize(
    ("text", "ns"),
    [("1", SECOND), (" 0.25", SECOND // 4), ("1e-3", 1_000_000), ("-.5", -SECOND // 2), ("+2", 2 * SECOND)],
)
def test_seconds_as_people_write_them(text: str, ns: int) -> None:
    assert parse_seconds(text) == ns


@pytest.mark.parametrize(
    "text", ["", "x", "nan", "inf", "1e30", "-9.1e9", "9223372036.9", "1.2.3", "9" * 40, "1,5", "1 2"]
)
def test_an_invalid_time_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"^(not a|too large)"):
        parse_seconds(text)


def test_a_row_is_one_measurement_per_sensor_and_blank_is_absent(tmp_path: Path) -> None:
    samples, problems = read(
        tmp_path,
        "t,imu.ax,imu.wz,wheel.fl.angle,wheel.fr.angle,wheel.fl.speed,gnss.lat,gnss.arrival\n"
        "0.00,1.5,,0.1,0.2,,,\n"
        "0.01,,0,,,3,48.5,0.09\n",
    )
    assert problems == {}
    assert samples == [
        Measurement("imu", 0, 0, {"imu.ax": 1.5}),
        Measurement("wheel.angle", 0, 0, {"wheel.fl.angle": 0.1, "wheel.fr.angle": 0.2}),
        Measurement("imu", 10_000_000, 10_000_000, {"imu.wz": 0.0}),
        Measurement("wheel.speed", 10_000_000, 10_000_000, {"wheel.fl.speed": 3.0}),
        Measurement("gnss", 10_000_000, 90_000_000, {"gnss.lat": 48.5}),
    ]


def test_byte_order_marks_and_carriage_returns_of_spreadsheets_are_accepted(tmp_path: Path) -> None:
    samples, problems = read(tmp_path, b"\xef\xbb\xbft,imu.ax\r\n0.5,1\r\n\r\n0.6,2")
    assert [m.values["imu.ax"] for m in samples] == [1.0, 2.0]
    assert problems == {}


@pytest.mark.parametrize(
    ("rows", "values", "problem"),
    [
        ("0,1\n0.01,x\n0.02,3\n", [1, 3], "bad number"),
        ("0,1\n0.01,inf\n0.02,3\n", [1, 3], "not finite"),
        ("0,1\n0.01,-inf\n0.02,3\n", [1, 3], "not finite"),
        ("0,1\n0.01,1e300\n0.02,3\n", [1, 3], "absurd value"),
        ("0,1\n0.01,2,9\n0.02,3\n", [1, 3], "bad row"),
        ("0,1\nzero,2\n0.02,3\n", [1, 3], "bad time"),
        ("0,1\n1e9,2\n0.02,3\n", [1, 3], "absurd time"),
        ("0,1\n0.01,2\n0.01,2\n0.02,3\n", [1, 2, 3], "duplicate"),
        ("0,1\n0.01,2\n0.01,9\n0.02,3\n", [1, 2, 3], "same time"),
        ("0,1\n0.02,3\n0.01,2\n", [1, 3, 2], "time goes back"),
        ("0,1\n0.01,2\n0.0", [1, 2], "truncated"),
        ("0,1\n\x00\xff\x13garbage\n0.02,3\n", [1, 3], "bad row"),
    ],
)
def test_damage_is_counted_and_skipped(tmp_path: Path, rows: str, values: list[float], problem: str) -> None:
    samples, problems = read(tmp_path, b"t,imu.ax\n" + rows.encode("latin-1"))
    assert [m.values["imu.ax"] for m in samples] == values
    assert problems == {problem: 1}


def test_rows_may_end_with_a_comma_where_the_header_does_not(tmp_path: Path) -> None:
    samples, problems = read(tmp_path, "t,imu.ax\n0,1,\n0.01,2,\r\n0.02,3,4\n")
    assert [m.values["imu.ax"] for m in samples] == [1.0, 2.0]
    assert problems == {"bad row": 1}


def test_a_sensor_may_be_spread_over_several_rows_of_one_time(tmp_path: Path) -> None:
    """As where a logger writes a row per message; only what repeats a channel is a duplicate."""
    rows = "0,1,,\n0,,2,\n0,1,,\n0.01,,3,\n0.01,4,,\n0.01,,,48\n"
    samples, problems = read(tmp_path, "t,imu.ax,imu.wz,gnss.lat\n" + rows)
    assert [(m.t // 10_000_000, m.values) for m in samples] == [
        (0, {"imu.ax": 1.0}),
        (0, {"imu.wz": 2.0}),
        (1, {"imu.wz": 3.0}),
        (1, {"imu.ax": 4.0}),
        (1, {"gnss.lat": 48.0}),
    ]
    assert problems == {"duplicate": 1}


@pytest.mark.parametrize("cell", ["", " ", "nan", "NaN", "NA", "#N/A", "null", "-"])
def test_words_of_other_programs_for_missing_values_are_no_damage(tmp_path: Path, cell: str) -> None:
    samples, problems = read(tmp_path, f"t,imu.ax\n0,1\n0.01,{cell}\n0.02,3\n")
    assert [m.values["imu.ax"] for m in samples] == [1, 3]
    assert problems == {}


def test_a_pause_of_the_log_is_no_absurd_time(tmp_path: Path) -> None:
    samples, problems = read(tmp_path, "t,imu.ax\n0,1\n600,2\n600.01,3\n")
    assert len(samples) == 3
    assert problems == {}


def test_an_impossible_arrival_is_replaced_by_the_time_of_measurement(tmp_path: Path) -> None:
    samples, problems = read(tmp_path, "t,gnss.lat,gnss.arrival\n5,48,4\n6,48,x\n7,48,nan\n")
    assert [m.arrival for m in samples] == [5 * SECOND, 6 * SECOND, 7 * SECOND]
    assert problems == {"bad arrival": 3}


@given(st.binary(max_size=300))
@settings(max_examples=60)
def test_any_bytes_after_the_header_are_read_without_error(
    tmp_path_factory: pytest.TempPathFactory, damage: bytes
) -> None:
    samples, _ = read(tmp_path_factory.mktemp("csv"), b"t,imu.ax,gnss.lat,gnss.arrival\n0,1,2,3\n" + damage)
    for m in samples:
        assert all(math.isfinite(v) for v in m.values.values())
        assert m.values
        assert m.arrival >= m.t


def test_problems_are_reported_with_line_and_value_up_to_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("t,imu.ax\n" + "".join(f"{i},bad\n" for i in range(1000)))
    log = CsvLog(path)
    assert list(log.measurements()) == []
    assert log.problems.details[0] == "line 2: bad number: imu.ax = 'bad'"
    assert len(log.problems.details) < 10
    assert str(log.problems) == "log.csv: 1000 problems (1000 bad number)"
    list(log.measurements())
    assert log.problems.total == 1000, "reading again counts the same problems again"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("t,imu.ax\n0,1\n".encode("utf-16"), "expected text in UTF-8, got UTF-16"),
        ("t,imu.ax\n0,1\n".encode("utf-16-le"), "expected text in UTF-8, got bytes of 0"),
        (b"t,imu.ax\r0,1\r", "expected lines that end in LF or CR LF, got CR alone"),
        (b"t,imu.ax\r" + 20_000 * b"0,1\r", "expected lines that end in LF or CR LF, got CR alone"),
    ],
)
@pytest.mark.parametrize("read", [CsvLog, read_estimates])
def test_another_encoding_or_end_of_lines_is_named(
    tmp_path: Path, content: bytes, message: str, read: Callable[[Path], object]
) -> None:
    (tmp_path / "log.csv").write_bytes(content)
    with pytest.raises(UsageError, match=f"log.csv: line 1: {message}"):
        read(tmp_path / "log.csv")


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("", "empty; expected a header line"),
        ("imu.ax,imu.ay", "no column 't'"),
        ("t", "no measurements"),
        ("t,imu.ax,imu.ax", "column 'imu.ax' is there twice"),
        ("t,imu.axx", "unknown column 'imu.axx'; did you mean 'imu.ax'?"),
        ("t,gnss.latitude", "unknown column 'gnss.latitude'; did you mean"),
        ("t,x,y,yaw", "expected a log of measurements, got a table of estimates"),
        (
            "t;imu.ax",
            "expected commas between columns and decimal points; of a table with ';', give --mapping",
        ),
        (",t,imu.ax", "column 1 has no name, as of a pandas index"),
    ],
)
def test_a_wrong_header_is_one_clear_line(tmp_path: Path, header: str, message: str) -> None:
    path = tmp_path / "log.csv"
    path.write_text(header + "\n0,1,2\n")
    with pytest.raises(UsageError) as error:
        CsvLog(path)
    assert message in str(error.value)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


channel_values = st.dictionaries(
    st.sampled_from(sorted(CHANNELS)), st.floats(-80, 80, allow_nan=False), min_size=1, max_size=6
)


@given(st.lists(channel_values, min_size=1, max_size=20), st.integers(0, 200_000_000))
@settings(max_examples=50)
def test_measurements_that_are_written_read_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, float]], late: int
) -> None:
    path = tmp_path_factory.mktemp("csv") / "log.csv"
    with CsvLogWriter(path, CHANNELS) as writer:
        for i, values in enumerate(rows):
            gnss = {c: v for c, v in values.items() if c.startswith("gnss.")}
            rest = {c: v for c, v in values.items() if c not in gnss}
            t = i * 10_000_000
            if rest:
                writer.write(Measurement("can", t, t, rest))
            if gnss:
                writer.write(Measurement("receiver", t, t + late, gnss))
    log = CsvLog(path)
    back: list[dict[str, float]] = [{} for _ in rows]
    for m in log.measurements():
        back[m.t // 10_000_000].update(m.values)
        assert m.arrival == (m.t + late if m.source == "gnss" else m.t)
    assert back == rows
    assert not log.problems


def test_the_writer_sorts_late_fixes_by_their_time_of_measurement(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    with CsvLogWriter(path, ["imu.ax", "gnss.lat"]) as writer:
        for i in range(100):
            t = i * 10_000_000
            writer.write(Measurement("imu", t, t, {"imu.ax": 1.0}))
            if i >= 8:
                writer.write(Measurement("gnss", t - 80_000_000, t, {"gnss.lat": 48.0}))
        assert writer.merger.arrivals_lost == 0
    log = CsvLog(path)
    samples = list(log.measurements())
    assert not log.problems
    assert [m.t for m in samples] == sorted(m.t for m in samples)
    assert writer.rows == 100


def test_the_writer_counts_samples_that_csv_cannot_hold(tmp_path: Path) -> None:
    with CsvLogWriter(tmp_path / "log.csv", ["imu.ax"]) as writer:
        writer.write(Measurement("imu", 0, 1000, {"imu.ax": 1.0}))
        writer.write(Measurement("second imu", 0, 0, {"imu.ax": 2.0}))
    assert (writer.merger.arrivals_lost, writer.merger.same_instant, writer.rows) == (1, 1, 2)


@given(st.lists(st.floats(), min_size=len(ESTIMATE_COLUMNS), max_size=len(ESTIMATE_COLUMNS)))
@settings(max_examples=50)
def test_estimates_read_back_to_the_last_bit(
    tmp_path_factory: pytest.TempPathFactory, values: list[float]
) -> None:
    path = tmp_path_factory.mktemp("csv") / "estimates.csv"
    row = np.array(values)
    row[~(np.abs(row) < 1e12)] = np.nan  # values that no estimate can have are left out
    with EstimatesWriter(path) as writer:
        writer.write(Estimate(1_004_000_001, row))
    table = read_estimates(path)
    assert table.t.tolist() == [1_004_000_001]
    assert np.array_equal(np.hstack([table.columns[c] for c in ESTIMATE_COLUMNS]), row, equal_nan=True)
    assert not table.problems


def test_unknown_estimates_are_blank(tmp_path: Path) -> None:
    path = tmp_path / "estimates.csv"
    values = np.zeros(len(ESTIMATE_COLUMNS))
    values[-1] = values[3] = np.nan
    with EstimatesWriter(path) as writer:
        writer.write(Estimate(0, values))
    header, row = path.read_text().splitlines()
    cells = dict(zip(header.split(","), row.split(","), strict=True))
    assert {c for c, text in cells.items() if not text} == {"lat", "sigma.sideslip"}


def test_truth_may_have_few_columns_and_a_damaged_end(tmp_path: Path) -> None:
    path = tmp_path / "truth.csv"
    path.write_text("t,vx,sideslip\n0,1,\n0.01,oops,0.1\n0.02,3,0.2\n0.03,")
    table = read_estimates(path)
    assert table.t.tolist() == [0, 20_000_000]
    assert table.columns["vx"].tolist() == [1, 3]
    assert np.isnan(table.columns["sideslip"][0])
    assert dict(table.problems.counts) == {"bad number": 1, "truncated": 1}


def test_estimates_with_an_unknown_column_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "truth.csv"
    path.write_text("t,vx,side_slip\n")
    with pytest.raises(UsageError, match="unknown column 'side_slip'; did you mean 'sideslip'"):
        read_estimates(path)
