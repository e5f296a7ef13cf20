"""Parameters learned of a car are used in its next drive; those of a damaged file or of another car are not."""

import json
import logging
import threading
import time

import numpy as np
import pytest
from estimator_rig import Run, cruise, mixed, prototype, steps

from vehicled.cli import main
from vehicled.daemon import learned
from vehicled.daemon.learned import LearnedFile, LearnedKeeper
from vehicled.errors import UsageError
from vehicled.estimator import Estimator
from vehicled.messages import SlowState
from vehicled.reading.settings import config_path
from vehicled.sources.learnable import find_bounds

CONFIGURATION = "vehicle: {mass: 1 t}\nsensors: {imu: {}}\nfilter: {kind: UKF}"
LEARNED = {
    "steering_offset": SlowState(0.008, 0.001, "rad"),
    "gyro_scale": SlowState(0.004, 0.0005, "–"),
    "tyre_error.friction": SlowState(0.9, 0.01, "–"),
    "of another version": SlowState(1.0, 1.0, ""),
}


MOVED = {"value": 0.05, "sigma": 0.001, "unit": "rad"}


def test_saved_parameters_are_loaded(tmp_path):
    file = LearnedFile(tmp_path / "new folder" / "learned.json", CONFIGURATION)
    assert file.load() is None
    file.save({})
    assert file.load() is None
    file.save(LEARNED)
    loaded = file.load()
    assert loaded is not None
    assert loaded["parameters"]["gyro_scale"] == {"value": 0.004, "sigma": 0.0005, "unit": "–"}
    assert 0.0 <= loaded["age"] < 10.0


def test_the_file_that_a_link_leads_to_is_replaced_and_not_the_link(tmp_path):
    kept, link = tmp_path / "disk" / "learned.json", tmp_path / "learned.json"
    link.symlink_to(kept)
    LearnedFile(link, CONFIGURATION).save(LEARNED)
    assert link.is_symlink()
    assert LearnedFile(kept, CONFIGURATION).load() is not None


def test_a_file_is_used_only_for_the_same_vehicle_and_sensors(tmp_path):
    path = tmp_path / "learned.json"
    LearnedFile(path, CONFIGURATION).save(LEARNED)
    assert LearnedFile(path, CONFIGURATION.replace("UKF", "DEKF")).load() is not None
    assert LearnedFile(path, CONFIGURATION.replace("1 t", "2 t")).load() is None


DEVICES = """
daemon:
  devices:
    gnss: {driver: nmea, options: {port: /dev/ttyUSB0, latency: 30 ms}}
    can: {driver: can, options: {dbc: car.dbc, signals: {vehicle.speed: {message: A, signal: B, scale: 1}}}}
"""


@pytest.mark.parametrize(
    ("old", "new", "is_same"),
    [
        ("latency: 30 ms", "latency: 90 ms", False),
        ("scale: 1", "scale: 0.98", False),
        ("driver: nmea", "driver: ubx", False),
        ("ttyUSB0", "ttyUSB1", True),
        ("gnss:", "receiver:", True),
        ("options: {port: /dev/ttyUSB0, latency: 30 ms}", "options: {latency: 30 ms, port: x}", True),
    ],
)
def test_a_file_is_used_only_if_devices_are_read_as_before(tmp_path, old, new, is_same):
    """What a driver subtracts is not found again: 80 ms of the receiver would be subtracted twice."""
    path = tmp_path / "learned.json"
    LearnedFile(path, CONFIGURATION + DEVICES).save(LEARNED)
    assert old in DEVICES
    changed = LearnedFile(path, CONFIGURATION + DEVICES.replace(old, new))
    assert (changed.load() is not None) == is_same


def test_what_was_learned_stays_after_tuning(tmp_path):
    path, tuned = tmp_path / "learned.json", "{gyroscopes: {noise: 0.2 deg/s}, accelerometers: {noise: 0.1}}"
    LearnedFile(path, CONFIGURATION.replace("{imu: {}}", "{imu: " + tuned + "}")).save(LEARNED)
    noisier = tuned.replace("0.2", "0.3")
    other = tuned.replace("noise: 0.1", "gravity_removed: true")
    for changed, is_same in ((noisier, True), (other, False)):
        file = LearnedFile(path, CONFIGURATION.replace("{imu: {}}", "{imu: " + changed + "}"))
        assert (file.load() is not None) == is_same


