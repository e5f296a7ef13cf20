"""`vehicled bench robustness`: the kinematic filter to compare with, errors, scores, limits, and the command."""

import dataclasses
import json
import math
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import robustness_rig as rig

from replay.csv_log import Table
from replay.problems import Problems
from vehicled.cli import main
from vehicled.configuration import load_configuration
from vehicled.errors import UsageError
from vehicled.filter.settings import Kind
from vehicled.messages import Innovation, Measurement
from vehicled.simulation.manoeuvres import InitialMotion
from vehicled.simulation.scenario import STANDARD_ERRORS, DriveInputs, Scenario
from vehicled.sources.gnss.fixes import FixNoise
from vehicled.studies.robustness import cases, drives, limits, scores, wrongs
from vehicled.studies.robustness.drawn_cars import find_wrong
from vehicled.studies.robustness.drives import make_drive, name_recorded
from vehicled.studies.robustness.kinematic import KinematicSettings
from vehicled.studies.robustness.kinematic_run import calc_settings, run_kinematic
from vehicled.studies.robustness.runs import KINEMATIC, RobustnessJob, list_jobs, open_ledger, run_job
from vehicled.studies.robustness.tables import format_rows
from vehicled.vehicle.sideslip import SteadySideslip

SAMPLE = Path(__file__).parent.parent / "samples" / "ferrari_250lm"
PROTOTYPE = load_configuration("prototype")


# -- the kinematic filter ----------------------------------------------------------------------------------


def test_the_kinematic_filter_agrees_with_an_independent_implementation():
    # From a script of the same filter that shares no code with this project, on the same log as CSV, with
    # --radius 0.31 --rear 1.3 --understeer 0.003 --antenna 0.4 and defaults otherwise. m, °, °/s, m/s, m/s, °.
    expected = {"horizontal": 0.74118, "yaw": 0.078123, "wz": 0.115728, "vx": 0.102661, "vy": 0.0021928}
    expected["sideslip"] = 0.0156481
    true = rig.truth()
    noise = FixNoise(horizontal=0.5, vertical=1.0, wander=0.3, velocity=0.05)
    gnss = dataclasses.replace(PROTOTYPE.sensors.gnss, single=noise)
    configuration = dataclasses.replace(
        PROTOTYPE, world=None, sensors=dataclasses.replace(PROTOTYPE.sensors, gnss=gnss)
    )
    settings = KinematicSettings(
        radius=rig.RADIUS, steady=SteadySideslip(rig.REAR, rig.UNDERSTEER), antenna=rig.ANTENNA
    )
    found = run_kinematic(configuration, rig.measurements(true), settings)
    here = {
        n: np.interp(true["t"], found.t * 1e-9, found.columns[n]) for n in (*list(expected)[1:], "x", "y")
    }
    keep = true["t"] >= 5.0
    errors = {n: (v - true[n])[keep] for n, v in here.items()}
    away = np.stack([errors["x"] - errors["x"].mean(), errors["y"] - errors["y"].mean()])
    measured = {n: math.sqrt(np.mean(errors[n] ** 2)) for n in list(expected)[1:]}
    measured["horizontal"] = math.sqrt(np.mean(np.sum(away**2, axis=0)))
    for n in ("yaw", "wz", "sideslip"):
        measured[n] = math.degrees(measured[n])
    assert measured == pytest.approx(expected, rel=0.01)


def test_the_kinematic_filter_agrees_with_an_independent_one_on_a_recorded_drive():
    # From the same script on the sample: --rear 1.07 and defaults otherwise; from 5 s on, sideslip above 2 m/s.
    drive = make_drive(
        name_recorded(SAMPLE / "drive.csv", SAMPLE / "drive_truth.csv", "ferrari_250lm"), "none", 0
    )
    settings = KinematicSettings(radius=0.34, steady=SteadySideslip(1.07, 0.004))
    found = scores.score_run(
        run_kinematic(drive.configuration, drive.measurements, settings), drive.truth, False
    )
    assert math.degrees(found["sideslip"]) == pytest.approx(0.3941, rel=0.01)
    assert found["vx"] == pytest.approx(0.2007, rel=0.01)


