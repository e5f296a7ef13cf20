"""The sensor and the driver of docs/extending.md do what the page says."""

import dataclasses
import importlib.util
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from estimator_rig import SECOND, Run, mixed, prototype, rms, steps

from drivers.framing import xor_checksum
from drivers.serial_port import SerialOptions
from vehicled.messages import Measurement
from vehicled.sources import sensors

EXAMPLES = Path(__file__).parent.parent / "docs" / "examples"
EVERY_NS = 20_000_000


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


example = load("optical")


@dataclass(frozen=True, kw_only=True)
class MoreSensors(sensors.Sensors):
    """`Sensors` with an added field."""

    optical: example.Optical | None = None


@pytest.fixture
def registered(monkeypatch):
    """The section `sensors` has the new field."""
    monkeypatch.setattr(sensors, "Sensors", MoreSensors)
    for cached in (sensors.find_kinds, sensors.find_limits):
        cached.cache_clear()
    yield
    monkeypatch.undo()
    for cached in (sensors.find_kinds, sensors.find_limits):
        cached.cache_clear()


def with_optical(**settings: Any):
    given = prototype()
    fields = {f.name: getattr(given.sensors, f.name) for f in dataclasses.fields(given.sensors)}
    return dataclasses.replace(given, sensors=MoreSensors(**fields, optical=example.Optical(**settings)))


def test_the_new_sensor_finds_its_misalignment_and_keeps_sideslip(registered):
    drive, noise, angle = mixed(12.0), 0.02, 0.008
    given = drive.measurements(seed=1)
    random = np.random.default_rng(1)
    t = np.arange(0, 12 * SECOND, EVERY_NS)
    lateral = drive.truth(t, "vy") - angle * drive.truth(t, "vx") + noise * random.standard_normal(len(t))
    more = [
        Measurement("optical", int(at), int(at), {"velocity.y": float(v)})
        for at, v in zip(t, lateral, strict=True)
    ]
    run = Run(with_optical(noise=noise), steps(sorted([*given, *more], key=lambda m: m.arrival)))
    records = run.of("velocity.y")
    assert run.fused("velocity.y") > 0.95 * len(records) > 0
    assert 0.8 < np.mean([r.nis for r in records]) < 1.25
    # If the filter took the misalignment for sideslip, vy would be off by 0.1 m/s; without the sensor, by 0.01 m/s.
    assert rms(run.error(drive, "vy")) < 0.01


def test_without_the_new_sensor_its_misalignment_is_known_to_be_zero(registered):
    measurements = [m for m in mixed(12.0).measurements(seed=1) if m.arrival < 5 * SECOND]
    given = prototype()
    fields = {f.name: getattr(given.sensors, f.name) for f in dataclasses.fields(given.sensors)}
    absent = Run(dataclasses.replace(given, sensors=MoreSensors(**fields)), steps(measurements))
    assert absent.summary.errors == 0
    assert absent.of("velocity.y") == []
    found = absent.estimator.parameters()["optical_misalignment"]
    assert (found.value, found.sigma) == (0.0, 0.0)


def line(text: bytes) -> bytes:
    return b"$%b*%02X\r\n" % (text, xor_checksum(text))


def test_the_new_driver_decodes_its_lines_and_counts_damaged_ones():
    module = load("optical_driver")
    options = SerialOptions(port="/dev/null", latency=0.005)
    decoder = module.OpticalDecoder("optical", options)
    good = line(b"VY,0.137")
    out = decoder.feed(b"noise" + good[:5], 10_000_000) + decoder.feed(good[5:], 20_000_000)
    assert out == [Measurement("optical", 15_000_000, 20_000_000, {"velocity.y": 0.137})]
    assert decoder.feed(good.replace(b"137", b"138"), 30_000_000) == []
    assert decoder.feed(line(b"VX,0.137"), 40_000_000) == []
    assert decoder.counters["checksum_errors"] == 2
    assert decoder.counters["garbage_bytes"] > 5
    driver = module.OpticalDriver("optical", options, lambda m: None)
    assert driver.state == "connecting"


@pytest.mark.parametrize("name", ["library.md", pytest.param("mechanisms.md", marks=pytest.mark.slow)])
def test_the_python_code_of_a_page_runs(name, capsys):
    text = (EXAMPLES.parent / name).read_text()
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(block, {})
        assert capsys.readouterr().out.strip()
