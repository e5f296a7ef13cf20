"""A mechanism followed by particles, as an estimator that daemon and replay step."""

from __future__ import annotations

import heapq
from itertools import count
from typing import Any

import numpy as np

from vehicled.errors import UsageError
from vehicled.messages import (
    Condition,
    Innovation,
    Measurement,
    ParticleEstimate,
    SlowState,
    SourceFault,
)
from vehicled.multibody.checks import calc_topology
from vehicled.multibody.mechanism import Mechanism
from vehicled.multibody.model import MechanismError
from vehicled.particles.clusters import calc_covariance, describe_coordinate, find_heaviest
from vehicled.particles.configuration import CoordinateOptions, ParticlesConfiguration
from vehicled.particles.filter import MotionNoise, ParticleFilter
from vehicled.particles.live import Follower
from vehicled.particles.observability import find_unobservable
from vehicled.particles.sensors import MechanismSensors
from vehicled.particles.start import ParticleStart, StartCoordinate
from vehicled.particles.swarm import Swarm

_LONGEST_GAP_NS = 2_000_000_000
"""After a longer time without readings the particles begin anew: to integrate over it would delay what follows."""


class MechanismTracker:
    """Follows a mechanism from readings of its sensors; a `SteppedEstimator`.

    It is never ahead of the readings: its estimate is of the time of the last one. Reads no clock; the same
    measurements and commands in the same steps give the same estimates.
    """

    def __init__(self, mechanism: Mechanism, configuration: ParticlesConfiguration) -> None:
        """Compiles the particles' motion, or takes it from the cache.

        Raises UsageError, naming part and reason: a mechanism that particles cannot have, unknown coordinates,
        sensors of other quantities, starts out of reach, states that no sensor determines.
        """
        options = configuration.particles
        names = calc_topology(mechanism).independent
        try:
            swarm = Swarm(mechanism.description, options.count, names)
        except MechanismError as error:
            raise UsageError(str(error)) from None
        for name in options.coordinates:
            if name not in names:
                raise UsageError(
                    f"particles.coordinates: {name} is not independent; expected {', '.join(names)}"
                )
        random = np.random.default_rng(options.seed)
        try:
            coordinates = [
                StartCoordinate(n, n in swarm.angles, options.coordinates.get(n, CoordinateOptions()))
                for n in names
            ]
            self._start = ParticleStart(swarm, mechanism, coordinates, random)
        except UsageError as error:
            raise UsageError(f"particles.coordinates: {error}") from None
        self._sensors = MechanismSensors(configuration.sensors, swarm)
        hidden = find_unobservable(
            mechanism.description,
            names,
            self._start.positions,
            np.array([1.0 if c.name in swarm.angles else c.high - c.low for c in coordinates]),
            [s.measured for s in self._sensors.all],
            options.longest_step,
        )
        if hidden:
            raise UsageError(f"sensors: their readings do not determine {', '.join(hidden)}")
        self._options = options
        self._shown = list(dict.fromkeys([*names, *swarm.angles, *swarm.distances]))
        noise = MotionNoise(
            motion=[c.motion for c in coordinates],
            speed=[c.speed for c in coordinates],
            keeps_covariance=not options.plant_noise,
        )
        self._filter = ParticleFilter(swarm, [s.instrument for s in self._sensors.all], noise, random)
        self._follower: Follower | None = None
        """Since the particles have begun."""
        self._held: list[tuple[int, int, Measurement]] = []
        """Measurements that wait for earlier ones, a heap."""
        self._order = count()
        self._records: list[Innovation] = []
        self._t = 0
        """Of the last reading, ns."""
        self._fits_at = 0
        """Of the last reading that fits, ns."""
        self._restarts = 0
        self._late = 0
        self.condition = Condition()

    def step(self, t_ns: int, measurements: list[Measurement]) -> ParticleEstimate | None:
        """Take the readings that are due at `t_ns`; None without any.

        Raises FloatingPointError when no particle is left that can move.
        """
        self._records = []
        for m in measurements:
            if m.t <= t_ns:
                heapq.heappush(self._held, (m.t, next(self._order), m))
            else:  # No reading has a time after the step that takes it.
                self._reject(m.t, t_ns, self._sensors.find(m))
        due = t_ns - round(self._options.wait * 1e9)
        taken = False
        while self._held and self._held[0][0] <= due:
            t, _, m = heapq.heappop(self._held)
            values = self._sensors.find(m)
            while self._held and self._held[0][0] == t:
                values += self._sensors.find(heapq.heappop(self._held)[2])
            if values:
                taken |= self._take(t, t_ns, values)
        return self._describe() if taken else None

    def innovations(self) -> list[Innovation]:
        """Records of the last step, one for each reading."""
        return self._records

    def parameters(self) -> dict[str, SlowState]:
        """None: only the state is estimated."""
        return {}

    def status(self) -> dict[str, Any]:
        """Counters; by channel what became of its readings."""
        return {
            "particles": self._filter.swarm.count,
            "effective": self._filter.effective,
            "resamplings": self._filter.resamplings,
            "restarts": self._restarts,
            "late": self._late,
            "sensors": {f"{s.device}.{s.channel}": s.status() for s in self._sensors.all},
        }

    def command(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """`reset`: begin anew with the next reading. Raises UsageError for any other."""
        del arguments
        if name != "reset":
            raise UsageError(f"unknown command {name!r}: expected reset")
        self._follower = None
        self._restarts += 1
        self.condition = Condition()
        return {}

    # -- readings --------------------------------------------------------------------------------------------

    def _take(self, t: int, step: int, values: list[tuple[int, float]]) -> bool:
        """Readings of one time; whether they have changed the particles."""
        sensors = self._sensors.all
        readings: list[float | None] = [None] * len(sensors)
        for k, value in values:
            readings[k] = sensors[k].read(value)
            if readings[k] is None:
                self._reject(t, step, [(k, value)])
        if all(reading is None for reading in readings):
            return False
        if self._follower is not None and t - self._t > _LONGEST_GAP_NS:
            self._restart(t, f"no readings for {(t - self._t) * 1e-9:.3g} s")
        if self._follower is None:
            self._begin(t, readings)
        assert self._follower is not None
        in_time = self._follower.advance(t)
        self._late += not in_time
        accepted: list[float | None] = [None] * len(sensors)
        for k, reading in enumerate(readings):
            if reading is None:
                continue
            record = sensors[k].compare(self._filter.swarm, self._filter.weights, t, step, reading)
            record.test_ratio = record.nis / self._options.reject_beyond**2
            if not in_time:
                record.fused, record.reason = False, "too old"
            elif record.test_ratio > 1.0:
                record.fused, record.reason = False, "gate"
            else:
                accepted[k] = reading
            self._note(k, record)
        if not in_time:
            return False
        self._filter.update_gradually(accepted)
        self._t = t
        self._watch(t, fits=any(reading is not None for reading in accepted))
        return True

    def _reject(self, t: int, step: int, values: list[tuple[int, float]]) -> None:
        for k, value in values:
            self._note(k, self._sensors.all[k].refuse(t, step, value))

    def _note(self, k: int, record: Innovation) -> None:
        sensor = self._sensors.all[k]
        sensor.counts[record.reason] += 1
        if record.fused or sensor.fits_since is None:
            sensor.fits_since = record.t
        sensor.fits = record.fused
        self._records.append(record)

    def _begin(self, t: int, readings: list[float | None]) -> None:
        """Particles anywhere; rates that are measured now are as measured."""
        rates = {
            s.options.rate: (reading, s.options.sigma * s.options.multiplier)
            for s, reading in zip(self._sensors.all, readings, strict=True)
            if s.options.rate is not None and reading is not None
        }
        self._start.begin(self._filter.swarm, rates)
        self._filter.equalise()
        self._follower = Follower(self._filter, self._options.longest_step)
        for sensor in self._sensors.all:
            sensor.fits_since, sensor.fits = t, True
        self._fits_at = t
        if self.condition.state == "waiting":
            self.condition = Condition("running", t)

    def _restart(self, t: int, reason: str) -> None:
        self._follower = None
        self._restarts += 1
        self.condition = Condition("recovering", t, reason)

    # -- condition -------------------------------------------------------------------------------------------

    def _watch(self, t: int, fits: bool) -> None:
        """Restart where nothing fits; name the sensors that do not."""
        patience = round(self._options.restart_after * 1e9)
        if fits:
            self._fits_at = t
        if t - self._fits_at > patience:
            self._restart(t, f"no reading has fitted for {self._options.restart_after:g} s")
            return
        before = self.condition
        if before.state == "recovering" and t - (before.since or 0) <= patience:
            return
        faults = tuple(
            SourceFault(
                f"{s.device}.{s.channel}", "its readings do not fit the others", (s.options.measured,)
            )
            for s in self._sensors.all
            if not s.fits and s.fits_since is not None and t - s.fits_since > patience
        )
        if faults != before.faults or before.state == "recovering":
            self.condition = Condition("degraded" if faults else "running", t, None, faults)

    # -- estimate --------------------------------------------------------------------------------------------

    def _describe(self) -> ParticleEstimate:
        swarm, weights = self._filter.swarm, self._filter.weights
        cluster = find_heaviest(swarm, weights)
        return ParticleEstimate(
            self._t,
            {name: describe_coordinate(swarm, name, weights, cluster) for name in self._shown},
            float(np.sum(weights[cluster])),
            self._filter.effective,
            list(swarm.noisy),
            calc_covariance(swarm, weights, cluster).tolist(),
        )