def test_settings_of_the_kinematic_filter_come_from_the_configuration():
    found = calc_settings(PROTOTYPE, quality=4)
    assert found.radius == PROTOTYPE.vehicle.rear.tyre.radius
    assert found.antenna == -0.30
    assert found.wander == 0.0
    assert calc_settings(PROTOTYPE, quality=1).wander == 0.5
    # The rear axle's share of the mass over 2 × 57 kN/rad; at the actual wheel load, the stiffness is a little lower.
    load = PROTOTYPE.vehicle.mass * 0.49
    assert found.steady.slip == pytest.approx(load / (2 * 57e3), rel=0.15)
    assert found.steady.rear == pytest.approx(2.55 * 0.51, rel=0.03)


# -- errors of configuration and measurements --------------------------------------------------------------

SAMPLE_VALUES = {
    **{"imu.ax": 1.0, "imu.ay": 2.0, "imu.az": 9.0, "imu.wx": 0.1, "imu.wy": 0.2, "imu.wz": 0.3},
    **{"steer.rack": 0.01, "steer.fl": 0.1, "steer.fr": 0.1, "torque.rl": 5.0, "brake.pressure": 1e5},
    **{
        "wheel.rl.angle": 2.0,
        "vehicle.speed": 10.0,
        "gnss.lat": 45.0,
        "gnss.speed": 10.0,
        "gnss.course": 1.0,
    },
}


THINNED = "a fix per second"
OFF = "fixes 7 m off for 20 s"
LATER = OFF, "fixes 5 m off for 2 s after none for 8 s", "velocity of GNSS smoothed over 0.1 s"


def reached(*names: str) -> Measurement:
    given = [Measurement("log", 1_000_000_000, 1_000_000_000, dict(SAMPLE_VALUES))]
    _, (found,) = wrongs.apply_wrongs([wrongs.WRONGS[n] for n in names], PROTOTYPE, given)
    return found


def configured(name: str):
    return wrongs.apply_wrongs([wrongs.WRONGS[name]], PROTOTYPE, [])[0]


def test_a_steering_offset_shifts_road_wheel_angles_and_the_rack():
    values = reached("steering offset +1°").values
    assert values["steer.fl"] - 0.1 == pytest.approx(math.radians(1))
    # The tie rod is 125 mm from the kingpin, so the rack moves by 125 mm/rad.
    assert values["steer.rack"] - 0.01 == pytest.approx(0.125 * math.radians(1), rel=0.1)
    assert values["imu.wz"] == 0.3


def test_a_rolled_imu_reads_the_same_vectors_in_its_own_axes():
    values = reached("IMU rolled +3°").values
    angle = math.radians(3)
    # Rolled to the right, its y axis points upwards: it measures gravity there.
    assert values["imu.ay"] == pytest.approx(2 * math.cos(angle) + 9 * math.sin(angle))
    assert values["imu.az"] == pytest.approx(9 * math.cos(angle) - 2 * math.sin(angle))
    assert values["imu.ax"] == 1.0
    assert math.hypot(values["imu.wy"], values["imu.wz"]) == pytest.approx(math.hypot(0.2, 0.3))


def test_an_early_time_stamp_does_not_advance_the_arrival():
    late, early = reached("GNSS time stamps 100 ms late"), reached("GNSS time stamps 100 ms early")
    assert (late.t, late.arrival) == (1_100_000_000, 1_100_000_000)
    assert (early.t, early.arrival) == (900_000_000, 1_000_000_000)


def test_unmeasured_channels_are_removed():
    assert not [c for c in reached("no torque, no pressure").values if c.startswith(("torque", "brake"))]


@pytest.mark.parametrize("sign", [1, -1])
def test_errors_of_mass_and_height_apply_to_the_whole_car(sign):
    true, heavy = PROTOTYPE.vehicle, configured(f"mass {20 * sign:+d} %").vehicle
    assert heavy.mass == pytest.approx(true.mass * (1 + 0.2 * sign))
    high = configured(f"height of the centre of mass {20 * sign:+d} %")
    before, after = true.center_of_mass(), high.vehicle.center_of_mass()
    assert after[2] == pytest.approx(before[2] * (1 + 0.2 * sign))
    # The sensors keep their heights above the ground.
    for name in ("imu.position", "gnss.antenna"):
        sensor, place = name.split(".")
        heights = (getattr(getattr(c.sensors, sensor), place)[2] for c in (PROTOTYPE, high))
        assert next(heights) + before[2] == pytest.approx(next(heights) + after[2])