def test_a_file_of_an_older_version_in_which_noise_counted_is_loaded_and_renewed(tmp_path):
    path = tmp_path / "learned.json"
    given = CONFIGURATION.replace("{imu: {}}", "{vehicle_speed: {noise: 0.1}}") + DEVICES
    file = LearnedFile(path, given)
    file._configuration, now = file._older, file._configuration
    assert file._configuration != now
    file.save(LEARNED)
    file = LearnedFile(path, given)
    assert file.load() is not None
    file.save(LEARNED)
    assert json.loads(path.read_text())["configuration"] == now
    assert [p.name for p in tmp_path.iterdir()] == ["learned.json"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(version=9), "version 9"),
        (lambda d: d.update(configuration="other"), "another vehicle"),
        (lambda d: d.update(utc=1.0), "older than a year"),
        (lambda d: d["parameters"]["gyro_scale"].update(sigma=-1.0), "gyro_scale"),
        (lambda d: d.update(parameters=3), "object"),
        (None, "malformed"),
    ],
)
def test_a_file_that_cannot_be_used_is_ignored_with_a_message(tmp_path, caplog, change, message):
    path = tmp_path / "learned.json"
    file = LearnedFile(path, CONFIGURATION)
    file.save(LEARNED)
    content = json.loads(path.read_text())
    if change is None:
        path.write_bytes(path.read_bytes()[:-40])
        message = "learned before is not used"
    else:
        change(content)
        del content["checksum"]
        path.write_text(json.dumps(content))
    with caplog.at_level(logging.WARNING):
        assert file.load() is None
    assert message in caplog.text


@pytest.mark.parametrize("text", ["remember: tyres\n", '{"notes": 1}', "vehicle: {mass: 1 t}"])
def test_a_file_of_something_else_is_never_replaced(tmp_path, caplog, text):
    path = tmp_path / "notes.txt"
    path.write_text(text)
    file = LearnedFile(path, CONFIGURATION)
    assert file.load() is None
    file.save(LEARNED)
    file.save(LEARNED)
    assert path.read_text() == text
    assert [p.name for p in tmp_path.iterdir()] == ["notes.txt"]
    assert caplog.text.count("what was learned is not kept: there is another file") == 1


def test_a_folder_at_the_path_of_the_file_is_reported_and_left_alone(tmp_path, caplog):
    (tmp_path / "learned").mkdir()
    LearnedFile(tmp_path / "learned", CONFIGURATION).save(LEARNED)
    assert "is not kept: expected a regular file, got a folder" in caplog.text
    assert [p.name for p in tmp_path.iterdir()] == ["learned"]


def test_a_damaged_file_and_one_of_another_car_are_moved_aside(tmp_path, caplog):
    path = tmp_path / "learned.json"
    other = LearnedFile(path, CONFIGURATION.replace("1 t", "2 t"))
    other.save(LEARNED)
    of_other = path.read_bytes()
    file = LearnedFile(path, CONFIGURATION)
    file.save(LEARNED)
    assert (tmp_path / "learned.json.old").read_bytes() == of_other
    assert file.load() is not None
    cut = path.read_bytes()[:-40]
    path.write_bytes(cut)
    file.save(LEARNED)
    assert (tmp_path / "learned.json.old").read_bytes() == cut
    assert caplog.text.count("moved to learned.json.old: ") == 2
    path.write_bytes(cut)
    (tmp_path / "learned.json.old").write_text("something else")
    file.save(LEARNED)
    assert path.read_bytes() == cut
    assert (tmp_path / "learned.json.old").read_text() == "something else"


