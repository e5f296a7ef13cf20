"""The smoother compared with the filter on simulated drives: errors, σ, outages, resets, and the command."""

import dataclasses
from functools import lru_cache

import numpy as np
import pytest
from estimator_rig import SECOND, Drive, Run, bends, cruise, mixed, prototype, rms, steps

import vehicled
from replay.log import create_log
from replay.problems import Problems
from replay.steps import as_measured, make_steps, sort_by_arrival, with_commands
from vehicled.cli import main
from vehicled.estimator import Estimator
from vehicled.messages import ESTIMATE_COLUMNS, ESTIMATE_INDEX, Command, Measurement, SlowState, Step
from vehicled.simulation.manoeuvres import InitialMotion
from vehicled.simulation.scenario import DriveInputs, Scenario
from vehicled.smoothing.smoother import Smoother
from vehicled.smoothing.wrong_antenna import widen_antennas
from vehicled.stepping import play_back
from vehicled.studies.robustness.wrongs import scale_radius

ROUNDING = 1e-6
PERIOD = 4_000_000


class Smoothed(Run):
    """A smoothed run; `filtered` is the run of the filter before smoothing."""

    def __init__(self, given: list[Step], configuration=None):
        with Smoother(configuration or prototype()) as smoother:
            self.filtered = Run(prototype(), [], estimator=smoother.estimator)
            sinks = [smoother.take, self.filtered._take]
            self.summary = play_back(smoother.estimator, given, sinks)
            self.estimates = list(smoother.smooth())
        for run in (self, self.filtered):
            run.t = np.array([e.t for e in run.estimates], dtype=np.int64)
            run.values = np.array([e.values for e in run.estimates]).reshape(-1, len(ESTIMATE_COLUMNS))


def on_time(measurements: list[Measurement]) -> list[Step]:
    problems = Problems("drive")
    return list(make_steps(sort_by_arrival(as_measured(measurements), problems), PERIOD, problems))


@lru_cache
def smoothed_mixed(seed: int) -> Smoothed:
    return Smoothed(on_time(mixed(40.0).measurements(seed, gnss="conventional")))


START = 14.0
"""s: duration of a drive with standstill, start, and bends to both sides."""


@lru_cache
def smoothed_start() -> Smoothed:
    return Smoothed(on_time(mixed(START).measurements(0, gnss="conventional")))


def less_mean(run: Run, drive) -> float:
    """Horizontal error less its mean, which a smoother cannot distinguish from the receiver's bias."""
    return float(np.hypot(*(np.std(run.error(drive, c)) for c in "xy")))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_smoothing_halves_the_errors_of_position_and_heading(seed):
    run, drive = smoothed_mixed(seed), mixed(40.0)
    assert less_mean(run, drive) < 0.5 * less_mean(run.filtered, drive)
    assert rms(run.error(drive, "yaw")) < 0.5 * rms(run.filtered.error(drive, "yaw"))
    assert rms(run.error(drive, "vx")) < 0.8 * rms(run.filtered.error(drive, "vx"))


def test_smoothed_sigma_is_smaller_than_the_filters_and_covers_the_errors():
    run, drive = smoothed_start(), mixed(START)
    for name in ("x", "y", "yaw", "vx"):
        column = f"sigma.{name}"
        assert (run[column] <= run.filtered[column] * (1.0 + ROUNDING)).all()
        assert (run[column] / run.filtered[column]).min() < 0.8, name
        assert (np.abs(run.error(drive, name)) < 4.0 * run[column] + 1e-3).all(), name


@pytest.mark.slow
def test_errors_are_as_large_as_their_sigma():
    drive = mixed(40.0)
    # Smoothed errors are correlated over tens of seconds, so a drive has one or two independent ones. Single drives
    # (seeds 0 to 5) have 0.11 to 1.5 (yaw) and 0.4 to 2.2 (speed), pairs of them 0.21 to 0.80 and 0.4 to 1.4.
    for name, (least, greatest) in {"yaw": (0.15, 1.5), "vx": (0.3, 2.0)}.items():
        runs = [smoothed_mixed(s) for s in (0, 1)]
        nees = np.mean([np.mean((r.error(drive, name) / r[f"sigma.{name}"]) ** 2) for r in runs])
        assert least < nees < greatest, name


