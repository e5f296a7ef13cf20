"""Scores against hand calculation, and `vehicled score` as a whole."""

import json
import math
from pathlib import Path

import msgspec
import numpy as np
import pytest

import vehicled
from replay.csv_log import EstimatesWriter, Table
from replay.log import create_log
from replay.problems import Problems
from vehicled.cli import main
from vehicled.daemon.recorder import Recorder
from vehicled.errors import RunError
from vehicled.maths.geodesy import WorldOrigin
from vehicled.messages import ESTIMATE_COLUMNS, ESTIMATE_INDEX, Estimate, Innovation, Measurement
from vehicled.report.data import load_run
from vehicled.scoring.origins import move_to_origin
from vehicled.scoring.scores import compare, score, score_receiver, score_sensors

SECOND = 1_000_000_000


def table(t: list[float], name: str = "table", **columns: list[float]) -> Table:
    times = np.array([round(s * SECOND) for s in t], dtype=np.int64)
    arrays = {c.replace("__", "."): np.array(v, dtype=float) for c, v in columns.items()}
    return Table(times, arrays, Problems(name))


def innovation(sensor: str, nis: float, components: int = 1, fused: bool = True) -> Innovation:
    zeros = [0.0] * components
    return Innovation(
        0, 0, sensor, "", zeros, zeros, zeros, zeros, nis, 0.5, fused, "fused" if fused else "gate"
    )


def test_rmse_and_largest_error_by_hand() -> None:
    estimates = table([0, 1, 2, 3], x=[0, 1, 2, 3], y=[0, 0, 0, 0])
    truth = table([0, 1, 2, 3], x=[3, 1, 2, 3], y=[-4, 0, 0, 0])
    scores = score(compare(estimates, truth)).quantities
    assert scores["x"].rmse == pytest.approx(1.5)
    assert scores["x"].max == 3
    assert scores["horizontal"].rmse == pytest.approx(2.5)
    assert scores["horizontal"].max == 5
    assert scores["x"].unit == "m"
    assert scores["x"].samples == 4
    assert scores["x"].nees is None


def test_angles_are_compared_modulo_a_full_turn() -> None:
    turns = [math.pi - 0.01, -math.pi + 0.01, math.pi - 0.01, 7 * math.pi]
    estimates = table([0, 1, 2, 3], yaw=turns, wheel__fl__angle=turns)
    truth = table([0, 1, 2, 3], yaw=[-math.pi, math.pi, math.pi, math.pi], wheel__fl__angle=[0, 0, 0, 0])
    scores = score(compare(estimates, truth)).quantities
    assert scores["yaw"].max == pytest.approx(0.01)
    assert scores["wheel.fl.angle"].max == pytest.approx(7 * math.pi), "rotation counts turns"


def test_truth_is_interpolated_and_angles_across_half_a_turn() -> None:
    t = [0.25, 0.5, 0.75]
    estimates = table(t, vx=[10.25, 10.5, 10.75], yaw=[math.pi - 0.1, math.pi, -math.pi + 0.1])
    truth = table([0, 1], vx=[10, 11], yaw=[math.pi - 0.2, -math.pi + 0.2])
    comparison = compare(estimates, truth)
    assert comparison.errors["vx"] == pytest.approx([0, 0, 0], abs=1e-12)
    assert comparison.errors["yaw"] == pytest.approx([0, 0, 0], abs=1e-12)


def test_only_the_time_in_common_counts() -> None:
    estimates = table([0, 1, 2, 3, 4], vy=[9, 9, 0, 0, 9])
    scores = score(compare(estimates, table([2, 3], vy=[0, 0])))
    assert scores.quantities["vy"].max == 0
    assert scores.quantities["vy"].samples == 2
    assert scores.overlap == (2, 3)


def test_a_hole_in_the_truth_is_not_filled() -> None:
    t = [i / 10 for i in range(100)]
    truth_t = [s for s in t if s < 3 or s >= 6]
    comparison = compare(table(t, vy=[1.0] * 100), table(truth_t, vy=[0.0] * len(truth_t)))
    assert np.isfinite(comparison.errors["vy"]).tolist() == [s < 3 or s >= 6 for s in t]


