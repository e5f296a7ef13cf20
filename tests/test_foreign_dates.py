"""Tables whose times are dates as ISO 8601 writes them."""

import datetime
from pathlib import Path

import pytest

from replay.foreign.mapping import load_mapping
from replay.log import open_log
from replay.times import parse_date
from vehicled.cli import main
from vehicled.errors import SettingsError, UsageError

NOON = int(datetime.datetime(2026, 5, 1, 12, tzinfo=datetime.UTC).timestamp()) * 1_000_000_000


@pytest.mark.parametrize(
    ("text", "after_noon"),
    [
        ("2026-05-01T12:00:00.250Z", 250_000_000),
        ("2026-05-01t12:00:00z", 0),
        ("2026-05-01T12:00:00", 0),
        ("2026-05-01 12:00", 0),
        ("2026-05-01T14:00:00+02:00", 0),
        ("2026-05-01T14:00:00 +0200", 0),
        ("2026-05-01T04:30:00,5-07:30", 500_000_000),
        ("2026-05-01T12:00:00.1234567891Z", 123_456_789),
        (" 2026-05-01T13:59:60+02 ", 0),
        ("01.05.2026 12:00:00,25", 250_000_000),
        ("01.05.2026 14:00+02:00", 0),
    ],
)
def test_a_date_is_read_exactly(text: str, after_noon: int) -> None:
    assert parse_date(text) == NOON + after_noon


@pytest.mark.parametrize(
    "text",
    [
        "",
        "12.5",
        "2026-05-01",
        "12:00:00",
        "2026-02-30T12:00:00",
        "2026-05-01T24:30:00",
        "01.05.26 12:00:00",
        "05.31.2026 12:00:00",
        "01.05.2026",
        *(
            "2026-05-01T12:00:00+99:00",
            "2026-05-01T12:00:00.",
            "2026-05-01T12:00:00Z Z",
            "٢026-05-01T12:00:00",
        ),
    ],
)
def test_text_that_is_no_date_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_date(text)


def write(folder: Path, rows: list[str], mapping: str, header: str = "Time,Speed") -> tuple[Path, Path]:
    table, file = folder / "table.csv", folder / "mapping.yaml"
    table.write_text("\n".join([header, *rows]) + "\n")
    file.write_text(f"channels: {{vehicle.speed: Speed}}\n{mapping}\n")
    return table, file


def test_a_table_with_dates_is_read(tmp_path: Path) -> None:
    rows = [
        "2026-05-01T12:00:00.000Z,1",
        "2026-05-01T12:00:00.250Z,2",
        "yesterday,3",
        "2026-05-01T12:00:01Z,4",
    ]
    table, mapping = write(tmp_path, rows, "time: {signal: Time, unit: iso8601, offset: 0.5 s}")
    log = open_log(table, mapping=load_mapping(mapping))
    expected = [(0, 1.0), (250_000_000, 2.0), (1_000_000_000, 4.0)]
    assert [(m.t - NOON - 500_000_000, m.values["vehicle.speed"]) for m in log.measurements()] == expected
    (detail,) = log.problems.details
    assert detail.startswith("line 4: bad time: Time = 'yesterday': not a date and time such as 2026-05-01T")


def test_without_a_signal_dates_are_read_from_column_t(tmp_path: Path) -> None:
    table, mapping = write(tmp_path, ["2026-05-01 12:00:00.5;1,5"], "time: {unit: iso8601}", "t;Speed")
    (found,) = open_log(table, mapping=load_mapping(mapping)).measurements()
    assert (found.t, found.values["vehicle.speed"]) == (NOON + 500_000_000, 1.5)


@pytest.mark.parametrize(("header", "mapping"), [("Time,Speed", "time: Time"), ("t,Speed", "")])
def test_dates_in_a_column_of_numbers_are_reported_with_the_right_setting(
    tmp_path: Path, header: str, mapping: str
) -> None:
    table, file = write(tmp_path, ["2026-05-01T12:00:00Z,1"], mapping, header)
    log = open_log(table, mapping=load_mapping(file))
    assert list(log.measurements()) == []
    name = header.partition(",")[0]
    assert (
        f"line 2: bad number: {name} = '2026-05-01T12:00:00Z', a date: set `time: {{signal: {name}, unit: iso8601}}`"
        in (log.problems.details)
    )