def test_two_cars_that_take_turns_with_one_file_each_find_their_own(tmp_path, caplog):
    path = tmp_path / "learned.json"
    one, other = (LearnedFile(path, CONFIGURATION.replace("1 t", mass)) for mass in ("1 t", "2 t"))
    one.save(LEARNED)
    assert other.load() is None
    other.save({"gyro_scale": SlowState(0.1, 0.1, "–")})
    for file, count in ((one, 4), (other, 1)) * 2:
        loaded = file.load()
        assert loaded is not None
        assert len(loaded["parameters"]) == count
        file.save(LEARNED if file is one else {"gyro_scale": SlowState(0.1, 0.1, "–")})
    assert "not used, but learned.json.old: it belongs to another vehicle" in caplog.text


def test_an_empty_file_or_one_of_zeros_after_power_loss_is_replaced(tmp_path):
    path = tmp_path / "learned.json"
    for content in (b"", bytes(500)):
        path.write_bytes(content)
        file = LearnedFile(path, CONFIGURATION)
        file.save(LEARNED)
        assert file.load() is not None
    assert [p.name for p in tmp_path.iterdir()] == ["learned.json"]


def test_one_changed_digit_is_found_by_the_checksum(tmp_path, caplog):
    path = tmp_path / "learned.json"
    file = LearnedFile(path, CONFIGURATION)
    file.save({"gyro_bias.z": SlowState(-0.0012, 1e-4, "rad/s")})
    path.write_text(path.read_text().replace("-0.0012", "-9.0012"))
    assert file.load() is None
    assert f"{path}: what was learned before is not used: its checksum" in caplog.text


def test_a_file_of_an_older_version_without_checksum_is_loaded(tmp_path):
    path = tmp_path / "learned.json"
    file = LearnedFile(path, CONFIGURATION)
    file.save(LEARNED)
    content = json.loads(path.read_text())
    del content["checksum"]
    path.write_text(json.dumps(content))
    assert file.load()["parameters"].keys() == LEARNED.keys()


def test_implausible_parameters_are_left_out_with_one_message(tmp_path, caplog):
    path, given = tmp_path / "learned.json", prototype()
    file = LearnedFile(path, CONFIGURATION, find_bounds(given.sensors, given.filter))
    wrong = {
        "gyro_bias.z": SlowState(-9.0012, 1e-4, "rad/s"),
        "antenna.x": SlowState(0.1, 0.01, "cm"),
        "rolling_radius.fl": SlowState(0.01, 50.0, "–"),
    }
    file.save(LEARNED | wrong | {"gyro_bias.x": SlowState(-0.0012, 1e-4, "rad/s")})
    loaded = file.load()
    assert loaded is not None
    assert loaded["parameters"].keys() == {*LEARNED, "gyro_bias.x"} - {"tyre_error.friction"}
    (record,) = caplog.records
    assert record.getMessage().startswith(f"{path}: not used of what was learned before: ")
    assert "gyro_bias.z: expected at most ±0.1 rad/s, got -9.0012 with σ 0.0001" in record.getMessage()
    assert "antenna.x: expected the unit 'm', got 'cm'" in record.getMessage()


def test_a_file_from_the_future_is_of_unknown_age(tmp_path, monkeypatch, caplog):
    file = LearnedFile(tmp_path / "learned.json", CONFIGURATION)
    file.save(LEARNED)
    now = time.time()
    monkeypatch.setattr(learned.time, "time", lambda: now - 30.0)
    assert file.load()["age"] == 0.0
    monkeypatch.setattr(learned.time, "time", lambda: now - 86400.0)
    assert file.load()["age"] == 30 * 86400.0
    assert "its age counts as 30 days" in caplog.text


def test_a_reset_soon_after_the_start_discards_learned_parameters(caplog):
    estimator, measured = Estimator(prototype()), steps(cruise().measurements()[:1500])
    estimator.command("set_parameters", {"parameters": {"imu_alignment.z": MOVED}, "age": 60.0})
    found = []
    for k, step in enumerate(measured):
        estimator.step(step.t, step.measurements)
        if k == 150:
            found.append(estimator.parameters()["imu_alignment.z"].value)
            estimator.command("reset", {})
    found.append(estimator.parameters()["imu_alignment.z"].value)
    assert found == [pytest.approx(MOVED["value"], abs=0.01), pytest.approx(0.0, abs=0.01)]
    assert caplog.text.count("they are left out") == 1