def test_blank_values_on_either_side_are_left_out() -> None:
    estimates = table([0, 1, 2, 3], vx=[5, math.nan, 5, 5], z=[math.nan] * 4)
    truth = table([0, 1, 2, 3], vx=[5, 5, 5, 4], z=[0, 0, 0, 0])
    scores = score(compare(estimates, truth)).quantities
    assert set(scores) == {"vx"}
    assert scores["vx"].samples == 3


def test_consistency_is_the_mean_of_normalised_squares() -> None:
    rng = np.random.default_rng(1)
    n = 20_000
    errors = rng.standard_normal((2, n)) * [[0.5], [2.0]]
    estimates = table(list(range(n)), x=errors[0], y=errors[1], sigma__x=[0.5] * n, sigma__y=[1.0] * n)
    scores = score(compare(estimates, table([0, n], x=[0, 0], y=[0, 0]))).quantities
    assert scores["x"].nees == pytest.approx(1.0, abs=0.05)
    assert scores["y"].nees == pytest.approx(4.0, abs=0.2), "twice too confident"
    assert scores["horizontal"].nees == pytest.approx(2.5, abs=0.1)


def test_a_standard_deviation_of_zero_is_ignored(recwarn: pytest.WarningsRecorder) -> None:
    estimates = table([0, 1, 2], x=[1, 1, 1], y=[1, 1, 1], sigma__x=[0, 1, 1], sigma__y=[1, 1, 1])
    scores = score(compare(estimates, table([0, 2], x=[0, 0], y=[0, 0]))).quantities
    assert scores["x"].nees == scores["horizontal"].nees == pytest.approx(1.0)
    assert scores["x"].samples == 3
    assert not recwarn.list


def test_sideslip_counts_only_when_moving() -> None:
    estimates = table([0, 1, 2], sideslip=[1.5, 0.1, 0.1], vx=[0, 5, 9])
    truth = table([0, 1, 2], sideslip=[0, 0, 0], vx=[0, 5, 9])
    assert score(compare(estimates, truth)).quantities["sideslip"].max == pytest.approx(0.1)


def test_nis_is_per_component_of_fused_innovations() -> None:
    records = [innovation("gnss.position", 3.0, 3), innovation("gnss.position", 6.0, 3)]
    records += [innovation("imu.gyro", 99.0, fused=False)]
    sensors = score_sensors(records)
    assert sensors["gnss.position"].nis == pytest.approx(1.5)
    assert (sensors["gnss.position"].fused, sensors["gnss.position"].rejected) == (2, 0)
    assert math.isnan(sensors["imu.gyro"].nis)
    assert sensors["imu.gyro"].rejected == 1


@pytest.mark.parametrize(
    ("truth", "message"),
    [
        (table([0, 1], "truth.csv", vx=[1, 1]), "no column in common"),
        (table([8, 9], "truth.csv", x=[1, 1]), "no time"),
    ],
)
def test_tables_that_cannot_be_compared_are_refused(truth: Table, message: str) -> None:
    with pytest.raises(RunError, match=message):
        compare(table([0, 1], x=[0, 0]), truth)


def write_estimates(path: Path) -> None:
    with EstimatesWriter(path) as writer:
        for i in range(100):
            values = np.full(len(ESTIMATE_COLUMNS), np.nan)
            for column, value in {"vx": 20.0, "vy": 0.5, "sideslip": 0.02, "sigma.sideslip": 0.01}.items():
                values[ESTIMATE_INDEX[column]] = value
            writer.write(Estimate(i * 4_000_000, values))