def test_the_last_smoothed_estimate_equals_the_filters():
    run = smoothed_start()
    np.testing.assert_allclose(run.values[-1], run.filtered.values[-1], rtol=0, atol=1e-4)
    np.testing.assert_array_equal(run.t, run.filtered.t)


@pytest.mark.parametrize("gnss", ["rtk", pytest.param("conventional", marks=pytest.mark.slow)])
def test_heading_and_position_are_smoothed_back_to_before_the_filter_knew_them(gnss):
    """The car pulls off to the south-west after two seconds. The filter finds its heading some seconds later."""
    inputs = DriveInputs(rear_torque=[(2.0, 0.0), (2.5, 400.0)], rack=[(3.0, 0.0), (4.0, 0.004)])
    drive = Drive(Scenario(duration=9.0, initial=InitialMotion(yaw=-2.3), inputs=inputs))
    run = Smoothed(on_time(drive.measurements(3, gnss=gnss)))
    unknown = run.filtered["sigma.yaw"] > 3.0
    assert 400 < unknown.sum() < 1500
    error = np.remainder(run.error(drive, "yaw") + np.pi, 2.0 * np.pi) - np.pi
    assert np.abs(error[unknown] / run["sigma.yaw"][unknown]).max() < 4.0
    assert np.degrees(run["sigma.yaw"][unknown].max()) < 2.0
    for axis in "xy":
        assert np.abs(run.error(drive, axis)[unknown] / run[f"sigma.{axis}"][unknown]).max() < 4.0
        if gnss == "rtk":  # otherwise the receiver's bias dominates the error
            assert rms(run.error(drive, axis)[unknown]) < 0.2 * rms(run.filtered.error(drive, axis)[unknown])


@pytest.mark.parametrize("gnss", ["rtk", pytest.param("conventional", marks=pytest.mark.slow)])
def test_a_drive_without_fixes_at_its_start_is_placed_by_the_first_fixes(gnss):
    """The filter begins in a local frame of its own: another place and heading."""
    drive, first = bends(), 5.0
    measurements = [m for m in drive.measurements(1, gnss=gnss) if m.source != "gnss" or m.t > first * SECOND]
    run = Smoothed(on_time(measurements))
    local = run.t < first * SECOND
    assert local.sum() > 250
    assert np.abs(run.filtered.error(drive, "x")[local]).min() > 10.0
    for name in ("x", "y", "z", "yaw"):
        assert (np.abs(run.error(drive, name)) < 4.0 * run[f"sigma.{name}"]).all(), name
    assert np.degrees(run["sigma.yaw"]).max() < 3.0
    assert np.isfinite(run["lat"]).all()
    if gnss == "rtk":
        assert np.abs(run.error(drive, "x")).max() < 0.5


def test_a_drive_without_any_fix_stays_in_its_local_frame():
    run = Smoothed(on_time(cruise(5.0).measurements(0, gnss=None)))
    assert np.isnan(run["lat"]).all()
    np.testing.assert_allclose(run["x"], run.filtered["x"], rtol=0, atol=0.5)


def test_smoothed_wheel_speeds_are_those_of_the_smoothed_radius():
    """The filter finds the error of the radius after some seconds. Meanwhile speed and radius are both wrong."""
    drive = mixed(8.0)
    wrong = scale_radius(0.02, prototype())
    run = Smoothed(on_time(drive.measurements(0, gnss="conventional")), wrong)
    for wheel in ("fl", "fr"):  # the driven ones slip more than in the model
        error, before = (r.error(drive, f"wheel.{wheel}.speed")[r.t > SECOND] for r in (run, run.filtered))
        assert rms(error) < rms(before)