def test_a_restart_in_place_does_not_keep_what_came_from_them(caplog):
    """The drive's own results began with the parameters that are left out."""
    estimator = Estimator(prototype())
    estimator.command("set_parameters", {"parameters": {"imu_alignment.z": MOVED}, "age": 60.0})
    for k, step in enumerate(steps(cruise().measurements()[:1500])):
        estimator.step(step.t, step.measurements)
        if k == 150:
            assert estimator.parameters()["imu_alignment.z"].value == pytest.approx(MOVED["value"], abs=0.01)
            estimator._restart_in_place(step.t, "test")
            assert estimator.parameters()["imu_alignment.z"].value == 0.0
    assert caplog.text.count("they are left out") == 1


def test_a_disk_that_fails_is_reported_once_and_when_it_works_again(tmp_path, caplog):
    (tmp_path / "folder").write_text("in the way")
    file = LearnedFile(tmp_path / "folder" / "learned.json", CONFIGURATION)
    for _ in range(3):
        file.save(LEARNED)
    (tmp_path / "folder").unlink()
    for _ in range(3):
        file.save(LEARNED)
    assert [r.levelname for r in caplog.records] == ["ERROR", "WARNING"]
    assert "is not kept: [Errno" in caplog.text
    assert "is kept again" in caplog.text
    assert file.load() is not None


def test_the_last_parameters_of_a_drive_are_on_disk_after_close(tmp_path):
    path = tmp_path / "learned.json"
    keeper = LearnedKeeper(path, CONFIGURATION)
    assert keeper.load() is None
    keeper.save({"gyro_scale": SlowState(0.1, 0.1, "")})
    keeper.close()
    keeper = LearnedKeeper(path, CONFIGURATION)
    loaded = keeper.load()
    keeper.close()
    assert loaded is not None
    assert loaded["parameters"]["gyro_scale"]["value"] == 0.1