def test_command_with_a_truth_of_few_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_estimates(tmp_path / "estimates.csv")
    (tmp_path / "truth.csv").write_text("t,vx,sideslip\n0,20,0.01\n1,20,0.01\n")
    arguments = ["score", str(tmp_path / "estimates.csv"), str(tmp_path / "truth.csv")]
    assert main([*arguments, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["sideslip"] == {
        "rmse": pytest.approx(0.01),
        "max": pytest.approx(0.01),
        "unit": "rad",
        "samples": 100,
        "nees": pytest.approx(1.0),
    }
    assert result["vx"]["rmse"] == 0
    assert "vy" not in result
    assert "horizontal" not in result
    assert result["overlap"] == {"from": 0, "to": pytest.approx(0.396), "unit": "s"}
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert "0.573  deg" in shown, "people read degrees"


def test_command_with_a_recording_reports_nis(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Recorder(tmp_path / "run.mcap", "", 0, 0) as recorder:
        for i in range(10):
            estimate = Estimate(i * SECOND, np.ones(len(ESTIMATE_COLUMNS)))
            recorder.record_step(i * SECOND, [], estimate, [innovation("imu.gyro", 0.75)])
    (tmp_path / "truth.csv").write_text("t,x,y\n0,0,0\n9,0,0\n")
    assert main(["score", str(tmp_path / "run.mcap"), str(tmp_path / "truth.csv"), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["nis"] == {"imu.gyro": 0.75}
    assert result["innovations"] == {"imu.gyro": {"fused": 10, "rejected": 0}}
    assert result["horizontal"]["rmse"] == pytest.approx(math.sqrt(2))


def test_the_first_seconds_of_the_estimates_can_be_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Recorder(tmp_path / "run.mcap", "", 0, 0) as recorder:
        for i in range(5, 15):
            t, error = i * SECOND, 10.0 if i < 8 else 1.0
            record = msgspec.structs.replace(innovation("imu.gyro", error), t=t, step=t)
            recorder.record_step(t, [], Estimate(t, np.full(len(ESTIMATE_COLUMNS), error)), [record])
    (tmp_path / "truth.csv").write_text("t,x,y\n0,0,0\n20,0,0\n")
    arguments = ["score", str(tmp_path / "run.mcap"), str(tmp_path / "truth.csv"), "--json"]
    assert main([*arguments, "--from", "3000 ms"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["x"]["rmse"] == result["x"]["max"] == pytest.approx(1.0)
    assert result["overlap"]["from"] == 8
    assert result["nis"] == {"imu.gyro": 1.0}
    assert main([*arguments, "--from", "10 s"]) == 1
    assert "no estimate later than 10 s after the first; it has 9 s" in capsys.readouterr().err
    for text, message in ("-1", "expected a time of at least 0 s"), ("2 m", "expected a number in s"):
        assert main([*arguments, "--from", text]) == 2
        assert message in capsys.readouterr().err


def test_the_receiver_is_scored_at_its_antenna_and_when_it_measured() -> None:
    origin, antenna, t = WorldOrigin(43.0, -8.0, 100.0), (-0.5, 0.2, 0.7), np.arange(0, 2, 0.004)
    truth = {"x": 10 * t * math.cos(0.5), "y": 10 * t * math.sin(0.5), "yaw": np.full(len(t), 0.5)}
    truth |= dict.fromkeys(("z", "roll", "pitch"), np.zeros(len(t)))
    log = []
    for k in range(1, 10):
        # 3 m north of where the antenna is, and late
        x = (2.0 * k - 0.5) * math.cos(0.5) - 0.2 * math.sin(0.5)
        y = (2.0 * k - 0.5) * math.sin(0.5) + 0.2 * math.cos(0.5) + 3.0
        latitude, longitude, height = origin.to_geodetic(np.array([x, y, 0.7]))
        values = {"gnss.lat": latitude, "gnss.lon": longitude, "gnss.alt": height}
        course = math.pi / 2 - 0.5 - 0.01 - origin.find_north(latitude, longitude)
        values |= {"gnss.speed": 10.0, "gnss.course": course + 2 * math.pi}
        at = round(k * 0.2 * SECOND)
        log.append(Measurement("gnss", at, at + 80_000_000, values))
    log.append(Measurement("gnss", 0, 0, {"gnss.speed": 0.1, "gnss.course": 1.0}))  # standing: no heading
    scores = score_receiver(log, np.round(t * SECOND), truth, antenna, origin)
    assert scores["horizontal"].rmse == pytest.approx(3.0, abs=1e-3)
    assert scores["horizontal"].samples == scores["yaw"].samples == 9
    assert scores["yaw"].max == pytest.approx(0.01, abs=1e-6)
    assert score_receiver(log, np.round(t * SECOND), {"x": truth["x"]}, antenna, origin) == {}


def test_command_scores_a_recorded_receiver(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    drive, truth, run = (str(tmp_path / n) for n in ("drive.mcap", "truth.csv", "run.mcap"))
    scenario = tmp_path / "short.yaml"
    scenario.write_text("duration: 2 s\ninitial: {speed: 10 m/s}\ninputs: {rear_torque: 165}\n")
    simulated = ["simulate", str(scenario), "--config", "prototype", "--output", drive, "--truth", truth]
    assert main([*simulated, "--gnss", "conventional"]) == 0
    assert main(["replay", drive, "--config", "prototype", "--fast", "--record", run]) == 0
    capsys.readouterr()
    assert main(["score", run, truth, "--json"]) == 0
    receiver = json.loads(capsys.readouterr().out)["receiver"]
    assert 0.3 < receiver["horizontal"]["rmse"] < 4.0
    assert receiver["horizontal"]["samples"] == 11


def test_command_reports_mistakes_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_estimates(tmp_path / "estimates.csv")
    estimates = str(tmp_path / "estimates.csv")
    assert main(["score", estimates, str(tmp_path / "missing.csv")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    (tmp_path / "log.csv").write_text("t,imu.ax\n0,1\n")
    assert main(["score", estimates, str(tmp_path / "log.csv")]) == 2
    message = "unknown column 'imu.ax'; expected a table of estimates or truth, got a log of measurements"
    assert message in capsys.readouterr().err
    (tmp_path / "few.csv").write_text("t,x,y,sidslip\n0,1,2,3\n")
    assert main(["score", estimates, str(tmp_path / "few.csv")]) == 2
    assert "unknown column 'sidslip'; did you mean 'sideslip'?" in capsys.readouterr().err


def test_a_log_without_estimates_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with create_log(tmp_path / "drive.mcap", ["imu.wz"]) as log:
        log.write(Measurement("imu", SECOND, SECOND, {"imu.wz": 0.1}))
    (tmp_path / "truth.csv").write_text("t,x,y\n0,0,0\n9,0,0\n")
    assert main(["score", str(tmp_path / "drive.mcap"), str(tmp_path / "truth.csv")]) == 1
    assert "drive.mcap: no estimates in it; expected the recording of a run" in capsys.readouterr().err


def test_tables_that_are_exchanged_get_a_hint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_estimates(tmp_path / "estimates.csv")
    (tmp_path / "truth.csv").write_text("t,vx,sideslip\n0,20,0.01\n1,20,0.01\n")
    names = [str(tmp_path / f"{name}.csv") for name in ("estimates", "truth")]
    assert main(["score", *names]) == 0
    assert capsys.readouterr().err == ""
    assert main(["score", *reversed(names)]) == 0
    hint = "estimates.csv has standard deviations, and truth.csv has none: expected the estimates first"
    assert hint in capsys.readouterr().err


@pytest.mark.parametrize("latitude", [43.33, 85.0])
def test_a_truth_about_another_origin_is_moved(latitude: float) -> None:
    """Origins 300 m east, 400 m south and 7 m above each other, and a car that goes north, east of both."""
    origin = WorldOrigin(latitude, -8.41, 900.0)
    other = WorldOrigin(*origin.to_geodetic(np.array([300.0, -400.0, 7.0])))
    places = [origin.to_geodetic(np.array([1200.0, 800.0 + d, 3.0])) for d in (0.0, 50.0)]
    tables = []
    for each in (origin, other, origin):
        x, y, z = np.transpose([each.to_world(*place) for place in places])
        lat, lon, alt = np.transpose(places)
        yaw = np.full(2, math.pi / 2 - each.find_north(*places[0][:2]))
        tables.append(table([0.0, 1.0], x=x, y=y, z=z, lat=lat, lon=lon, alt=alt, yaw=yaw))
    moved, (note,) = move_to_origin(tables[1], tables[0])
    assert note.startswith("the origins of x and y are 500.0 m apart")
    for name, most in (("x", 1e-3), ("y", 1e-3), ("z", 0.02), ("yaw", 1e-7)):
        assert moved.columns[name] == pytest.approx(tables[0].columns[name], abs=most), name
    assert move_to_origin(tables[2], tables[0]) == (tables[2], ())
    without = table([0.0], x=[1.0], y=[2.0])
    assert move_to_origin(without, tables[0]) == (without, ())


def test_heights_stay_if_a_table_does_not_show_that_of_its_origin() -> None:
    tables = [
        table([0.0, 1.0], x=[x, x], y=[0.0, 0.0], z=[1.0, 2.0], lat=[43.33] * 2, lon=[-8.41] * 2)
        for x in (5.0, 25.0)
    ]
    moved, _ = move_to_origin(tables[1], tables[0])
    assert moved.columns["z"].tolist() == [1.0, 2.0]
    assert moved.columns["x"] == pytest.approx([5.0, 5.0], abs=1e-3)


def _drive(origin: WorldOrigin, distances: np.ndarray, digits: int) -> Table:
    """A straight drive in the frame of `origin`, with latitude and longitude rounded to `digits`."""
    places = [origin.to_geodetic(np.array([d, 0.5 * d, 0.0])) for d in distances]
    lat, lon, alt = np.array(places).T
    columns = {"x": distances, "y": 0.5 * distances, "lat": lat.round(digits), "lon": lon.round(digits)}
    return table(range(len(distances)), **columns, alt=alt)


def test_origins_half_a_metre_apart_are_found_and_rounding_is_ignored() -> None:
    """As of a drive with RTK, whose origin is its first fix and not the origin of the truth."""
    origin = WorldOrigin(43.33, -8.41, 900.0)
    ahead = WorldOrigin(*origin.to_geodetic(np.array([0.4, 0.2, 0.0])))
    distances = np.linspace(4000.0, 5000.0, 201)
    estimates = _drive(origin, distances[:101], 12)
    moved, (note,) = move_to_origin(_drive(ahead, distances, 7), estimates)
    assert note.startswith("the origins of x and y are 0.4 m apart")
    assert moved.columns["x"] == pytest.approx(distances + 0.4, abs=0.01)
    assert move_to_origin(_drive(origin, distances, 6), estimates)[1] == ()
    near = WorldOrigin(*origin.to_geodetic(np.array([0.06, 0.02, 1.1])))
    moved, (note,) = move_to_origin(_drive(near, distances, 9), estimates)
    assert note.startswith("the origins of x and y are 0.06 m apart")
    assert moved.columns["x"] == pytest.approx(distances + 0.06, abs=0.005)


def test_command_warns_of_origins_that_differ(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, x in (("estimates", 5.0), ("truth", 25.0)):
        rows = "".join(f"{t},{x},0,43.33,-8.41\n" for t in (0, 1, 2))
        (tmp_path / f"{name}.csv").write_text(f"t,x,y,lat,lon\n{rows}")
    assert main(["score", str(tmp_path / "estimates.csv"), str(tmp_path / "truth.csv")]) == 0
    found = capsys.readouterr()
    assert "the origins of x and y are 20.0 m apart" in found.err
    horizontal = next(line.split() for line in found.out.splitlines() if line.startswith("horizontal"))
    assert float(horizontal[1]) < 1e-6


def test_notes_are_in_every_output_with_scores(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [tmp_path / f"{name}.csv" for name in ("estimates", "truth")]
    for path, x in zip(paths, (5.0, 25.0), strict=True):
        path.write_text("t,x,y,lat,lon\n" + "".join(f"{t},{x},0,43.33,-8.41\n" for t in (0, 1, 2)))
    assert main(["score", *map(str, paths), "--json"]) == 0
    (note,) = json.loads(capsys.readouterr().out)["notes"]
    assert note.startswith("the origins of x and y are 20.0 m apart")
    assert vehicled.score(*paths).notes == (note,)
    run = load_run(*paths)
    assert run.scores is not None
    assert run.scores.notes == (note,)
    assert main(["report", str(paths[0]), "--truth", str(paths[1]), "-o", str(tmp_path / "a.html")]) == 0
    assert "20.0 m apart in the two files" in (tmp_path / "a.html").read_text()


def test_a_truth_point_far_from_the_car_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "estimates.csv"
    path.write_text("t,x,y\n0,0,0\n1,0,0\n")
    assert main(["score", str(path), str(path), "--truth-point", "1e9,0,0"]) == 2
    assert "--truth-point 1e9,0,0: expected a point of the car, at most 20 m" in capsys.readouterr().err
