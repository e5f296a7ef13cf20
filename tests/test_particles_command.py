"""`vehicled particles`: a mechanism followed from emulated devices and from logs, and refused input."""

import csv
import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import zmq
from live_rig import wait_until
from mechanism_rig import shipped

from drivers.can import CanOptions
from drivers.xsens import XsensOptions
from replay.emulator import Emulator
from replay.mcap_log import McapLog
from vehicled.cli import main
from vehicled.daemon.daemon import Daemon
from vehicled.maths.angles import wrap
from vehicled.messages import Measurement
from vehicled.multibody.files import mechanism_path
from vehicled.multibody.formulations import make_stepper
from vehicled.particles.configuration import load_particles_configuration
from vehicled.particles.tracker import MechanismTracker
from vehicled.reading import settings

DT = 0.01
MS = 1_000_000
DBC = """\
VERSION ""
BS_:
BU_: RIG
BO_ 64 Encoder: 4 RIG
 SG_ Angle : 0|32@1- (0.00001,0) [-21474|21474] "rad" RIG
"""
SENSORS = """\
sensors:
  imu: {imu.wz: {rate: theta, sigma: 0.01 rad/s, multiplier: 2}}
"""
ENCODER = "  can: {joint.1.angle: {value: theta, sigma: 0.01 rad, multiplier: 2}}\n"


def simulate(seconds, name="four_bar", coordinate="theta"):
    """(k, 3) time, coordinate, its rate: by another formulation and integrator than the particles'."""
    mechanism, stepper = shipped(name), make_stepper("matrix_r", "runge_kutta_4")
    k, rows = mechanism.index(coordinate), []
    for _ in range(round(seconds / DT)):
        rows.append((mechanism.t, mechanism.q[k], mechanism.qd[k]))
        for _ in range(4):
            stepper.step(mechanism, DT / 4).require("step")
    return np.array(rows)


@pytest.fixture(scope="module")
def truth():
    return simulate(3.0)


def write_log(path, truth, channels=("imu.wz",), sigma=0.01):
    noisy = truth[:, 1:] + sigma * np.random.default_rng(1).standard_normal((len(truth), 2))
    column = {"imu.wz": noisy[:, 1], "joint.1.angle": noisy[:, 0]}
    with path.open("w") as file:
        file.write(f"t,{','.join(channels)}\n")
        for k, t in enumerate(truth[:, 0]):
            file.write(f"{t:.6f},{','.join(repr(float(column[c][k])) for c in channels)}\n")


def read_rows(path):
    with path.open() as file:
        return [{k: float(v) for k, v in row.items()} for row in csv.DictReader(file)]


def follow(folder, text, *more):
    config = folder / "devices.yaml"
    config.write_text(text)
    return main(["particles", "--mechanism", "four_bar", "--config", str(config), *more])


def tracker(folder, text, mechanism="four_bar"):
    path = folder / "devices.yaml"
    path.write_text(text)
    return MechanismTracker(shipped(mechanism), load_particles_configuration(path))


def off(row, truth):
    """Error of the angle of a row at its time, rad."""
    return abs(wrap(row["theta"] - np.interp(row["t"], truth[:, 0], truth[:, 1])))


# -- SIGTERM -----------------------------------------------------------------------------------------------


def test_sigterm_before_the_daemon_runs_ends_it_with_status_0(monkeypatch, capsys, tmp_path):
    """As with `vehicled run`, while the particles of the mechanism are compiled."""
    monkeypatch.setattr(
        "vehicled.particles.tracker.MechanismTracker", lambda *_: signal.raise_signal(signal.SIGTERM)
    )
    devices = "daemon: {devices: {imu: {driver: xsens, options: {port: /dev/none}}}}"
    assert follow(tmp_path, SENSORS + devices) == 0
    assert capsys.readouterr().err == "vehicled: SIGTERM: ending\n"


