"""`vehicled simulate --mechanism`: motions against closed forms, and the logs that other commands read."""

import csv
import math

import numpy as np
import pytest
from scipy.special import ellipk

from vehicled.cli import main
from vehicled.errors import RunError
from vehicled.multibody.files import mechanism_path
from vehicled.multibody.formulations import make_stepper
from vehicled.multibody.mechanism import Mechanism
from vehicled.simulation.motion import DrivenMechanism, simulate_motion

DEVICES = """\
particles: {count: 200, coordinates: {theta: {rate: 1 rad/s}}}
sensors:
  imu: {imu.wz: {rate: theta, sigma: 0.02 rad/s, multiplier: 2}}
  can: {joint.1.angle: {value: theta, sigma: 0.3 deg, scale: -2, offset: 12 deg}}
"""
OSCILLATOR = """\
space: planar
ground: {points: {O: 0 0 m}}
points: {P: 1 0 m}
distances: {s: {points: [O, P], along: x}}
bodies: {mass: {kind: point_mass, point: P, mass: 2 kg}}
joints: {guide: {kind: point_on_line, points: [O, P], axis: x}}
forces: {spring: {kind: on_coordinate, coordinate: s, force: "-8*s"}}
independent: [s]
"""


def read(path):
    with path.open() as file:
        rows = list(csv.DictReader(file))
    return {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}


def simulate(path, *arguments, mechanism="four_bar", option="--truth"):
    assert main(["simulate", "--mechanism", str(mechanism), option, str(path), *arguments]) == 0
    return read(path)


def test_pendulum_swings_with_the_period_of_its_amplitude(tmp_path):
    """A uniform bar, 2 rad off its lowest position: T = 4 √(2 l/(3 g)) K(sin²(2/2)); it rests at 0, T/2 and T."""
    period = 4.0 * math.sqrt(2.0 / (3.0 * 9.81)) * float(ellipk(math.sin(1.0) ** 2))
    # The lowest position is −π/2.
    start = f"theta={-math.pi / 2 + 2.0!r}"
    found = simulate(
        tmp_path / "t.csv",
        *("--start", start, "--duration", repr(period), "--every", repr(period / 2), "--step", "0.5 ms"),
        mechanism="pendulum",
    )
    assert found["t"] == pytest.approx([0.0, period / 2, period])
    off = found["theta"] + math.pi / 2
    assert off == pytest.approx([2.0, -2.0, 2.0], abs=1e-5)
    assert found["theta.rate"] == pytest.approx([0.0, 0.0, 0.0], abs=1e-4)
    assert found["energy"] == pytest.approx(found["energy"][0], abs=1e-6)


def test_driven_oscillator_follows_the_closed_form(tmp_path):
    """2 s̈ + 8 s = 6 sin(3 t), from 0.5 m at −1 m/s."""
    path = tmp_path / "oscillator.yaml"
    path.write_text(OSCILLATOR)
    found = simulate(
        tmp_path / "t.csv",
        *("--start", "s=0.5", "--speed", "s=-1m/s", "--force", "s=6*sin(3*t)", "--duration", "4s"),
        *("--every", "20ms", "--step", "4ms", "--formulation", "matrix_r", "--integrator", "runge_kutta_4"),
        mechanism=path,
    )
    t, forced = found["t"], 3.0 / (4.0 - 9.0)
    expected = 0.5 * np.cos(2 * t) + (-1.0 - 3.0 * forced) / 2.0 * np.sin(2 * t) + forced * np.sin(3 * t)
    assert found["s"] == pytest.approx(expected, abs=1e-9)
    assert found["s.acceleration"] == pytest.approx(3.0 * np.sin(3 * t) - 4.0 * expected, abs=1e-8)
    assert found["s.force"] == pytest.approx(6.0 * np.sin(3 * t))


SUPPORTED = OSCILLATOR.replace("-8*s", "8*(support - s)").replace("bodies:", "inputs: [support]\nbodies:")
"""The same, with a spring to a support that moves."""


@pytest.mark.parametrize("where", ["command", pytest.param("file", marks=pytest.mark.slow)])
def test_an_oscillator_on_a_moving_support_follows_the_closed_form(tmp_path, where):
    """2 s̈ + 8 (s - sin(3 t)) = 0, from rest at 0 m; with explicit stages between the steps as well."""
    path = tmp_path / "oscillator.yaml"
    of_file = SUPPORTED.replace("inputs: [support]", 'functions: {phase: 3*t, support: "sin(phase)"}')
    path.write_text(SUPPORTED if where == "command" else of_file)
    given = ("--input", "support=sin(3*t)") if where == "command" else ()
    found = simulate(
        tmp_path / "t.csv",
        *("--start", "s=0", "--duration", "4s", "--every", "20ms", *given),
        *("--step", "4ms", "--formulation", "matrix_r", "--integrator", "runge_kutta_4"),
        mechanism=path,
    )
    t, forced = found["t"], 4.0 / (4.0 - 9.0)
    assert found["s"] == pytest.approx(forced * (np.sin(3 * t) - 1.5 * np.sin(2 * t)), abs=1e-9)


