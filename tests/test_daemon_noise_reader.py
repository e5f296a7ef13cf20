"""A separate process rereads the noise settings, whatever the file contains."""

import os
import shutil

import msgspec
import pytest

from vehicled.configuration import load_configuration
from vehicled.daemon import noise_reader
from vehicled.daemon.noise_reader import read_noise
from vehicled.errors import RunError, UsageError
from vehicled.filter.settings import Filter
from vehicled.reading.settings import shipped_folder
from vehicled.sources.sensors import Sensors

RUNNING = (shipped_folder() / "prototype.yaml").read_text()


@pytest.fixture(autouse=True)
def _patience(monkeypatch):
    """Allow more time than in the car, as the machine is busy with other tests."""
    monkeypatch.setattr(noise_reader, "_WITHIN_S", 60.0)


def test_changes_that_need_a_restart_are_named(tmp_path, caplog):
    path = tmp_path / "car.yaml"
    shutil.copy(shipped_folder() / "prototype.dbc", tmp_path)
    path.write_text(RUNNING.replace("memory: 1 s", "memory: 0.5 s"))
    read_noise(str(path), RUNNING)
    assert not caplog.records
    path.write_text(RUNNING)
    read_noise(str(path), RUNNING.replace("rate: 250 Hz", "rate: 100 Hz", 1))
    (line,) = caplog.messages
    assert line == f"{path}: changed, but not taken before a restart: daemon.loop.rate"


def test_a_file_that_a_restart_would_refuse_is_named(tmp_path, caplog):
    path = tmp_path / "car.yaml"
    shutil.copy(shipped_folder() / "prototype.dbc", tmp_path)
    path.write_text(RUNNING.replace("rate: 250 Hz", "rate: 0 Hz", 1))
    assert read_noise(str(path), RUNNING)
    changed, refused = caplog.messages
    assert changed == f"{path}: changed, but not taken before a restart: daemon.loop.rate"
    assert refused.startswith(f"{path}: a restart would fail: {path}:")
    assert "daemon.loop.rate: expected" in refused


def test_noise_settings_are_those_of_the_file(tmp_path):
    path = tmp_path / "car.yaml"
    shutil.copy(shipped_folder() / "prototype.yaml", path)
    path.write_text(path.read_text().replace("memory: 1 s", "memory: 0.5 s"))
    arguments = read_noise(str(path), RUNNING)
    expected = load_configuration(path)
    assert msgspec.convert(arguments["sensors"], Sensors, strict=False) == expected.sensors
    assert msgspec.convert(arguments["filter"], Filter, strict=False) == expected.filter
    assert expected.filter.memory == 0.5


def test_an_invalid_configuration_is_reported_in_one_line(tmp_path):
    path = tmp_path / "car.yaml"
    os.mkfifo(path)
    with pytest.raises(UsageError, match=r"^\S*car\.yaml: expected a regular file, got a pipe$"):
        read_noise(str(path), RUNNING)
    path.unlink()
    path.write_text("vehicle: {}\nfilter: {memory: -1 s}\n")
    with pytest.raises(UsageError, match=r"^\S*car\.yaml:1: vehicle[^\n]*$"):
        read_noise(str(path), RUNNING)


def test_reading_that_takes_too_long_is_an_error(monkeypatch):
    monkeypatch.setattr(noise_reader, "_WITHIN_S", 0.01)
    with pytest.raises(RunError, match=r"^prototype: not read within 0\.01 s$"):
        read_noise("prototype", RUNNING)


def test_the_process_gives_up_real_time_priority_before_it_imports_anything(tmp_path, monkeypatch):
    module = tmp_path.joinpath(*noise_reader.__name__.split(".")).with_suffix(".py")
    module.parent.mkdir(parents=True)
    for folder in (module.parent, module.parent.parent):
        (folder / "__init__.py").touch()
    module.write_text("import os\nPOLICY = os.sched_getscheduler(0)\ndef main(name):\n    print(POLICY)\n")
    monkeypatch.setattr(noise_reader.sys, "path", [str(tmp_path), *noise_reader.sys.path])
    assert read_noise("car", "") == os.SCHED_BATCH