def test_errors_of_tyres_change_the_slope_or_the_greatest_force():
    true = PROTOTYPE.vehicle.front.tyre.lateral
    stiff = configured("cornering stiffness +30 %").vehicle.front.tyre.lateral
    assert stiff.fm == true.fm
    assert (stiff.df0[0] / true.df0[0], stiff.sm[0] / true.sm[0]) == pytest.approx((1.3, 1 / 1.3))
    slippery = configured("friction -20 %").vehicle.front.tyre.lateral
    assert slippery.df0 == true.df0
    assert slippery.fm[0] / true.fm[0] == pytest.approx(0.8)


def test_every_error_changes_configuration_or_measurements():
    for wrong in wrongs.WRONGS.values():
        if wrong.name in (THINNED, *LATER):  # these begin later
            continue
        changed = configured(wrong.name) != PROTOTYPE or reached(wrong.name).values != SAMPLE_VALUES
        assert changed or reached(wrong.name).t != 1_000_000_000, wrong.name


def test_a_fix_offset_grows_to_7_m_and_ends():
    fixes = [Measurement("log", k * 10**9, k * 10**9, {"gnss.lat": 60.0, "gnss.lon": 9.0}) for k in range(45)]
    configuration, found = wrongs.apply_wrongs([wrongs.WRONGS[OFF]], PROTOTYPE, fixes)
    assert configuration == PROTOTYPE
    metres = [6.371e6 * 0.5 * np.radians(m.values["gnss.lon"] - 9.0) for m in found]
    assert [round(x, 3) for x in metres[14:23]] == [0.0, 0.0, 1.4, 2.8, 4.2, 5.6, 7.0, 7.0, 7.0]
    assert max(map(abs, metres[35:])) < 1e-6


def test_thinning_keeps_one_fix_per_second():
    fixes = [Measurement("log", k * 100_000_000, k * 100_000_000, {"gnss.lat": 45.0}) for k in range(30)]
    others = [Measurement("log", m.t + 1, m.t + 1, {"imu.wz": 0.1}) for m in fixes]
    _, found = wrongs.apply_wrongs([wrongs.WRONGS[THINNED]], PROTOTYPE, [*fixes, *others])
    assert [m.t for m in found if "gnss.lat" in m.values] == [0, 1_000_000_000, 2_000_000_000]
    assert [m for m in found if "imu.wz" in m.values] == others


def test_draws_combine_two_or_three_errors_of_different_subjects():
    drawn = list(cases.drawn_cases(50))
    assert len({case.name for case in drawn}) == 50
    assert {len(case.wrongs) for case in drawn} == {2, 3}
    assert all(len(case.subjects) == len(case.wrongs) for case in drawn)
    assert drawn[:20] == list(cases.drawn_cases(20))
    used = {name for case in drawn for name in case.wrongs}
    assert used == {w.name for w in wrongs.WRONGS.values() if w.listed and w.drawn}


def test_errors_of_drawn_cars_have_the_default_standard_deviations():
    drawn = [find_wrong(f"drawn car {k}") for k in range(1, 41)]
    radius = PROTOTYPE.vehicle.front.tyre.radius
    configurations = [wrongs.apply_wrongs([w], PROTOTYPE, [])[0] for w in drawn]
    shares = np.array([c.vehicle.front.tyre.radius / radius - 1.0 for c in configurations])
    assert 0.013 < np.sqrt(np.mean(shares**2)) < 0.027  # 0.02, by χ² with 40 degrees of freedom
    axles = np.array(
        [[a.tyre.lateral.df0[0] for a in (c.vehicle.front, c.vehicle.rear)] for c in configurations]
    )
    assert abs(np.corrcoef(axles.T)[0, 1]) < 0.5  # drawn for each axle separately
    given = [Measurement("log", 1_000_000_000, 1_000_000_000, dict(SAMPLE_VALUES))]
    late = [wrongs.apply_wrongs([w], PROTOTYPE, given)[1][0].t - 1_000_000_000 for w in drawn]
    assert len({w.name for w in drawn}) == len(set(late)) == 40
    # The delays of both devices add up for a measurement with channels of both.
    assert 0.018e9 < np.sqrt(np.mean(np.square(late, dtype=float))) < 0.038e9


def test_a_drawn_car_does_not_depend_on_the_number_of_cars():
    assert [*cases.car_cases(3)] == [*cases.car_cases(5)][:3]
    (first, again) = (wrongs.apply_wrongs([find_wrong("drawn car 2")], PROTOTYPE, [])[0] for _ in range(2))
    assert first == again


