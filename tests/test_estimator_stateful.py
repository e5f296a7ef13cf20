"""Invariants of an estimator under any order of steps, gaps, late and absurd data, and commands."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from estimator_rig import PERIOD, SECOND, cruise, prototype, steps
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from vehicled.errors import RunError, UsageError
from vehicled.estimator import Estimator
from vehicled.messages import ESTIMATE_COLUMNS, Estimate, Innovation, Measurement, Step
from vehicled.sources.imu.imu import ACCELEROMETERS, GYROSCOPES
from vehicled.sources.sensors import find_limits
from vehicled.sources.speeds.wheels import ANGLES

KINDS = {
    **dict.fromkeys(GYROSCOPES, "imu.gyro"),
    **dict.fromkeys(ACCELEROMETERS, "imu.accel"),
    **{c: c for c in (*ANGLES, "vehicle.speed", "gnss.speed", "gnss.course")},
    "gnss.lat": "gnss.position",
}
"""The kind of observation of each channel. Other channels are inputs, or parts of these observations."""
LONGEST_GAP = 2.0
"""s: after a longer one the filter restarts."""
GEODETIC = [ESTIMATE_COLUMNS.index(n) for n in ("lat", "lon", "alt")]
SIGMAS = [k for k, n in enumerate(ESTIMATE_COLUMNS) if n.startswith("sigma.")]
ABSURD = (math.nan, math.inf, -1e300)
COUNTERS = ("steps", "starts", "restarts", "position_sets", "alignments", "absurd", "unconverged", "repairs")


@lru_cache
def drive() -> list[Step]:
    return steps(cruise(4.0).measurements())


def shifted(m: Measurement, t: int) -> Measurement:
    return Measurement(m.source, m.t + t, m.arrival + t, dict(m.values))


Call = tuple[str, Any, Any]
"""`step`, time, measurements; or `command`, name, arguments."""


def to_bytes(estimate: Estimate | None, innovations: list[Innovation]) -> bytes:
    """Estimate and innovations of a step."""
    found = [b"-" if estimate is None else estimate.values.tobytes()]
    return b"".join(found + [np.array([i.t, i.nis, *i.innovation]).tobytes() for i in innovations])


def play(calls: list[Call]) -> bytes:
    """All estimates and innovations of a fresh estimator."""
    e, found = Estimator(prototype()), []
    for what, first, second in calls:
        if what == "command":
            e.command(first, second)
        else:
            found.append(to_bytes(e.step(first, second), e.innovations()))
    return b"".join(found)


class Life(RuleBasedStateMachine):
    """A car that drives on with its own clock, whatever happens to its estimator."""

    def __init__(self) -> None:
        super().__init__()
        self.estimator = Estimator(prototype())
        self.t, self.last, self.next = SECOND, 0, 0
        self.stepped = False
        """Whether there was a step since the last reset. After a reset, any time is accepted."""
        self.late: list[Measurement] = []
        self.calls: list[Call] = []
        self.given: list[bytes] = []
        self.status = self.estimator.status()

    # -- rules ---------------------------------------------------------------------------------------------

    def take(self) -> list[Measurement]:
        """Measurements of the next step of the drive, which repeats itself."""
        k, self.next = self.next, (self.next + 1) % len(drive())
        return [shifted(m, self.t - drive()[k].t) for m in drive()[k].measurements]

    def step(self, measurements: list[Measurement]) -> None:
        before = self.estimator.status()["state"]
        gap = (self.t - self.last) * 1e-9
        self.calls.append(("step", self.t, measurements))
        estimate = self.estimator.step(self.t, measurements)
        found = self.estimator.innovations()
        self.given.append(to_bytes(estimate, found))
        self.last, self.stepped = self.t, True
        self.t += PERIOD
        self.check_estimate(estimate)
        assert all(i.step == self.last for i in found)
        self.check_records(measurements, found, observed=before != "waiting" and gap <= LONGEST_GAP)

    @rule(n=st.integers(1, 60))
    def go_on(self, n: int) -> None:
        for _ in range(n):
            self.step(self.take())

    @rule(n=st.integers(1, 10))
    def go_on_without_data(self, n: int) -> None:
        for _ in range(n):
            self.step([])

    @rule(seconds=st.sampled_from([0.02, 0.3, 1.9, 2.5]))
    def miss_steps(self, seconds: float) -> None:
        self.t += round(seconds * SECOND)
        self.step(self.take())

    @rule(n=st.integers(1, 10))
    def hold_data_back(self, n: int) -> None:
        for _ in range(n):
            self.late += self.take()
            self.step([])

    @rule()
    def deliver_late_data(self) -> None:
        late, self.late = self.late, []
        self.step(late)

    @rule(value=st.sampled_from(ABSURD), data=st.data())
    def damage_data(self, value: float, data: st.DataObject) -> None:
        for _ in range(12):
            measurements = self.take()
            for m in measurements:
                channel = data.draw(st.sampled_from(sorted(m.values)))
                m.values[channel] = value
            self.step(measurements)

    @rule(t=st.sampled_from([0, -1, -SECOND]))
    def step_back_in_time(self, t: int) -> None:
        if not self.stepped:
            return
        with pytest.raises(RunError, match="time went back"):
            self.estimator.step(self.last + t, [])

    def command(self, name: str, arguments: dict[str, Any]) -> None:
        self.calls.append(("command", name, arguments))
        self.estimator.command(name, arguments)

    @rule()
    def reset(self) -> None:
        self.command("reset", {})
        self.stepped = False
        assert self.estimator.status()["state"] == "waiting"

    @rule(factor=st.sampled_from([0.5, 1.0, 3.0]), gyroscopes=st.booleans())
    def reload_noise(self, factor: float, gyroscopes: bool) -> None:
        arguments = prototype().noise_arguments()
        arguments["filter"]["rate_noise"]["longitudinal"] *= factor
        arguments["sensors"]["vehicle_speed"]["noise"] *= factor
        if not gyroscopes:
            arguments["sensors"]["imu"]["gyroscopes"] = None
        self.command("reload_noise", arguments)
        assert ("imu.gyro" in self.estimator.status()["sensors"]) == gyroscopes

    @rule(
        place=st.fixed_dictionaries(
            {"x": st.floats(-1e3, 1e3), "y": st.floats(-1e3, 1e3)},
            optional={
                "yaw": st.floats(-3.0, 3.0),
                "z": st.floats(-10.0, 10.0),
                "sigma": st.floats(0.1, 10.0),
            },
        )
    )
    def set_position(self, place: dict[str, float]) -> None:
        if self.status["state"] == "waiting":
            with pytest.raises(UsageError, match="has not started"):
                self.estimator.command("set_position", place)
        else:
            self.command("set_position", place)

    @rule(
        value=st.floats(-0.05, 0.05),
        sigma=st.floats(0.0, 0.05),
        age=st.sampled_from([0.0, 86400.0, 1e12]),
        name=st.sampled_from(["steering_offset", "gyro_scale", "rolling_radius.fl", "of another version"]),
    )
    def set_parameters(self, name: str, value: float, sigma: float, age: float) -> None:
        parameters = {name: {"value": value, "sigma": sigma, "unit": ""}}
        self.command("set_parameters", {"parameters": parameters, "age": age})

    @rule(value=st.sampled_from(ABSURD), of=st.sampled_from(["value", "sigma", "age"]))
    def set_absurd_parameters(self, of: str, value: float) -> None:
        given = {"value": 0.0, "sigma": 0.1, "unit": "rad", "age": 0.0} | {of: value}
        arguments = {"age": given.pop("age"), "parameters": {"steering_offset": given}}
        with pytest.raises(UsageError, match="set_parameters: "):
            self.estimator.command("set_parameters", arguments)

    # -- invariants ----------------------------------------------------------------------------------------

    def check_estimate(self, estimate: Estimate | None) -> None:
        status = self.estimator.status()
        assert (estimate is None) == (status["state"] == "waiting")
        if estimate is None:
            return
        assert estimate.t == self.last
        known = np.delete(estimate.values, GEODETIC)
        assert np.isfinite(known).all()
        assert (estimate.values[SIGMAS] >= 0.0).all()
        geodetic = np.isfinite(estimate.values[GEODETIC])
        # NaN as long as the world position is unknown.
        assert geodetic.all() or not geodetic.any()
        assert status["origin"] is not None or not geodetic.any()

    def check_records(self, given: list[Measurement], found: list[Innovation], observed: bool) -> None:
        """Every measured value has a record; while the filter waits, only absurd values need one."""
        sensors = self.estimator.status()["sensors"]
        by_measurement: dict[tuple[str, int], set[str]] = {}
        for i in found:
            by_measurement.setdefault((i.source, i.t), set()).add(i.sensor)
            assert i.fused == (i.reason in ("fused", "weighted", "partly", "reset"))
        for m in given:
            recorded = by_measurement.get((m.source, m.t), set())
            for channel, value in m.values.items():
                if not abs(value) <= find_limits().get(channel, math.inf):
                    assert channel in recorded
                elif observed and KINDS.get(channel) in sensors:
                    # Screening records what it removes by its channel.
                    assert recorded & {KINDS[channel], channel}

    @invariant()
    def counters_never_fall(self) -> None:
        status = self.estimator.status()
        for name in COUNTERS:
            assert status[name] >= self.status[name]
        for sensor, health in status["sensors"].items():
            before = self.status["sensors"].get(sensor)
            if before is not None:
                assert health["fused"] >= before["fused"]
                assert health["rejected"] >= before["rejected"]
            assert health["rejected"] == sum(health["reasons"].values())
        self.status = status

    def teardown(self) -> None:
        """Refused calls and reading the status have not changed the results."""
        assert play(self.calls) == b"".join(self.given)


Life.TestCase.settings = settings(
    max_examples=6,
    stateful_step_count=15,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
TestLife = Life.TestCase
