"""`vehicled convert`: formats are converted and logs merged, and every loss is reported."""

from pathlib import Path

import numpy as np
import pytest

from replay.csv_log import CsvLog, read_estimates
from replay.foreign.mapping import LogMapping, MappedClock
from replay.log import create_log, describe_log, open_log
from replay.log_about import LogAbout
from replay.mcap_log import McapLog
from replay.mcap_writer import McapLogWriter
from vehicled.cli import main
from vehicled.daemon.recorder import Recorder
from vehicled.messages import ESTIMATE_COLUMNS, Estimate, Measurement
from vehicled.schemas import resolution_of


def drive(n: int = 200) -> list[Measurement]:
    samples = []
    for i in range(n):
        t = i * 10_000_000
        samples.append(Measurement("imu", t, t, {"imu.ax": i / 7, "imu.wz": -i / 3}))
        if i >= 8 and i % 20 == 8:
            at = t - 80_000_000
            samples.append(Measurement("gnss", at, t, {"gnss.lat": 48 + i / 1e9, "gnss.quality": 4.0}))
    return samples


def write(path: Path, samples: list[Measurement]) -> None:
    with McapLogWriter(path) as writer:
        for m in samples:
            writer.write(m)


def test_mcap_to_csv_and_back_gives_the_same_measurements(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    samples = drive()
    write(tmp_path / "a.mcap", samples)
    assert main(["convert", str(tmp_path / "a.mcap"), str(tmp_path / "b.csv")]) == 0
    assert CsvLog(tmp_path / "b.csv").channels == ["imu.ax", "imu.wz", "gnss.lat", "gnss.quality"]
    assert main(["convert", str(tmp_path / "b.csv"), str(tmp_path / "c.mcap")]) == 0
    back = list(McapLog(tmp_path / "c.mcap").measurements())
    assert sorted(back, key=lambda m: (m.source, m.t)) == sorted(samples, key=lambda m: (m.source, m.t))
    assert [m.arrival for m in back] == sorted(m.arrival for m in back)
    shown = [line for line in capsys.readouterr().err.splitlines() if "measurements" not in line]
    assert shown == [], "nothing was lost, so nothing is reported"


def test_data_that_csv_cannot_hold_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(
        tmp_path / "a.mcap",
        [Measurement("mti", 0, 500, {"imu.ax": 1.0}), Measurement("vn", 0, 0, {"imu.ax": 1.0})],
    )
    assert main(["convert", str(tmp_path / "a.mcap"), str(tmp_path / "b.csv")]) == 0
    shown = capsys.readouterr().err
    assert "no names of devices (mti, vn)" in shown
    assert "1 samples now arrive when measured" in shown
    assert "1 second samples" in shown


def test_problems_of_the_input_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.csv").write_text("t,imu.ax\n0,1\n1,oops\n")
    assert main(["convert", str(tmp_path / "a.csv"), str(tmp_path / "b.mcap")]) == 0
    assert "a.csv: line 3: bad number: imu.ax = 'oops'" in capsys.readouterr().err


def test_estimates_of_a_recording_are_converted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = np.arange(len(ESTIMATE_COLUMNS)) / 3
    with Recorder(tmp_path / "run.mcap", "", 0, 0) as recorder:
        for i in range(10):
            recorder.record_step(i, drive()[i : i + 1], Estimate(i, values + i), [])
    assert main(["convert", str(tmp_path / "run.mcap"), str(tmp_path / "e.csv"), "--estimates"]) == 0
    table = read_estimates(tmp_path / "e.csv")
    assert table.t.tolist() == list(range(10))
    expected = np.arange(10) + values[ESTIMATE_COLUMNS.index("sigma.x")]
    assert np.abs(table.columns["sigma.x"] - expected).max() <= 0.51 * resolution_of("sigma.x")
    assert main(["convert", str(tmp_path / "run.mcap"), str(tmp_path / "m.csv")]) == 0
    assert "is a recording: only its measurements" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a.csv", "a.csv"], "expected another file"),
        (["a.csv", "b.xlsx"], "expected a name that ends in .csv, .mcap, .parquet or .gpx"),
        (["a.xyz", "b.csv"], "unknown kind of log"),
        (["a.csv", "b.csv", "--estimates"], "expected a recording"),
    ],
)
def test_bad_usage_is_one_line_and_exit_status_two(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    (tmp_path / "a.csv").write_text("t,imu.ax\n0,1\n")
    (tmp_path / "a.xyz").write_text("?")
    assert main(["convert", *(a if a[0] == "-" else str(tmp_path / a) for a in arguments)]) == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert shown.count("\n") == 1


def test_an_empty_log_is_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.csv").write_text("t,imu.ax\n")
    assert main(["convert", str(tmp_path / "a.csv"), str(tmp_path / "b.mcap")]) == 1
    assert "no measurements" in capsys.readouterr().err


def split(tmp_path: Path, shift_ns: int = 0) -> list[str]:
    """Two logs of one drive, one for each device; the receiver's clock is off by `shift_ns`."""
    write(tmp_path / "imu.mcap", [m for m in drive() if m.source == "imu"])
    fixes = [m for m in drive() if m.source == "gnss"]
    write(
        tmp_path / "gnss.mcap",
        [Measurement(m.source, m.t + shift_ns, m.arrival + shift_ns, m.values) for m in fixes],
    )
    return [str(tmp_path / name) for name in ("imu.mcap", "gnss.mcap")]


@pytest.mark.parametrize("ending", [".mcap", ".csv"])
def test_logs_of_several_loggers_are_merged(tmp_path: Path, ending: str) -> None:
    write(tmp_path / "whole.mcap", drive())
    whole, merged = tmp_path / f"a{ending}", tmp_path / f"b{ending}"
    assert main(["convert", str(tmp_path / "whole.mcap"), str(whole)]) == 0
    assert main(["convert", *split(tmp_path), str(merged)]) == 0
    if ending == ".csv":
        assert merged.read_text() == whole.read_text()
    else:
        assert list(McapLog(merged).measurements()) == list(McapLog(whole).measurements())


def test_problems_of_all_loggers_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.csv").write_text("t,imu.ax\n0,1\n1,oops\n2,1\n")
    (tmp_path / "b.csv").write_text("t,vehicle.speed\n0,1\n1,what\n2,1\n")
    assert main(["convert", *(str(tmp_path / name) for name in ("a.csv", "b.csv", "c.mcap"))]) == 0
    shown = capsys.readouterr().err
    assert "imu.ax = 'oops'" in shown
    assert "vehicle.speed = 'what'" in shown


def test_loggers_of_different_clocks_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs = split(tmp_path, shift_ns=1_782_000_000 * 10**9)
    assert main(["convert", *logs, str(tmp_path / "c.mcap")]) == 2
    assert (
        "imu.mcap: 0.000 s to 1.990 s, gnss.mcap: 1782000000.000 s to 1782000001" in capsys.readouterr().err
    )
    assert not (tmp_path / "c.mcap").exists()


def test_loggers_of_different_clocks_are_merged_with_an_offset(tmp_path: Path) -> None:
    logs = split(tmp_path, shift_ns=-1_782_000_000 * 10**9)
    mapping, shifted = tmp_path / "m.yaml", str(tmp_path / "shifted.mcap")
    mapping.write_text("time: {offset: 1782000000 s}\n")
    assert main(["convert", logs[1], shifted, "--mapping", str(mapping)]) == 0
    assert main(["convert", logs[0], shifted, str(tmp_path / "c.mcap")]) == 0
    assert list(McapLog(tmp_path / "c.mcap").measurements()) == drive()


def test_an_offset_leaves_the_utc_times_of_a_recording_unchanged(tmp_path: Path) -> None:
    with create_log(tmp_path / "a.mcap", about=LogAbout(utc_offset_ns=1_782_000_000 * 10**9)) as writer:
        for m in drive():
            writer.write(m)
    log = open_log(tmp_path / "a.mcap", mapping=LogMapping(time=MappedClock(offset=10.0)))
    assert describe_log(log).utc_offset_ns == 1_781_999_990 * 10**9


def test_an_offset_applies_to_the_times_of_a_raw_log(tmp_path: Path) -> None:
    path = tmp_path / "a.nmea"
    path.write_text("$GPGGA,123519,4807.038,N,01131.000,E,1,08,0.9,545.4,M,46.9,M,,*47\r\n")
    mapping = LogMapping(time=MappedClock(offset=1_782_000_000.0))
    (fix,) = open_log(path, mapping=mapping).measurements()
    assert fix.t == (1_782_000_000 + 45_319) * 10**9


def test_a_mapping_for_several_logs_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.yaml").write_text("channels: {imu.ax: A}\n")
    arguments = ["convert", *split(tmp_path), str(tmp_path / "c.mcap"), "--mapping", str(tmp_path / "m.yaml")]
    assert main(arguments) == 2
    assert "expected one log" in capsys.readouterr().err


@pytest.mark.parametrize("output", ["b.csv", "b.mcap"])
def test_a_log_without_measurements_makes_no_file_and_replaces_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], output: str
) -> None:
    (tmp_path / "a.csv").write_text("t,imu.ax\n")
    (tmp_path / output).write_text("of another day")
    assert main(["convert", str(tmp_path / "a.csv"), str(tmp_path / output)]) == 1
    assert capsys.readouterr().err == f"vehicled: {tmp_path}/a.csv: no measurements in it\n"
    assert (tmp_path / output).read_text() == "of another day"


def test_a_log_without_positions_leaves_no_empty_track(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "a.mcap", [m for m in drive() if m.source == "imu"])
    assert main(["convert", str(tmp_path / "a.mcap"), str(tmp_path / "b.gpx")]) == 1
    assert "no positions in it" in capsys.readouterr().err
    assert not (tmp_path / "b.gpx").exists()


def test_a_log_that_is_given_twice_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "a.mcap", drive())
    (tmp_path / "link.mcap").symlink_to(tmp_path / "a.mcap")
    arguments = [str(tmp_path / name) for name in ("a.mcap", "link.mcap", "b.csv")]
    assert main(["convert", *arguments]) == 2
    assert capsys.readouterr().err == f"vehicled: {tmp_path}/link.mcap: expected each log once\n"