@pytest.mark.parametrize("number", [pytest.param(signal.SIGTERM, marks=pytest.mark.slow), signal.SIGINT])
def test_a_signal_sets_the_incomplete_table_of_a_log_aside(tmp_path, truth, number):
    """Rows written until then are complete, as after Ctrl-C; the exit status is that of the signal."""
    write_log(tmp_path / "log.csv", truth)
    (tmp_path / "devices.yaml").write_text(SENSORS)
    out = tmp_path / "out.csv"
    arguments = [
        "--mechanism",
        "four_bar",
        "--config",
        tmp_path / "devices.yaml",
        "--log",
        tmp_path / "log.csv",
    ]
    command = [sys.executable, "-m", "vehicled", "particles", *arguments, "--estimates", out, "--rate", "0.1"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        wait_until(out.exists, 60.0)
        time.sleep(0.5)
        process.send_signal(number)
        assert f"the incomplete file is {out}.part" in process.stderr.read().decode()
    assert process.returncode == (-number if number == signal.SIGTERM else 130)
    assert not out.exists()
    rows = read_rows(tmp_path / "out.csv.part")
    assert all(np.isfinite(row["theta"]) for row in rows)


# -- logs --------------------------------------------------------------------------------------------------


def test_a_log_becomes_a_table_of_estimates(tmp_path, truth, capsys):
    write_log(tmp_path / "log.csv", truth)
    out = tmp_path / "out.csv"
    assert (
        follow(tmp_path, SENSORS, "--log", str(tmp_path / "log.csv"), "--fast", "--estimates", str(out)) == 0
    )
    rows = read_rows(out)
    assert len(rows) == len(truth)
    for row in rows[200:]:
        assert off(row, truth) < np.radians(1.0)
        assert row["theta.rate"] == pytest.approx(np.interp(row["t"], truth[:, 0], truth[:, 2]), abs=0.05)
        assert row["cluster"] > 0.95
    # At the start the crank may be anywhere.
    assert rows[0]["theta.deviation"] > 1.0
    assert "theta" in capsys.readouterr().out


def test_a_precise_encoder_is_followed_although_no_particle_is_near_at_first(tmp_path, truth):
    """Of 200 particles around the circle with random rates, hardly one is within 10 σ of the first reading."""
    write_log(tmp_path / "log.csv", truth, ["joint.1.angle"], sigma=0.001)
    text = "particles: {count: 200, coordinates: {theta: {rate: 5 rad/s}}}\nsensors:\n"
    text += ENCODER.replace("0.01 rad, multiplier: 2", "0.001 rad")
    out = tmp_path / "out.csv"
    log = str(tmp_path / "log.csv")
    assert follow(tmp_path, text, "--log", log, "--fast", "--estimates", str(out)) == 0
    rows = read_rows(out)
    assert max(off(row, truth) for row in rows[50:]) < np.radians(1.0)
    errors = [(row["theta.rate"] - np.interp(row["t"], truth[:, 0], truth[:, 2])) for row in rows[100:]]
    assert np.abs(errors).max() < 0.1


def test_readings_that_do_not_fit_are_rejected_and_recorded_and_do_not_move_the_estimate(tmp_path, truth):
    follower = tracker(tmp_path, SENSORS)
    reasons = []
    for k, (t, _, rate) in enumerate(truth):
        ns = round(t * 1e9)
        value = {150: 50.0, 160: float("nan"), 170: 1e300}.get(k, rate)
        future = 10**12 if k == 180 else 0
        reading = Measurement("imu", ns + future, ns, {"imu.wz": value, "imu.ax": 1.0})
        estimate = follower.step(ns, [reading])
        (record,) = follower.innovations()
        assert record.sensor == "imu.wz"
        reasons.append(record.reason)
    assert [reasons[k] for k in (150, 160, 170, 180)] == ["gate", *3 * ["absurd"]]
    assert reasons.count("fused") == len(truth) - 4
    assert abs(wrap(estimate.coordinates["theta"].value - truth[-1, 1])) < np.radians(1.0)
    assert follower.status()["sensors"]["imu.imu.wz"]["rejected"] == 4
    assert follower.condition.state == "running"


def test_a_mechanism_that_is_moved_by_hand_is_found_again(tmp_path, truth):
    """The readings continue from another position: no particle fits, so that the filter restarts."""
    text = "particles: {restart_after: 0.3 s, coordinates: {theta: {rate: 5 rad/s}}}\n" + SENSORS
    follower, states, again = tracker(tmp_path, text), [], simulate(2.0)
    moved = np.vstack([truth[:150], again[:, :] + [1.5, 0.0, 0.0]])
    for t, _, rate in moved:
        ns = round(t * 1e9)
        estimate = follower.step(ns, [Measurement("imu", ns, ns, {"imu.wz": rate})])
        states.append(follower.condition.state)
    assert "recovering" in states
    assert states[-1] == "running"
    assert follower.status()["restarts"] >= 1
    assert abs(wrap(estimate.coordinates["theta"].value - moved[-1, 1])) < np.radians(3.0)


def test_devices_of_different_latency_are_used_in_the_order_of_measurement(tmp_path, truth):
    """The encoder is 30 ms late. With a wait of 30 ms nothing is lost; without, its readings are too old."""
    for wait, late in (("0.03 s", 0), ("0 s", 99)):
        follower = tracker(tmp_path, f"particles: {{wait: {wait}}}\n" + SENSORS + ENCODER)
        records, times = [], []
        for k in range(100):
            ns = round(truth[k, 0] * 1e9)
            arrived = [Measurement("imu", ns, ns, {"imu.wz": truth[k, 2]})]
            if k >= 3:
                then = round(truth[k - 3, 0] * 1e9)
                arrived.append(Measurement("can", then, ns, {"joint.1.angle": truth[k - 3, 1]}))
            estimate = follower.step(ns, arrived)
            records += follower.innovations()
            times += [] if estimate is None else [estimate.t]
        assert [r.reason for r in records].count("too old") == pytest.approx(late, abs=3)
        assert times == sorted(times)
        if late == 0:
            assert all(r.fused for r in records)
            assert times[-1] == round(truth[96, 0] * 1e9)


def test_a_reset_restarts_the_filter_and_the_same_log_gives_the_same_result(tmp_path, truth):
    runs = []
    for _ in range(2):
        follower, estimates = tracker(tmp_path, SENSORS), []
        for k, (t, _, rate) in enumerate(truth[:120]):
            if k == 60:
                assert follower.command("reset", {}) == {}
                assert follower.condition.state == "waiting"
            ns = round(t * 1e9)
            estimate = follower.step(ns, [Measurement("imu", ns, ns, {"imu.wz": rate})])
            estimates.append(estimate.coordinates["theta"])
        assert estimates[59].deviation < 0.2 < 1.0 < estimates[60].deviation
        runs.append(estimates)
    assert runs[0] == runs[1]


# -- what is refused -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SENSORS.replace("rate: theta", "rate: gamma"), "sensors.imu.imu.wz: no coordinate 'gamma'"),
        (SENSORS.replace("rate: theta", "value: theta"), "imu.wz is in rad/s, but theta is in rad"),
        (SENSORS.replace("rad/s, m", "m, m"), "devices.yaml:2: sensors.imu.imu.wz.sigma"),
        (SENSORS.replace("imu.wz", "imu.ax"), "as it is of imu.ax"),
        (
            SENSORS.replace("imu.wz", "imu.yaw").replace(" rad/s", ""),
            "devices.yaml:2: sensors.imu.imu.yaw: unknown channel",
        ),
        (SENSORS.replace("rate: theta, ", ""), "expected value or rate"),
        ("sensors: {}\n", "devices.yaml:1: sensors: expected at least one"),
        (
            "particles: {coordinates: {beta: {rate: 1}}}\n" + SENSORS,
            "beta is not independent; expected theta",
        ),
        (
            "particles: {coordinates: {theta: {low: 1 m, high: 2}}}\n" + SENSORS,
            "theta.low: expected a number in rad",
        ),
        (
            "particles: {coordinates: {theta: {low: 2, high: 1}}}\n" + SENSORS,
            "theta: expected high above low",
        ),
        (
            SENSORS + "daemon: {devices: {gyro: {driver: xsens, options: {port: x}}}}\n",
            "sensors.imu: expected a device",
        ),
        (
            "vehicle: {kind: handbook}\nsensors:\n  imu: {position: 0 0 0 m}\n",
            "devices.yaml:1: vehicle: expected a configuration of particles",
        ),
    ],
)
def test_a_wrong_configuration_is_refused_in_one_line(tmp_path, truth, capsys, text, message):
    write_log(tmp_path / "log.csv", truth[:3])
    assert follow(tmp_path, text, "--log", str(tmp_path / "log.csv"), "--fast") == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_state_that_no_sensor_determines_is_refused_by_its_name(tmp_path, capsys):
    """A bar without gravity: its gyroscope reads the same at any angle."""
    bar = """\
space: planar
ground: {points: {A: 0 0 m}}
points: {P: 1 0 m}
angles: {theta: {between: [x, [A, P]]}}
bodies: {bar: {kind: bar, points: [A, P], length: 1 m, mass: 1 kg}}
independent: [theta]
"""
    path, config = tmp_path / "bar.yaml", tmp_path / "devices.yaml"
    config.write_text(SENSORS)
    command = ["particles", "--mechanism", str(path), "--config", str(config), "--log", "none.csv"]
    path.write_text(bar)
    assert main(command) == 2
    assert "their readings do not determine theta\n" in capsys.readouterr().err
    # With gravity the angle is determined; the next error is the missing log.
    path.write_text(bar + "gravity: 0 -9.81 m/s²\n")
    assert main(command) == 2
    assert "none.csv" in capsys.readouterr().err