def test_the_table_has_mean_and_median_nees_of_drawn_cars():
    rows = [
        {**dict.fromkeys(scores.QUANTITIES, 0.1), "case": f"drawn car {k}", "receiver": "rtk", "seed": 0}
        | {"estimator": "errorEKF_FE", "nees": {"yaw": nees}, "refused": {}, "restarts": 0}
        | {"outage": None, "diverged": False, "failed": None}
        for k, nees in enumerate((0.5, 1.0, 3.0), 1)
    ]
    *_, drawn, last = format_rows(rows, [[], [], []])
    assert "3 runs of drawn cars: 0 diverged, 100 % within" in drawn
    assert last == "NEES of drawn cars, errorEKF_FE, rtk, mean (median): yaw 1.5 (1)"


# -- scores ------------------------------------------------------------------------------------------------


def table(**columns: np.ndarray) -> Table:
    n = len(next(iter(columns.values())))
    return Table(np.arange(n, dtype=np.int64) * 10_000_000, columns, Problems("made up"))


def straight(**off: float) -> tuple[Table, Table]:
    """Estimates and truth of 20 s at 10 m/s; the estimates are off by these amounts, with σ of half of them."""
    t = np.arange(2001) * 0.01
    zero = np.zeros_like(t)
    true = {"x": 10 * t, "y": zero, "yaw": zero, "vx": zero + 10, "vy": zero, "wz": zero, "sideslip": zero}
    found = {n: v + off.get(n, 0.0) for n, v in true.items()}
    return table(**found, **{f"sigma.{n}": zero + 0.5 * v for n, v in off.items() if n != "wz"}), table(
        **true
    )


def test_errors_and_consistency_of_constant_errors():
    row = scores.score_run(*straight(x=0.3, y=0.4, yaw=0.01, wz=-0.02), offset_known=True)
    assert row["horizontal"] == pytest.approx(0.5)
    assert (row["yaw"], row["wz"], row["vx"], row["sideslip"]) == pytest.approx((0.01, 0.02, 0.0, 0.0))
    assert row["nees"] == pytest.approx({"x": 4.0, "y": 4.0, "yaw": 4.0})
    assert not row["diverged"]


def test_the_late_score_counts_only_the_second_half():
    found, true = straight()
    found.columns["x"][:1200] += 0.5
    row = scores.score_run(found, true, offset_known=True)
    assert row["horizontal"] > 0.3
    assert row[scores.LATE] == 0.0


def test_an_unknown_offset_of_the_receiver_is_scored_separately():
    row = scores.score_run(*straight(x=0.3, y=0.4), offset_known=False)
    assert row["horizontal"] == pytest.approx(0.0, abs=1e-12)
    assert row["offset"] == pytest.approx(0.5)


def test_the_start_and_standstill_are_not_scored():
    found, true = straight()
    found.columns["yaw"][:400] += 1.0
    true.columns["vx"][1000:] = 1.0
    found.columns["sideslip"][1000:] += 0.3
    row = scores.score_run(found, true, offset_known=True)
    assert row["yaw"] == 0.0
    assert row["sideslip"] == 0.0


@pytest.mark.parametrize("value", [30.0, math.nan])
def test_a_large_or_missing_position_error_counts_as_divergence(value):
    found, true = straight()
    found.columns["y"][1500:] += value
    assert scores.score_run(found, true, offset_known=True)["diverged"]


def test_an_outage_is_scored_by_the_distance_driven_in_it():
    found, true = straight(y=1.0)
    found.columns["y"][1001:] += np.linspace(0.0, 0.5, 1000)
    known = scores.score_outage(found, true, (10.0, 20.0), offset_known=True)
    assert known["distance"] == pytest.approx(100.0, rel=0.01)
    assert known["error"] == pytest.approx(1.5)
    unknown = scores.score_outage(found, true, (10.0, 20.0), offset_known=False)
    assert (unknown["error"], unknown["share"]) == pytest.approx((0.5, 0.005), rel=0.01)


def observation(sensor: str, fused: bool, reason: str) -> Innovation:
    return Innovation(0, 0, sensor, "log", [], [], [], [], 1.0, 1.0, fused, reason)


def test_rejected_shares_count_usable_observations_only():
    found = scores.calc_rejected(
        [
            *(observation("imu.gyro", True, "fused") for _ in range(3)),
            observation("imu.wz", False, "implausible"),  # an axis that was removed from one of four samples
            observation("gnss.course", False, "not moving"),
            observation("wheel.fl.angle", True, "fused"),
            observation("wheel.rr.angle", False, "gate"),
        ]
    )
    assert found == {"imu.gyro": 0.25, "wheel.angle": 0.5}