def test_dates_in_a_log_with_channel_names_are_reported_with_the_right_setting(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("t,vehicle.speed\n2026-05-01T12:00:00Z,1\n")
    log = open_log(table)
    assert list(log.measurements()) == []
    assert "line 2: bad time" in log.problems.details[0]
    assert "`time: {signal: t, unit: iso8601}`" in log.problems.details[0]


@pytest.mark.parametrize(("unit", "factor"), [("ms", 1_000), ("us", 1_000_000), ("ns", 1_000_000_000)])
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_column_t_in_another_unit_is_the_time(tmp_path: Path, suffix: str, unit: str, factor: int) -> None:
    """Since 1970: in seconds it would be too large for a time."""
    times = [NOON // 1_000_000_000 * factor + k * factor // 4 for k in range(3)]
    table, mapping = tmp_path / f"table.{suffix}", tmp_path / "mapping.yaml"
    mapping.write_text(f"time: {{signal: t, unit: {unit}}}\n")
    if suffix == "csv":
        table.write_text("t,vehicle.speed\n" + "".join(f"{t},1\n" for t in times))
    else:
        arrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(arrow.table({"t": times, "vehicle.speed": [1.0] * 3}), table)
    log = open_log(table, mapping=load_mapping(mapping))
    assert [m.t - NOON for m in log.measurements()] == pytest.approx([0, 250_000_000, 500_000_000], abs=300)
    assert not log.problems


def test_unknown_units_missing_columns_and_other_formats_are_errors(tmp_path: Path) -> None:
    table, mapping = write(tmp_path, ["1,1"], "time: {signal: Time, unit: iso}")
    with pytest.raises(SettingsError, match=r"time\.unit.*iso8601"):
        load_mapping(mapping)
    _, mapping = write(tmp_path, ["1,1"], "time: {signal: When, unit: iso8601}")
    with pytest.raises(UsageError, match="no signal 'When', which is to be time"):
        open_log(table, mapping=load_mapping(mapping))
    vbo = tmp_path / "run.vbo"
    vbo.write_text("[column names]\nsats time lat long velocity heading\n[data]\n")
    mapping.write_text("time: {signal: time, unit: iso8601}\n")
    with pytest.raises(UsageError, match=r"is of tables \(\.csv, \.parquet\)"):
        open_log(vbo, mapping=load_mapping(mapping))


def test_times_of_a_converted_table_count_from_1970(tmp_path: Path) -> None:
    rows = [f"2026-05-01T12:00:{k:02d}Z,{k}" for k in range(3)]
    table, mapping = write(tmp_path, rows, "time: {signal: Time, unit: iso8601}")
    out = tmp_path / "out.csv"
    assert main(["convert", str(table), str(out), "--mapping", str(mapping)]) == 0
    assert out.read_text().splitlines()[1].startswith(f"{NOON // 10**9},")


@pytest.mark.parametrize("resolution", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "Europe/Madrid"])
@pytest.mark.parametrize("mapping", [None, "time: {signal: Time, unit: iso8601}", "time: Time"])
def test_timestamps_of_parquet_are_read_as_times(
    tmp_path: Path, resolution: str, zone: str | None, mapping: str | None
) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    name = "t" if mapping is None else "Time"
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[resolution]
    stamps = arrow.array(
        [NOON // 10**9 * per_second, None, (NOON // 10**9 + 1) * per_second],
        arrow.timestamp(resolution, zone),
    )
    parquet.write_table(arrow.table({name: stamps, "vehicle.speed": [1.0, 2.0, 3.0]}), tmp_path / "a.parquet")
    file = tmp_path / "mapping.yaml"
    file.write_text(f"channels: {{}}\n{mapping}\n")
    log = open_log(tmp_path / "a.parquet", mapping=None if mapping is None else load_mapping(file))
    expected = [(NOON, 1.0), (NOON + 10**9, 3.0)]
    assert [(m.t, m.values["vehicle.speed"]) for m in log.measurements()] == expected
    assert log.problems.counts == {"no time": 1}


def test_numbers_of_parquet_are_refused_as_dates(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table({"Time": [0.0], "vehicle.speed": [1.0]}), tmp_path / "a.parquet")
    file = tmp_path / "mapping.yaml"
    file.write_text("channels: {}\ntime: {signal: Time, unit: iso8601}\n")
    with pytest.raises(UsageError, match="column 'Time': expected timestamps"):
        open_log(tmp_path / "a.parquet", mapping=load_mapping(file))


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("Time, s;v, km/h;a, m/s²;Speed", "0,5;1,5;2,5;3,5"),
        ('"Time, s",Speed', "0.5,3.5"),
        ("Time, s\tSpeed", "0,5\t3,5"),
        ("Time, s;Speed", "0;3,5"),
    ],
)
def test_commas_in_names_and_numbers_do_not_separate_columns(tmp_path: Path, header: str, row: str) -> None:
    table, file = write(tmp_path, [row], "time: {signal: 'Time, s', unit: s}", header)
    (found,) = open_log(table, mapping=load_mapping(file)).measurements()
    assert found.values["vehicle.speed"] == 3.5


@pytest.mark.parametrize("cell", ["", "NaN", "NA", "#NV", "-"])
def test_table_cells_without_a_value_are_skipped(tmp_path: Path, cell: str) -> None:
    table, file = write(tmp_path, [f"0,{cell}", "1,2"], "time: Time")
    log = open_log(table, mapping=load_mapping(file))
    assert [m.values["vehicle.speed"] for m in log.measurements()] == [2.0]
    assert not log.problems
