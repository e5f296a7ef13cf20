"""The estimator on simulated drives. The plant runs once per drive; sensor errors can be drawn many times."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from copy import copy
from functools import lru_cache
from typing import Any

import numpy as np

from replay.problems import Problems
from replay.steps import make_steps, sort_by_arrival
from vehicled.configuration import Configuration, load_configuration
from vehicled.estimator import Estimator
from vehicled.messages import ESTIMATE_COLUMNS, ESTIMATE_INDEX, Estimate, Innovation, Measurement, Step
from vehicled.simulation.drive import STEP_NS, drive_plant
from vehicled.simulation.equipment import Equipment
from vehicled.simulation.manoeuvres import InitialMotion
from vehicled.simulation.plant import find_places, make_plant
from vehicled.simulation.scenario import STANDARD_ERRORS, DriveInputs, Scenario, find_scenario
from vehicled.simulation.sensors import Track, measure
from vehicled.sources.gnss.fixes import Baseline
from vehicled.sources.gnss.gnss2 import Gnss2
from vehicled.sources.speeds.body_velocity import BodyVelocity
from vehicled.stepping import Summary, play_back

PERIOD = 4_000_000
SECOND = 1_000_000_000


@lru_cache
def prototype() -> Configuration:
    return load_configuration("prototype")


def with_sensors(**changes: Any) -> Configuration:
    """The prototype with some of its sensors changed; None removes a sensor."""
    given = prototype()
    return dataclasses.replace(given, sensors=dataclasses.replace(given.sensors, **changes))


def with_known_time(configuration: Configuration | None = None) -> Configuration:
    """A configuration, by default the prototype's, with a known latency of fixes.

    If the latency is unknown, the filter estimates it once the speed changes; until then, the position along the
    track is uncertain.
    """
    given = configuration or prototype()
    assert given.sensors.gnss is not None
    gnss = dataclasses.replace(given.sensors.gnss, latency_sigma=1e-6)
    return dataclasses.replace(given, sensors=dataclasses.replace(given.sensors, gnss=gnss))


def equipped(heading: Baseline = Baseline(), **changes: Any) -> Configuration:  # noqa: B008 (frozen)
    """The prototype with two receivers of two antennas each, and an optical velocity sensor.

    All tests of these sensors share this model, which takes seconds to compile.
    """
    given = dataclasses.replace(prototype().sensors.gnss, heading=heading)
    default = {"gnss": given, "gnss2": Gnss2(heading=Baseline()), "velocity": BodyVelocity()}
    return with_sensors(**default | changes)


class Drive:
    """A simulated motion of a plant, for measurements by any sensors; by default, by the prototype's."""

    def __init__(
        self,
        scenario: Scenario,
        configuration: Configuration | None = None,
        equipment: Equipment = Equipment(),  # noqa: B008 (frozen)
    ):
        self._scenario, self._equipment = scenario, equipment
        plant = make_plant(configuration or prototype(), scenario.plant)
        self._mounting = plant.mounting
        self._track, self._values = drive_plant(scenario, plant, None)

    @property
    def end(self) -> float:
        """Time of the last row of truth, ns."""
        return (len(self._values) - 1) * float(STEP_NS)

    def begin(self, seconds: float) -> Drive:
        """The first seconds of the drive, as a drive of their own."""
        part, rows = copy(self), round(seconds * SECOND / STEP_NS) + 1
        track = self._track
        part._track = Track(track.t[:rows], {c: v[:rows] for c, v in track.columns.items()}, track.gravity)
        part._values = self._values[:rows]
        return part

    def mounted(self, configuration: Configuration) -> Drive:
        """The same drive with sensors at the positions of this configuration."""
        other = copy(self)
        other._mounting = find_places(configuration.sensors)
        return other

    def measurements(self, seed: int = 0, **sensors: Any) -> list[Measurement]:
        """In order of arrival; `sensors` replaces fields of the scenario's own."""
        chosen = dataclasses.replace(self._scenario.sensors, **sensors)
        return measure(self._track, chosen, self._mounting, seed, self._equipment)

    def truth(self, t_ns: np.ndarray, column: str) -> np.ndarray:
        """A column of the truth at times within the drive; yaw is unwrapped."""
        values = self._values[:, ESTIMATE_INDEX[column]]
        if column == "yaw":
            values = np.unwrap(values)
        return np.interp(t_ns, np.arange(len(values)) * float(STEP_NS), values)


_longest: dict[str, tuple[float, Drive]] = {}


def _begin(name: str, scenario: Scenario, seconds: float) -> Drive:
    """Cut the drive from the longest one simulated so far. The first one has at least the scenario's own duration, so
    that longer ones are seldom needed."""
    if name not in _longest or _longest[name][0] < seconds:
        longest = max(seconds, scenario.duration)
        _longest[name] = longest, Drive(dataclasses.replace(scenario, duration=longest))
    return _longest[name][1].begin(seconds)