# -- limits ------------------------------------------------------------------------------------------------

GOOD = {
    **{
        "case": "nominal",
        "receiver": "rtk",
        "estimator": "errorEKF",
        "seed": 0,
        "drive": "own",
        "wrongs": [],
    },
    **{"horizontal": 0.01, "yaw": 0.002, "wz": 0.001, "vx": 0.01, "sideslip": 0.003, "outage": None},
    **{"nees": {"x": 1.0}, "refused": {"imu.gyro": 0.001}, "restarts": 0, "failed": None, "diverged": False},
}
BESIDE = GOOD | {"estimator": KINEMATIC, "wz": 0.00201, "yaw": 0.006}
NOMINAL = {case.name: case for case in cases.table_cases()}


def misses(**changes) -> set[tuple[str, str]]:
    rows = [GOOD | changes, BESIDE | {k: v for k, v in changes.items() if k in ("case", "receiver")}]
    found, none = limits.find_all_misses(NOMINAL, rows)
    assert none == []
    return {(m.quantity, m.against) for m in found}


def test_a_row_within_all_limits_has_no_misses():
    assert misses() == set()


def test_values_beyond_a_limit_are_misses():
    assert misses(horizontal=0.021) == {("horizontal", "limit"), ("horizontal", "kinematic")}
    assert misses(wz=0.0022) == {("wz", "kinematic")}
    assert misses(wz=0.0021) == set()  # within 5 %
    assert misses(refused={"imu.gyro": 0.02}) == {("refused.imu.gyro", "limit")}
    assert misses(nees={"x": 0.4, "vx": 2.1}) == {("nees.x", "limit"), ("nees.vx", "limit")}
    assert misses(diverged=True) == {("diverged", "limit")}


def test_limits_depend_on_the_errors_of_a_case():
    limit = {name: limits.find_limits(case, "rtk") for name, case in NOMINAL.items()}
    assert limit["nominal"]["horizontal"] == 0.02
    assert limit["antenna +0.5 m"][scores.LATE] == 0.05
    assert "horizontal" not in limit["antenna +0.5 m"]
    assert math.degrees(limit["friction +20 %"]["sideslip"]) == pytest.approx(0.5)
    assert math.degrees(limit["mass +20 %"]["sideslip"]) == pytest.approx(0.35)
    drawn = next(iter(cases.drawn_cases(1)))
    assert limits.find_limits(drawn, "conventional")["horizontal"] == 0.7


def test_the_table_marks_misses():
    rows = [GOOD | {"yaw": 0.1, "nees": {"x": 5.0}, "restarts": 2}, BESIDE]
    text = "\n".join(format_rows(rows, limits.find_all_misses(NOMINAL, rows)))
    assert "5.730!k" in text
    assert "5…5!" in text
    assert "2 restarts" in text
    assert "0 of 1 rows hold" in text


# -- whole runs --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def short_drive():
    """A drive of ten seconds with bends to both sides. Changes of speed make the receiver's latency observable."""
    kept = (drives.make_drive, drives._drive_own)
    inputs = DriveInputs(
        rack=[(1.0, 0.0), (2.0, 0.008), (4.0, 0.008), (5.0, -0.008), (7.0, -0.008), (8.0, 0.008)],
        rear_torque=[(0.2, 0.0), (0.5, 1400.0), (4.0, 1400.0), (4.3, 100.0)],
    )
    with pytest.MonkeyPatch.context() as patch:
        initial = InitialMotion(speed=2.0)
        short = Scenario(duration=10.0, initial=initial, inputs=inputs, plant=STANDARD_ERRORS)
        patch.setitem(drives._SCENARIOS, drives.OWN, short)
        for cached in kept:
            cached.cache_clear()
        yield
        for cached in kept:
            cached.cache_clear()