def test_drives_and_missing_options_are_refused(tmp_path, capsys):
    config = tmp_path / "devices.yaml"
    config.write_text(SENSORS)
    assert (
        main(["particles", "--mechanism", "suspension_corner", "--config", str(config), "--log", "x.csv"])
        == 2
    )
    assert "drive rack_place" in capsys.readouterr().err
    assert follow(tmp_path, SENSORS, "--estimates", "x.csv") == 2
    assert "--estimates: expected --log" in capsys.readouterr().err
    assert follow(tmp_path, SENSORS) == 2
    assert "daemon.devices: expected at least one" in capsys.readouterr().err


def test_a_sensor_that_the_log_lacks_is_reported(tmp_path, truth, capsys):
    write_log(tmp_path / "log.csv", truth[:50])
    log = str(tmp_path / "log.csv")
    assert follow(tmp_path, SENSORS + ENCODER, "--log", log, "--fast") == 0
    assert (
        f"{log}: no readings of can.joint.1.angle in it, which `sensors` expects\n" in capsys.readouterr().err
    )
    assert follow(tmp_path, SENSORS, "--log", log, "--fast") == 0
    assert "no readings" not in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_readings_that_no_particle_fits_are_not_reported_as_missing(tmp_path, truth, capsys):
    write_log(tmp_path / "log.csv", truth[:50])
    text = SENSORS.replace("sigma: 0.01 rad/s", "sigma: 1e-300 rad/s")
    assert follow(tmp_path, text, "--log", str(tmp_path / "log.csv"), "--fast") == 2
    assert "no particle fits its readings; expected sigma, scale and offset" in capsys.readouterr().err