def test_an_input_drives_a_coordinate_with_its_rate_and_acceleration(tmp_path):
    found = simulate(
        tmp_path / "t.csv",
        *("--input", "rack=0.02*sin(3*t)", "--duration", "1", "--every", "50ms"),
        mechanism="suspension_corner",
    )
    t = found["t"]
    assert found["rack_place"] == pytest.approx(0.378 + 0.02 * np.sin(3 * t), abs=1e-9)
    assert found["rack_place.rate"] == pytest.approx(0.06 * np.cos(3 * t), abs=1e-6)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("bump=t", "no input 'bump'; expected rack"),
        ("rack=2*knob", "input rack: unknown name 'knob'"),
        ("rack", "expected NAME=VALUE"),
    ],
)
def test_inputs_that_cannot_be_used_are_refused(tmp_path, capsys, given, words):
    output = str(tmp_path / "t.csv")
    assert main(["simulate", "--mechanism", "suspension_corner", "--truth", output, "--input", given]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line


def test_energy_changes_by_the_work_of_the_force(tmp_path):
    found = simulate(tmp_path / "t.csv", "--force", "theta=200*cos(t)", "--duration", "3", "--every", "1 ms")
    work = np.trapezoid(found["theta.force"] * found["theta.rate"], found["t"])
    assert found["energy"][-1] - found["energy"][0] == pytest.approx(work, rel=1e-4)
    assert abs(work) > 10.0


@pytest.mark.parametrize(
    ("arguments", "warns"),
    [
        (("--speed", "theta=30rad/s", "--step", "5ms"), True),
        (("--speed", "theta=30rad/s", "--step", "1ms"), False),
        (("--speed", "theta=30rad/s", "--step", "5ms", "--force", "theta=-0.1*rate(theta)"), False),
    ],
)
def test_a_step_that_takes_energy_where_nothing_does_is_reported(tmp_path, capsys, arguments, warns):
    """Eigenvalues at the start do not show it: a four-bar linkage that turns fast has no stiff spring."""
    found = simulate(tmp_path / "t.csv", "--duration", "2s", *arguments)
    said = [line for line in capsys.readouterr().err.splitlines() if "doubtful" in line]
    assert len(said) == warns
    if warns:
        (line,) = said
        assert line.startswith("doubtful: --step: 0.005 s is too long for this motion: its energy changes by")
        assert np.ptp(found["energy"]) > 0.01 * found["energy"].max()
        longest = line.rpartition("about ")[2].removesuffix(" s at most")
        found = simulate(tmp_path / "s.csv", "--duration", "2s", *arguments[:3], longest)
        assert np.ptp(found["energy"]) < 0.015 * found["energy"].max()


def test_identification_finds_the_masses_from_the_motion(tmp_path, capsys):
    folder = tmp_path
    log = simulate(
        folder / "motion.csv",
        *("--force", "theta=300*sin(3*t)+80*sin(7*t)", "--duration", "3", "--every", "10ms"),
        option="--output",
    )
    assert list(log) == ["t", "theta", "theta.force"]
    assert "301 samples" in capsys.readouterr().out
    other = folder / "other.yaml"
    other.write_text(mechanism_path("four_bar").read_text().replace("mass: 8 kg", "mass: 7 kg"))
    found = folder / "found.yaml"
    arguments = ["identify", str(folder / "motion.csv"), "--mechanism", str(other), "--output", str(found)]
    assert main(arguments) == 0
    masses = [Mechanism.load(found).get_parameter(f"{name}.mass") for name in ("crank", "coupler", "rocker")]
    assert masses == pytest.approx([2.0, 8.0, 5.0], rel=0.01)


def test_particles_follow_the_readings(tmp_path):
    config, log, truth = (tmp_path / name for name in ("devices.yaml", "log.mcap", "truth.csv"))
    config.write_text(DEVICES)
    given = ("--config", str(config), "--truth", str(truth), "--duration", "2", "--seed", "3")
    arguments = ["simulate", "--mechanism", "four_bar", "--output", str(log), *given]
    assert main(arguments) == 0
    estimates = tmp_path / "estimates.csv"
    follow = ["particles", "--mechanism", "four_bar", "--config", str(config), "--log", str(log), "--fast"]
    assert main([*follow, "--estimates", str(estimates)]) == 0
    found, true = read(estimates), read(truth)
    late = found["t"] > 1.0
    off = found["theta"] - np.interp(found["t"], true["t"], true["theta"])
    off = (off + math.pi) % (2 * math.pi) - math.pi
    assert np.sqrt(np.mean(off[late] ** 2)) < math.radians(0.3)


def test_noise_of_readings_is_that_of_their_sensors(tmp_path):
    config, log, truth = (tmp_path / name for name in ("devices.yaml", "log.csv", "truth.csv"))
    config.write_text(DEVICES)
    given = ("--config", str(config), "--output", str(log), "--every", "2ms", "--duration", "4")
    true, measured = simulate(truth, *given), read(log)
    angle = -2.0 * measured["joint.1.angle"] + math.radians(12.0) - true["theta"]
    rate = measured["imu.wz"] - true["theta.rate"]
    assert len(angle) == 2001
    assert np.std(angle) == pytest.approx(math.radians(0.3), rel=0.06)
    assert np.std(rate) == pytest.approx(0.02, rel=0.06)
    assert max(abs(np.mean(angle)) / math.radians(0.3), abs(np.mean(rate)) / 0.02) < 0.1


def test_relative_coordinates_are_those_of_joints(tmp_path, capsys):
    path = tmp_path / "chain.yaml"
    path.write_text(
        """\
space: planar
gravity: 0 -9.81 m/s²
ground: {points: {A: 0 0 m}}
points: {P: 1 0 m, Q: 2 0 m}
angles: {shoulder: {between: [x, [A, P]]}}
bodies:
  upper: {kind: bar, points: [A, P], mass: 1 kg}
  lower: {kind: bar, points: [P, Q], mass: 1 kg}
coordinates: relative
"""
    )
    arguments = ("--force", "shoulder=2", "--start", "lower.angle=30deg", "--duration", "0.5")
    found = simulate(tmp_path / "t.csv", *arguments, mechanism=path, option="--output")
    assert list(found) == ["t", "shoulder", "lower.angle", "shoulder.force"]
    assert found["shoulder.force"] == pytest.approx(2.0)
    assert found["lower.angle"][0] == pytest.approx(math.radians(30.0))
    refused = ["simulate", "--mechanism", str(path), "--force", "lower.angle=2"]
    assert main([*refused, "--truth", str(tmp_path / "other.csv")]) == 2
    assert "force on lower.angle: expected a coordinate that the file names" in capsys.readouterr().err


def test_step_that_fails_is_named_with_its_time():
    driven = DrivenMechanism("four_bar", {"theta": "1e300*exp(100*t)"})
    with pytest.raises(RunError, match=r"step at 0 s did not converge"):
        simulate_motion(driven, make_stepper("ali3p"), 1.0, 0.1, 0.1)


def test_duration_of_a_drive_can_be_given(tmp_path):
    truth = tmp_path / "truth.csv"
    arguments = ["simulate", "slalom", "--config", "prototype", "--output", str(tmp_path / "drive.csv")]
    assert main([*arguments, "--truth", str(truth), "--duration", "500 ms"]) == 0
    with truth.open() as file:
        times = [float(row["t"]) for row in csv.DictReader(file)]
    assert times[-1] == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--output or --truth is missing"),
        (["--output", "a.mcap"], "expected a name that ends in .csv"),
        (["--truth", "a.csv", "--start", "theta"], "--start theta: expected NAME=VALUE"),
        (["--truth", "a.csv", "--start", "theta=1", "--start", "theta=2"], "theta is given twice"),
        (["--truth", "a.csv", "--start", "stroke=1"], "no independent coordinate 'stroke'; expected theta"),
        (["--truth", "a.csv", "--start", "theta=3m"], "--start theta 3m: expected a number in rad"),
        (["--truth", "a.csv", "--start", "theta=nan"], "cannot be moved to theta = nan"),
        (["--truth", "a.csv", "--speed", "theta=3m/s"], "expected a number in rad/s"),
        (["--truth", "a.csv", "--force", "theta=sin("], "force on theta: 'sin(' is not an expression"),
        (["--truth", "a.csv", "--force", "theta=x"], "force on theta: unknown name 'x'"),
        (["--truth", "a.csv", "--force", "P.x=1"], "no independent coordinate 'P.x'; expected theta"),
        (["--truth", "a.csv", "--every", "20 s"], "--every 20 s: expected"),
        (["--truth", "a.csv", "--every", "0"], "--every 0: expected a time above 0 s"),
        (["--truth", "a.csv", "--duration", "5kg"], "--duration 5kg: expected a number in s"),
        (["--truth", "a.csv", "--gnss", "rtk"], "expected --gnss or --mechanism, not both"),
        (["slalom", "--truth", "a.csv"], "expected SCENARIO or --mechanism, not both"),
        (["--truth", "a.csv", "--integrator", "runge_kutta_4"], "ALI3-P is made with the trapezoidal rule"),
    ],
)
def test_bad_arguments_are_refused_and_nothing_is_written(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["simulate", "--mechanism", "four_bar", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_options_of_mechanisms_are_refused_without_a_mechanism(capsys):
    assert main(["simulate", "slalom", "--config", "prototype", "--every", "1ms"]) == 2
    assert "--every: expected --mechanism FILE with it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("sensors", "message"),
    [
        ("imu: {imu.wz: {rate: stroke, sigma: 0.01 rad/s}}", "no coordinate 'stroke'"),
        ("imu: {imu.wz: {value: theta, sigma: 0.01 rad/s}}", "imu.wz is in rad/s, but theta is in rad"),
    ],
)
def test_sensors_that_do_not_fit_are_named(sensors, message, capsys, tmp_path):
    config = tmp_path / "devices.yaml"
    config.write_text(f"sensors:\n  {sensors}\n")
    arguments = ["simulate", "--mechanism", "four_bar", "--config", str(config)]
    assert main([*arguments, "--output", str(tmp_path / "log.csv")]) == 2
    assert message in capsys.readouterr().err