@pytest.mark.parametrize(
    ("found", "sigma"),
    [(0.5, 0.5), (0.01, None), (-0.03, 0.03)],
)
def test_an_antenna_found_elsewhere_has_a_wider_sigma_from_the_start_on(found, sigma):
    """The default σ is 3 mm; beyond 7 σ a place is contradicted, as in the filter."""
    states = {f"antenna.{a}": SlowState(v, 0.005, "m") for a, v in zip("xyz", (found, 0.0, 1.0), strict=True)}
    wider = widen_antennas(prototype(), states)
    if sigma is None:
        assert wider is None
    else:
        assert wider.sensors.gnss.antenna_sigma == pytest.approx(sigma, abs=0.001)
    assert widen_antennas(prototype(), {}) is None


def test_the_command_smooths_again_where_an_antenna_was_found_elsewhere(tmp_path, monkeypatch, capsys):
    log, out = write_log(tmp_path / "drive.csv", 1.0), tmp_path / "out.csv"
    found, elsewhere = Estimator.parameters, {"antenna.x": SlowState(0.5, 0.01, "m")}
    monkeypatch.setattr(Estimator, "parameters", lambda self: found(self) | elsewhere)
    arguments = ["replay", str(log), "--config", "prototype", "--smooth", "--estimates", str(out)]
    assert main(arguments) == 0
    assert capsys.readouterr().err.count("an antenna is elsewhere than configured") == 1
    assert len(vehicled.Estimates.read(out).t_ns) > 100


@pytest.mark.parametrize(
    ("gnss", "begin", "end"),
    [("rtk", 4.0, 9.0), pytest.param("conventional", 8.0, 34.0, marks=pytest.mark.slow)],
)
def test_smoothing_halves_the_drift_in_a_gnss_outage(gnss, begin, end):
    drive = mixed(end + 3.0)
    run = Smoothed(on_time(drive.measurements(0, gnss=gnss, outages={"gnss": [(begin, end)]})))
    inside = (run.t > begin * SECOND) & (run.t < end * SECOND)
    after = run.t > (end + 1.0) * SECOND

    def drift(r: Run) -> float:
        errors = [r.error(drive, c) for c in "xy"]
        return float(np.hypot(*(e[inside] - e[after].mean() for e in errors)).max())

    assert drift(run) < 0.5 * drift(run.filtered)
    moves = [np.diff(drive.truth(run.t[inside], c)) for c in "xy"]
    assert drift(run) < 2e-3 * np.hypot(*moves).sum()


def test_smoothing_does_not_use_measurements_beyond_a_reset():
    measurements = cruise(2.4).measurements(0, gnss="conventional")
    given = on_time(measurements)
    at = next(i for i, s in enumerate(given) if s.t >= 1.2 * SECOND)
    with_reset = [*given[:at], given[at]._replace(commands=(Command("reset", {}),)), *given[at + 1 :]]
    whole, first = Smoothed(with_reset), Smoothed(given[:at])
    assert whole.filtered.estimator.status()["restarts"] == 1
    # Latitude, longitude and height are linearised about a nearby place, with errors of hundredths of a millimetre.
    np.testing.assert_allclose(whole.values[: len(first.values)], first.values, rtol=0, atol=2e-5)
    east = ESTIMATE_INDEX["x"]
    np.testing.assert_array_equal(whole.values[: len(first.values), east], first.values[:, east])
    assert abs(whole["x"][-1] - Smoothed(given)["x"][-1]) > 1e-6


@pytest.mark.slow
def test_sigma_after_a_reset_in_a_bend_covers_the_errors():
    """In bends, courses do not correct the receiver's latencies: their gain is not the optimal one."""
    drive = mixed(START)
    given = on_time(drive.measurements(0, gnss="rtk"))
    at = next(i for i, s in enumerate(given) if s.t >= 10 * SECOND)
    run = Smoothed([*given[:at], given[at]._replace(commands=(Command("reset", {}),)), *given[at + 1 :]])
    for name in ("x", "y", "yaw", "vx", "vy"):
        sigma = run[f"sigma.{name}"][run.t >= 10 * SECOND]
        assert (sigma > 0.1 * sigma[-1]).all(), name
        assert (np.abs(run.error(drive, name)[run.t >= 10 * SECOND]) < 4.0 * sigma).all(), name


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["UKF", "DEKF"])
def test_every_kind_of_filter_can_be_smoothed(kind):
    given = prototype()
    configuration = dataclasses.replace(given, filter=dataclasses.replace(given.filter, kind=kind))
    drive = cruise(2.0)
    run = Smoothed(on_time(drive.measurements(0, gnss="conventional")), configuration)
    assert less_mean(run, drive) < 0.7 * less_mean(run.filtered, drive)
    assert (run["sigma.yaw"] <= run.filtered["sigma.yaw"] * (1.0 + ROUNDING)).all()