def test_a_single_particle_is_refused(tmp_path, capsys):
    assert follow(tmp_path, "particles: {count: 1}\n" + SENSORS, "--log", "x.csv") == 2
    assert "particles.count: expected a whole number at least 2" in capsys.readouterr().err


def test_a_step_too_long_for_a_stiff_spring_is_reported(tmp_path, truth, capsys):
    """Particles are integrated by the Runge-Kutta rule, which would lose energy unnoticed."""
    rig, (log, devices) = tmp_path / "rig.yaml", (tmp_path / "log.csv", tmp_path / "devices.yaml")
    spring = (
        "forces: {bush: {kind: torsion_spring, angle: theta, stiffness: 1 MN·m/rad, free_angle: 60 deg}}\n"
    )
    rig.write_text(mechanism_path("four_bar").read_text() + spring)
    write_log(log, truth[:20])
    devices.write_text(SENSORS)
    rest = ["--config", str(devices), "--log", str(log), "--fast"]
    for mechanism, says in (
        (str(rig), "doubtful: particles.longest_step: 0.006 s is too long for the motion of "),
        ("four_bar", ""),
    ):
        main(["particles", "--mechanism", mechanism, *rest])
        lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("doubtful")]
        assert len(lines) == bool(says)
        assert all(line.startswith(says) and " by bush: it loses " in line for line in lines)


def test_a_log_without_the_channels_is_an_error(tmp_path, truth, capsys):
    write_log(tmp_path / "log.csv", truth[:5], ["joint.1.angle"])
    assert follow(tmp_path, SENSORS, "--log", str(tmp_path / "log.csv"), "--fast") == 2
    assert "none of the channels of `sensors` in it: imu.wz" in capsys.readouterr().err


# -- live --------------------------------------------------------------------------------------------------