def test_rows_of_a_filter_and_of_the_kinematic_filter(short_drive):
    jobs = list_jobs([NOMINAL["gyro scale +1 %"]], ["rtk"], ["errorEKF_FE", KINEMATIC], [3])
    ours, kinematic = (run_job(job) for job in jobs)
    for row, job in zip((ours, kinematic), jobs, strict=True):
        assert RobustnessJob.of_row(json.loads(json.dumps(row))) == job
        assert not row["diverged"]
        assert 0 < row["horizontal"] < 0.1
    assert ours["refused"].keys() >= {"imu.gyro", "gnss.position", "wheel.angle"}
    assert ours["nees"].keys() == {"x", "y", "yaw", "vx", "vy", "sideslip"}
    assert kinematic["refused"] == {}
    # 1 % of the yaw rate's deviation from its mean (the filter takes the mean for an offset), and the error with a
    # gyroscope without scale error.
    (other,) = list_jobs([NOMINAL["nominal"]], ["rtk"], [KINEMATIC], [3])
    truth = make_drive(jobs[1].drive, "rtk", 3).truth
    turns = truth.columns["wz"][truth.t >= 5e9]
    expected = math.hypot(run_job(other)["wz"], 0.01 * np.std(turns))
    assert math.degrees(kinematic["wz"]) == pytest.approx(math.degrees(expected), abs=0.03)
    assert kinematic == run_job(jobs[1])


@pytest.mark.slow
def test_an_outage_begins_after_a_minute_and_lasts_a_minute():
    case = next(iter(cases.outage_cases()))
    drive = make_drive(case.drive, "rtk", 0)
    fixes = [m.t for m in drive.measurements if "gnss.lat" in m.values]
    without = np.diff(fixes).max() * 1e-9
    assert without == pytest.approx(60.0, abs=0.1)
    assert max(t for t in fixes if t < 90e9) == pytest.approx(60e9, abs=0.1e9)


def test_a_kept_row_is_reused_only_by_the_same_version_of_the_program(short_drive, tmp_path):
    path = tmp_path / "rows.jsonl"
    job = list_jobs([NOMINAL["nominal"]], ["rtk"], [KINEMATIC], [0])[0]
    row = run_job(job)
    open_ledger(path).enter(row)
    assert open_ledger(path).missing([job]) == []
    path.write_text(json.dumps(row | {"code": "another"}) + "\n")
    assert open_ledger(path).missing([job]) == [job]
    path.write_text("{}\n")
    with pytest.raises(UsageError):
        open_ledger(path)


def test_the_command_prints_one_json_list(capsys, tmp_path):
    for name in ("drive.csv", "drive_truth.csv"):
        lines = (SAMPLE / name).read_text().splitlines(keepends=True)
        (tmp_path / name).write_text("".join(lines[:1501]))  # 15 s
    log, truth = (str(tmp_path / name) for name in ("drive.csv", "drive_truth.csv"))
    options = ["--only", "Recorded*", "ferr*", "--receiver", "conventional", "--ferrari", str(tmp_path)]
    options += ["--drive", log, truth, "ferrari_250lm", "--workers", "1"]
    resume = ["--resume", str(tmp_path / "rows.jsonl")]
    assert main(["bench", "robustness", *options, *resume, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(r["case"], r["receiver"], r["estimator"]) for r in rows] == [
        (case, receiver, estimator)
        for case, receiver in (("Ferrari 250 LM", "none"), (f"recorded {log}", "conventional"))
        for estimator in ("errorEKF_FE", "kinematic")
    ]
    contract = {"case", "receiver", "estimator", "seed", "horizontal", "yaw", "wz", "vx", "sideslip"}
    assert all(r.keys() >= contract | {"nees", "refused", "restarts", "diverged"} for r in rows)
    ferrari = rows[0]
    assert ferrari["horizontal"] is None
    assert math.degrees(ferrari["sideslip"]) < 0.6
    # This run reuses the kept rows.
    picture = tmp_path / "all.png"
    assert main(["bench", "robustness", *options, *resume, "--plot", str(picture)]) == 0
    assert "Ferrari 250 LM\n  none" in capsys.readouterr().out
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_help_lists_the_filter_kinds_of_the_configuration(capsys):
    assert main(["bench", "robustness", "--help"]) == 0
    assert " ".join(get_args(Kind)) in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    "options", [["--only", "nothing"], ["--workers", "0"], ["--draws", "-1"], ["--seed", "-1"]]
)
def test_wrong_usage_is_reported_in_one_line_with_exit_status_2(options, capsys):
    assert main(["bench", "robustness", *options]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_a_missing_log_is_named(capsys, tmp_path):
    options = ["--only", "recorded*", "--drive", str(tmp_path / "no.csv"), "truth.csv", "prototype"]
    assert main(["bench", "robustness", *options, "--json"]) == 2
    assert "no.csv" in capsys.readouterr().err