def test_late_measurements_are_used_at_the_time_they_were_made():
    drive = cruise(4.0)
    late = [Measurement(m.source, m.t, m.t + 80_000_000, m.values) for m in drive.measurements(0)]
    timely = [Measurement(m.source, m.t, m.t, m.values) for m in late]
    assert [s.measurements for s in on_time(late)] == [s.measurements for s in steps(timely)]


def write_log(path, seconds: float = 2.0):
    measurements = [m for m in cruise(4.0).measurements(0) if m.arrival < seconds * SECOND]
    with create_log(path, {c for m in measurements for c in m.values}) as log:
        for m in measurements:
            log.write(m)
    return path


def test_the_command_writes_the_smoothed_estimates(tmp_path, capsys):
    log, out = write_log(tmp_path / "drive.csv"), tmp_path / "out.csv"
    assert main(["replay", str(log), "--config", "prototype", "--smooth", "--estimates", str(out)]) == 0
    assert "smoothing" in capsys.readouterr().err
    written = vehicled.Estimates.read(out)
    library = vehicled.estimate(log, vehicled.load_configuration("prototype"), smooth=True)
    for column in ("x", "yaw", "sigma.x"):
        np.testing.assert_allclose(written[column], library[column], atol=1e-6)
    assert len(library.innovations) > 500
    filtered = vehicled.estimate(log, vehicled.load_configuration("prototype"))
    assert library["sigma.yaw"][10] < filtered["sigma.yaw"][10]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--publish", "tcp://127.0.0.1:1", "--estimates", "o.csv"], "--publish"),
        (["--record", "o.mcap", "--estimates", "o.csv"], "--record"),
        (["--rate", "2", "--estimates", "o.csv"], "--rate"),
        ([], "--estimates"),
    ],
)
def test_options_that_make_no_sense_with_smoothing_are_refused(tmp_path, monkeypatch, capsys, options, named):
    monkeypatch.chdir(tmp_path)
    log = write_log(tmp_path / "drive.csv", 0.5)
    assert main(["replay", str(log), "--config", "prototype", "--smooth", *options]) == 2
    assert named in capsys.readouterr().err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["drive.csv"]


def test_a_recording_of_the_daemon_can_be_smoothed(tmp_path):
    log, recorded = write_log(tmp_path / "drive.csv"), tmp_path / "run.mcap"
    assert main(["replay", str(log), "--config", "prototype", "--fast", "--record", str(recorded)]) == 0
    for given in (log, recorded):
        arguments = [str(given), "--config", "prototype", "--smooth", "--estimates", f"{given}.out.csv"]
        assert main(["replay", *arguments]) == 0
    ours, theirs = (vehicled.Estimates.read(f"{given}.out.csv") for given in (recorded, log))
    np.testing.assert_array_equal(ours.t_ns, theirs.t_ns)
    # Measurements of the same time are in another order.
    assert (np.abs(ours["x"] - theirs["x"]) < ours["sigma.x"]).all()


def test_commands_go_to_the_first_step_that_is_not_earlier():
    several = [Step(t, []) for t in (0, 4, 8, 12)]
    first, second, third = (Command("reset", {"n": n}) for n in range(3))
    found = with_commands(several, [(3, (first,)), (4, (second,)), (12, (third,))])
    assert [s.commands for s in found] == [(), (first, second), (), (third,)]