def test_a_disk_that_hangs_does_not_block_loading_saving_or_closing(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(learned, "_LOAD_WITHIN_S", 0.1)
    monkeypatch.setattr(learned, "_END_WITHIN_S", 0.1)
    responds = threading.Event()
    monkeypatch.setattr(LearnedFile, "load", lambda file: responds.wait(30))
    keeper = LearnedKeeper(tmp_path / "learned.json", CONFIGURATION)
    assert keeper.load() is None
    assert "what was learned before is not used: the disk does not respond" in caplog.text
    for _ in range(10):
        keeper.save(LEARNED)
    assert caplog.text.count("is not kept: the disk does not respond") == 1
    keeper.close()
    assert "learned at last" in caplog.text
    responds.set()


def command(age: float) -> dict[str, object]:
    given = {n: {"value": p.value, "sigma": p.sigma, "unit": p.unit} for n, p in LEARNED.items()}
    return {"parameters": given, "age": age}


def test_a_drive_starts_with_learned_parameters():
    estimator = Estimator(prototype())
    assert estimator.parameters() == {}
    assert estimator.command("set_parameters", command(0.0)) == {"set": len(LEARNED)}
    Run(prototype(), steps(cruise().measurements()[:40]), estimator=estimator)
    found = estimator.parameters()
    assert found["steering_offset"].value == pytest.approx(0.008, abs=2e-3)
    assert found["steering_offset"].sigma <= 0.0011
    assert found["gyro_scale"].value == pytest.approx(0.004, abs=1e-3)
    assert abs(found["tyre_error.friction"].value) <= 0.6
    assert all(np.isfinite([p.value, p.sigma]).all() for p in found.values())


def test_learned_parameters_become_uncertain_within_months():
    sigmas = []
    for age in (0.0, 10 * 86400.0, 300 * 86400.0):
        estimator = Estimator(prototype())
        estimator.command("set_parameters", command(age))
        Run(prototype(), steps(cruise().measurements()[:40]), estimator=estimator)
        sigmas.append(estimator.parameters()["steering_offset"].sigma)
    assert sigmas[0] < 0.0012 < sigmas[1] < sigmas[2] < 0.0101


def test_learned_biases_become_uncertain_at_each_start_and_geometry_does_not():
    estimator, f = Estimator(prototype()), prototype().sensors.imu
    names = {"gyro_bias.z": "rad/s", "accelerometer_bias.x": "m/s²", "imu_alignment.z": "rad"}
    given = {name: {"value": 0.001, "sigma": 1e-4, "unit": unit} for name, unit in names.items()}
    estimator.command("set_parameters", {"parameters": given, "age": 60.0})
    Run(prototype(), steps(cruise().measurements()[:40]), estimator=estimator)
    found = estimator.parameters()
    assert 0.3 * f.gyroscopes.bias < found["gyro_bias.z"].sigma < 0.6 * f.gyroscopes.bias
    assert 0.3 * f.accelerometers.bias < found["accelerometer_bias.x"].sigma < 0.6 * f.accelerometers.bias
    assert found["imu_alignment.z"].sigma < 2e-4


def test_a_changed_gyroscope_bias_at_the_next_start_does_not_turn_the_heading():
    """The bias differs by 0.006 rad/s from the one learned a minute ago. Before, the filter trusted the learned bias:
    the heading was 1.5° off, with a NEES of 220."""
    drive, estimator = mixed(25.0), Estimator(prototype())
    bias = {"value": 0.0022, "sigma": 1e-4, "unit": "rad/s"}
    estimator.command("set_parameters", {"parameters": {"gyro_bias.z": bias}, "age": 60.0})
    run = Run(prototype(), steps(drive.measurements(gnss="rtk")), estimator=estimator)
    nees = (run.error(drive, "yaw") / run["sigma.yaw"]) ** 2
    assert nees.mean() < 4.0
    assert estimator.parameters()["gyro_bias.z"].value == pytest.approx(-0.0038, abs=5e-4)


@pytest.mark.parametrize(
    ("parameters", "age", "message"),
    [
        ({"a": 3}, 0.0, "object"),
        ({}, -1e10, "age"),
        ({}, float("nan"), "age"),
        ({"steering_offset": {"value": float("inf"), "sigma": 0.1, "unit": "rad"}}, 0.0, "steering_offset"),
        ({"steering_offset": {"value": 1e200, "sigma": 0.1, "unit": "rad"}}, 0.0, "steering_offset"),
        ({"steering_offset": {"value": 0.0, "sigma": -0.1, "unit": "rad"}}, 0.0, "steering_offset"),
        ({"steering_offset": {"value": 0.0, "sigma": float("nan"), "unit": "rad"}}, 0.0, "steering_offset"),
    ],
)
def test_invalid_parameters_are_rejected_and_change_nothing(parameters, age, message):
    estimator = Estimator(prototype())
    with pytest.raises(UsageError, match=f"set_parameters: .*{message}"):
        estimator.command("set_parameters", {"parameters": parameters, "age": age})
    run = Run(prototype(), steps(cruise().measurements()[:40]), estimator=estimator)
    assert len(run.t)


def test_replay_and_batch_report_that_they_do_not_use_the_file(tmp_path, capsys):
    log, car, learned = (tmp_path / name for name in ("drive.csv", "car.yaml", "learned.json"))
    log.write_text("t,imu.wz\n" + "".join(f"{0.01 * k:.2f},0\n" for k in range(500)))
    text = config_path("hatchback").read_text()
    car.write_text(f"{text}\ndaemon: {{devices: {{}}, learned: {learned}}}\n")
    for command, *options in (["replay", "--fast"], ["batch", "--workers", "1"]):
        main([command, str(log), "--config", str(car), *options])
        said = capsys.readouterr().err.splitlines()
        assert sum(line.startswith(f"{car}: daemon.learned: neither read nor written") for line in said) == 1
        main([command, str(log), "--config", "hatchback", *options])
        assert "learned" not in capsys.readouterr().err
    assert not learned.exists()