def devices_of(folder):
    (folder / "rig.dbc").write_text(DBC)
    signals = {"joint.1.angle": {"message": "Encoder", "signal": "Angle"}}
    can = {
        "interface": "slcan",
        "channel": str(folder / "can"),
        "bitrate": 500_000,
        "dbc": str(folder / "rig.dbc"),
    }
    text = json.dumps({**can, "signals": signals})
    return {
        "imu": ("xsens", XsensOptions(port=str(folder / "imu"))),
        "can": ("can", settings.loads(text, CanOptions)),
    }, text


def test_a_live_run_on_emulated_devices_is_reproduced_from_its_recording(
    tmp_path, socket_folder, connect, truth
):
    """A gyroscope on a pseudo-terminal and an encoder on a CAN adapter, while a linkage moves."""
    plan, can = devices_of(tmp_path)
    text = f"""\
particles: {{count: 300, longest_step: 10 ms, wait: 50 ms}}
{SENSORS}{ENCODER}daemon:
  devices:
    imu: {{driver: xsens, options: {{port: {tmp_path}/imu}}}}
    can: {{driver: can, options: {can}}}
  loop: {{rate: 100 Hz, realtime_priority: 0}}
  publish: {{endpoint: "tcp://127.0.0.1:*", command_endpoint: "ipc://{socket_folder}/commands"}}
  record: {{directory: {tmp_path}/runs}}
"""
    config = tmp_path / "devices.yaml"
    config.write_text(text)
    imu = dict.fromkeys(("imu.ax", "imu.ay", "imu.az", "imu.wx", "imu.wy"), 0.0)
    drive = []
    for k, (t, angle, rate) in enumerate(truth):
        ns = round(t * 1e9)
        drive.append(Measurement("imu", ns, ns, {**imu, "imu.wz": rate}))
        if k % 2 == 0:
            drive.append(Measurement("can", ns + 3 * MS, ns + 3 * MS, {"joint.1.angle": angle}))
    configuration = load_particles_configuration(config)
    follower = MechanismTracker(shipped("four_bar"), configuration)
    daemon = Daemon(configuration.daemon, follower, configuration.text, dict)
    messages, errors = [], []
    with Emulator(plan, drive) as emulator, daemon:
        wait_until(lambda: daemon.status is not None)
        wait_until(lambda: all(d["state"] == "connected" for d in daemon.status.counters["devices"].values()))
        subscriber = connect(zmq.SUB, daemon.endpoint)
        subscriber.subscribe("mechanism")
        subscriber.subscribe("innovation.imu.wz")
        begun = emulator.start()
        topics = set()
        while not messages or messages[-1]["t"] < begun + 2.4e9:
            topic, payload = subscriber.recv_multipart()
            topics.add(topic)
            if topic == b"mechanism":
                messages.append(json.loads(payload))
        commands = connect(zmq.REQ, daemon.command_endpoint)
        commands.send(b'{"command": "status"}')
        status = json.loads(commands.recv())["status"]
        commands.send(b'{"command": "set_position", "x": 1, "y": 2}')
        assert "expected reset" in json.loads(commands.recv())["error"]
        commands.send(b'{"command": "reset"}')
        assert json.loads(commands.recv()) == {"ok": True}
    assert {b"mechanism", b"innovation.imu.wz"} <= topics
    assert status["state"] == "running"
    assert set(status["counters"]["estimator"]["sensors"]) == {"imu.imu.wz", "can.joint.1.angle"}
    for m in messages:
        theta = m["coordinates"]["theta"]
        # The time of a sample on this machine is known to a few milliseconds, in which theta moves by 1°.
        errors.append(
            abs(wrap(theta["value"] - np.interp((m["t"] - begun) * 1e-9, truth[:, 0], truth[:, 1])))
        )
        assert 0.0 < m["effective"] <= 1.0
        assert np.array(m["covariance"]).shape == (2, 2)
    settled = [e for m, e in zip(messages, errors, strict=True) if m["t"] > begun + 0.8e9]
    assert np.median(settled) < np.radians(3.0)

    (recording,) = (tmp_path / "runs").iterdir()
    again = tmp_path / "again.mcap"
    command = [
        "particles",
        "--mechanism",
        "four_bar",
        "--config",
        str(config),
        "--log",
        str(recording),
        "--fast",
    ]
    assert main([*command, "--record", str(again)]) == 0
    live, replayed = ([m.data for m in McapLog(path).messages(("mechanism",))] for path in (recording, again))
    assert len(live) > 10
    assert replayed == live