@lru_cache
def mixed(seconds: float = 25.0) -> Drive:
    """The first part of the mixed drive: standstill, start, corners; the plant has the standard errors."""
    return _begin("mixed", dataclasses.replace(find_scenario("mixed_drive"), duration=25.0), seconds)


@lru_cache
def cruise(seconds: float = 8.0) -> Drive:
    """15 m/s from the start, with a gentle bend; the plant is as configured."""
    inputs = DriveInputs(rack=[(1.0, 0.0), (2.0, 0.004), (5.0, 0.004), (6.0, 0.0)], rear_torque=90.0)
    initial = InitialMotion(speed=15.0, yaw=0.5)
    return _begin("cruise", Scenario(duration=8.0, initial=initial, inputs=inputs), seconds)


@lru_cache
def bends(seconds: float = 6.5) -> Drive:
    """15 m/s from the start, through bends to both sides; the plant has the standard errors."""
    inputs = DriveInputs(rack=[(0.5, 0.0), (1.0, 0.006), (2.5, 0.006), (3.5, -0.006)], rear_torque=150.0)
    initial = InitialMotion(speed=15.0, yaw=0.5)
    scenario = Scenario(duration=6.5, initial=initial, inputs=inputs, plant=STANDARD_ERRORS)
    return _begin("bends", scenario, seconds)


@lru_cache
def parked(seconds: float = 6.0) -> Drive:
    return _begin("parked", Scenario(duration=6.0, inputs=DriveInputs(brake_pressure=20e5)), seconds)


def steps(measurements: Iterable[Measurement], period: int = PERIOD) -> list[Step]:
    problems = Problems("drive")
    return list(make_steps(sort_by_arrival(measurements, problems), period, problems))


class Run:
    """Runs an estimator on measurements and keeps all that it publishes."""

    def __init__(
        self,
        configuration: Configuration,
        given: Iterable[Step],
        before: Callable[[Estimator], None] | None = None,
        estimator: Estimator | None = None,
    ):
        self.estimator = estimator or Estimator(configuration)
        self.estimates: list[Estimate] = []
        self.innovations: list[Innovation] = []
        if before is not None:
            before(self.estimator)
        self.summary: Summary = play_back(self.estimator, given, [self._take])
        # Where a step raises, the estimator is reset and goes on: most results would be good all the same.
        assert self.summary.errors == 0, self.summary.last_error
        self.t = np.array([e.t for e in self.estimates], dtype=np.int64)
        self.values = np.array([e.values for e in self.estimates]).reshape(-1, len(ESTIMATE_COLUMNS))

    def _take(
        self, t: int, measurements: list[Measurement], estimate: Estimate | None, found: list[Innovation]
    ) -> None:
        if estimate is not None:
            self.estimates.append(estimate)
        self.innovations += found

    def __getitem__(self, column: str) -> np.ndarray:
        return self.values[:, ESTIMATE_INDEX[column]]

    def error(self, drive: Drive, column: str) -> np.ndarray:
        """Estimate minus truth at each estimate; of angles within ±π."""
        e = self[column] - drive.truth(self.t, column)
        return (e + np.pi) % (2 * np.pi) - np.pi if column in ("yaw", "sideslip", "roll", "pitch") else e

    def of(self, sensor: str) -> list[Innovation]:
        return [i for i in self.innovations if i.sensor == sensor]

    def fused(self, sensor: str) -> int:
        return sum(i.fused for i in self.of(sensor))

    @property
    def sensors(self) -> dict[str, dict[str, Any]]:
        return self.estimator.status()["sensors"]


class RoadRun(Run):
    """Also keeps `added`: (estimates, 20) additions by road and unmeasured drive, at ADDED_PLACES."""

    def __init__(self, configuration: Configuration, given: Iterable[Step], **more: Any):
        self._added: list[list[float]] = []
        super().__init__(configuration, given, **more)

    def _take(
        self, t: int, measurements: list[Measurement], estimate: Estimate | None, found: list[Innovation]
    ) -> None:
        super()._take(t, measurements, estimate, found)
        if estimate is not None:
            self._added.append(self.estimator.calc_added(t))

    @property
    def added(self) -> np.ndarray:
        return np.array(self._added)


def rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def without(measurements: Iterable[Measurement], *prefixes: str) -> list[Measurement]:
    """Measurements without the channels that begin with these prefixes."""
    kept = []
    for m in measurements:
        values = {c: v for c, v in m.values.items() if not c.startswith(prefixes)}
        if values:
            kept.append(Measurement(m.source, m.t, m.arrival, values))
    return kept


def only(measurements: Iterable[Measurement], *prefixes: str) -> list[Measurement]:
    """Measurements with only the channels that begin with these prefixes."""
    kept = []
    for m in measurements:
        values = {c: v for c, v in m.values.items() if c.startswith(prefixes)}
        if values:
            kept.append(Measurement(m.source, m.t, m.arrival, values))
    return kept
