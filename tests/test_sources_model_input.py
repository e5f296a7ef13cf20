"""A new input of the model is one module and one field of `Sensors`; limits, use and health checks follow."""

import dataclasses
import math
from dataclasses import dataclass, field
from typing import ClassVar

import pytest
from estimator_rig import SECOND, mixed, prototype, steps

from vehicled.estimator import Estimator
from vehicled.messages import Measurement
from vehicled.sources import sensors
from vehicled.sources.inputs.model_input import InputSettings, ModelInput

CHANNEL, LIMIT = "hitch.force", 1e5
SILENT_FROM, END = 2.0, 3.0
"""s"""


@dataclass(frozen=True, kw_only=True)
class HitchForce(InputSettings):
    """The section of the input in the configuration."""

    LIMITS: ClassVar[dict[str, float]] = {CHANNEL: LIMIT}

    gain: float = 2.0

    def make_input(self, car):
        return Hitch(self, car)


class Hitch(ModelInput[HitchForce]):
    """Keeps the force, and the values that have been applied."""

    NAME = "hitch"
    SERVES = ("slip",)
    HOLDS = 0.5

    def __init__(self, settings, car):
        super().__init__(settings, car)
        self.force, self.last, self.applied = 0.0, -math.inf, []

    @property
    def measured_at(self):
        return self.last

    def take(self, t, values):
        if CHANNEL in values:
            self.force, self.last = self.settings.gain * values[CHANNEL], t

    def apply(self, t):
        self.applied.append((t, self.force))


@dataclass(frozen=True, kw_only=True)
class MoreSensors(sensors.Sensors):
    """`Sensors` with an additional field."""

    hitch_force: HitchForce = field(default_factory=HitchForce)


@pytest.fixture
def registered(monkeypatch):
    caches = (sensors.find_inputs, sensors.find_limits, sensors.find_input_limits)
    monkeypatch.setattr(sensors, "Sensors", MoreSensors)
    for cached in caches:
        cached.cache_clear()
    yield
    monkeypatch.undo()
    for cached in caches:
        cached.cache_clear()


def test_a_registered_input_is_limited_applied_and_watched(registered):
    made = []

    class Watched(HitchForce):
        def make_input(self, car):
            made.append(Hitch(self, car))
            return made[-1]

    given = prototype()
    fields = {f.name: getattr(given.sensors, f.name) for f in dataclasses.fields(given.sensors)}
    estimator = Estimator(dataclasses.replace(given, sensors=MoreSensors(**fields, hitch_force=Watched())))
    measured = [m for m in mixed(12.0).measurements(seed=1) if m.arrival < END * SECOND]
    for k in range(round(SILENT_FROM * 100)):
        at = k * SECOND // 100
        value = 10.0 * LIMIT if k % 10 == 5 else 100.0 + k
        measured.append(Measurement("hitch", at, at, {CHANNEL: value}))
    records, faults = [], {}
    for step in steps(sorted(measured, key=lambda m: m.arrival)):
        estimator.step(step.t, step.measurements)
        records += [i for i in estimator.innovations() if i.sensor == CHANNEL]
        faults[step.t * 1e-9] = estimator.condition.faults
    assert {(r.value[0], r.reason) for r in records} == {(10.0 * LIMIT, "absurd")}
    assert len(records) == SILENT_FROM * 10

    hitch = made[-1]
    assert max(force for _, force in hitch.applied) < 2.0 * LIMIT
    force = next(force for t, force in hitch.applied if t > 1.503)
    assert force == pytest.approx(2.0 * (100.0 + 150), abs=2.5), "the sample of 10 ms at most before"
    named = {t for t, found in faults.items() if any(f.source == "hitch" for f in found)}
    assert named
    assert SILENT_FROM < min(named) < SILENT_FROM + 0.3
    (fault,) = (f for f in faults[max(faults)] if f.source == "hitch")
    assert (fault.reason, fault.less_certain) == ("silent", ("slip",))


def test_every_channel_of_an_input_is_limited():
    limits = sensors.find_limits()
    assert set(sensors.find_input_limits()) < set(limits)
    assert {"steer.rack", "torque.rl", "brake.pressure"} < set(sensors.find_input_limits())
